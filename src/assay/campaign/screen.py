"""A batch of generated programs, each with a verdict: most agree, and only what does not is looked at alone."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from assay.campaign.batch import Lowered, Member, NotLowered, lower
from assay.campaign.kernels import Doubt, Kernels
from assay.campaign.reach import passes, reached
from assay.campaign.row import Row
from assay.checking import api
from assay.checking.bounds import Bounds, Settings, Step
from assay.checking.judge import UNDECIDED, judge, refusal, same_bits
from assay.checking.target import Evaluated, Executed, Outputs
from assay.checking.weigh import weigh, weigh_other
from assay.errors import AssayError, ProgramError, ReferenceLimit, ToolchainError, Unsupported
from assay.hlo.parse import parse_module
from assay.inputs.generate import generate
from assay.oracle.verdict import FINDINGS, Verdict
from assay.programs.program import Array, Program
from assay.report.result import CaseResult
from assay.targets import cpu
from assay.targets.dumps import scratch
from assay.toolchain import RequestRefused, StaleHandle, UserFileError, Worker, WorkerDied
from assay.toolchain.outcomes import KILLED, one_line

BATCH_S = 30.0
"""Seconds of one request for a batch or a part of it: where one hangs, its halves are waited for as well. What hangs
alone is given the time of the request.
"""
KILLED_TRIES = 5
"""Of a batch whose worker somebody killed, or of a program alone."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A program that does not agree, as it was seen alone in a fresh process."""

    member: Member
    program: Program
    arguments: tuple[Array, ...]
    case: CaseResult


@dataclass(frozen=True, slots=True)
class Batch:
    """What became of a batch. reached: features (see `reach`), each with the choices of the program that it is put down
    to; none where that is not known, or was made of a template. passes: that changed something, where it was compiled
    with snapshots.
    """

    rows: list[Row]
    suspects: list[Suspect]
    reached: dict[str, tuple[int, ...]] = field(default_factory=dict)
    passes: tuple[str, ...] = ()


Given = tuple[str, list[Array]]
"""A class of values, and arguments of it."""


@dataclass(slots=True)
class Ran(Executed):
    """A program whose results are known for what it is asked first: those of the batch that it was in."""

    known: tuple[list[Array], list[Array]] = ((), ())  # type: ignore[assignment]
    options: Mapping[str, str] = field(default_factory=dict)

    def outputs(
        self, arguments: Sequence[Array], options: Mapping[str, str], seconds: dict[str, float], step: Step, twice: bool
    ) -> tuple[list[Array], list[Array]]:
        if options == self.options:
            return self.known
        return super(Ran, self).outputs(arguments, options, seconds, step, twice)


