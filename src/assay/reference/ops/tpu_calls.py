"""Custom calls by which the TPU compiler writes plain functions.

None of them is documented. What each means is read off libtpu's own snapshots: the module before the pass that brings
the call in says, in plain HLO, what the call stands for, and both evaluate alike
(tests/reference/test_tpu_calls.py; libtpu 0.0.42.1 to 0.0.50.1). What has not been established so is `unsupported`.
"""

from __future__ import annotations

import numpy as np

from assay.errors import Unsupported
from assay.hlo.attributes import called, slices, word
from assay.hlo.module import Instruction
from assay.hlo.shape import DTYPES, ArrayShape, TupleShape
from assay.reference.context import Context
from assay.reference.ops.linalg import cholesky_of, inverses
from assay.reference.ops.movement import joined
from assay.reference.registry import custom_call, find
from assay.reference.value import Array, Ball, Token, Value, held_dtype, union

# ---------------------------------------------------------------- memory


@custom_call("AllocateBuffer")
def allocate_buffer(ctx: Context, instr: Instruction) -> Value:
    """Memory that nobody has written: every element is undecided until something is stored in it.

    From libtpu's `while-loop-fusible-sinking` on: in place of a broadcast that a loop overwrites row by row.
    """
    shape = instr.shape
    if not isinstance(shape, ArrayShape):
        return Token()
    mid = np.full(shape.dims, ctx.resolved or 0, held_dtype(shape.dtype))
    return Ball(shape.dtype, mid, None, np.broadcast_to(True, shape.dims) if ctx.resolved is None else None)


@custom_call("ConcatBitcast")
def concat_bitcast(ctx: Context, instr: Instruction, *operands: Ball) -> Value:
    """An array that was copied slice by slice into its place: each operand lies where it was cut out.

    From libtpu's memory-space assignment on, over the `slice-done`s of one array. Their order is that of time, not of
    memory: in the ragged dots of a mixture of experts rows [2:4], [4:6], [6:8], [0:2] come in this order, and the
    buffer assignment of the same dump puts the last one at the buffer's start.
    """
    cuts = [_cut_out(ctx, done) for done in ctx.makers(instr)]
    sources = {id(source) for source, _ in cuts}
    (dims,) = {source.array.dims for source, _ in cuts if isinstance(source.shape, ArrayShape)} or {()}
    whole = sum(operand.mid.size for operand in operands) == instr.array.size
    if len(sources) != 1 or dims != instr.array.dims or not whole or len(cuts) != len(operands):
        raise Unsupported("custom-call ConcatBitcast", "of other than the slices of one array")
    counts = np.zeros(dims, np.int8)
    for _, where in cuts:
        counts[where] += 1
    if (counts != 1).any():
        raise Unsupported("custom-call ConcatBitcast", "of slices that overlap")

    def placed(arrays: list[Array]) -> Array:
        result = np.empty(dims, arrays[0].dtype)
        for (_, where), array in zip(cuts, arrays, strict=True):
            result[where] = array
        return result

    return joined(operands, placed)


def _cut_out(ctx: Context, done: Instruction) -> tuple[Instruction, tuple[slice, ...]]:
    """(the array, the slice of it) that an asynchronous slice copies. Raises Unsupported for anything else."""
    start = ctx.makers(done)[0] if done.opcode == "async-done" else done
    if start.opcode == "async-start" and len(start.operands) == 1:
        root = ctx.module.by_name[called(start)[0]].root
        if root.opcode == "slice" and ctx.makers(root)[0].opcode == "parameter":
            return ctx.makers(start)[0], tuple(slice(*span) for span in slices(root))
    raise Unsupported("custom-call ConcatBitcast", "of other than the slices of one array")


@custom_call("GatherScatterIndicesBitpacked")
def indices_bitpacked(ctx: Context, instr: Instruction, indices: Ball) -> Value:
    """A mark on indices that were unpacked from the bits of one integer: they are handed on.

    From libtpu's `tpu_scatter_gather_normalizer` on: shifts and masks, a concatenate, this call, the gather.
    """
    if indices.dims != instr.array.dims or indices.dtype.name != instr.array.dtype.name:
        raise Unsupported("custom-call GatherScatterIndicesBitpacked", "that changes its operand's shape")
    return indices


