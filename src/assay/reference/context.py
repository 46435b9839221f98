"""What an operation may ask for while it is evaluated: rounding, accumulation, and other computations.

Every float result passes through `Context.rounded` (or `accumulated`): there alone the error that an operation
commits is added. In a *ball* run it widens the radius. In a *sampled* run there are no radii: the error is drawn at
random within its bound and added to the midpoint, so that a spread over several runs shows how errors really propagate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from assay.errors import Unsupported
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.shape import DTYPES, DType, Shape
from assay.reference.policy import Policy
from assay.reference.value import Array, Ball, Value, held_dtype, round_to, total, union

Call = Callable[[str, Sequence[Value]], Value]


def unit_roundoff(dtype: DType) -> float:
    """Half the distance from 1 to the next larger value of `dtype` (of its parts, where complex)."""
    return 2.0 ** -(dtype.part.mantissa + 1)


def smallest_normal(dtype: DType) -> float:
    return 2.0**dtype.part.min_exponent


def flushes(policy: Policy, dtype: DType) -> bool:
    """Whether subnormals of `dtype` may be flushed. f16 and the 8-bit types are computed in f32, where theirs are
    normal.
    """
    return policy.flush_subnormals and dtype.part.min_exponent <= -126


UNUSUAL = {"f8e8m0fnu", "f4e2m1fn", "f6e2m3fn", "f6e3m2fn"}
"""Formats without zero, sign, infinity or NaN, which round in their own way: decided where a result is representable.
"""

_MOVES = {"bitcast", "broadcast", "convert", "copy", "get-tuple-element", "reshape", "reverse", "slice", "transpose"}


@dataclass(slots=True)
class Context:
    """State of one run. `call(name, arguments)` evaluates a computation of `module`; `rng` is set in a sampled run
    alone. alike: whether half of each draw is shared by a whole array, as errors of one routine may be.
    """

    module: Module
    policy: Policy
    call: Call
    rng: np.random.Generator | None = None
    amplitude: float = 1.0
    alike: bool = True
    shared: float | None = None
    notes: set[str] = field(default_factory=set)
    memo: dict[tuple[str, str], Any] = field(default_factory=dict)  # (what, computation): worked out once
    _owners: dict[int, Computation] = field(default_factory=dict)
    _flush_share: float | None = None

    def operand_shapes(self, instruction: Instruction) -> tuple[Shape, ...] | None:
        """The declared shapes of an instruction's operands, layouts included; None where it is not of the module."""
        if not self._owners:
            self._owners.update({id(i): c for c in self.module.computations for i in c.instructions})
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
            else:
                return owner, made

    def entering(self, ball: Ball) -> Ball:
        """A value that enters the program, as an argument or a constant. Where the policy says so a subnormal may be
        read as zero, so that a comparison may take any two of them, of either sign, for equal and hand on the other.
        """
        dtype, mid = ball.dtype, ball.mid
        if not (dtype.is_float or dtype.is_complex) or not flushes(self.policy, dtype):
            return ball
        least = smallest_normal(dtype)
        parts = (mid.real, mid.imag) if dtype.is_complex else (mid,)
        small = [(part < least) & (part > -least) & (part != 0) for part in parts]
        if not any(mask.any() for mask in small):
            return ball
        if self.rng is None:
            off = [np.where(mask, 2 * least, 0.0) for mask in small]
            return Ball(dtype, mid, off[0] if len(off) == 1 else np.hypot(*off), ball.und)
        if self.amplitude == 0:
            return ball
        if self._flush_share is None:
            # A target flushes them all, most likely; or some, where one loop is vectorised and another is not.
            self._flush_share = 1.0 if self.rng.random() < 0.5 else 0.5
        kept = [
            np.where(mask & (self.rng.random(mask.shape) < self._flush_share), np.copysign(0.0, part), part)
            for mask, part in zip(small, parts, strict=True)
        ]
        return Ball(dtype, kept[0] if len(kept) == 1 else kept[0] + 1j * kept[1], None, ball.und)

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
        if dtype.name in UNUSUAL:
            representable = round_to(dtype, mid) == mid
            return Ball(dtype, mid, None, union(und, ~representable, None if rad is None else rad > 0))
        with np.errstate(all="ignore"):
            if not self.policy.excess_precision and known and ulps is None and error is None:
                mid = _declared(dtype, mid, rad)
            local = self._rounding(dtype, mid, rad, ulps, known)
            if error is not None:
                local = local + error
            if self.rng is not None:
                return self._sampled(dtype, mid, local if rad is None else local + rad, und)
            return settled(dtype, mid, total(rad, local), und, self.policy)

    def _rounding(self, dtype: DType, mid: Array, rad: Array | None, ulps: float | None, known: bool) -> Array:
        """Absolute bound on the error of storing a result in `dtype`: the formula of docs/reference.md, "Rounding"."""
        u = unit_roundoff(dtype)
        size = np.abs(mid)
        if rad is None and ulps is None:
            # A correctly rounded operation on exact operands: nothing where the result is representable.
            if dtype.part.name == "f64":
                local = u * size  # our own midpoint is rounded too, and by how much is not known
            elif known and self.rng is None:  # a draw is to go beyond what this very value needs
                local = np.abs(round_to(dtype, mid) - mid)
                if not np.isfinite(local).all():
                    local = np.where(np.isfinite(local), local, u * size)  # it overflows: see `settled`
            else:
                local = np.where(round_to(dtype, mid) == mid, 0.0, u * size)
        else:
            reach = size if rad is None else size + rad
            # One ulp is at most 2u relative; the rounding itself is the half ulp on top.
            local = np.asarray((u if ulps is None else (2 * ulps + 1) * u) * reach)
            if known and self.rng is None and dtype.is_float and dtype.name != "f64":
                exact = np.ones(mid.shape, bool) if rad is None else np.asarray(rad == 0)
                if exact.any():
                    local[exact] = _stored(dtype, mid[exact], ulps)
        if dtype.part.name == "f64":
            local = local + u * size
        tiny = smallest_normal(dtype)
        lowest = size if rad is None else size - rad
        # A routine's own intermediate values may be flushed somewhat above the smallest normal (erf in jaxlib 0.4.13).
        low = lowest < (tiny if ulps is None else 64 * tiny)
        if low.any():
            step = tiny * 2.0**-dtype.part.mantissa
            nonzero = low & ((size != 0) if rad is None else (size != 0) | (rad != 0))
            if flushes(self.policy, dtype):
                floor = np.minimum(size, tiny if ulps is None else 64 * tiny) + step / 2
            else:
                floor = np.full_like(size, (0.5 if ulps is None else ulps + 0.5) * step)
                if rad is None and ulps is None:
                    floor = local if dtype.part.name == "f64" else np.maximum(local, np.abs(round_to(dtype, mid) - mid))
            # Far below the smallest subnormal the result is zero for sure.
            floor = np.where((size if rad is None else size + rad) < step / 4, size, floor)
            local = np.where(nonzero, np.maximum(local, floor), local)
        if dtype.is_complex and flushes(self.policy, dtype):
            # Either part may be flushed alone.
            parts = (np.abs(mid.real), np.abs(mid.imag))
            small = (size > 0) & (size < tiny / u)
            for part in parts:
                small = small | ((part > 0) & (part < tiny))
            local = np.where(small, local + 1.5 * tiny, local)
        return local

    def _sampled(self, dtype: DType, mid: Array, local: Array, und: Array | None) -> Ball:
        assert self.rng is not None
        local = np.where(np.isfinite(local), local, 0.0)
        # Errors of one routine are partly alike (a polynomial that is always a little low): half of the draw is shared.
        noise: Array | complex = self._draw(mid.shape)
        if dtype.is_complex:
            noise = noise + 1j * self._draw(mid.shape)
        moved = mid + self.amplitude * local * noise
        return settled(dtype, np.where(np.isfinite(mid), moved, mid), None, und, self.policy)

    def _draw(self, shape: tuple[int, ...]) -> Array:
        """A sum of two uniform draws from (-1, 1), one for each element and one for all; of the first alone where
        errors are not alike.
        """
        assert self.rng is not None
        shared = 0.5
        if self.alike:
            shared = self.rng.random() if self.shared is None else self.shared
        return 2.0 * self.rng.random(shape, np.float32) + (2.0 * shared - 2.0)

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
    ) -> Ball:
        """A sum of `terms` terms in any order, stored in `dtype`.

        magnitude: the sum of the terms' absolute values. steady: where the terms are (nearly) all alike, so that
        rounding errors do not average out and the deterministic bound is needed. exact: every partial sum in any
        order is representable.
        within: the type in which the target may accumulate, by default `dtype`.
        """
        u = unit_roundoff(within or dtype)
        if exact:
            return self.rounded(dtype, mid, rad, und)
        if self.rng is None:
            likely = np.minimum(terms * u, self.policy.confidence * np.sqrt(terms) * u)
            error = np.where(steady, terms * u, likely) * magnitude
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


