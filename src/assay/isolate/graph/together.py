"""A program that is wrong as a whole and in no piece: the fewest pieces that are wrong when compiled as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from assay.checking.api import Request
from assay.checking.bounds import Settings, Step
from assay.hlo.module import Module
from assay.isolate.graph.cascade import judge_piece
from assay.isolate.graph.keys import group, key
from assay.isolate.graph.neighbours import find, graph_of
from assay.isolate.graph.piece import Piece
from assay.isolate.graph.trace import captured, every_value
from assay.oracle.verdict import Verdict
from assay.programs.program import Array
from assay.report.isolation import PieceResult
from assay.toolchain import Worker


def wrong_together(
    module: Module,
    arguments: Sequence[Array],
    inputs: str,
    worker: Worker,
    request: Request,
    settings: Settings,
    step: Step,
) -> tuple[PieceResult | None, str]:
    """The row of the smallest neighbourhood in the entry of `module` that is wrong, or None and why there is none.

    arguments: of the module, on which the whole is wrong; inputs: where they come from in words. A neighbourhood gets
    what they become in the graph, and drawn inputs as well.
    """
    computation = module.entry_name
    rows: dict[str, PieceResult] = {}
    keys = every_value(module, computation)
    with captured(module, arguments, settings.policy, keys, flushed=settings.device_flushes) as trace:

        def judge(piece: Piece) -> Verdict:
            given = [(f"{inputs}, as the graph has it", each) for each in trace.arguments(piece)]
            name = key(piece)
            rows[name] = judge_piece(piece, name, group(piece), (piece.name,), worker, request, settings, given=given)
            return rows[name].verdict

        found = find(graph_of(module, computation), (), judge, step=step)
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
