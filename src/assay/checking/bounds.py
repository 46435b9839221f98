"""What the reference says of one program on one set of arguments: balls, sharpened where they say too little, and the
widest ones before a mismatch is told.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from assay.checking.scale import Scales
from assay.errors import ReferenceLimit
from assay.hlo.module import Computation, Instruction, Module
from assay.oracle.drift import Scale, bearable, constant_factors, scale
from assay.oracle.evidence import says_nothing, says_too_little, typical_size
from assay.programs.program import Array
from assay.reference.context import mark
from assay.reference.evaluator import OnValue, evaluate
from assay.reference.policy import Policy
from assay.reference.sampled import Sampling
from assay.reference.settled import Known, Settled
from assay.reference.value import Ball, Token, Value, flatten, union

Step = Callable[[str], None]
Leaves = list[Ball | Token]

DRIFT_RUNS = 6

KINDS: dict[str, str] = {
    "auto":    "radii, and sampled bounds where they say too little",
    "ball":    "radii alone; what they say too little of is undecided",
    "sampled": "the spread of a few runs with random legal rounding, wherever a result is not exact",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Settings:
    """What a check may spend and how it judges.

    own: the target's own policy where `policy` is another one, else None. kind: of bounds, one of KINDS.
    memory_limit: bytes the reference may hold. reference_timeout_s: seconds for one evaluation. samples: sampled runs
    where a radius says nothing; a mismatch that rests on them must survive `confirm` more. device_flushes: whether the
    target has no subnormals, so that what is compiled for it is evaluated without any. skipped: whether a declared
    rounding that was skipped is a mismatch, though the policy allows it, where nothing is left of the result.
    """

    policy: Policy
    own: Policy | None = None
    kind: str = "auto"
    options: Mapping[str, str] = field(default_factory=dict)
    memory_limit: int = 8 << 30
    reference_timeout_s: float = 600.0
    samples: int = 12
    confirm: int = 48
    device_flushes: bool = False
    skipped: bool = False


@dataclass(slots=True)
class Bounds:
    """Each bound is worked out when it is first asked for. All of them raise what `evaluate` raises.

    seconds: spent on `reference` and `sampling`. notes: what the reference has to say besides. flushed: whether
    subnormals are zero, in a module that a compiler made for such a target; in a program they may be. resolved: how
    that is taken which is open, but not by rounding (see `Context`).
    """

    module: Module
    arguments: Sequence[Array]
    settings: Settings
    step: Step = lambda _: None
    seconds: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    flushed: bool = False
    resolved: int | None = None
    _plain: Leaves | None = None
    _scales: list[float] = field(default_factory=list)
    _sharp: tuple[Leaves, list[bool]] | None = None
    _measures: list[Scale | None] | None = None
    _runs: list[Leaves] = field(default_factory=list)
    _nearest: Leaves | None = None
    _middle: Leaves | None = None
    _sampling: dict[int, Sampling] = field(default_factory=dict)  # by seed
    _certain: dict[bool, Leaves] = field(default_factory=dict)
    _settled: Settled = field(default_factory=Settled)

    def plain(self) -> Leaves:
        """The outputs' balls."""
        if self._plain is None:
            scales = Scales(self.module)

            def watch(computation: Computation, instruction: Instruction, value: Value) -> None:
                scales.see(computation, instruction, value)
                self._settled.see(computation, instruction, value)

            self._plain = self._evaluated(self.settings.policy, watch=watch)
            self._scales = [scales.of(i, b) if isinstance(b, Ball) else 0.0 for i, b in enumerate(self._plain)]
        return self._plain

    def sharp(self) -> tuple[Leaves, list[bool]]:
        """The outputs as they are judged, and for each whether sampled bounds are among its own."""
        if self._sharp is None:
            plain = self.plain()
            if any(needed := self._needed()):
                self._sharp = self._joined(self._sampled(self.settings.samples)), needed
            else:
                self._sharp = self._decided(plain) if self.settings.kind == "ball" else plain, needed
        return self._sharp

    def growing(self) -> Iterator[Leaves]:
        """Leaves that lie inside the sharp ones, each set wider than the one before, from few sampled runs and then
        more; nothing where the sharp ones are known or none are needed.
        """
        if self._sharp is not None or not any(self._needed()):
            return
        runs = 1
        while runs < self.settings.samples:
            yield self._joined(self._sample(runs).least(self.settings.samples))
            runs *= 2

    def _needed(self) -> list[bool]:
        """For each output whether it asks for sampled bounds."""
        return [self._asks_for_samples(ball, scale) for ball, scale in zip(self.plain(), self._scales, strict=True)]

    def _asks_for_samples(self, ball: Ball | Token, scale: float) -> bool:
        if not isinstance(ball, Ball) or self.settings.kind == "ball":
            return False
        return not ball.exact if self.settings.kind == "sampled" else says_too_little(ball, scale) is not None

    def certain(self, sampled: Sequence[bool]) -> Leaves:
        """The bounds that a mismatch must break: more samples where sampled ones count, else accumulations in the
        worst order.
        """
        by_samples = any(sampled)
        if by_samples not in self._certain:
            if by_samples:
                found = self._joined(self._sampled(self.settings.confirm, seed=1))
            else:
                found = self._evaluated(dataclasses.replace(self.settings.policy, confidence=math.inf))
                found = self._decided(found) if self.settings.kind == "ball" else found
            self._certain[by_samples] = found
        return self._certain[by_samples]

    def measures(self) -> list[Scale | None]:
        """For each output how its mean error is measured, None where it says nothing."""
        if self._measures is None:
            leaves = self.sharp()[0]
            dtypes = {leaf.dtype for leaf in leaves if isinstance(leaf, Ball)}
            fit = {dtype for dtype in dtypes if bearable(self.module, dtype)}
            factors = constant_factors(self.module) if fit else 0
            self._measures = [
                scale(leaf, factors) if isinstance(leaf, Ball) and leaf.dtype in fit else None for leaf in leaves
            ]
        return self._measures

    def nearest(self, index: int) -> Array:
        """Output `index` with every result rounded to the nearest value of its type."""
        if self._nearest is None:
            rng = np.random.default_rng(0)
            self._nearest = self._evaluated(self.settings.policy, rng=rng, nearest=True)
        leaf = self._nearest[index]
        assert isinstance(leaf, Ball)
        return leaf.mid

    def runs(self, index: int) -> list[Array]:
        """Output `index` in a few runs of the reference with random legal rounding, each element's its own."""
        for number in range(len(self._runs), DRIFT_RUNS):
            self.step(f"looking at systematic errors, run {number + 1} of {DRIFT_RUNS}")
            rng = np.random.default_rng([2, number])
            self._runs.append(self._evaluated(self.settings.policy, rng=rng))
        found = [leaves[index] for leaves in self._runs]
        return [leaf.mid for leaf in found if isinstance(leaf, Ball)]

    def middle(self, watch: OnValue | None = None) -> Leaves:
        """The outputs of one run in which nothing is rounded off its midpoint but by what the program declares."""
        if self._middle is None or watch is not None:
            rng = np.random.default_rng(0)
            self._middle = self._evaluated(self.settings.policy, watch=watch, rng=rng, amplitude=0.0)
        return self._middle

    def watched(self, watch: OnValue) -> None:
        """One more evaluation, as that of `plain`, whose values `watch` sees."""
        self._evaluated(self.settings.policy, watch=watch)

    def _evaluated(
        self,
        policy: Policy,
        watch: OnValue | None = None,
        rng: np.random.Generator | None = None,
        nearest: bool = False,
        amplitude: float = 1.0,
    ) -> Leaves:
        if rng is None:
            self.step("evaluating the reference")
        start = time.monotonic()
        try:
            result = evaluate(
                self.module,
                self.arguments,
                policy,
                rng=rng,
                amplitude=amplitude,
                alike=False,
                nearest=nearest,
                flushed=self.flushed,
                resolved=self.resolved,
                on_value=watch,
                memory_limit=self.settings.memory_limit,
                deadline=self._deadline(),
            )
        finally:
            self._spent("reference", start)
        self.notes.extend(note for note in sorted(result.notes) if note not in self.notes)
        return flatten(result.value)

    def _sampled(self, runs: int, seed: int = 0) -> Leaves:
        return self._sample(runs, seed).bounds()

    def _sample(self, runs: int, seed: int = 0) -> Sampling:
        """With at least so many runs."""
        if seed not in self._sampling:
            module, arguments, policy, settings = self.module, self.arguments, self.settings.policy, self.settings
            self._sampling[seed] = Sampling(
                module, arguments, policy, seed, self.flushed, self.resolved, settings.memory_limit, self._known
            )
        sampling = self._sampling[seed]
        start, deadline = time.monotonic(), self._deadline()
        try:
            while sampling.runs < runs:
                self.step(f"sampling the reference, run {sampling.runs + 1} of {runs}")
                sampling.more(deadline)
        finally:
            self._spent("sampling", start)
        return sampling

    @property
    def _known(self) -> Known:
        self.plain()
        return self._settled.values

    def _joined(self, sampled: Leaves) -> Leaves:
        join = _drawn if self.settings.kind == "sampled" else _join
        return [join(*three) for three in zip(self.plain(), sampled, self._scales, strict=True)]

    def _decided(self, leaves: Leaves) -> Leaves:
        """Without sampled bounds to stand in, a radius that says nothing leaves its element undecided."""
        pairs = zip(leaves, self._scales, strict=True)
        return [mark(leaf, says_nothing(leaf, scale)) if isinstance(leaf, Ball) else leaf for leaf, scale in pairs]

    def _deadline(self) -> Callable[[], None]:
        return deadline(self.settings.reference_timeout_s, "; raise it with --reference-timeout")

    def _spent(self, name: str, start: float) -> None:
        self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - start


