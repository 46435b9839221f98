"""How a program's results are had from a target: executed, or where the target is not there, evaluated.

A target here belongs to one program; what was compiled of it with the same options before is used again. `outputs`
gives one array for each output that holds data, of two runs, and raises WorkerDied, RequestRefused, and where results
are evaluated what `evaluate` raises.

What is evaluated is what the compiler made of the program. The midpoints of its results, rounded once to the type of
each output, are one result that the target might give, and are judged as a target's results are. Before a mismatch is
told, the optimized module's own bounds count too (`apart`): where they meet the program's, there is a result that both
allow, and nothing is wrong. And where rounding may decide either way, and bounds leave an element undecided, the two
modules can still be the same function: their midpoints are then the same number (`decided`). Program and optimized
module run in one evaluator, so a wrong rewrite shows and a wrong kernel does not.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from assay.checking.bounds import Bounds, Leaves, Settings, Step
from assay.checking.weigh import Weighed
from assay.errors import WorkerError
from assay.hlo.module import Module
from assay.hlo.parse import parse_module
from assay.hlo.shape import ArrayShape, Shape, leaves
from assay.oracle.compare import round_out
from assay.programs.program import Program
from assay.reference.context import CHOICES
from assay.reference.value import Array, Ball, Token, joined
from assay.targets import cpu, tpu_aot
from assay.toolchain import AheadOfTime, ArrayType, Compiled, Worker

Outputs = tuple[list[Array], list[Array]]


@dataclass(slots=True)
class Executed:
    """A target that runs in the worker."""

    worker: Worker
    program: Program
    _compiled: dict[str, Compiled] = field(default_factory=dict)

    def outputs(
        self, arguments: Sequence[Array], options: Mapping[str, str], seconds: dict[str, float], step: Step, twice: bool
    ) -> Outputs:
        """Of two runs of one executable; the same object where `twice` is false."""
        compiled = self._executable(options, seconds, step)
        step("running")
        start = time.monotonic()
        first = self._results(compiled, arguments)
        second = self._results(compiled, arguments) if twice else first
        spent(seconds, "run", time.monotonic() - start)
        return first, second

    def close(self) -> None:
        for compiled in self._compiled.values():
            self.worker.release(compiled)

    def _executable(self, options: Mapping[str, str], seconds: dict[str, float], step: Step) -> Compiled:
        """The program compiled with `options`, by the process that the worker has now."""
        key = key_of(options)
        if key not in self._compiled or not self.worker.holds(self._compiled[key]):
            step("compiling")
            self._compiled[key] = cpu.compile(self.worker, self.program.payload, self.program.kind, options)
            spent(seconds, "compile", self._compiled[key].seconds)
        return self._compiled[key]

    def _results(self, compiled: Compiled, arguments: Sequence[Array]) -> list[Array]:
        """The outputs of one run that hold data."""
        outputs = cpu.run(self.worker, compiled, arguments)
        return [array for array, type_ in zip(outputs, compiled.results, strict=True) if type_.dtype != "token"]


@dataclass(slots=True)
class Evaluated:
    """A target whose compiler is here and whose device is not.

    settings: of the evaluation. generation: as `assay.targets.tpu_aot` has it. own: the bounds of the optimized module
    that was evaluated last. dump: an empty folder for a snapshot after every pass of the one compilation.
    """

    worker: Worker
    program: Program
    settings: Settings
    generation: str
    flags: tuple[str, ...] = ()
    own: Bounds | None = None
    dump: Path | None = None
    _optimized: dict[str, Module] = field(default_factory=dict)

    def outputs(
        self, arguments: Sequence[Array], options: Mapping[str, str], seconds: dict[str, float], step: Step, twice: bool
    ) -> Outputs:
        """Of one evaluation of the optimized module, which needs no second."""
        key = key_of(options)
        if key not in self._optimized:
            step("compiling")
            payload, kind = self.program.payload, self.program.kind
            made = tpu_aot.compile(
                self.worker, payload, kind, self.generation, options, dump=self.dump, flags=self.flags
            )
            spent(seconds, "compile", made.seconds)
            self._optimized[key] = read_optimized(self.program, made)
        step("evaluating the optimized module")
        start = time.monotonic()
        self.own = Bounds(self._optimized[key], arguments, self.settings, step, flushed=self.settings.device_flushes)
        results = stored(self.own.middle())
        spent(seconds, "optimized", time.monotonic() - start)
        return results, results

    def close(self) -> None:
        """Nothing is held in the worker."""

    def stands(self, weighed: Weighed) -> bool:
        """Whether what was found wrong lies outside the optimized module's own bounds as well."""
        assert self.own is not None, "nothing was evaluated"
        return apart(weighed, self.own)

    def decided(self, weighed: Weighed, bounds: Bounds) -> Weighed:
        """`weighed`, with elements that the program's bounds leave undecided counted as agreeing where both modules,
        with no rounding but what they declare, give the same number.
        """
        assert self.own is not None, "nothing was evaluated"
        return decided_by_both(weighed, bounds, self.own)


def decided_by_both(weighed: Weighed, bounds: Bounds, own: Bounds) -> Weighed:
    """As `Evaluated.decided`, with the bounds of the optimized module."""
    if not any(compared.undecided for compared in weighed.comparisons):
        return weighed
    comparisons = []
    balls, mine, theirs = (_balls(leaves) for leaves in (weighed.balls, bounds.middle(), own.middle()))
    for compared, ball, a, b in zip(weighed.comparisons, balls, mine, theirs, strict=True):
        sure = 0 if ball.und is None else int(np.count_nonzero(ball.und & same_number(a, b)))
        comparisons.append(dataclasses.replace(compared, undecided=compared.undecided - sure))
    return dataclasses.replace(weighed, comparisons=comparisons)


