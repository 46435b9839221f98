"""Judges one output, element by element.

A float element is inside its ball when some value within `rad` of `mid`, rounded to the output's type, equals the
target's:

    round(mid - rad) <= target <= round(mid + rad)        rounding is monotone, so the ends are enough

The rounding matters where the reference holds a result in more precision than the output has. A complex element is
inside when the disk around `mid` meets the rectangle of numbers that round to the target's. Integers and predicates are
equal or not.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from assay.errors import AssayError
from assay.hlo.shape import ArrayShape, DType
from assay.reference.value import Array, Ball, held_dtype

Scalar = float | complex | int | bool
Block = tuple[int | slice, ...]

BLOCK = 1 << 17
"""Elements judged at a time: the float64 temporaries of a block stay in cache."""


@dataclass(frozen=True, slots=True)
class OutputComparison:
    """How one output compares with its reference.

    outside: decided elements that no correct compiler produces. undecided: elements not judged. masked: decided
    elements that are NaN or infinite on both sides; they agree but carry no numeric evidence.

    worst_ulp: largest |target - mid| in units in the last place of the output's type at mid; infinite for NaN against a
    number; for integers the difference itself.
    worst_bound: largest |target - mid| / rad; at most 1 where all are inside, infinite where an exact one is not met.
    bias: mean of (target - mid) / rad over decided finite elements, each clipped to [-1, 1]: far from zero, it tells of
    a systematic error that is too small to see in any one element.
    box: inclusive bounds of the outside elements in each dimension. peak: the worst of them, with the values there.
    """

    shape: ArrayShape
    elements: int
    outside: int = 0
    undecided: int = 0
    masked: int = 0
    worst_ulp: float = 0.0
    worst_bound: float = 0.0
    bias: float = 0.0
    box: tuple[tuple[int, int], ...] | None = None
    peak: tuple[int, ...] | None = None
    peak_target: Scalar | None = None
    peak_reference: Scalar | None = None
    peak_radius: float | None = None
    outside_mask: Array | None = field(default=None, compare=False, repr=False)

    @property
    def judged(self) -> int:
        """Elements that carry evidence: decided, and not masked."""
        return self.elements - self.undecided - self.masked


def compare_output(ball: Ball, target: Array, shape: ArrayShape) -> OutputComparison:
    """How `target`, an output of element type and dimensions `shape`, compares with its reference."""
    _check(ball, target, shape)
    tally = _Tally(shape)
    with np.errstate(all="ignore"):
        for block in blocks(shape.dims):
            mid, found = _part(ball.mid, shape, block), _part(target, shape, block)
            rad = None if ball.rad is None else _part(ball.rad, shape, block)
            und = None if ball.und is None else _part(ball.und, shape, block)
            judge = _judge_complex if shape.dtype.is_complex else _judge_float if shape.dtype.is_float else _judge_exact
            judgement = judge(shape.dtype, mid, rad, found)
            tally.add(block, judgement, mid, rad, und, found)
    return tally.result()


def blocks(dims: tuple[int, ...], limit: int = BLOCK) -> Iterator[Block]:
    """Basic indices that split an array of `dims` into views of at most `limit` elements, in row-major order."""
    if math.prod(dims) == 0:
        return
    axis = next((k for k in range(len(dims)) if math.prod(dims[k + 1 :]) <= limit), len(dims))
    if axis == len(dims):
        yield ()
        return
    step = max(1, limit // math.prod(dims[axis + 1 :]))
    for outer in np.ndindex(*dims[:axis]):
        for start in range(0, dims[axis], step):
            yield (*outer, slice(start, min(start + step, dims[axis])))


def ulp(dtype: DType, mid: Array) -> Array:
    """The distance between neighbouring values of a float type `dtype` (of its parts, where complex) at `mid`."""
    part = dtype.part
    _, exponent = np.frexp(np.abs(mid))  # |mid| in [2**(exponent-1), 2**exponent)
    exponent = np.where(mid == 0, part.min_exponent, exponent - 1)
    result: Array = np.ldexp(1.0, np.maximum(exponent, part.min_exponent) - part.mantissa)
    return result


def round_out(dtype: DType, values: Array) -> Array:
    """float64 `values` rounded once to the nearest value of float type `dtype`, ties to even; float64 out.

    ml_dtypes casts from float64 by way of float32, which rounds twice; rounding to odd first makes the second rounding
    right (Boldo and Melquiond, 2008, "Emulation of FMA and Correctly Rounded Sums: Proved Algorithms Using Rounding to
    Odd"). NumPy's own float16 and float32 round once.
    """
    if dtype.name == "f64":
        return values
    assert dtype.numpy is not None
    with np.errstate(over="ignore", invalid="ignore"):  # what is too large becomes what the type makes of it
        if dtype.name in ("f32", "f16"):
            once: Array = values.astype(dtype.numpy).astype(np.float64)
            return once
        near = np.asarray(values, np.float32)
        inexact = (near != values) & ~np.isnan(values)
        if inexact.any():
            bits = near.view(np.uint32)
            beyond = np.abs(near.astype(np.float64)) > np.abs(values)
            near = np.asarray(np.where(inexact, (bits - beyond) | np.uint32(1), bits), np.uint32).view(np.float32)
        result: Array = near.astype(dtype.numpy).astype(np.float64)
    return result


@dataclass(frozen=True, slots=True)
class _Judgement:
    """A block, judged.

    outside, masked, unjudged (nobody where None): who is outside, is NaN or infinite on both sides, cannot be judged
    after all. distance: |target - mid|; ulps, bound: the same in ulps and in radii. signed: the error in radii, NaN
    where it means nothing.
    """

    outside: Array
    masked: Array | None
    unjudged: Array | None
    distance: Array
    ulps: Array
    bound: Array
    signed: Array | None


def _judge_exact(dtype: DType, mid: Array, rad: Array | None, target: Array) -> _Judgement:
    outside = mid != target
    distance = np.zeros(mid.shape)
    if outside.any():
        apart = np.abs(mid.astype(np.float64) - target.astype(np.float64))
        distance = np.where(outside, np.maximum(apart, 1.0), 0.0)  # float64 does not tell all 64-bit integers apart
    return _Judgement(outside, None, None, distance, distance, np.where(outside, np.inf, 0.0), None)


def _judge_float(dtype: DType, mid: Array, rad: Array | None, target: Array) -> _Judgement:
    wide = target.astype(np.float64)
    finite = np.isfinite(mid)
    error = wide - mid
    error = np.where(wide == mid, 0.0, error)  # inf - inf
    distance = np.abs(error)
    within = distance == 0 if rad is None else distance <= rad
    bound = _in_units(distance, rad)
    doubtful = finite & ~within
    if doubtful.any():
        low, high, nan = allowed(dtype, mid[doubtful], None if rad is None else rad[doubtful])
        value = wide[doubtful]
        within[doubtful] = (low <= value) & (value <= high) | (nan & np.isnan(value))
    bound = np.where(within & finite, np.minimum(bound, 1.0), np.maximum(bound, np.nextafter(1.0, 2.0)))
    masked = unjudged = None
    if not finite.all():
        expected = round_out(dtype, mid)
        same = (wide == expected) | (np.isnan(wide) & np.isnan(expected))
        within = np.where(finite, within, same)
        masked = ~finite & same
        bound = np.where(finite, bound, np.where(same, 0.0, np.inf))
        distance = np.where(masked, 0.0, distance)
        if not _has_nan(dtype):
            unjudged = ~finite  # how NaN and infinity are written in such a type is not specified
    numeric = finite & np.isfinite(wide)
    ulps = np.where(distance == 0, 0.0, np.where(numeric, distance / ulp(dtype, mid), np.inf))
    ulps = np.where(within & ~numeric, 0.0, ulps)
    bound = np.where(np.isnan(bound), np.inf, bound)
    distance = np.where(np.isnan(distance), np.inf, distance)
    signed = None
    if rad is not None:
        signed = np.where(numeric & (rad != 0), np.copysign(np.minimum(bound, 1.0), error), np.nan)
    return _Judgement(~within, masked, unjudged, distance, ulps, bound, signed)


def _judge_complex(dtype: DType, mid: Array, rad: Array | None, target: Array) -> _Judgement:
    wide = target.astype(np.complex128)
    radius = np.zeros(mid.shape) if rad is None else rad
    distance = np.where(wide == mid, 0.0, np.abs(wide - mid))
    whole = np.isfinite(mid)
    numeric = whole & np.isfinite(wide)
    within = distance <= radius
    doubtful = numeric & ~within
    if doubtful.any():
        within[doubtful] = _disk_meets_cell(dtype, mid[doubtful], radius[doubtful], target[doubtful])
    masked = None
    if not numeric.all():
        # NaN or infinite parts are judged one by one. A finite part beside one has no radius of its own: left alone.
        parts = np.ones(mid.shape, np.bool_)
        for m, t in ((mid.real, wide.real), (mid.imag, wide.imag)):
            low, high, nan = allowed(dtype.part, m, radius)
            number = (low <= t) & (t <= high) | (nan & np.isnan(t))
            same = (m == t) | (np.isnan(m) & np.isnan(t))
            parts &= np.where(np.isfinite(m), number | ~whole, same)
        within = np.where(numeric, within, parts)
        masked = ~whole & parts
    within = within & ~np.isnan(distance) | (within & ~numeric)
    bound = _in_units(distance, radius)
    bound = np.where(within, np.minimum(bound, 1.0), np.maximum(bound, np.nextafter(1.0, 2.0)))
    bound = np.where(numeric, bound, np.where(within, 0.0, np.inf))
    ulps = np.where(distance == 0, 0.0, np.where(numeric, distance / ulp(dtype, np.abs(mid)), np.inf))
    ulps = np.where(within & ~numeric, 0.0, ulps)
    distance = np.where(numeric, distance, np.where(within, 0.0, np.inf))
    signed = None
    if rad is not None:
        error = (wide - mid).real + (wide - mid).imag
        signed = np.where(numeric & (radius != 0), np.clip(error / (2 * radius), -1.0, 1.0), np.nan)
    return _Judgement(~within, masked, None, distance, ulps, bound, signed)


def allowed(dtype: DType, mid: Array, rad: Array | None) -> tuple[Array, Array, Array]:
    """Least and greatest number that a ball of finite `mid` may be stored as, and whether it may overflow to a NaN."""
    low, high = (mid, mid) if rad is None else (mid - rad, mid + rad)
    if rad is not None:
        # The ends themselves are rounded to float64: move them out by one step, but not where they are exact.
        low = np.where(rad == 0, mid, np.nextafter(low, -np.inf))
        high = np.where(rad == 0, mid, np.nextafter(high, np.inf))
    least, greatest = round_out(dtype, low), round_out(dtype, high)
    no_least, no_greatest = np.isnan(least), np.isnan(greatest)
    # A type without infinity overflows to NaN: beyond that end every number is allowed, or none.
    least = np.where(no_least, np.where(low <= 0, -np.inf, np.inf), least)
    greatest = np.where(no_greatest, np.where(high <= 0, -np.inf, np.inf), greatest)
    return least, greatest, no_least | no_greatest


def _disk_meets_cell(dtype: DType, mid: Array, rad: Array, target: Array) -> Array:
    """Whether a number within `rad` of `mid` rounds, part by part, to finite `target`."""
    gaps = []
    for m, t in ((mid.real, np.ascontiguousarray(target.real)), (mid.imag, np.ascontiguousarray(target.imag))):
        above, below = (np.nextafter(t, t.dtype.type(end)).astype(np.float64) for end in (np.inf, -np.inf))
        wide = t.astype(np.float64)
        reach_up = np.where(np.isinf(above), wide - below, above - wide) / 2
        reach_down = np.where(np.isinf(below), above - wide, wide - below) / 2
        gaps.append(np.maximum(0.0, np.maximum(m - wide - reach_up, wide - reach_down - m)))
    meets: Array = (np.hypot(gaps[0], gaps[1]) <= rad * (1 + 2.0**-50)) & (rad > 0)
    return meets


def _in_units(distance: Array, rad: Array | None) -> Array:
    if rad is None:
        return np.where(distance == 0, 0.0, np.inf)
    return np.where(distance == 0, 0.0, distance / rad)


def _has_nan(dtype: DType) -> bool:
    return bool(np.isnan(round_out(dtype, np.asarray([np.nan]))[0]))


def _check(ball: Ball, target: Array, shape: ArrayShape) -> None:
    """Worker and reference must speak of the same array; anything else is our own failure, never a finding."""
    declared = f"{shape.dtype}{list(shape.dims)}"
    if ball.mid.shape != shape.dims or ball.dtype.name != shape.dtype.name:
        raise AssayError(f"the reference has {ball.dtype}{list(ball.mid.shape)}, the program declares {declared}")
    if any(part is not None and part.shape != shape.dims for part in (ball.rad, ball.und)):
        raise AssayError(f"the reference has a radius or a mask of another shape than {declared}")
    if target.shape != shape.dims or target.dtype not in (shape.dtype.numpy, held_dtype(shape.dtype)):
        raise AssayError(f"the target returned {target.dtype}{list(target.shape)}, the program declares {declared}")


@dataclass(slots=True)
class _Tally:
    """Sums over blocks."""

    shape: ArrayShape
    outside: int = 0
    undecided: int = 0
    masked: int = 0
    worst_ulp: float = 0.0
    worst_bound: float = 0.0
    signed_sum: float = 0.0
    signed_count: int = 0
    mask: Array | None = None
    peak: tuple[int, ...] | None = None
    peak_rank: tuple[float, float] = (-1.0, -1.0)
    peak_values: tuple[Scalar, Scalar, float] | None = None

    def add(
        self, block: Block, judgement: _Judgement, mid: Array, rad: Array | None, und: Array | None, target: Array
    ) -> None:
        decided: Array | None = None if und is None else ~und
        if judgement.unjudged is not None:
            decided = ~judgement.unjudged if decided is None else decided & ~judgement.unjudged
        outside = _only(judgement.outside, decided)
        if decided is not None:
            self.undecided += int(decided.size - decided.sum())
        if judgement.masked is not None:
            self.masked += int(_only(judgement.masked, decided).sum())
        self.worst_ulp = max(self.worst_ulp, _largest(judgement.ulps, decided))
        self.worst_bound = max(self.worst_bound, _largest(judgement.bound, decided))
        if judgement.signed is not None:
            known = _only(~np.isnan(judgement.signed), decided)
            self.signed_sum += float(np.where(known, judgement.signed, 0.0).sum())
            self.signed_count += int(known.sum())
        if outside.any():
            self._locate(block, outside, judgement, mid, rad, target)

    def _locate(
        self, block: Block, outside: Array, judgement: _Judgement, mid: Array, rad: Array | None, target: Array
    ) -> None:
        self.outside += int(outside.sum())
        if self.mask is None:
            self.mask = np.zeros(self.shape.dims, np.bool_)
        self.mask[block] = outside if block else outside[0]
        bound = np.where(outside, judgement.bound, -1.0)
        worst = bound == bound.max()
        flat = int(np.argmax(np.where(worst & outside, judgement.distance, -1.0)))
        at = np.unravel_index(flat, outside.shape)
        rank = (float(judgement.bound[at]), float(judgement.distance[at]))
        if rank > self.peak_rank:
            self.peak_rank = rank
            self.peak = _coordinate(block, tuple(int(i) for i in at))
            value = target[at].astype(held_dtype(self.shape.dtype))
            self.peak_values = (value.item(), mid[at].item(), 0.0 if rad is None else float(rad[at]))

    def result(self) -> OutputComparison:
        target, reference, radius = self.peak_values or (None, None, None)
        return OutputComparison(
            shape=self.shape,
            elements=self.shape.size,
            outside=self.outside,
            undecided=self.undecided,
            masked=self.masked,
            worst_ulp=self.worst_ulp,
            worst_bound=self.worst_bound,
            bias=self.signed_sum / self.signed_count if self.signed_count else 0.0,
            box=None if self.mask is None else bounding_box(self.mask),
            peak=self.peak,
            peak_target=target,
            peak_reference=reference,
            peak_radius=radius,
            outside_mask=self.mask,
        )


def bounding_box(mask: Array) -> tuple[tuple[int, int], ...]:
    """Inclusive bounds of the set elements of a non-empty mask in each dimension."""
    box = []
    for axis in range(mask.ndim):
        there = np.flatnonzero(mask.any(axis=tuple(k for k in range(mask.ndim) if k != axis)))
        box.append((int(there[0]), int(there[-1])))
    return tuple(box)


def _part(array: Array, shape: ArrayShape, block: Block) -> Array:
    """A block of an array that broadcasts to `shape`, of rank one at least, since NumPy makes scalars of rank 0."""
    return np.atleast_1d(np.broadcast_to(array, shape.dims)[block])


def _only(mask: Array, decided: Array | None) -> Array:
    return mask if decided is None else mask & decided


def _largest(values: Array, decided: Array | None) -> float:
    return float((values if decided is None else np.where(decided, values, 0.0)).max(initial=0.0))


def _coordinate(block: Block, inside: tuple[int, ...]) -> tuple[int, ...]:
    """The place in the whole array of the element at `inside` of a block."""
    outer = tuple(i for i in block if isinstance(i, int))
    start = next((i.start for i in block if isinstance(i, slice)), 0)
    return (*outer, inside[0] + start, *inside[1:]) if block else ()