@dataclass(slots=True)
class Screen:
    """What a process keeps between batches: a worker, and a second that is fresh for every suspect."""

    request: api.Request
    worker: Worker
    settings: Settings
    folder: Path
    _open: ExitStack = field(default_factory=ExitStack)
    _features: dict[str, int] = field(default_factory=dict)
    _passes: set[str] | None = None
    _killed: bool = False
    _kernels: Kernels | None = None  # of the batch that ran last, where they are simulated

    @staticmethod
    def of(request: api.Request) -> Screen:
        """Raises ToolchainError where the toolchain does not start."""
        with ExitStack() as stack:
            patient = replace(request, timeout_s=min(request.timeout_s, BATCH_S))
            worker, versions = stack.enter_context(api.open_worker(patient, lambda _: None))
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="assay-fuzz-")))
            return Screen(request, worker, api.settings_for(request, versions), folder, stack.pop_all())

    def close(self) -> None:
        self._open.close()

    def judged(self, members: Sequence[Member], wide: bool, snapshots: bool = False) -> Batch:
        """snapshots: whether it is to be seen which passes change anything."""
        for _ in range(KILLED_TRIES):  # what was killed meanwhile, and not by its program, is to leave no trace
            self._features, self._passes, self._killed = {}, set() if snapshots else None, False
            rows, suspects = self.batch(members, wide)
            if not self._killed:
                break
        rows.sort(key=lambda row: row.number)
        choices = {member.number: member.choices for member in members if not member.template}
        reached_by = {feature: choices.get(number, ()) for feature, number in self._features.items()}
        return Batch(rows, suspects, reached_by, tuple(sorted(self._passes or ())))

    def batch(self, members: Sequence[Member], wide: bool) -> tuple[list[Row], list[Suspect]]:
        """A row for each, and those that do not agree."""
        try:
            lowered = lower(members, wide, self.worker, self.folder, self.request.target)
        except (NotLowered, UserFileError, RequestRefused) as error:
            if len(members) == 1:
                return [_row(members[0], Verdict.INVALID, f"does not lower: {one_line(str(error))}")], []
            return self._halves(members, wide)
        except WorkerDied as death:
            self._note(death)
            if len(members) == 1:
                why = f"the worker ended while it lowered it: {death.detail}"
                return [_row(members[0], Verdict.UNVERIFIED, why)], []
            return self._halves(members, wide)
        return self._judged(members, wide, lowered)

    def _note(self, why: object) -> None:
        """Whether somebody else ended the worker, such as the system where memory was short."""
        self._killed |= KILLED in str(why) or isinstance(why, StaleHandle)  # which ended between two requests

    def _halves(self, members: Sequence[Member], wide: bool) -> tuple[list[Row], list[Suspect]]:
        """What hinders a batch is one program, which is to cost the others nothing."""
        middle = len(members) // 2
        rows, suspects = self.batch(members[:middle], wide)
        more, others = self.batch(members[middle:], wide)
        return rows + more, suspects + others

    def _judged(self, members: Sequence[Member], wide: bool, lowered: Lowered) -> tuple[list[Row], list[Suspect]]:
        rows: dict[int, Row] = {}
        given: dict[int, list[Given]] = {}
        for member, program in zip(members, lowered.programs, strict=True):
            assert program.module is not None
            try:
                if (refused := refusal(program, self.settings)) is not None:
                    rows[member.number] = _row(member, refused.verdict, refused.why)
                    continue
                given[member.number] = list(_given(member, program))
            except AssayError as error:
                rows[member.number] = _row(member, Verdict.UNVERIFIED, one_line(str(error)))
        if len(given) < len(members):
            left = [m for m in members if m.number in given]
            more, others = self.batch(left, wide) if left else ([], [])
            return [*rows.values(), *more], others
        turns = range(max(map(len, given.values())))
        # One that has fewer sets than others is run on its first again, and not judged again.
        sets = [[given[m.number][turn if turn < len(given[m.number]) else 0] for m in members] for turn in turns]
        try:
            ran = self._run(lowered, [[a for _, arrays in one for a in arrays] for one in sets])
        except ToolchainError:
            raise
        except (RequestRefused, WorkerDied, AssayError) as error:
            self._note(error)
            if len(members) > 1:
                return self._halves(members, wide)
            return self._alone(members[0], lowered.programs[0], given[members[0].number])
        suspects: list[Suspect] = []
        at = 0
        for member, program in zip(members, lowered.programs, strict=True):
            end = at + len(member.plan.results)
            outputs = [(first[at:end], second[at:end]) for first, second in ran]
            doubt = None if self._kernels is None else self._kernels.doubt(range(at, end))
            rows[member.number], found = self._each(member, program, given[member.number], outputs, doubt)
            suspects += found
            at = end
        return list(rows.values()), suspects

    def _each(
        self,
        member: Member,
        program: Program,
        given: Sequence[Given],
        outputs: Sequence[Outputs],
        doubt: Doubt | None = None,
    ) -> tuple[Row, list[Suspect]]:
        """The row of one program on all its inputs; where one set shows something, the others are not looked at."""
        if doubt is not None and not doubt.wrong:
            return _row(member, Verdict.UNVERIFIED, doubt.why), []
        if doubt is not None:
            alone, suspects = self._alone(member, program, given, suspected=True)
            return alone[0], suspects
        rows: list[Row] = []
        for one, results in zip(given, outputs, strict=False):  # others may have more sets
            row = self._screened(member, program, one, results)
            if row is None:
                (row,), suspects = self._alone(member, program, [one], suspected=True)
                if suspects:
                    return row, suspects
            rows.append(row)
        agreeing = next((row for row in rows if row.verdict is Verdict.AGREE), rows[0])
        return replace(agreeing, finite=rows[0].finite, constant=rows[0].constant), []

    def _run(self, lowered: Lowered, sets: Sequence[Sequence[Array]]) -> list[Outputs]:
        """Results of all, of two runs, on each set of arguments."""
        program = Program("batch", lowered.payload, "stablehlo", lowered.module)
        self._kernels = None
        if api.generation_of(self.request.target) is None:
            run = self._executed
        else:
            run = self._simulated if self.request.through == "llo" else self._evaluated
        with scratch() as folder:
            found = run(program, sets, folder)
            if self._passes is not None:
                self._passes |= passes(folder)
            return found

    def _executed(self, program: Program, sets: Sequence[Sequence[Array]], folder: Path) -> list[Outputs]:
        """folder: for snapshots, where it is to be seen which passes change anything."""
        options = self.settings.options
        dump = None if self._passes is None else folder
        compiled = cpu.compile(self.worker, program.payload, program.kind, options, dump=dump)
        try:
            self._features.update(reached(parse_module(compiled.hlo, source="an optimized batch")))
            return [
                (cpu.run(self.worker, compiled, arguments), cpu.run(self.worker, compiled, arguments))
                for arguments in sets
            ]
        finally:
            self.worker.release(compiled)

    def _evaluated(self, program: Program, sets: Sequence[Sequence[Array]], folder: Path) -> list[Outputs]:
        generation = api.generation_of(self.request.target)
        assert generation is not None  # a target that is executed is another
        dump = None if self._passes is None else folder
        evaluated = Evaluated(self.worker, program, self.settings, generation, self.request.flags, dump=dump)
        options = self.settings.options
        found = [evaluated.outputs(arguments, options, {}, lambda _: None, twice=False) for arguments in sets]
        assert evaluated.own is not None  # it has just been evaluated
        self._features.update(reached(evaluated.own.module))
        return found

    def _simulated(self, program: Program, sets: Sequence[Sequence[Array]], folder: Path) -> list[Outputs]:
        generation = api.generation_of(self.request.target)
        assert generation is not None  # the others have no LLO
        kernels = Kernels.compiled(self.worker, program, generation, self.settings, self.request.flags, folder)
        found = [kernels.run(arguments) for arguments in sets]
        self._features.update(kernels.reached())
        self._kernels = kernels
        return found

    def _screened(self, member: Member, program: Program, given: Given, outputs: Outputs) -> Row | None:
        """The row where nothing is wrong, or nothing can be said; None where it is to be looked at alone."""
        inputs, arguments = given
        if api.generation_of(self.request.target) is None:
            target = Ran(self.worker, program, known=outputs, options=self.settings.options)
            case = judge(program, arguments, inputs, target, self.settings)
            target.close()
            assert case is not None
            self._note(case.why)
            return None if case.verdict in FINDINGS else _row(member, case.verdict, case.why, outputs[0])
        assert program.module is not None
        try:
            bounds = Bounds(program.module, arguments, self.settings)
            weighed = weigh(bounds, outputs[0])
            apart = not all(map(same_bits, *outputs))
            outside = weighed.outside or (apart and weigh_other(bounds, outputs[1], weighed).outside)
        except (Unsupported, ReferenceLimit) as error:
            why = f"unsupported: {error}" if isinstance(error, Unsupported) else str(error)
            return _row(member, Verdict.UNVERIFIED, why)
        if outside:
            return None
        elements = sum(c.elements for c in weighed.comparisons)
        undecided = sum(c.undecided for c in weighed.comparisons)
        if elements and elements == undecided:
            return _row(member, Verdict.UNVERIFIED, UNDECIDED)
        return _row(member, Verdict.AGREE, "", outputs[0])

    def _alone(
        self, member: Member, program: Program, given: Sequence[Given], suspected: bool = False
    ) -> tuple[list[Row], list[Suspect]]:
        """Its own compilation, in a fresh process. suspected: whether it was wrong in the batch."""
        for inputs, arguments in given:
            for _ in range(KILLED_TRIES):
                case = judged_alone(program, arguments, inputs, self.request)
                if KILLED not in case.why:
                    break
            if case.verdict in FINDINGS:
                break
        if case.verdict is Verdict.AGREE and suspected:
            return [_row(member, Verdict.UNVERIFIED, "wrong in a batch, and right alone: not followed")], []
        row = _row(member, case.verdict, case.why, klass=str(case.klass or ""))
        return [row], [Suspect(member, program, tuple(arguments), case)] if case.verdict in FINDINGS else []


