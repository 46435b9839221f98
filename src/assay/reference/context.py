"""What an operation may ask for while it is evaluated: rounding, accumulation, and other computations.

Every float result passes through `Context.rounded` (or `accumulated`): there alone the error that an operation
commits is added. In a *ball* run it widens the radius. In a *sampled* run there are no radii: the error is drawn at
random within its bound and added to the midpoint, so that a spread over several runs shows how errors really propagate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from assay.errors import Unsupported
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.reader import referred
from assay.hlo.shape import DType, Shape
from assay.reference.noise import Noise
from assay.reference.pieces import WHOLE, cut, pieces
from assay.reference.policy import Policy
from assay.reference.rounding import drawn_bound, settled, stored
from assay.reference.rounding import flushes as flushes
from assay.reference.rounding import smallest_normal as smallest_normal
from assay.reference.rounding import unit_roundoff as unit_roundoff
from assay.reference.value import Array, Ball, Value, held_dtype, joined, round_to, total, union

Call = Callable[[str, Sequence[Value]], Value]


UNUSUAL = {"f8e8m0fnu", "f4e2m1fn", "f6e2m3fn", "f6e3m2fn"}
"""Formats without zero, sign, infinity or NaN, which round in their own way: decided where a result is representable.
"""

CHOICES = (0, 1)
"""Two unlike ways to take what is open: the first of all, zero, once; or the last, one, another number of times."""

_MOVES = {"bitcast", "broadcast", "convert", "copy", "get-tuple-element", "reshape", "reverse", "slice", "transpose"}


@dataclass(slots=True)
class Context:
    """State of one run. `call(name, arguments)` evaluates a computation of `module`; `rng` is set in a sampled run
    alone. alike: whether half of each draw is shared by a whole array, as errors of one routine may be. nearest: of a
    sampled run that draws nothing: every result is rounded to the nearest value of its declared type. declared: in a
    sampled run, the share of instructions whose results are values of their declared type, as most that a target gives
    are: an error drawn never makes a result zero, one or equal to another, and a rounding does. flushed: whether
    subnormals are zero for certain, as on a device that has none, and not only may be. resolved: one of
    `CHOICES`, by which that is taken which is open for another reason than rounding: ties and the order of updates,
    memory that nobody wrote, how often an initial value counts, the order of a body that is not associative. None
    leaves it undecided.
    """

    module: Module
    policy: Policy
    call: Call
    rng: np.random.Generator | None = None
    amplitude: float = 1.0
    alike: bool = True
    nearest: bool = False
    declared: float = 0.0
    flushed: bool = False
    resolved: int | None = None
    shared: float | None = None
    notes: set[str] = field(default_factory=set)
    inexact: dict[int, bool] = field(default_factory=dict)  # by id of a product: whether a draw rounded it
    memo: dict[tuple[str, str], Any] = field(default_factory=dict)  # (what, computation): worked out once
    _owners: dict[int, Computation] = field(default_factory=dict)
    _callers: dict[str, list[tuple[Computation, Instruction]]] = field(default_factory=dict)  # by calls alone
    _flush_share: float | None = None
    noise: Noise = field(init=False)

    def __post_init__(self) -> None:
        if self.rng is not None:
            self.noise = Noise(self.rng)

    @property
    def plain(self) -> bool:
        """Whether this is a run of midpoints alone: nothing is drawn, and what may be off need not be worked out."""
        return self.rng is not None and self.amplitude == 0

    @property
    def draws(self) -> bool:
        """Whether this is a run in which what may be off is drawn at random."""
        return self.rng is not None and self.amplitude > 0 and not self.nearest

    def operand_shapes(self, instruction: Instruction) -> tuple[Shape, ...] | None:
        """The declared shapes of an instruction's operands, layouts included; None where it is not of the module."""
        if not self._owners:
            for computation in self.module.computations:
                for made in computation.instructions:
                    self._owners[id(made)] = computation
                    for name in referred(made) if made.attributes else ():
                        self._callers.setdefault(name, []).append((computation, made))
            # What is handed to a loop or a reduction is not what its computation gets.
            others = [name for name, of in self._callers.items() if any(made.opcode != "call" for _, made in of)]
            for name in others:
                del self._callers[name]
        owner = self._owners.get(id(instruction))
        return None if owner is None else tuple(owner.by_name[name].shape for name in instruction.operands)

    def producers(self, instruction: Instruction) -> tuple[str, ...]:
        """The opcode that made each operand, seen through moves and calls: `argument` for one of the program's own,
        `parameter` where a computation got it from elsewhere.

        For what a compiler may do with two neighbours, such as a / sqrt(b) -> a * rsqrt(b).
        """
        return tuple(
            "argument" if made.opcode == "parameter" and owner is self.module.entry else made.opcode
            for owner, made in self._makers(instruction)
        ) or ("parameter",) * len(instruction.operands)

    def makers(self, instruction: Instruction) -> tuple[Instruction, ...]:
        """The instruction that made each operand, seen through moves and calls; none where it is not of the module."""
        return tuple(made for _, made in self._makers(instruction))

    def _makers(self, instruction: Instruction) -> tuple[tuple[Computation, Instruction], ...]:
        if self.operand_shapes(instruction) is None:
            return ()
        owner = self._owners[id(instruction)]
        return tuple(self._maker(owner, name) for name in instruction.operands)

    def _maker(self, owner: Computation, name: str) -> tuple[Computation, Instruction]:
        made = owner.by_name[name]
        while True:
            if made.opcode in _MOVES:
                made = owner.by_name[made.operands[0]]
            elif made.opcode == "call":
                owner = self.module.by_name[made.attributes["to_apply"].lstrip("%")]
                made = owner.root
            elif made.parameter_number is not None and len(callers := self._callers.get(owner.name, [])) == 1:
                owner, call = callers[0]
                made = owner.by_name[call.operands[made.parameter_number]]
            else:
                return owner, made

    def entering(self, ball: Ball, bits: bool = False) -> Ball:
        """A value that enters the program, as an argument or a constant. Where the policy says so a subnormal may be
        read as zero, so that a comparison may take any two of them, of either sign, for equal and hand on the other.

        bits: whether it was made as such, of integers: a device that has no subnormals may hand on those as they are.
        """
        dtype, mid = ball.dtype, ball.mid
        if not (dtype.is_float or dtype.is_complex) or not flushes(self.policy, dtype):
            return ball
        if (found := _subnormal(dtype, mid)) is None:
            return ball
        parts, small = found
        if self.flushed and not bits:
            kept = [np.where(mask, np.copysign(0.0, part), part) for mask, part in zip(small, parts, strict=True)]
            return Ball(dtype, kept[0] if len(kept) == 1 else joined(*kept), None, ball.und)
        if self.rng is None:
            off = [np.where(mask, 2 * smallest_normal(dtype), 0.0) for mask in small]
            return Ball(dtype, mid, off[0] if len(off) == 1 else np.hypot(*off), ball.und)
        if self.amplitude == 0 or (bits and self.rng.random() < 0.5):
            return ball
        return Ball(dtype, self._flushed(dtype, mid), None, ball.und)

    def _drawn_flush(self, part: Array, small: Array) -> Array:
        """`part` with the elements at `small`, which are subnormal, zero as a target makes them: all of them, most
        likely; or some, where one loop is vectorised and another is not.
        """
        assert self.rng is not None
        if self._flush_share is None:
            self._flush_share = 1.0 if self.flushed or self.rng.random() < 0.5 else 0.5
        if self._flush_share < 1:
            small = small & (self.rng.random(small.shape) < self._flush_share)
        return np.where(small, np.copysign(0.0, part), part)

    def ties_with_zero(self, dtype: DType, *mids: Array) -> tuple[Array, ...] | None:
        """Where values are zero or subnormal, for each array; None where none is subnormal, or the policy keeps them.

        Read as zero they are equal, so that of the least or the greatest of some either may be handed on.
        """
        if self.flushed or self.plain or self.nearest or not dtype.is_float or not flushes(self.policy, dtype):
            return None
        least = smallest_normal(dtype)
        small = tuple((mid < least) & (mid > -least) for mid in mids)
        return small if any((s & (mid != 0)).any() for s, mid in zip(small, mids, strict=True)) else None

    def rounded(
        self,
        dtype: DType,
        mid: Array,
        rad: Array | None = None,
        und: Array | None = None,
        *,
        ulps: float | None = None,
        error: Array | None = None,
        known: bool = True,
    ) -> Ball:
        """The result of a float operation, stored in `dtype`.

        mid: the result in exact arithmetic on the operands' midpoints (float64 or complex128).
        rad: what the operands' radii contribute to it, None where they are exact.
        ulps: how far the target's routine may be off in units in the last place, None for one that rounds correctly.
        error: further absolute error committed by this operation.
        known: whether a correctly rounded result of exact operands is off by just the rounding of `mid`; otherwise an
        inexact one may be off by any half ulp, as where a compiler may group two operations anew.
        """
        assert dtype.is_float or dtype.is_complex
        mid = np.asarray(mid, held_dtype(dtype))
        if mid.size == 0:
            return Ball(dtype, mid)
        if dtype.name in self.policy.unknown:
            raise Unsupported(f"{dtype} under the policy {self.policy.name}", "nothing is known of it")
        rad, error = (x if x is None or x.shape == mid.shape else np.broadcast_to(x, mid.shape) for x in (rad, error))
        if dtype.name in UNUSUAL:
            representable = round_to(dtype, mid) == mid
            return Ball(dtype, mid, None, union(und, ~representable, None if rad is None else rad > 0))
        with np.errstate(all="ignore"):
            if not self.policy.excess_precision and known and ulps is None and error is None:
                mid = _declared(dtype, mid, rad)
            if self.flushed and flushes(self.policy, dtype):
                mid, rad, error = self._without_subnormals(dtype, mid, rad, error)
            if self.nearest:
                return settled(dtype, round_to(dtype, mid), None, und, self.policy)
            if self.rng is not None:
                return self._sampled(dtype, mid, rad, und, ulps, error)
            return stored(self.policy, dtype, mid, rad, und, ulps, error, known)

    def _without_subnormals(
        self, dtype: DType, mid: Array, rad: Array | None, error: Array | None
    ) -> tuple[Array, Array | None, Array | None]:
        """Midpoint, radius and error, zero where a result is subnormal for certain. Parts of complex balls that have a
        radius are left alone, for one radius serves both.
        """
        least = smallest_normal(dtype) * (1 - 2.0**-12)
        if dtype.is_complex:
            if self.rng is None and not (rad is None and error is None):
                return mid, rad, error
            re, im = (np.where(np.abs(part) < least, np.copysign(0.0, part), part) for part in (mid.real, mid.imag))
            return joined(re, im), rad, error
        small = (mid < least) & (mid > -least)
        if not small.any():
            return mid, rad, error
        if rad is not None or error is not None:
            small &= np.abs(mid) + (0.0 if rad is None else rad) + (0.0 if error is None else error) < least
        small &= mid != 0
        if not small.any():
            return mid, rad, error
        zero = np.where(small, np.copysign(0.0, mid), mid)
        rad, error = (None if part is None else np.where(small, 0.0, part) for part in (rad, error))
        return zero, rad, error

    def _sampled(
        self,
        dtype: DType,
        mid: Array,
        rad: Array | None,
        und: Array | None,
        ulps: float | None,
        error: Array | None,
    ) -> Ball:
        """`mid` with an error drawn within its bound. Errors of one routine are partly alike (a polynomial that is
        always a little low): half of the draw is shared.
        """
        assert self.rng is not None
        if self.plain:
            return settled(dtype, mid, None, und, self.policy)
        rounds = self.rng.random() < self.declared
        if rounds and ulps is None and error is None:
            return settled(dtype, self._flushed(dtype, round_to(dtype, mid)), None, und, self.policy)
        shared = self._common()
        moved = np.empty_like(mid)
        for index in (WHOLE,) if dtype.is_complex else pieces(mid.shape):
            part = mid[index]
            bound = drawn_bound(self.policy, dtype, part, cut(rad, index), ulps, cut(error, index))
            if self.amplitude != 1:
                bound *= self.amplitude
            if dtype.is_complex:
                noise = self.noise.draw(part.shape, shared) + 1j * self.noise.draw(part.shape, shared)
                moved[index] = np.where(np.isfinite(part), part + bound * noise, part)
            else:
                bound *= self.noise.draw(part.shape, shared)
                np.add(part, bound, out=moved[index])
        if rounds:
            moved = round_to(dtype, moved)
        return settled(dtype, self._flushed(dtype, moved), None, und, self.policy)

    def _flushed(self, dtype: DType, results: Array) -> Array:
        """Results of a sampled run, those subnormal or some of them zero: an error drawn makes none exactly that."""
        if not flushes(self.policy, dtype) or (found := _subnormal(dtype, results)) is None:
            return results
        parts, small = found
        kept = [self._drawn_flush(part, mask) for mask, part in zip(small, parts, strict=True)]
        return kept[0] if len(kept) == 1 else joined(*kept)

    def _common(self) -> float:
        """The half of a draw that is all an array's."""
        assert self.rng is not None
        if not self.alike:
            return 0.0
        return 2.0 * (self.rng.random() if self.shared is None else self.shared) - 1.0

    def shortened(self, x: Ball, error: float) -> Ball:
        """A factor of products as a multiplier takes it that keeps some of its digits: off by `error` relatively at
        most, each element by an amount of its own. So errors of the products in a sum average out, as they do on a
        target; drawn for the sum they would be as large as if all digits lost were alike.
        """
        noise = self.noise.draw(x.mid.shape, self._common())
        with np.errstate(all="ignore"):
            return replace(x, mid=np.where(np.isfinite(x.mid), x.mid * (1 + self.amplitude * error * noise), x.mid))

    def accumulated(
        self,
        dtype: DType,
        mid: Array,
        rad: Array | None,
        und: Array | None,
        *,
        magnitude: Array,
        terms: int | Array,
        steady: Array | bool = False,
        exact: bool = False,
        within: DType | None = None,
        below: Array | None = None,
    ) -> Ball:
        """A sum of `terms` terms in any order, stored in `dtype`.

        magnitude: the sum of the terms' absolute values. steady: where the terms are (nearly) all alike, so that
        rounding errors do not average out and the deterministic bound is needed. exact: every partial sum in any
        order is representable.
        within: the type in which the target may accumulate, by default `dtype`. below: as of `order_error`, absolute.
        """
        u = unit_roundoff(within or dtype)
        if exact:
            return self.rounded(dtype, mid, rad, und)
        if self.rng is None:
            error = order_error(
                terms, u, steady, self.policy.confidence, magnitude, largest_partial_sum(dtype, mid, magnitude), below
            )
        else:
            # Partial sums go from 0 to the sum and wander on the way as a random walk does: the root of the sum of
            # their squares is sqrt(n/3) of the one and half a magnitude of the other; more where a long sum is not
            # shuffled.
            walk = np.square(magnitude) * np.maximum(0.5, terms / 4096)
            error = 2 * u * np.sqrt(np.square(np.abs(mid)) * (terms / 3) + walk)
            error = np.minimum(np.where(np.isfinite(error), error, 0.0), terms * u * magnitude)
        if within is not None and within.part.mantissa > dtype.part.mantissa:
            return self.rounded(dtype, mid, total(rad, error), und)
        return self.rounded(dtype, mid, rad, und, error=error)