def _stored(dtype: DType, mid: Array, ulps: float | None) -> Array:
    """How far a result of exact operands may be from `mid` once it is stored in `dtype` or kept in f32: rounding is
    monotone, so that the ends of what a routine may give decide.
    """
    u, size = unit_roundoff(dtype), np.abs(mid)
    if ulps is None:
        local = np.abs(round_to(dtype, mid) - mid)
    else:
        off = (2 * ulps * u + (0.0 if dtype.bits >= 32 else 2.0**-24)) * size
        low, high = round_to(dtype, mid - off), round_to(dtype, mid + off)
        local = np.maximum(off, np.maximum(np.abs(high - mid), np.abs(mid - low)))
    return np.where(np.isfinite(local), local, u * size)  # it overflows: see `settled`


def _declared(dtype: DType, mid: Array, rad: Array | None) -> Array:
    """Midpoints of exact operands as a target stores them that skips no declared rounding."""
    stored = round_to(dtype, mid)
    return stored if rad is None else np.where(rad == 0, stored, mid)


def settled(dtype: DType, mid: Array, rad: Array | None, und: Array | None, policy: Policy) -> Ball:
    """A ball that keeps the invariants of `Ball`: overflow decided or marked, no NaN or infinity in the radius."""
    if rad is not None and not rad.any():
        rad = None
    limit = dtype.part.max
    half_step = limit * unit_roundoff(dtype) * 0.5  # values below limit + half_step round to limit
    size = np.abs(mid) if not dtype.is_complex else np.maximum(np.abs(mid.real), np.abs(mid.imag))
    reach = size if rad is None else size + rad
    inside = reach < limit
    if inside.all():
        return Ball(dtype, mid, rad, und)
    special = ~np.isfinite(mid)
    if not dtype.part.has_inf and np.isinf(mid).any():
        # Such a type turns an infinity into NaN, unless the value stays in a wider type.
        und = union(und, np.isinf(mid)) if policy.excess_precision else und
        mid = np.where(np.isinf(mid), np.nan, mid)
    over = ~inside & ~special
    if over.any():
        threshold = limit + half_step
        if policy.excess_precision and dtype.part.bits < 32:
            threshold = max(threshold, F32.max * (1 + 2.0**-25))  # kept in f32, the value would not overflow before
        sure = over & ((size if rad is None else size - rad) >= threshold)
        if dtype.is_complex:
            sure = np.zeros_like(sure)  # one part may overflow alone
        und = union(und, over & ~sure)
        if sure.any():
            outcome = np.copysign(np.inf if dtype.has_inf else np.nan, mid)
            mid = np.where(sure, outcome, mid)
            special = special | sure
    if rad is not None:
        lost = ~np.isfinite(rad)
        und = union(und, lost & ~special) if (lost & ~special).any() else und
        rad = np.where(lost | special, 0.0, rad)
    return Ball(dtype, mid, rad, und)


def mark(ball: Ball, und: Array | None) -> Ball:
    """`ball` with further elements undecided."""
    if und is None or not und.any():
        return ball
    return Ball(ball.dtype, ball.mid, ball.rad, union(ball.und, np.broadcast_to(und, ball.mid.shape)))


F32 = DTYPES["f32"]