def seen_alone(member: Member, wide: bool, request: api.Request) -> tuple[Suspect, str]:
    """A program, suspect or not, made again from its choices, lowered and judged alone; and of what the toolchain
    consists. Raises ProgramError where it does not lower.
    """
    with api.open_worker(request, lambda _: None) as (worker, versions), tempfile.TemporaryDirectory() as folder:
        try:
            (program,) = lower([member], wide, worker, Path(folder), request.target).programs
        except (NotLowered, UserFileError, RequestRefused) as error:
            raise ProgramError(f"program {member.number} does not lower: {one_line(str(error))}") from error
        toolchain = api.words(versions)
    for inputs, arguments in _given(member, program):
        case = judged_alone(program, arguments, inputs, request)
        if case.verdict in FINDINGS:
            break
    return Suspect(member, program, tuple(arguments), case), toolchain


def _given(member: Member, program: Program) -> Iterator[Given]:
    """Arguments of each of its classes, but those that are the same as of the first. Raises AssayError where there are
    none.
    """
    assert program.module is not None
    first: list[Array] | None = None
    calls = any(i.opcode == "custom-call" for c in program.module.computations for i in c.instructions)
    for inputs in member.inputs[:1] if calls else member.inputs:  # LAPACK hangs where a matrix has a NaN
        arguments = generate(program.module, member.number, inputs)
        if first is None or any(a.tobytes() != b.tobytes() for a, b in zip(arguments, first, strict=True)):
            yield inputs, arguments
        first = arguments if first is None else first


def judged_alone(program: Program, arguments: Sequence[Array], inputs: str, request: api.Request) -> CaseResult:
    """The verdict on one program by a worker that has done nothing else."""
    with api.open_worker(request, lambda _: None) as (worker, versions):
        settings = api.settings_for(request, versions)
        try:
            target = api.target_for(program, request, worker, settings)
            case = judge(program, arguments, inputs, target, settings)
        except ToolchainError:
            raise
        except AssayError as error:
            return CaseResult(program.name, inputs, Verdict.UNVERIFIED, one_line(str(error)))
    assert case is not None
    return case


def _row(member: Member, verdict: Verdict, why: str, outputs: Sequence[Array] = (), klass: str = "") -> Row:
    """outputs: where they are to be looked at."""
    elements = sum(node.type.size for node in member.plan.nodes)
    finite = all(map(_finite, outputs))
    several = [array for array in outputs if array.size > 1]
    constant = bool(several) and all(bool((array == array.flat[0]).all()) for array in several)
    return Row(member.number, verdict, why, klass, member.plan.operations, elements, finite, constant)


def _finite(array: Array) -> bool:
    """Also of types that NumPy itself has not."""
    if array.dtype.kind in "biu":
        return True
    return bool(np.isfinite(array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)).all())
