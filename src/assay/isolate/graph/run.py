"""One program from its graph to its rows: compile it whole, cut it, judge each distinct piece, and the whole."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Protocol

import numpy as np

from assay.checking import api
from assay.errors import AssayError, InputError
from assay.hlo.module import Module
from assay.hlo.printer import print_module
from assay.inputs.arguments import save_arguments
from assay.isolate.graph import in_place, on_cpu
from assay.isolate.graph.blank import WHY as NOTHING
from assay.isolate.graph.blank import blank
from assay.isolate.graph.crew import rows, rows_on_ray
from assay.isolate.graph.cut import running
from assay.isolate.graph.elsewhere import made_elsewhere
from assay.isolate.graph.kernels import kernels, without_kernel
from assay.isolate.graph.keys import Distinct, dedupe
from assay.isolate.graph.reproducer import write
from assay.isolate.graph.same_ir import Code
from assay.isolate.graph.shards import BASE, Shard, cost, share_of
from assay.isolate.graph.tasks import Given, Setup, Task, Whole
from assay.isolate.graph.together import wrong_together
from assay.isolate.graph.tpu_alone import stand_alone
from assay.isolate.graph.trace import captured, wanted
from assay.journal import Journal
from assay.oracle.verdict import FINDINGS, Verdict
from assay.programs.program import Program
from assay.report.isolation import PieceResult, ProgramPieces, as_dict, candidates, from_dict
from assay.report.result import CaseResult
from assay.targets.dumps import scratch
from assay.toolchain import RequestRefused, Worker, WorkerDied


@dataclass(frozen=True, slots=True)
class Options:
    """ray: the address of a cluster that judges in place of `jobs` processes. filters: (field, glob), all must match;
    see FIELDS. out: a folder for reproducers. whole: whether the program is judged as well. trace: whether pieces get
    what the graph hands to them.
    """

    jobs: int = 2
    ray: str | None = None
    filters: tuple[tuple[str, str], ...] = ()
    shard: Shard | None = None
    resume: bool = False
    out: Path = Path("isolated")
    whole: bool = True
    trace: bool = False


FIELDS = ("name", "opcode", "computation")
"""What a filter may look at; the opcode is that of the piece, or of any instruction in it."""


class Watch(Protocol):
    """Is told how far a run is."""

    def step(self, text: str) -> None: ...

    def begin(self, program: str, costs: Mapping[str, int], known: Sequence[PieceResult]) -> None: ...

    def row(self, row: PieceResult) -> None: ...


@dataclass(frozen=True, slots=True)
class Graph:
    """A program ready to be judged piece by piece. module: optimized."""

    module: Module
    tasks: tuple[Task, ...]
    left: Mapping[str, int]
    whole: Whole | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    code: Code | None = None


@dataclass(slots=True)
class Run:
    """One program. journal: where rows go, and where those of an earlier run are."""

    program: Program
    request: api.Request
    options: Options
    worker: Worker
    versions: Mapping[str, str | None]
    watch: Watch
    journal: Journal

    def pieces(self) -> ProgramPieces:
        """The rows of all pieces that were asked for. Raises InputError for what was asked wrongly."""
        found = self._pieces()
        module = self.program.module
        hint = "" if module is None or found.worst is Verdict.AGREE else made_elsewhere(module, self.request.target)
        if not hint:
            return found
        if found.problem:
            return replace(found, problem=f"{found.problem}; {hint}")
        return replace(found, notes=(*found.notes, hint))

    def _pieces(self) -> ProgramPieces:
        name = self.program.name
        if self.program.problem is not None or self.program.module is None:
            return ProgramPieces(name, Verdict.INVALID, self.program.problem or "no module")
        try:
            with self._graph() as graph:
                return self._judged(graph)
        except RequestRefused as refused:
            return ProgramPieces(name, Verdict.INVALID, refused.words())
        except WorkerDied as death:
            why = f"the compiler does not come to an end with it: {death.detail}; `assay passes` looks into that"
            return ProgramPieces(name, Verdict.UNVERIFIED, why)
        except InputError:
            raise
        except AssayError as error:
            return ProgramPieces(name, Verdict.UNVERIFIED, str(error))

    def _judged(self, graph: Graph) -> ProgramPieces:
        chosen = self._chosen(graph.tasks)
        before = self._known(chosen)
        self.watch.begin(self.program.name, {task.key: task.cost for task in chosen}, list(before.values()))
        start = time.monotonic()
        setup = Setup(
            in_place.of_pieces(self.request), dict(self.versions), graph.whole, self.options.trace, graph.code
        )
        todo = sorted((task for task in chosen if task.key not in before), key=lambda task: -task.cost)
        by_key = {task.key: task for task in todo}
        found = dict(before)
        with ExitStack() as open_:
            for row in self._rows(setup, self._with_values(graph, todo, open_)):
                if row.verdict in FINDINGS:
                    row = self._with_reproducer(*self._alone(graph, by_key[row.key], row))
                self.journal.write({"program": self.program.name, **as_dict(row)})
                found[row.key] = row
                self.watch.row(row)
        graph.seconds["pieces"] = time.monotonic() - start
        judged = [found[task.key] for task in chosen]
        whole, notes = None, []
        if self._whole_wanted:
            whole = self._whole()
            graph.seconds["whole"] = sum(whole.seconds.values())
            if whole.verdict is Verdict.MISMATCH and not candidates(judged) and graph.whole is None:
                together, why = self._together(graph.module, whole)
                judged += [] if together is None else [together]
                notes += [f"pieces compiled as one: {why}"] if why else []
        return ProgramPieces(
            self.program.name,
            instructions=sum(len(c.instructions) for c in running(graph.module)),
            pieces=sum(len(task.instances) for task in graph.tasks),
            distinct=len(graph.tasks),
            chosen=len(chosen),
            resumed=len(before),
            left=graph.left,
            rows=tuple(judged),
            whole=whole,
            seconds=graph.seconds,
            notes=tuple(notes),
        )

    def _rows(self, setup: Setup, tasks: Iterator[Task]) -> Iterator[PieceResult]:
        if self.options.ray is not None:
            return rows_on_ray(setup, tasks, self.options.ray)
        return rows(setup, tasks, self.options.jobs)

    # ---- what is to be judged

    @contextmanager
    def _graph(self) -> Iterator[Graph]:
        if api.generation_of(self.request.target) is None:
            yield self._cut()
        else:
            with in_place.compiled(self.program, self.request, self.worker, self.watch.step) as built:
                yield self._dumped(built)

    def _cut(self) -> Graph:
        """On a target that runs: the pieces of the optimized module."""
        module = self.program.module
        assert module is not None
        optimized = module.scheduled
        self.watch.step(f"{self.program.name}: {'cutting' if optimized else 'compiling'}")
        made = on_cpu.built(self.worker, self.program, self.request.options, optimized)
        seconds = {"compile": made.compile_s} if not optimized else {}
        start = time.monotonic()
        known: dict[str, int] = {}
        tasks = [task_of(distinct, known) for distinct in dedupe(made.cut)]
        seconds["cut"] = time.monotonic() - start + made.cut_s
        left = Counter(left.why for left in made.cut.left)
        return Graph(made.module, tuple(tasks), left, None, seconds, made.code)

    def _dumped(self, built: in_place.Built) -> Graph:
        """On a TPU that is not there: the kernels as they stand in the whole graph."""
        hlo = built.dump.folder / "optimized.hlo"
        hlo.write_text(print_module(built.module))
        tasks = [
            Task(
                kernel.key,
                kernel.instruction.opcode,
                kernel.name,
                kernel.computation,
                kernel.instruction.opcode,
                kernel.instances,
                opcodes(kernel.alone),
                BASE + sum(shape.size for shape in (*kernel.inputs, *kernel.outputs)),
            )
            for kernel in kernels(built.module, built.dump)
        ]
        left = Counter(left.why for left in without_kernel(built.module, built.dump))
        whole = Whole(hlo, built.dump, self._sets(hlo.parent))
        return Graph(built.module, tuple(tasks), left, whole, {"compile": built.seconds})

    def _sets(self, folder: Path) -> Given:
        """The program's own arguments, as files."""
        found = []
        for number, (words, arguments) in enumerate(api.inputs_for(self.program, self.request)):
            path = folder / f"arguments.{number}.npz"
            save_arguments(path, arguments)
            found.append((words, path))
        return tuple(found)

    def _chosen(self, tasks: Sequence[Task]) -> list[Task]:
        matching = [task for task in tasks if all(_matches(task, *one) for one in self.options.filters)]
        if not matching and tasks:
            asked = " ".join(f"--filter {name}={glob}" for name, glob in self.options.filters)
            opcodes = ", ".join(sorted({task.opcode for task in tasks}))
            raise InputError(f"{asked}: {self.program.name} has no such piece; their opcodes are {opcodes}")
        if self.options.shard is None:
            return matching
        keys = share_of({task.key: task.cost for task in matching}, self.options.shard)
        return [task for task in matching if task.key in keys]

    def _known(self, chosen: Sequence[Task]) -> dict[str, PieceResult]:
        """Rows of an earlier run, of what is asked for now."""
        keys = {task.key for task in chosen}
        mine = [line for line in self.journal.found if line.get("program") == self.program.name]
        found = [from_dict({k: v for k, v in line.items() if k != "program"}) for line in mine]
        return {row.key: row for row in found if row.key in keys}

    # ---- findings, and the whole

    def _alone(self, graph: Graph, task: Task, row: PieceResult) -> tuple[Module | None, PieceResult]:
        """A finding as a module that the compiler takes, None where there is no such form of it; and the row, which
        says whether it is the kernel of the graph.
        """
        if task.piece is not None:
            return task.piece.module, row
        assert graph.whole is not None
        settings = api.settings_for(self.request, self.versions)
        self.watch.step(f"{self.program.name}: {task.name} alone")
        made = stand_alone(graph.module, graph.whole.dump, row, self.request, settings, self.worker)
        notes = (*row.notes, *filter(None, (made.why,)))
        return made.module, replace(row, identical=made.identical, votes={**row.votes, **made.votes}, notes=notes)

    def _with_reproducer(self, alone: Module | None, row: PieceResult) -> PieceResult:
        folder = write(self.options.out, alone, row, self.request, api.words(self.versions))
        return replace(row, reproducer=str(folder), arguments=())

    def _with_values(self, graph: Graph, tasks: Sequence[Task], open_: ExitStack) -> Iterator[Task]:
        """With what the graph hands to each, where that is asked for and the target runs; files are made as tasks are
        taken.
        """
        if not self.options.trace or graph.whole is not None:
            yield from tasks
            return
        self.watch.step(f"{self.program.name}: what its pieces are given")
        folder = open_.enter_context(scratch())
        keys = wanted(task.piece for task in tasks if task.piece is not None)
        settings = api.settings_for(self.request, self.versions)
        traces = [
            (words, open_.enter_context(captured(graph.module, arguments, settings.policy, keys)))
            for words, arguments in islice(api.inputs_for(self.program, self.request), 1)
        ]
        for number, task in enumerate(tasks):
            given = []
            for words, trace in traces:
                for trip, arguments in enumerate(trace.arguments(task.piece) if task.piece is not None else ()):
                    path = folder / f"{number}.{trip}.npz"
                    np.savez(path, *arguments)
                    given.append((f"{words}, as the graph has it{f', time {trip + 1}' if trip else ''}", path))
            yield replace(task, given=tuple(given))

    @property
    def _whole_wanted(self) -> bool:
        return self.options.whole and self.options.shard is None and not self.options.filters

    def _whole(self) -> CaseResult:
        """The program itself: a wrong rewrite, or pieces that are wrong only together, show here alone."""
        step = partial(api.tell, self.watch.step, "the whole program")
        through = "hlo" if api.generation_of(self.request.target) is None else "llo"
        request = replace(self.request, through=through)
        found = api.judged_cases(self.program, request, self.worker, self.versions, step)
        found = [replace(case, verdict=Verdict.UNVERIFIED, why=NOTHING) if blank(case) else case for case in found]
        return next((case for case in found if case.verdict in FINDINGS), found[0])

    def _together(self, module: Module, whole: CaseResult) -> tuple[PieceResult | None, str]:
        settings = api.settings_for(self.request, self.versions)
        request, step = in_place.of_pieces(self.request), self.watch.step
        row, why = wrong_together(module, whole.arguments, whole.inputs, self.worker, request, settings, step)
        return (None if row is None else self._with_reproducer(None, row)), why


def task_of(distinct: Distinct, known: dict[str, int] | None = None) -> Task:
    """What is to be done for a distinct piece. known: as for `cost`."""
    piece = distinct.piece
    return Task(
        distinct.key,
        distinct.group,
        piece.name,
        piece.computation,
        piece.opcode,
        tuple(instance.name for instance in distinct.instances),
        opcodes(piece.module),
        cost(piece, known),
        piece,
    )


def opcodes(module: Module) -> frozenset[str]:
    """Of all that it computes."""
    return frozenset(i.opcode for c in module.computations for i in c.instructions if i.parameter_number is None)


def _matches(task: Task, name: str, glob: str) -> bool:
    has = {"computation": (task.computation,), "name": task.instances, "opcode": task.opcodes}[name]
    return any(fnmatchcase(one, glob) for one in has)
