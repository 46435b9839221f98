"""A program that is wrong as a whole and in no piece: the fewest pieces that are wrong when compiled as one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import replace

from assay.checking.api import Request
from assay.checking.bounds import Settings, Step
from assay.errors import AssayError
from assay.hlo.module import Module
from assay.isolate.graph.cascade import judge_piece
from assay.isolate.graph.cut import running
from assay.isolate.graph.keys import group, key
from assay.isolate.graph.neighbours import search
from assay.isolate.graph.piece import Piece
from assay.isolate.graph.tapped import AsIs
from assay.isolate.graph.trace import captured, every_value
from assay.isolate.graph.watch import suspects
from assay.oracle.verdict import Verdict
from assay.programs.program import Array
from assay.report.isolation import PieceResult
from assay.toolchain import Worker, WorkerDied


def wrong_together(
    module: Module,
    arguments: Sequence[Array],
    inputs: str,
    worker: Worker,
    request: Request,
    settings: Settings,
    step: Step,
) -> tuple[PieceResult | None, str]:
    """The row of the smallest neighbourhood of `module` that is wrong, or None and why there is none.

    arguments: of the module, on which the whole is wrong; inputs: where they come from in words. A neighbourhood gets
    what they become in the graph, and drawn inputs as well.
    """
    rows: dict[str, PieceResult] = {}
    keys = [key_ for computation in running(module) for key_ in every_value(module, computation.name)]
    with captured(module, arguments, settings.policy, keys, flushed=settings.device_flushes) as trace:

        def judge(piece: Piece) -> Verdict:
            given = [(f"{inputs}, as the graph has it", each) for each in trace.arguments(piece)]
            name = key(piece)
            rows[name] = judge_piece(piece, name, group(piece), (piece.name,), worker, request, settings, given=given)
            return rows[name].verdict

        where = _suspects(module, arguments, worker, request, settings, step)
        found = search(module, judge, where, step=step)
    if found.piece is None:
        return None, found.why
    row = rows[key(found.piece)]
    least = "no piece can be left out" if found.minimal else "the search was stopped before it was at its smallest"
    return replace(
        row,
        name="+".join(found.units),
        opcode="neighbourhood",
        instances=found.units,
        notes=(*row.notes, f"{len(found.units)} pieces, wrong only together; {least} ({found.judged} were tried)"),
    ), ""


def _suspects(
    module: Module, arguments: Sequence[Array], worker: Worker, request: Request, settings: Settings, step: Step
) -> Mapping[str, Collection[str]]:
    """Where the graph first differs, or cannot be watched; nowhere, where the target cannot be watched at all."""
    try:
        with closing(AsIs(worker, request.options, step)) as on:
            return suspects(module, arguments, settings, on, step)
    except (AssayError, WorkerDied):
        return {}
