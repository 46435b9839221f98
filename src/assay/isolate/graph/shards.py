"""`--shard 3/16`: which of the distinct pieces are one process's to judge.

Every process cuts the same text and finds the same shares: pieces are told apart by the hash of what they are, and
dealt out from the dearest down, each to the share that has least so far (LPT: no share is above 4/3 of the best
possible largest one, Graham 1969). So nothing depends on names, order, process or machine, and all shares together are
everything, once.
"""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assay.errors import InputError
from assay.hlo.attributes import called, convolution_dims, dot_dims, window
from assay.hlo.graph import reachable
from assay.hlo.module import Computation, Instruction
from assay.hlo.shape import ArrayShape, Shape, byte_size, leaves
from assay.isolate.graph.keys import Distinct
from assay.isolate.graph.piece import Piece

BASE = 1 << 22
"""What a piece costs besides its operations and bytes: to compile and to judge a scalar takes as long as some millions
of elements do in the reference (measured: 0.1-0.2 s at 20-50 ns).
"""
BLAS = 16
"""How many of its operations a matrix product does in the time of one elsewhere, in the reference and outside."""
_FREE = frozenset(
    ("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "broadcast", "reshape", "after-all", "iota")
)
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')


@dataclass(frozen=True, slots=True)
class Shard:
    """Share `index` of `count`, from 1 on."""

    index: int
    count: int


def shard(text: str) -> Shard:
    """`3/16` -> the third of sixteen. Raises InputError for anything else."""
    match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
    found = Shard(int(match[1]), int(match[2])) if match else None
    if found is None or not 1 <= found.index <= found.count:
        raise InputError(f"--shard {text}: a shard is I/N, the I-th of N from 1/N to N/N, as in 3/16")
    return found


def share(pieces: Sequence[Distinct], which: Shard) -> list[Distinct]:
    """What of `pieces`, each of another key, is this shard's, in the order given."""
    known: dict[str, int] = {}
    mine = share_of({d.key: cost(d.piece, known) for d in pieces}, which)
    return [d for d in pieces if d.key in mine]


def share_of(costs: Mapping[str, int], which: Shard) -> set[str]:
    """The keys that are this shard's, of all with what they cost."""
    loads = [(0, index) for index in range(which.count)]
    mine: set[str] = set()
    for key in sorted(costs, key=lambda k: (-costs[k], k)):
        load, index = heapq.heappop(loads)
        heapq.heappush(loads, (load + costs[key], index))
        if index == which.index - 1:
            mine.add(key)
    return mine


def cost(piece: Piece, known: dict[str, int] | None = None) -> int:
    """About how long a piece takes to judge, in operations on one element. known: the operations of computations by
    name, which are added to, where pieces of one graph are asked for.
    """
    known = {} if known is None else known
    module = piece.module
    for computation in reachable(module) if any(c.name not in known for c in module.computations[:-1]) else ():
        if computation.name not in known and computation.name != module.entry_name:
            known[computation.name] = _work(computation, known)
    entry = module.entry
    moved = sum(byte_size(parameter.shape) for parameter in entry.parameters) + byte_size(entry.root.shape)
    return BASE + max(0, moved + _work(entry, known))  # a dimension without bound counts below zero


def _work(computation: Computation, known: Mapping[str, int]) -> int:
    return sum(
        _operations(computation, instruction, known)
        for instruction in computation.instructions
        if instruction.opcode not in _FREE
    )


def _operations(computation: Computation, instruction: Instruction, known: Mapping[str, int]) -> int:
    """Multiplications and additions counted apart; a computation that is called counts once for each element."""
    size = _size(instruction.shape)
    operands = computation.operands(instruction)
    inner = sum(known[name] for name in called(instruction))
    match instruction.opcode:
        case "dot":
            dims = operands[0].array.dims
            return size + 2 * size * math.prod(dims[d] for d in dot_dims(instruction).lhs_contracting) // BLAS
        case "convolution":
            kernel = operands[1].array
            taps = kernel.size // max(1, kernel.dims[convolution_dims(instruction).rhs_output_feature])
            return size + 2 * size * taps // BLAS
        case "reduce-window" | "select-and-scatter":
            return size * math.prod(d.size for d in window(instruction)) * max(1, inner)
        case "reduce" | "map" | "scatter":
            return max(size, *(_size(operand.shape) for operand in operands)) * max(1, inner)
        case "sort":
            return size * max(1, size.bit_length()) * max(1, inner)
        case "while":
            trips = _TRIPS.search(instruction.attributes.get("backend_config", ""))
            return inner * (int(trips[1]) if trips else 1)
        case "fusion" | "call" | "conditional" | "async-start":
            return inner
        case _:
            return size + inner


def _size(shape: Shape) -> int:
    return sum(leaf.size for leaf in leaves(shape) if isinstance(leaf, ArrayShape))
