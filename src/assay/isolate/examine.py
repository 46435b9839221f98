"""Looks at one snapshot at a time: reads it, evaluates it in lockstep with those before, and judges its results."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from assay.checking.bounds import Bounds, Settings, Step
from assay.checking.target import apart, stored
from assay.checking.weigh import Weighed
from assay.errors import AssayError, ReferenceLimit, Unsupported
from assay.hlo.module import Module
from assay.hlo.parse import parse_module
from assay.hlo.reader import Memory
from assay.isolate.judgement import Inputs, Judge
from assay.isolate.lockstep import Crowded, Lockstep
from assay.isolate.signature import check_parameters, check_results
from assay.isolate.walk import State
from assay.reference.sampled import midpoints
from assay.reference.value import Array, Ball, Token
from assay.targets.snapshots import Snapshot


@dataclass(frozen=True, slots=True)
class Look:
    """What is known of one snapshot.

    why: for unverified ones. inputs: which of the sets of inputs shows the difference, and weighed: how. repeat:
    whether its text is that of the snapshot before.
    """

    snapshot: Snapshot
    state: State
    why: str = ""
    inputs: int = 0
    weighed: Weighed | None = None
    repeat: bool = False


@dataclass(slots=True)
class Examiner:
    """The snapshots of one compilation of `program`, on all sets of inputs. What is made first is the program's own
    results, for which the snapshots need not be there yet; it raises what evaluating raises.

    read: the HLO text of a snapshot. Raises, from `look`, nothing but what the machine does.
    """

    program: Module
    inputs: Sequence[Inputs]
    settings: Settings
    step: Step
    snapshots: Sequence[Snapshot] = ()
    read: Callable[[Snapshot], str] = Snapshot.text
    seconds: dict[str, float] = field(default_factory=dict)
    judges: list[Judge] = field(default_factory=list)
    looks: dict[int, Look] = field(default_factory=dict)
    lockstep: Lockstep = field(init=False)
    _judged: dict[tuple[int, ...], tuple[int, Weighed] | None] = field(default_factory=dict)
    _memory: Memory = field(default_factory=Memory)
    _text: tuple[int, str] | None = None  # of the snapshot looked at last
    _executed: dict[tuple[int, int], Weighed | None] = field(default_factory=dict)
    _wrong: set[tuple[int, ...]] = field(default_factory=set)  # results that no bounds of a module's own excuse
    _crowded: int = 0
    _end: float = 0.0

    def __post_init__(self) -> None:
        self.lockstep = Lockstep(
            self.settings.policy, self.settings.device_flushes, self.settings.memory_limit, self._check_time
        )
        for inputs in self.inputs:
            self.step("evaluating the program")
            _, first = self._results(self.program, inputs, "program")
            self.judges.append(Judge(self.program, inputs, self.settings, self.step, first, self.seconds))

    def look(self, index: int) -> State:
        """What the snapshot at `index` says, worked out once."""
        if index not in self.looks:
            self.step(f"evaluating snapshot {index + 1} of {len(self.snapshots)}")
            self.looks[index] = self._look(index)
        return self.looks[index].state

    def module(self, index: int) -> Module:
        """A snapshot's module; of the program itself for -1. Raises HloSyntaxError."""
        if index < 0:
            return self.program
        snapshot = self.snapshots[index]
        return parse_module(self.read(snapshot), snapshot.path.name, self._memory)

    def executed(self, index: int, place: int) -> State:
        """What a snapshot says when it is executed whole, by itself, on the inputs at `place`: it differs where its
        results are wrong and lie beyond its own bounds as well, or are those of one that was found so. That is what
        counts for it from then on.
        """
        if index < 0:
            return State.AGREES
        if (index, place) not in self._executed:
            self.step(f"executing snapshot {index + 1} whole")
            self._executed[index, place] = self._wrong_whole(self.module(index), place)
        weighed = self._executed[index, place]
        snapshot = self.snapshots[index]
        if weighed is None and self.looks[index].state == State.DIFFERS:
            self._acquit(index, place)
        elif weighed is not None:
            self.looks[index] = Look(snapshot, State.DIFFERS, "", place, weighed)
        return self.looks[index].state

    def prove(self, index: int) -> None:
        """Looks whether a snapshot that differs does so beyond its own bounds as well. Then all with its results are
        wrong, whatever theirs are; if not, nothing is said of them.
        """
        place = self.looks[index].inputs
        if (weighed := self._wrong_whole(self.module(index), place)) is not None:
            self._executed[index, place] = weighed

    def _wrong_whole(self, module: Module, place: int) -> Weighed | None:
        judge = self.judges[place]
        weighed = judge.wrong(self._whole(module, judge.inputs))
        if weighed is None:
            return None
        results = (place, *self._results(module, judge.inputs)[0])
        if results not in self._wrong:
            arguments, flushed = judge.inputs.arguments, self.settings.device_flushes
            if not apart(weighed, Bounds(module, arguments, self.settings, self.step, self.seconds, flushed=flushed)):
                return None
            self._wrong.add(results)
        return weighed

    def _acquit(self, index: int, place: int) -> None:
        """The snapshot agrees, and so do those with the same results."""
        results, _ = self._results(self.module(index), self.judges[place].inputs)
        self._judged[place, *results] = None
        snapshot = self.snapshots[index]
        self.looks = {i: look for i, look in self.looks.items() if look.state != State.DIFFERS}
        self.looks[index] = Look(snapshot, State.AGREES, "inside the bounds of both")
        self._text = None

    def stored(self, index: int, inputs: int) -> list[Array]:
        """A snapshot's results on one set of inputs, as its outputs hold them."""
        return stored(self._results(self.module(index), self.inputs[inputs])[1])

    # ---- one snapshot

    def _look(self, index: int) -> Look:
        snapshot = self.snapshots[index]
        try:
            text = self.read(snapshot)
            if self._text is not None and self._text[1] == text:
                before = self.looks[self._text[0]]
                return Look(snapshot, before.state, before.why, before.inputs, before.weighed, repeat=True)
            start = time.monotonic()
            module = parse_module(text, snapshot.path.name, self._memory)
            self._spent("reading", start)
            self._text = index, text
            found = self._difference(module)
        except AssayError as error:
            return Look(snapshot, State.UNVERIFIED, told(error))
        if found is None:
            return Look(snapshot, State.AGREES)
        return Look(snapshot, State.DIFFERS, "", *found)

    def _difference(self, module: Module) -> tuple[int, Weighed] | None:
        """The first set of inputs on which a module's results are wrong, and how."""
        check_parameters(self.program, module)
        check_results(self.program, module)
        for place, judge in enumerate(self.judges):
            numbers, leaves = self._results(module, judge.inputs)
            known = (place, *numbers)
            if known not in self._judged:
                weighed = judge.wrong(leaves)
                self._judged[known] = None if weighed is None else (place, weighed)
            if (found := self._judged[known]) is not None:
                return found
        return None

    def _results(
        self, module: Module, inputs: Inputs, spent: str = "snapshots"
    ) -> tuple[tuple[int, ...], list[Ball | Token]]:
        """A module's results, and numbers that are those of no other results. Where lockstep, which keeps all values of
        a module, has no room for them, the module is evaluated whole.
        """
        self._end = time.monotonic() + self.settings.reference_timeout_s
        start = time.monotonic()
        try:
            numbers = self.lockstep.results(module, inputs.arguments)
            return tuple(numbers), [self.lockstep.value(number) for number in numbers]
        except Crowded:
            self.lockstep.clear()
            self._crowded += 1
            return (-1, self._crowded), self._whole(module, inputs)
        finally:
            self._spent(spent, start)

    def _whole(self, module: Module, inputs: Inputs) -> list[Ball | Token]:
        self._end = time.monotonic() + self.settings.reference_timeout_s
        start = time.monotonic()
        found = midpoints(
            module,
            inputs.arguments,
            self.settings.policy,
            flushed=self.settings.device_flushes,
            memory_limit=self.settings.memory_limit,
            deadline=self._check_time,
        )
        self._spent("confirming", start)
        return found

    def _check_time(self) -> None:
        if time.monotonic() > self._end:
            limit = self.settings.reference_timeout_s
            raise ReferenceLimit(f"one snapshot took longer than {limit:g} s; raise it with --reference-timeout")

    def _spent(self, name: str, start: float) -> None:
        self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - start


def told(error: AssayError) -> str:
    """Why a snapshot is not verified, in one line."""
    text = " ".join(str(error).split())
    return f"unsupported: {text}" if isinstance(error, Unsupported) else text