def deadline(seconds: float, advice: str = "", what: str = "the reference") -> Callable[[], None]:
    """What an evaluation asks now and then: it raises ReferenceLimit when so long has passed from now on."""
    end = time.monotonic() + seconds

    def check() -> None:
        if time.monotonic() > end:
            raise ReferenceLimit(f"{what} took longer than {seconds:g} s{advice}")

    return check


def _join(ball: Ball | Token, sampled: Ball | Token, scale: float) -> Ball | Token:
    """`ball`, with the smaller of its own and the sampled radius where it says too little; what still says nothing is
    undecided.
    """
    if not isinstance(ball, Ball) or not isinstance(sampled, Ball):
        return ball
    unclear = says_too_little(ball, scale)
    if unclear is None:
        return ball
    lost = np.zeros(ball.mid.shape, np.bool_) if ball.und is None else ball.und
    own = np.zeros(ball.mid.shape) if ball.rad is None else ball.rad
    drawn = np.zeros(ball.mid.shape) if sampled.rad is None else sampled.rad
    # Drawn errors hardly ever make a number zero, on which may hang whether a result is infinite, NaN, or neither.
    take = unclear & np.where(lost, np.isfinite(sampled.mid), drawn < own)
    mid = np.where(take, sampled.mid, ball.mid)
    rad = np.where(take, drawn, own)
    still = None if sampled.und is None else unclear & sampled.und
    if scale == 0.0:  # nothing of the plain output is decided
        scale = typical_size(sampled)
    joined = Ball(ball.dtype, mid, rad if rad.any() else None, union(still, lost & ~take))
    return mark(joined, says_nothing(joined, scale))


def _drawn(ball: Ball | Token, sampled: Ball | Token, scale: float) -> Ball | Token:
    """The sampled bound itself, except where the ball is exact."""
    if not isinstance(ball, Ball) or not isinstance(sampled, Ball) or ball.exact:
        return ball
    return mark(sampled, says_nothing(sampled, scale))
