"""What two pieces have in common: all that they compute (`key`), or only what they look like (`group`).

A key decides what is judged once for many, so it keeps everything but names and metadata: constants, configuration,
layouts (`assay.hlo.fingerprint`). A group puts rows of the report together and decides nothing: it has no constants,
no backend_config, no layouts, and of a shape the element type and the rank alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b

from assay.hlo.attributes import called
from assay.hlo.fingerprint import computation_fingerprints, fingerprint
from assay.hlo.graph import post_order, reachable
from assay.hlo.module import Computation, Instruction
from assay.hlo.shape import ArrayShape, leaves
from assay.isolate.graph.piece import Cut, Piece

_TELLING = ("direction", "kind", "custom_call_target", "dimensions", "dim_labels", "fft_type", "distribution", "mode")


@dataclass(frozen=True, slots=True)
class Distinct:
    """One of the pieces that are alike in all but names: the first in program order. instances: all of them."""

    key: str
    group: str
    piece: Piece
    instances: tuple[Piece, ...]


def key(piece: Piece, known: Mapping[str, str] | None = None) -> str:
    """32 hexadecimal digits. known: `computation_fingerprints` of the whole graph, where many pieces are asked for."""
    return fingerprint(piece.module, known)


def group(piece: Piece, known: Mapping[str, str] | None = None) -> str:
    """16 hexadecimal digits. known: `groups` of the whole graph."""
    module = piece.module
    if known is None:
        known = groups(reachable(module))
    return _group(module.entry, known)


def groups(callees_first: Iterable[Computation]) -> dict[str, str]:
    """What the computations look like, by name."""
    found: dict[str, str] = {}
    for computation in callees_first:
        found[computation.name] = _group(computation, found)
    return found


def dedupe(cut: Cut) -> list[Distinct]:
    """Each distinct piece once, in program order. Linear; the same in every process."""
    fingerprints = computation_fingerprints(cut.module)
    looks = groups(reachable(cut.module))
    alike: dict[str, list[Piece]] = {}
    for piece in cut.pieces:
        alike.setdefault(key(piece, fingerprints), []).append(piece)
    return [Distinct(k, group(pieces[0], looks), pieces[0], tuple(pieces)) for k, pieces in alike.items()]


def _group(computation: Computation, callees: Mapping[str, str]) -> str:
    order = post_order(computation)
    number = {instruction.name: i for i, instruction in enumerate(order)}
    lines = [_look(instruction, number, callees) for instruction in order]
    lines.append(str(number[computation.root_name]))
    return blake2b("\n".join(lines).encode(), digest_size=8).hexdigest()


def _look(instruction: Instruction, number: Mapping[str, int], callees: Mapping[str, str]) -> str:
    shape = ",".join(f"{s.dtype.name}{s.rank}" if isinstance(s, ArrayShape) else "-" for s in leaves(instruction.shape))
    operands = ",".join([str(number[operand]) for operand in instruction.operands])
    attributes = instruction.attributes
    told = [attributes[name] for name in _TELLING if name in attributes] if attributes else []
    return "\0".join((instruction.opcode, shape, operands, *told, *(callees[name] for name in called(instruction))))
