"""Which piece of a program is wrong where its passes are right: the fusion that code was generated for, and by whom."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from assay.checking import api
from assay.checking.bounds import Settings
from assay.hlo.module import Module
from assay.isolate.graph import on_cpu
from assay.isolate.graph.cascade import judge_piece
from assay.isolate.graph.keys import dedupe
from assay.isolate.graph.trace import captured, wanted
from assay.oracle.verdict import FINDINGS
from assay.programs.program import Array, Program
from assay.toolchain import Worker

_QUIET = frozenset(("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "copy", "fusion", "call"))


@dataclass(frozen=True, slots=True)
class Piece:
    """name: of the instruction. opcodes: what it computes. library: that its code is of, empty for XLA's own."""

    name: str
    opcodes: frozenset[str]
    library: str = ""


def guilty_piece(
    program: Program, arguments: Sequence[Array], worker: Worker, request: api.Request, settings: Settings
) -> Piece | None:
    """The first piece of the optimized module that is wrong on what the graph hands to it; None where none is, alone.
    Raises what a compilation raises.
    """
    made = on_cpu.built(worker, program, request.options, optimized=False)
    pieces = dedupe(made.cut)
    keys = wanted(distinct.piece for distinct in pieces)
    alone = replace(request, classes=(), inputs=None)
    with captured(made.module, arguments, settings.policy, keys) as trace:
        for distinct in pieces:
            given = [("as the graph has it", values) for values in trace.arguments(distinct.piece)[:1]]
            if not given:
                continue
            row = judge_piece(distinct.piece, distinct.key, distinct.group, (), worker, alone, settings, given=given)
            if row.verdict in FINDINGS:
                module = distinct.piece.module
                return Piece(distinct.piece.name, known_by(module), _library(module))
    return None


def known_by(module: Module) -> frozenset[str]:
    """What a module computes, by opcodes."""
    return frozenset(i.opcode for c in module.computations for i in c.instructions) - _QUIET


def _library(module: Module) -> str:
    """The kind of a fusion that XLA:CPU hands to a library."""
    for instruction in module.entry.instructions:
        if "fusion_config" in (text := instruction.attributes.get("backend_config", "")):
            kind = json.loads(text).get("fusion_config", {}).get("kind", "")
            return str(kind).strip("_")
    return ""
