"""Collectives for one participant, where they hand their operand on. More participants than one are not modelled.

Semantics: XLA's operation_semantics (AllReduce, AllGather, ReduceScatter, AllToAll, CollectivePermute, PartitionId,
RaggedAllToAll, ReplicaId).
"""

from __future__ import annotations

import numpy as np

from assay.errors import Unsupported
from assay.hlo.attributes import replica_groups, source_target_pairs
from assay.hlo.module import Instruction
from assay.hlo.shape import DTYPES, ArrayShape, TupleShape
from assay.reference.context import Context
from assay.reference.ops.movement import moved
from assay.reference.registry import operation
from assay.reference.value import Array, Ball, Token, Value, as_ball, held_dtype


def _alone(ctx: Context, instr: Instruction) -> None:
    """Raises Unsupported where more than one device takes part."""
    for key in ("replica_count", "num_partitions"):
        if int(ctx.module.attributes.get(key, "1")) > 1:
            raise Unsupported(instr.opcode, f"{key}={ctx.module.attributes[key]}")
    if "replica_groups" in instr.attributes and any(len(group) > 1 for group in replica_groups(instr)):
        raise Unsupported(instr.opcode, "more than one participant")


def _one_or_tuple(operands: tuple[Value, ...]) -> Value:
    return operands[0] if len(operands) == 1 else operands


@operation(
    "all-reduce", "all-reduce-start", "all-gather", "reduce-scatter", "collective-broadcast", "collective-reduce"
)
def handed_on(ctx: Context, instr: Instruction, *operands: Value) -> Value:
    """A reduction, a gathering or a broadcast over one participant."""
    _alone(ctx, instr)
    return _one_or_tuple(operands)


@operation("all-to-all")
def all_to_all(ctx: Context, instr: Instruction, *operands: Value) -> Value:
    """One participant sends its only block to itself: an array where `dimensions` splits one, a tuple of one
    otherwise.
    """
    _alone(ctx, instr)
    return operands if isinstance(instr.shape, TupleShape) else operands[0]


@operation("ragged-all-to-all")
def ragged_all_to_all(
    ctx: Context,
    instr: Instruction,
    a: Ball,
    into: Ball,
    starts: Ball,
    sizes: Ball,
    places: Ball,
    received: Ball,
) -> Value:
    """Rows a[starts[i]:][:sizes[i]] go to into[places[i]:] of the receiver: here of the only participant itself."""
    _alone(ctx, instr)
    for index in (starts, sizes, places, received):
        if index.und is not None and index.und.any():
            raise Unsupported(instr.opcode, "undecided offsets or sizes")
    rows = [(int(s), int(n), int(p)) for s, n, p in zip(starts.mid, sizes.mid, places.mid, strict=True)]
    if any(min(row) < 0 or row[0] + row[1] > len(a.mid) or row[2] + row[1] > len(into.mid) for row in rows):
        raise Unsupported(instr.opcode, "rows beyond its operands")
    if not np.array_equal(sizes.mid, received.mid):
        raise Unsupported(instr.opcode, "what is sent is not what is received")

    def put(target: Array, source: Array) -> Array:
        target = np.array(target)
        for start, count, place in rows:
            target[place : place + count] = source[start : start + count]
        return target

    rad = und = None
    if a.rad is not None or into.rad is not None:
        rad = put(*(np.zeros(x.dims) if x.rad is None else x.rad for x in (into, a)))
    if a.und is not None or into.und is not None:
        und = put(*(np.zeros(x.dims, bool) if x.und is None else x.und for x in (into, a)))
    return Ball(a.dtype, put(into.mid, a.mid), rad, und)


@operation("collective-permute")
def collective_permute(ctx: Context, instr: Instruction, *operands: Value) -> Value:
    """Who receives nothing has zeros."""
    _alone(ctx, instr)
    pairs = set(source_target_pairs(instr))
    if pairs - {(0, 0)} or len(operands) > 1:
        raise Unsupported(instr.opcode, "between several devices, or in place")
    a = as_ball(operands[0])
    return a if pairs else moved(a, np.zeros_like)


@operation("all-gather-start", "collective-permute-start")
def started(ctx: Context, instr: Instruction, *operands: Value) -> Value:
    """(operand, result, contexts)."""
    assert isinstance(instr.shape, TupleShape)
    if instr.opcode == "collective-permute-start":
        result = collective_permute(ctx, instr, *operands)
    else:
        result = handed_on(ctx, instr, *operands)
    contexts: list[Value] = [
        Ball(s.dtype, np.zeros(s.dims, held_dtype(s.dtype))) if isinstance(s, ArrayShape) else Token()
        for s in instr.shape.elements[2:]
    ]
    return (_one_or_tuple(operands), result, *contexts)


@operation("all-gather-done", "collective-permute-done")
def received(ctx: Context, instr: Instruction, begun: tuple[Value, ...]) -> Value:
    return begun[1]


@operation("all-reduce-done")
def reduced(ctx: Context, instr: Instruction, begun: Value) -> Value:
    return begun


@operation("partition-id", "replica-id")
def identity(ctx: Context, instr: Instruction) -> Value:
    _alone(ctx, instr)
    return Ball(DTYPES["u32"], np.asarray(0, np.uint32))