@custom_call("TopKBatchMajorSmallK")
def top_of_rows(ctx: Context, instr: Instruction, a: Ball) -> Value:
    """The k largest integers of each row, in descending order.

    From libtpu's `topk-rewriter` on: in place of a descending sort and a slice of it, of s32 that hold a 16-bit float
    and its position.
    """
    shape = instr.array
    if a.dtype.name != "s32" or a.dims[:-1] != shape.dims[:-1] or shape.dims[-1] > a.dims[-1]:
        raise Unsupported("custom-call TopKBatchMajorSmallK", f"of {a.dtype}{list(a.dims)} to {list(shape.dims)}")
    indices = ArrayShape(DTYPES["s32"], shape.dims)
    pair = Instruction(instr.name, "topk", TupleShape((shape, indices)), instr.operands)
    found = find("topk")(ctx, pair, a)
    assert isinstance(found, tuple)
    return found[0]


# ---------------------------------------------------------------- linear algebra


@custom_call("Cholesky")
def cholesky(ctx: Context, instr: Instruction, a: Ball) -> Value:
    """The lower factor, from the lower triangle; the other triangle is whatever lies there, and so is all of it where
    the matrix is not positive definite.

    From libtpu's `tpu_cholesky_expander` on, which writes `cholesky(a), lower=true` of a block with it.
    """
    return cholesky_of(ctx, a, lower=True)


@custom_call("InvertDiagBlocksLowerTriangular")
def inverse_of_lower(ctx: Context, instr: Instruction, a: Ball) -> Value:
    """The inverse of each lower triangular matrix of (.., blocks, n, n).

    From libtpu's `tpu_triangular_solve_expander` on, which solves with the inverses of the diagonal blocks.
    """
    return inverses(ctx, a, lower=True)


@custom_call("InvertDiagBlocksUpperTriangular")
def inverse_of_upper(ctx: Context, instr: Instruction, a: Ball) -> Value:
    """The same for upper triangular matrices."""
    return inverses(ctx, a, lower=False)


# ---------------------------------------------------------------- 64 bits as two times 32


@custom_call("X64SplitLow")
def split_low(ctx: Context, instr: Instruction, a: Ball) -> Value:
    return _half(instr, a, high=False)


@custom_call("X64SplitHigh")
def split_high(ctx: Context, instr: Instruction, a: Ball) -> Value:
    return _half(instr, a, high=True)


def _half(instr: Instruction, a: Ball, high: bool) -> Ball:
    """Half the bits of an integer; the real or the imaginary part of a c64, which is the upper half of its bits."""
    to = instr.array.dtype
    if (a.dtype.name, to.name) == ("c64", "f32"):
        return Ball(to, a.mid.imag if high else a.mid.real, a.rad, a.und)
    if not (a.dtype.is_integer and a.dtype.bits == 64 and to.is_integer and to.bits == 32):
        raise Unsupported(f"custom-call {word(instr, 'custom_call_target')}", f"of {a.dtype} to {to}")
    words = (a.mid.astype(np.uint64) >> np.uint64(32 if high else 0)).astype(np.uint32)
    return Ball(to, words.astype(held_dtype(to)), None, a.und)


@custom_call("X64Combine")
def combine(ctx: Context, instr: Instruction, low: Ball, high: Ball) -> Value:
    to = instr.array.dtype
    if (to.name, low.dtype.name, high.dtype.name) == ("c64", "f32", "f32"):
        parts = Instruction(instr.name, "complex", instr.shape, instr.operands)
        return find("complex")(ctx, parts, low, high)
    if not to.is_integer or to.bits != 64 or not (low.dtype.is_integer and high.dtype.is_integer):
        raise Unsupported("custom-call X64Combine", f"to {to}")
    words = [half.mid.astype(np.uint32).astype(np.uint64) for half in (low, high)]
    both = words[0] | words[1] << np.uint64(32)
    return Ball(to, both.astype(held_dtype(to)), None, union(low.und, high.und))
