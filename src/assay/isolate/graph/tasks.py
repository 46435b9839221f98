"""What is done for one piece, wherever that is: in a process of this machine's pool, or on another machine.

A process is told once what all pieces have in common (`Setup`), and then one `Task` after another. On a target that
runs it keeps a worker; for a TPU that is not there it reads the dump of the whole graph.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from assay.checking import api
from assay.checking.bounds import Settings
from assay.hlo.module import Module
from assay.hlo.parse import parse_module
from assay.inputs.arguments import load_arguments
from assay.isolate.graph.cascade import judge_piece
from assay.isolate.graph.handed import Handed
from assay.isolate.graph.in_place import judge_kernel
from assay.isolate.graph.kernels import Kernel, kernels
from assay.isolate.graph.piece import Piece
from assay.isolate.graph.same_ir import Code, same_ir
from assay.llo.files import Dump
from assay.oracle.verdict import FINDINGS, Verdict
from assay.programs.program import Array
from assay.reference.policies import for_target
from assay.report.isolation import PieceResult
from assay.toolchain import Worker

Given = tuple[tuple[str, Path], ...]
"""Sets of arguments, each with where it comes from in words, and the .npz file that holds it."""


@dataclass(frozen=True, slots=True)
class Whole:
    """A TPU program that is compiled. hlo: the optimized module as text. sets: the program's own arguments."""

    hlo: Path
    dump: Dump
    sets: Given = ()


@dataclass(frozen=True, slots=True)
class Setup:
    """versions: of the toolchain, as its worker describes them. whole: where pieces are judged in place; traced: then
    first on what the program hands to them. code: of the whole graph on a target that runs, to compare a piece's with.
    """

    request: api.Request
    versions: Mapping[str, str | None]
    whole: Whole | None = None
    traced: bool = False
    code: Code | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """One distinct piece. name, computation, opcode: of its first instance. opcodes: of all instructions in it. cost:
    an estimate, in no unit. piece: None where it is judged in place. given: what the graph hands to it.
    """

    key: str
    group: str
    name: str
    computation: str
    opcode: str
    instances: tuple[str, ...]
    opcodes: frozenset[str]
    cost: int
    piece: Piece | None = None
    given: Given = ()


@dataclass(slots=True)
class Judging:
    """What a process keeps between tasks."""

    setup: Setup
    settings: Settings
    worker: Worker | None = None
    kernels: dict[str, Kernel] = field(default_factory=dict)
    handed: Handed | None = None
    _open: ExitStack = field(default_factory=ExitStack)

    @staticmethod
    def of(setup: Setup) -> Judging:
        """Starts what the setup needs. Raises ToolchainError, HloSyntaxError."""
        judging = Judging(setup, api.settings_for(setup.request, setup.versions))
        if setup.whole is None:
            judging.worker, _ = judging._open.enter_context(api.open_worker(setup.request, lambda _: None))
        else:
            judging._read(setup.whole)
        return judging

    def _read(self, whole: Whole) -> None:
        request = self.setup.request
        module = parse_module(whole.hlo.read_text(), source=whole.hlo.name)
        self.kernels = {kernel.key: kernel for kernel in kernels(module, whole.dump)}

        def sets() -> Iterable[tuple[str, list[Array]]]:
            return _read_sets(whole.sets, module)

        generation = request.target.removeprefix("tpu:")
        policy, limit = for_target(request.target), request.reference_timeout_s
        self.handed = Handed(module, whole.dump, generation, policy, sets, limit)

    def judge(self, task: Task) -> PieceResult:
        """The row of one piece."""
        start = time.monotonic()
        if task.piece is None:
            row = self._in_place(self.kernels[task.key])
        else:
            assert self.worker is not None
            row = judge_piece(
                task.piece,
                task.key,
                task.group,
                task.instances,
                self.worker,
                self.setup.request,
                self.settings,
                given=_read_sets(task.given, task.piece.module),
            )
            row = self._with_identity(task.piece, row)
        return replace(row, group=task.group, seconds=time.monotonic() - start)

    def _with_identity(self, piece: Piece, row: PieceResult) -> PieceResult:
        if self.setup.code is None:
            return row
        assert self.worker is not None
        same, why = same_ir(self.worker, self.setup.code, piece, self.setup.request.options)
        return replace(row, identical=same, notes=(*row.notes, why) if same is False else row.notes)

    def _in_place(self, kernel: Kernel) -> PieceResult:
        assert self.handed is not None
        request = self.setup.request
        if self.setup.traced:
            row = judge_kernel(kernel, request, self.settings, self.handed, classes=())
            if row.verdict in FINDINGS:
                return row
        return judge_kernel(kernel, request, self.settings, self.handed)

    def close(self) -> None:
        self._open.close()


def _read_sets(given: Given, module: Module) -> list[tuple[str, list[Array]]]:
    return [(words, load_arguments(path, module)) for words, path in given]


def unjudged(task: Task, why: str) -> PieceResult:
    """The row of a piece that we failed on."""
    return PieceResult(
        task.key,
        task.group,
        task.name,
        task.computation,
        task.opcode,
        task.instances,
        Verdict.UNVERIFIED,
        why,
    )