def _subnormal(dtype: DType, values: Array) -> tuple[tuple[Array, ...], list[Array]] | None:
    """The real and imaginary parts, or the values, and for each which are subnormal; None where none is."""
    least = smallest_normal(dtype)
    parts = (values.real, values.imag) if dtype.is_complex else (values,)
    small = [(part < least) & (part > -least) & (part != 0) for part in parts]
    return (parts, small) if any(mask.any() for mask in small) else None


def largest_partial_sum(dtype: DType, mid: Array, magnitude: Array) -> Array:
    """How large the sum of some of the terms may be: the positive ones together or the negative ones. Terms of complex
    sums may all but point the same way.
    """
    return magnitude if dtype.is_complex else (magnitude + np.abs(mid)) / 2


def order_error(
    terms: int | Array,
    u: float,
    steady: Array | bool,
    confidence: float,
    magnitude: Array,
    largest: Array,
    below: Array | None = None,
) -> Array:
    """How far a sum of so many terms in any order may be off: n u times the sum of their magnitudes for certain,
    hardly ever more than confidence sqrt(n) u times the largest partial sum, beside what no rounding averages.

    largest: as of `largest_partial_sum`. below: what terms of at most its last digit make up: they may be lost, or
    doubled, to the last of them, for they are rounded the same way as long as the running sum is large. None where it
    is not known.

    Neither adds up for ever: a step is off by no more than its smaller operand, for the larger one is representable.
    One large term and then n of half its last digit, all lost or all doubled, are off by n u in units of 1 + n u, and
    nothing is off by more while n u <= 1/2 (Lange and Rump 2019, "Sharp estimates for perturbation errors in
    summations"); beyond, sums made to grow just so exceed it by up to a third. Types narrower than f16 are short
    of digits so soon that they get this bound whatever their terms, and f16 where `below` is not known.
    """
    certain: Array = np.asarray(terms * u)
    if np.isinf(confidence):
        return certain * magnitude
    certain = np.asarray(certain / (1 + certain)) * magnitude
    if u > _F16 or (u == _F16 and below is None):
        return certain
    nearly = confidence * np.sqrt(terms) * u * largest + (0.0 if below is None else below)
    return np.where(steady, certain, np.minimum(certain, nearly))


_F16 = 2.0**-11


def _declared(dtype: DType, mid: Array, rad: Array | None) -> Array:
    """Midpoints of exact operands as a target stores them that skips no declared rounding."""
    stored = round_to(dtype, mid)
    return stored if rad is None else np.where(rad == 0, stored, mid)


def mark(ball: Ball, und: Array | None) -> Ball:
    """`ball` with further elements undecided."""
    if und is None or not und.any():
        return ball
    return Ball(ball.dtype, ball.mid, ball.rad, union(ball.und, np.broadcast_to(und, ball.mid.shape)))
