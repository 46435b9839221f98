"""Which LLO pass changed what a kernel computes: its stages run one after the other on the same inputs, bit for bit.

Inputs must be ones that the program can hand to the kernel: on an index that is out of range by a promise, stages may
differ. A stage is compared with the last one before it that ran. What differs is an element with other bits (a NaN is a
NaN), an element that depends on memory nobody wrote where it did not before, a trap, queues that are no longer emptied,
or a DMA that nobody waits for any more.
Known: on libtpu 0.0.42.1 to 0.0.52 honest stages agree in every bit, for every pass keeps the order of float operations
(benchmarks/llo_faults.py counts what does not).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from assay.errors import AssayError, Unsupported
from assay.hlo.shape import ArrayShape
from assay.llo import native
from assay.llo.code import Code
from assay.llo.files import FINAL, ORIGINAL, KernelFiles, Stage
from assay.llo.kernel import LIMIT, Engine, Pair, Result, run
from assay.llo.layout import bits_differ
from assay.llo.listing import Change, Loaded, changes, load, spelled
from assay.llo.lowering import lower
from assay.llo.operands import Operands
from assay.llo.trace import FirstValue, Summary, first_difference, summary, trace_of
from assay.llo.whole import ends_before
from assay.reference.value import Array

State = Literal["first", "agrees", "repeat", "differs", "skipped"]
Verdict = Literal["agree", "mismatch", "unverified"]

SKIPPED = (
    (re.compile(r"packed-bundles.*"), "bundles without delay slots; the regions that they are made into are run"),
    (re.compile(r"post-bundle-packing-no-.*"), "an estimate of another schedule; nothing is made of it"),
)
TRACED = 100_000
"""Records up to which both stages run once more in NumPy, to find the first value that differs."""
LONG, FEW = 300_000, 2
"""A kernel of more records is run on so few sets of inputs."""
SLOWER, LONGER, SPARE = 64, 8, 1_000_000
"""A stage may take so many times the records of the one before, and so many more, but not above the limit unless it is
LONGER times as many; a loop that never ends takes all.
"""


@dataclass(frozen=True, slots=True)
class Given:
    """One set of inputs: where they come from in words, and the values of each input of the kernel."""

    label: str
    arrays: tuple[Pair, ...]


@dataclass(frozen=True, slots=True)
class Ran:
    """One stage. state: `repeat` where its text is that of the stage before. why: it was skipped. steps: records."""

    number: int
    label: str
    state: State
    why: str = ""
    steps: int = 0


@dataclass(frozen=True, slots=True)
class Wrong:
    """One output. differ: elements with other bits; unwritten: among them, those that depend on memory nobody wrote
    since this stage. place: of the first; before, after: its value.
    """

    output: int
    elements: int
    differ: int
    unwritten: int
    place: tuple[int, ...]
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Value:
    """The first value with a name in both stages that differs: its instruction in either, and what it made last."""

    name: str
    line_before: int
    before: str
    was: str
    line_after: int
    after: str
    now: str


@dataclass(frozen=True, slots=True)
class Difference:
    """Between two stages. stage, since: the first that differs and the last that agrees, as `NN label`. inputs: on
    what. trap: that it stops with, empty where it ends. changed: instructions that only one of the two has, those next
    to the first value that differs in front; in all there are `changes`. left: entries of queues that nobody pops, and
    flying: DMAs that nobody waits for, where the stage before had none.
    """

    stage: str
    since: str
    inputs: str
    trap: str
    outputs: tuple[Wrong, ...]
    left: int
    flying: int
    first: Value | None
    changed: tuple[Change, ...]
    changes: int


@dataclass(frozen=True, slots=True)
class KernelDiff:
    """unwritten: elements of outputs that were not compared, for they depend on memory nobody wrote. compared: those
    that were, over all inputs.
    """

    name: str
    verdict: Verdict
    why: str
    stages: tuple[Ran, ...]
    difference: Difference | None
    compared: int
    unwritten: int
    seconds: float

    def count(self, *states: State) -> int:
        """How many stages have one of the states."""
        return sum(stage.state in states for stage in self.stages)


class _OutOfTime(Exception):
    pass


@dataclass(slots=True)
class _Chain:
    files: KernelFiles
    operands: Operands
    inputs: Sequence[Given]
    generation: str
    limit: int
    deadline: float | None
    step: Callable[[str], None]
    stages: list[Ran] = field(default_factory=list)
    last: tuple[Loaded, list[Result], str] | None = None
    loose: list[list[Array]] = field(default_factory=list)  # by inputs and output: elements that are not compared
    at: str = ""  # what is done, in words
    doubt: str = ""  # why a difference, or that there is none, may be due to a file that is cut

    def difference(self) -> Difference | None:
        first_real = next((s.number for s in self.files.stages if s.label == ORIGINAL), 0)
        for stage in self.files.stages:
            self._in_time()
            self.at = f"{self.files.name}: stage {stage.number}"
            self.step(self.at)
            why = next((why for label, why in SKIPPED if label.fullmatch(stage.label)), "")
            if stage.number < first_real:
                why = "before the program is whole: units are not chosen yet"
            found = None
            if not why:
                try:
                    found = self._stage(stage)
                except Unsupported as missing:
                    why = f"unsupported: {missing}"
                except _First:
                    raise
                except AssayError as error:
                    why = str(error)
            if why:
                self.stages.append(Ran(stage.number, stage.label, "skipped", why))
            if found is not None:
                return found
        return None

    def _in_time(self) -> None:
        if self.deadline is not None and time.monotonic() > self.deadline:
            raise _OutOfTime

    def watch(self, kernel: str, steps: int) -> None:
        """A look at a kernel that runs."""
        self.step(f"{self.at}, {steps} instructions")
        self._in_time()

    def _stage(self, stage: Stage) -> Difference | None:
        loaded = load(self.files, stage)
        fingerprint = loaded.fingerprint() if loaded.declared is None else ""
        if self.last is not None and fingerprint and fingerprint == self.last[2]:
            self.stages.append(Ran(stage.number, stage.label, "repeat", steps=self.last[1][0].steps))
            self.last = (loaded, self.last[1], fingerprint)
            return None
        code = lower(loaded.kernel, loaded.declared)
        results: list[Result] = []
        for number, given in enumerate(self.inputs):
            limit = self.limit
            if self.last is not None:
                before = self.last[1][number].steps
                limit = min(SLOWER * before + SPARE, max(limit, LONGER * before + SPARE))
            result = self._run(code, given, native.watched(self.watch), limit)
            if self.last is None:
                if result.stop is not None:
                    raise _First(f"{_name(stage)}: {result.words}")
            else:
                self._doubted(number, self.last, stage, result)
                wrong = self._wrong(number, self.last[1][number], result)
                if wrong or result.stop is not None or any(_more(self.last[1][number], result)):
                    self.stages.append(Ran(stage.number, stage.label, "differs", steps=result.steps))
                    doubted = self.doubt if len(self.ran) == 2 else ""  # by the first stage, of the next alone
                    self.doubt = doubted or ends_before(self.files, stage, self.last[0].stage)
                    return self._told(loaded, given, result, wrong)
            results.append(result)
        self.stages.append(
            Ran(stage.number, stage.label, "first" if self.last is None else "agrees", steps=results[0].steps)
        )
        if max(result.steps for result in results) > LONG:
            self.inputs, results = self.inputs[:FEW], results[:FEW]
        self._loosen(results)
        self.last = (loaded, results, fingerprint)
        return None

    def _run(self, code: Code, given: Given, engine: Engine, limit: int) -> Result:
        inputs = list(zip(self.operands.inputs, given.arrays, strict=True))
        return run(
            code,
            self.generation,
            inputs,
            self.operands.outputs,
            self.operands.shared,
            engine=engine,
            limit=limit,
        )

    def _doubted(self, number: int, last: tuple[Loaded, list[Result], str], stage: Stage, after: Result) -> None:
        """No pass writes what was not written: where the next stage does, the first is cut."""
        before = last[1][number]
        if len(self.ran) > 1 or after.stop is not None:
            return
        for output, (a, b) in enumerate(zip(before.outputs, after.outputs, strict=True)):
            if a.unwritten is not None and (b.unwritten is None or (a.unwritten & ~b.unwritten).any()):
                self.doubt = f"{_name(last[0].stage)} does not write all of output {output}, {_name(stage)} does: is "
                self.doubt += "it cut? dump it again"

    @property
    def ran(self) -> list[Ran]:
        return [stage for stage in self.stages if stage.state != "skipped"]

    def _loosen(self, results: Sequence[Result]) -> None:
        """What depends on memory nobody wrote in this stage is not compared in later ones either."""
        if not self.loose:
            self.loose = [[np.zeros(pair.first.shape, bool) for pair in result.outputs] for result in results]
        for loose, result in zip(self.loose, results, strict=True):
            for number, pair in enumerate(result.outputs):
                if pair.unwritten is not None:
                    loose[number] = loose[number] | pair.unwritten

    def _wrong(self, number: int, before: Result, after: Result) -> tuple[Wrong, ...]:
        if after.stop is not None:
            return ()
        found = []
        for output, shape in enumerate(self.operands.outputs):
            a, b = before.outputs[output], after.outputs[output]
            differ = compared(shape, a, b) & ~self.loose[number][output]
            if differ.any():
                wild = 0 if b.unwritten is None else int((b.unwritten & differ).sum())
                place = tuple(int(k) for k in np.argwhere(differ)[0])
                values = [_value(pair.first, place) for pair in (a, b)]
                if wild and b.unwritten is not None and b.unwritten[place]:
                    values[1] = f"what memory held before ({values[1]}, or {_value(b.second, place)})"
                found.append(Wrong(output, differ.size, int(differ.sum()), wild, place, values[0], values[1]))
        return tuple(found)

    def _told(self, loaded: Loaded, given: Given, result: Result, wrong: tuple[Wrong, ...]) -> Difference:
        assert self.last is not None
        before = self.last[0]
        first = self._first_value(before, loaded, given, max(result.steps, self.last[1][0].steps))
        found = changes(before.kernel, loaded.kernel)
        if first is not None:
            places = {"-": first.line_before, "+": first.line_after}
            found = sorted(found, key=lambda change: abs(change.line - places[change.sign]))
        return Difference(
            _name(loaded.stage),
            _name(before.stage),
            given.label,
            result.words,
            wrong,
            *_more(self.last[1][0], result),
            first,
            tuple(found),
            len(found),
        )

    def _first_value(self, before: Loaded, after: Loaded, given: Given, steps: int) -> Value | None:
        if steps > TRACED:
            return None
        traces = [trace_of(before), trace_of(after)]
        for trace in traces:
            self._run(trace.code, given, trace.engine, TRACED + 1)
        found = first_difference(*traces)
        return None if found is None else _shown(found)


class _First(AssayError):
    """The first stage traps: there is nothing to compare with."""


def diff_kernel(
    files: KernelFiles,
    operands: Operands,
    inputs: Sequence[Given],
    generation: str,
    *,
    limit: int = LIMIT,
    deadline: float | None = None,
    step: Callable[[str], None] = lambda _: None,
) -> KernelDiff:
    """Runs every stage that means something until one differs. limit: records, of the first stage. deadline: of
    time.monotonic(), after which no further stage is run. Whatever cannot be read or run is told, never raised.
    """
    start = time.monotonic()
    chain = _Chain(files, operands, inputs, generation, limit, deadline, step)
    why, difference = "", None
    try:
        difference = chain.difference()
        why = chain.doubt or _unverified(chain.stages)
        difference = None if chain.doubt else difference
    except _OutOfTime:
        why = f"out of time after {len(chain.stages)} of {len(files.stages)} stages; all that ran agree"
    except _First as trapped:
        why = str(trapped)
    loose = sum(int(output.sum()) for outputs in chain.loose for output in outputs)
    total = sum(output.size for outputs in chain.loose for output in outputs)
    if not why and loose == total > 0 and not operands.memory and not _blank(inputs):
        why = "every element of its results depends on memory that nobody wrote: there is nothing to compare"
    verdict: Verdict = "mismatch" if difference is not None else "unverified" if why else "agree"
    seconds = time.monotonic() - start
    return KernelDiff(
        files.name,
        verdict,
        "" if difference is not None else why,
        tuple(chain.stages),
        difference,
        total - loose,
        loose,
        seconds,
    )


def _blank(inputs: Sequence[Given]) -> bool:
    """Whether the kernel gets nothing but memory that nobody wrote, as the copy of a new buffer does."""
    pairs = [pair for given in inputs for pair in given.arrays]
    return bool(pairs) and all(pair.unwritten is not None and bool(pair.unwritten.all()) for pair in pairs)


def _unverified(stages: Sequence[Ran]) -> str:
    """Why agreement of what ran is none of the whole: neither end may be missing. Empty where it is."""
    ran = [stage for stage in stages if stage.state != "skipped"]
    if not ran:
        return next((f"{_named(s)}: {s.why}" for s in stages if s.label in (ORIGINAL, FINAL)), "no stage was run")
    ends = [stage for stage in stages if stage.label in (ORIGINAL, FINAL)]
    for stage in ends:
        if stage.state == "skipped":
            upto = f"{_named(ran[0])} to {_named(ran[-1])} agree"
            return f"{_named(stage)}: {stage.why}; {upto}"
    if len(ran) < 2:
        return "only one stage was dumped: dump more with --llo-passes ."
    missing = [label for label in (ORIGINAL, FINAL) if not any(stage.label == label for stage in stages)]
    if missing:
        return f"no {' and no '.join(missing)} in the dump; {_named(ran[0])} to {_named(ran[-1])} agree"
    return ""


def compared(shape: ArrayShape, before: Pair, after: Pair) -> Array:
    """Where two results of one shape differ: in bits, but for NaNs; or where only the second depends on memory that
    nobody wrote. Elements of which that is true of the first are not compared. (dims)
    """
    differ = bits_differ(before.first, after.first)
    if shape.dtype.is_float:
        differ &= ~(np.isnan(before.first) & np.isnan(after.first))
    if after.unwritten is not None:
        differ = differ | after.unwritten
    if before.unwritten is not None:
        differ = differ & ~before.unwritten
    return np.asarray(differ)


def _more(before: Result, after: Result) -> tuple[int, int]:
    """Entries of queues, and DMAs, that are left at the end where there were none."""
    return after.left if not before.left else 0, after.flying if not before.flying else 0


def _value(array: Array, place: tuple[int, ...]) -> str:
    return str(array[place])


def _name(stage: Stage) -> str:
    return f"{stage.number:02d} {stage.label}"


def _named(ran: Ran) -> str:
    return f"{ran.number:02d} {ran.label}"


def _shown(found: FirstValue) -> Value:
    before, after = found.before, found.after
    return Value(
        found.name,
        before.instruction.line,
        spelled(before.instruction),
        said(before.vector, before.mask, before.scalar, before.instruction.opcode),
        after.instruction.line,
        spelled(after.instruction),
        said(after.vector, after.mask, after.scalar, after.instruction.opcode),
    )


def said(vector: Array | None, mask: Array | None, scalar: int | None, opcode: str) -> str:
    """A value in a few words."""
    if vector is not None:
        s: Summary = summary(vector, opcode)
        return f"{s.kind}, {s.least:g} to {s.greatest:g}, mean {s.mean:g}, {s.finite} of {vector.size} finite"
    if mask is not None:
        return f"{int((mask != 0).sum())} of {mask.size} lanes on"
    return "" if scalar is None else f"{scalar:#x}"