NEAR = 2.0**-40
"""Relative: thousands of float64's roundings, and a ten-thousandth of one of f32's."""


def _balls(leaves: Leaves) -> list[Ball]:
    return [leaf for leaf in leaves if isinstance(leaf, Ball)]


def same_number(a: Ball, b: Ball) -> Array:
    """Where two midpoints differ by float64's own rounding at most, and neither is undecided; integers are equal."""
    with np.errstate(all="ignore"):
        same: Array = a.mid == b.mid
        if a.dtype.is_float or a.dtype.is_complex:
            same = same | (np.abs(a.mid - b.mid) <= NEAR * np.abs(a.mid)) | (np.isnan(a.mid) & np.isnan(b.mid))
    for ball in (a, b):
        if ball.und is not None:
            same = same & ~ball.und
    return same


def key_of(options: Mapping[str, str]) -> str:
    return repr(sorted(options.items()))


def spent(seconds: dict[str, float], name: str, more: float) -> None:
    seconds[name] = seconds.get(name, 0.0) + more


def read_optimized(program: Program, made: AheadOfTime) -> Module:
    """The module that the compiler made of `program`. Raises HloSyntaxError where it cannot be read, WorkerError where
    it takes or gives other arrays.
    """
    assert program.module is not None
    entry = program.module.entry
    for what, shapes, found in (
        ("parameters", [p.shape for p in entry.parameters], made.parameters),
        ("results", [entry.root.shape], made.results),
    ):
        wanted = [_type(leaf) for shape in shapes for leaf in leaves(shape)]
        if wanted != [(t.dtype, t.shape) for t in found]:
            raise WorkerError(f"{program.name}: the optimized module has other {what}: {_spell(found)}")
    return parse_module(made.hlo, source=f"{program.name}, optimized")


def _type(leaf: Shape) -> tuple[str, tuple[int, ...]]:
    return (leaf.dtype.name, leaf.dims) if isinstance(leaf, ArrayShape) else ("token", ())


def _spell(types: Sequence[ArrayType]) -> str:
    return ", ".join(f"{t.dtype}[{','.join(map(str, t.shape))}]" for t in types)


def stored(leaves: Sequence[Ball | Token]) -> list[Array]:
    """Midpoints as outputs of their types, in the dtype that the reference holds them in."""
    found: list[Array] = []
    for leaf in leaves:
        if not isinstance(leaf, Ball):
            continue
        part = leaf.dtype.part
        if leaf.dtype.is_complex:
            found.append(joined(round_out(part, leaf.mid.real), round_out(part, leaf.mid.imag)))
        else:
            found.append(round_out(part, leaf.mid) if leaf.dtype.is_float else leaf.mid)
    return found


def apart(weighed: Weighed, own: Bounds) -> bool:
    """Whether some element that was found wrong stays so with the bounds of the module that gave it: |m - m'| > r + r',
    both decided.

    Where the module itself leaves such elements undecided, by other than rounding (the order of equals, memory that
    nobody wrote), it is evaluated again with all of that taken one way, and another. The program decides the element,
    so a right module gives its value whichever way is taken. One way would do; an element that is wrong in both is
    wrong for any reading of what is left open.
    """
    wrong = [compared.outside_mask for compared in weighed.comparisons]
    if any(map(_any, _beyond_all(weighed.balls, own, wrong))):
        return True
    leaves = _balls(own.sharp()[0])
    wrong = [None if m is None or b.und is None else m & b.und for m, b in zip(wrong, leaves, strict=True)]
    for choice in CHOICES:
        if not any(map(_any, wrong)):
            return False
        again = Bounds(own.module, own.arguments, own.settings, own.step, own.seconds, [], own.flushed, choice)
        wrong = _beyond_all(weighed.balls, again, wrong)
    return any(map(_any, wrong))


def _beyond_all(program: Leaves, own: Bounds, wrong: Sequence[Array | None]) -> list[Array | None]:
    """Which of the elements marked `wrong` a module has apart from the program, by its radii or by what stands in for
    them. A radius may say nothing of an element, being larger than that, and still be far from the program's.
    """
    by_radii = _beyond(program, own.plain(), wrong)
    others = _beyond(program, own.sharp()[0], wrong)
    return [a if a is None or b is None else a | b for a, b in zip(by_radii, others, strict=True)]


def _beyond(program: Leaves, module: Leaves, wrong: Sequence[Array | None]) -> list[Array | None]:
    """Which of the elements marked `wrong` a module decides, and the program's bounds do not meet."""
    found: list[Array | None] = []
    for mine, other, mask in zip(_balls(program), _balls(module), wrong, strict=True):
        if mask is None:
            found.append(None)
            continue
        with np.errstate(all="ignore"):
            reach = (0.0 if mine.rad is None else mine.rad) + (0.0 if other.rad is None else other.rad)
            meet = mine.mid == other.mid
            if other.mid.dtype.kind in "fc":
                meet |= (np.abs(mine.mid - other.mid) <= reach) | (np.isnan(mine.mid) & np.isnan(other.mid))
        found.append(mask & ~meet if other.und is None else mask & ~meet & ~other.und)
    return found


def _any(mask: Array | None) -> bool:
    return mask is not None and bool(mask.any())
