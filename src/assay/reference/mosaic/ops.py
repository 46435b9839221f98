"""What a kernel's operations mean, in terms of HLO's: the `arith`, `math`, `memref`, `scf`, `vector` dialects of MLIR
and the few of Mosaic's `tpu` (jaxlib/mosaic/dialect/tpu/tpu_ops.td).

A value is a ball, a buffer for a memref. Scalars are balls without dimensions; where one that steers the kernel (an
index, a bound, a condition) is undecided, `Open` is raised: the kernel's whole result is undecided.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from assay.errors import Unsupported
from assay.hlo.attribute_names import INSTRUCTION_ATTRIBUTES
from assay.hlo.module import Instruction
from assay.hlo.shape import DTYPES, ArrayShape
from assay.reference.context import Context
from assay.reference.folds import fold, over_axes
from assay.reference.mosaic.memory import Buffer, shape_of
from assay.reference.mosaic.text import CALL, Operation, affine
from assay.reference.ops.movement import moved
from assay.reference.registry import find
from assay.reference.value import Ball, as_ball, held_dtype

Item = Ball | Buffer


class Open(Exception):
    """A scalar that steers the kernel is undecided."""


@dataclass(slots=True)
class Frame:
    """One run of a function: its values by name."""

    ctx: Context
    values: dict[str, Item] = field(default_factory=dict)

    def ball(self, name: str) -> Ball:
        value = self.values[name]
        assert isinstance(value, Ball), f"{name} is a memref"
        return value

    def buffer(self, name: str) -> Buffer:
        value = self.values[name]
        assert isinstance(value, Buffer), f"{name} is no memref"
        return value

    def number(self, name: str) -> int:
        ball = self.ball(name)
        if ball.und is not None and ball.und.any():
            raise Open
        return int(ball.mid)

    def apply(self, opcode: str, shape: ArrayShape, *operands: Ball, **attributes: str) -> Ball:
        """The HLO operation of this name."""
        assert INSTRUCTION_ATTRIBUTES.issuperset(attributes), f"{opcode} has no such attributes"
        instruction = Instruction("kernel", opcode, shape, ("kernel",) * len(operands), attributes)
        return as_ball(find(opcode)(self.ctx, instruction, *operands))


Handler = Callable[[Frame, Operation], Sequence[Item]]
_OPS: dict[str, Handler] = {}


def run(frame: Frame, operations: Sequence[Operation]) -> Sequence[Item]:
    """What the last operation, `scf.yield` or `return`, hands on. Raises Unsupported for what is not modelled."""
    handed: Sequence[Item] = ()
    for operation in operations:
        if operation.name not in _OPS:
            raise Unsupported(CALL, f"the operation {operation.name}")
        handed = _OPS[operation.name](frame, operation)
        if operation.results:
            frame.values.update(zip(operation.results, handed, strict=True))
    return handed


def _op(*names: str) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        _OPS.update(dict.fromkeys(names, handler))
        return handler

    return register


_NAME = re.compile(r"%[\w#]+")


def _parts(operation: Operation) -> tuple[str, str]:
    """(operands and attributes, type) around the last ` : `."""
    before, colon, kind = operation.rest.rpartition(" : ")
    if not colon:
        raise Unsupported(CALL, f"{operation.name} without a type")
    return before, kind


# ---------------------------------------------------------------- elementwise

_SAME = {
    "arith.addf": "add", "arith.addi": "add", "arith.subf": "subtract", "arith.subi": "subtract",
    "arith.mulf": "multiply", "arith.muli": "multiply", "arith.divf": "divide", "arith.divsi": "divide",
    "arith.remsi": "remainder", "arith.maximumf": "maximum", "arith.minimumf": "minimum", "arith.maxsi": "maximum",
    "arith.minsi": "minimum", "arith.andi": "and", "arith.ori": "or", "arith.xori": "xor", "arith.negf": "negate",
    "arith.shli": "shift-left", "arith.shrsi": "shift-right-arithmetic", "arith.shrui": "shift-right-logical",
    "math.exp": "exponential", "math.log": "log", "math.rsqrt": "rsqrt", "math.sqrt": "sqrt", "math.tanh": "tanh",
    "math.absf": "abs", "math.absi": "abs",
}  # fmt: skip


@_op(*_SAME)
def _elementwise(frame: Frame, operation: Operation) -> Sequence[Item]:
    before, kind = _parts(operation)
    operands = [frame.ball(name) for name in _NAME.findall(before)]
    return (frame.apply(_SAME[operation.name], shape_of(kind), *operands),)


_CONVERSIONS = ("arith.extf", "arith.truncf", "arith.sitofp", "arith.fptosi", "arith.extsi", "arith.trunci",
                "arith.extui", "arith.index_cast")  # fmt: skip


@_op(*_CONVERSIONS)
def _converted(frame: Frame, operation: Operation) -> Sequence[Item]:
    before, kind = _parts(operation)
    ball = frame.ball(before.split()[0])
    shape = shape_of(kind.rpartition(" to ")[2])
    # A predicate widens to 0 and 1 with `extui`, as HLO has it; signed numbers with the others.
    if (ball.dtype.kind == "pred") != (operation.name == "arith.extui") or shape.dtype.kind == "pred":
        raise Unsupported(CALL, f"{operation.name} of {ball.dtype} to {shape.dtype}")
    return (frame.apply("convert", shape, ball),)


_INTEGERS = {"eq": "EQ", "ne": "NE", "slt": "LT", "sle": "LE", "sgt": "GT", "sge": "GE"}
_FLOATS = {"oeq": "EQ", "une": "NE", "olt": "LT", "ole": "LE", "ogt": "GT", "oge": "GE"}


@_op("arith.cmpi", "arith.cmpf")
def _compared(frame: Frame, operation: Operation) -> Sequence[Item]:
    before, kind = _parts(operation)
    predicate, *names = (part.strip() for part in before.split(","))
    known = _INTEGERS if operation.name == "arith.cmpi" else _FLOATS
    if predicate not in known:
        raise Unsupported(CALL, f"{operation.name} {predicate}")
    shape = ArrayShape(DTYPES["pred"], shape_of(kind).dims)
    operands = [frame.ball(name) for name in names]
    return (frame.apply("compare", shape, *operands, direction=known[predicate]),)


@_op("arith.select")
def _selected(frame: Frame, operation: Operation) -> Sequence[Item]:
    before, kind = _parts(operation)
    condition, *branches = (frame.ball(name) for name in _NAME.findall(before))
    return (frame.apply("select", shape_of(kind.rpartition(", ")[2]), condition, *branches),)


@_op("arith.constant")
def _constant(frame: Frame, operation: Operation) -> Sequence[Item]:
    if operation.rest in ("true", "false"):
        return (Ball(DTYPES["pred"], np.asarray(operation.rest == "true")),)
    text, kind = _parts(operation)
    shape = shape_of(kind)
    inner = re.fullmatch(r"dense<([^\[\]]*)>", text)
    value = _number((inner[1] if inner else text).strip(), shape)
    return (moved(value, lambda x: np.broadcast_to(x, shape.dims)),)


def _number(text: str, shape: ArrayShape) -> Ball:
    dtype = shape.dtype
    if text in ("true", "false"):
        return Ball(dtype, np.asarray(text == "true"))
    if text.startswith("0x") and dtype.is_float and dtype.numpy is not None:
        bits = np.asarray(int(text, 16), f"u{dtype.bits // 8}")  # the bits of a float that no decimal spells
        return Ball(dtype, bits.view(dtype.numpy).astype(np.float64))
    try:
        number = float(text) if dtype.is_float else int(text, 0)
    except ValueError:
        raise Unsupported(CALL, f"the constant {text[:40]}") from None
    rounded = np.asarray(number).astype(dtype.numpy) if dtype.numpy is not None else np.asarray(number)
    return Ball(dtype, rounded.astype(held_dtype(dtype)))


# ---------------------------------------------------------------- vectors


@_op("vector.broadcast")
def _broadcast(frame: Frame, operation: Operation) -> Sequence[Item]:
    before, kind = _parts(operation)
    dims = shape_of(kind.rpartition(" to ")[2]).dims
    return (moved(frame.ball(before.split()[0]), lambda x: np.broadcast_to(x, dims)),)


@_op("vector.shape_cast")
def _reshaped(frame: Frame, operation: Operation) -> Sequence[Item]:
    before, kind = _parts(operation)
    dims = shape_of(kind.rpartition(" to ")[2]).dims
    return (moved(frame.ball(before.split()[0]), lambda x: x.reshape(dims)),)


_REDUCTION = re.compile(r"<(\w+)>, (%[\w#]+), (%[\w#]+) \[([\d, ]*)\]")
_FOLDS = {"add": "add", "mul": "multiply", "maximumf": "maximum", "minimumf": "minimum", "maxsi": "maximum",
          "minsi": "minimum"}  # fmt: skip


@_op("vector.multi_reduction")
def _reduced(frame: Frame, operation: Operation) -> Sequence[Item]:
    before, _ = _parts(operation)
    match = _REDUCTION.fullmatch(before)
    if match is None or match[1] not in _FOLDS:
        raise Unsupported(CALL, f"vector.multi_reduction {before[:40]}")
    ball, start = frame.ball(match[2]), frame.ball(match[3])
    first = start.mid.ravel()[:1]
    if not start.exact or not np.array_equal(start.mid.ravel(), np.broadcast_to(first, start.mid.size)):
        raise Unsupported(CALL, "vector.multi_reduction from other than one constant")
    axes = tuple(int(d) for d in match[4].split(","))
    over = over_axes(frame.ctx, ball.dims, axes)
    return (fold(frame.ctx, _FOLDS[match[1]], ball, Ball(start.dtype, first.reshape(())), over),)


@_op("tpu.iota")
def _iota(frame: Frame, operation: Operation) -> Sequence[Item]:
    match = re.fullmatch(r"\{dimensions = array<i32: (\d+)>\} : (.*)", operation.rest)
    if match is None:
        raise Unsupported(CALL, f"tpu.iota {operation.rest[:40]}")
    return (frame.apply("iota", shape_of(match[2]), iota_dimension=match[1]),)


# Contracting dimension of each side, the other ones, and where the result's come from: (0, 0) and (1, the other).
_DIMENSIONS = re.compile(
    r"#tpu\.dot_dimension_numbers<\[1\], \[([01])\], \[0\], \[([01])\], \[0, 0, 1, \2\], \[\], \[\]>"
)
_MATMUL = re.compile(r"(%[\w#]+), (%[\w#]+), (%[\w#]+) \{(.*)\} : (.*), (.*), (.*) -> (.*)")
_PRECISIONS = {"bf16": "default", "fp32": "highest"}
_HARMLESS = ("dimension_numbers", "precision", "transpose_lhs_hint", "output_fusion_insertion_point")


@_op("tpu.matmul")
def _matmul(frame: Frame, operation: Operation) -> Sequence[Item]:
    """lhs by rhs, or by its transpose, and the accumulator added to it."""
    match = _MATMUL.fullmatch(operation.rest)
    numbers = _DIMENSIONS.search(operation.rest)
    precision = re.search(r"precision = #tpu\.contract_precision<(\w+)>", operation.rest)
    keys = re.findall(r"(?:^|, )(\w+) = ", match[4]) if match else ["?"]
    chosen = "default" if precision is None else _PRECISIONS.get(precision[1])
    if match is None or numbers is None or numbers[1] == numbers[2] or chosen is None or set(keys) - set(_HARMLESS):
        raise Unsupported(CALL, f"tpu.matmul {operation.rest[:80]}")
    a, b, c = (frame.ball(match[i]) for i in (1, 2, 3))
    product = frame.apply(
        "dot", shape_of(match[8]), a, b,
        lhs_contracting_dims="{1}", rhs_contracting_dims=f"{{{numbers[1]}}}",
        operand_precision=f"{{{chosen},{chosen}}}",
    )  # fmt: skip
    return (frame.apply("add", shape_of(match[8]), product, c),)


_CONTRACT = re.compile(
    r"\{indexing_maps = \[(affine_map<.*?>), (affine_map<.*?>), (affine_map<.*?>)\], iterator_types = \[([^\]]*)\], "
    r"kind = #vector\.kind<add>\} (%[\w#]+), (%[\w#]+), (%[\w#]+)(?: \{(.*)\})? : .* into (.*)"
)


@_op("vector.contract")
def _contracted(frame: Frame, operation: Operation) -> Sequence[Item]:
    """sum over the reduced dimensions of lhs times rhs, and the accumulator added; the maps say which dimension is
    which.
    """
    match = _CONTRACT.fullmatch(operation.rest)
    precision = re.fullmatch(r"precision = #tpu\.contract_precision<(\w+)>", match[8] or "") if match else None
    chosen = "default" if match and not match[8] else _PRECISIONS.get(precision[1]) if precision else None
    if match is None or chosen is None:
        raise Unsupported(CALL, f"vector.contract {operation.rest[:80]}")
    count = match[4].count(",") + 1
    left, right, out = (affine(match[i], range(count)) for i in (1, 2, 3))
    batch = [d for d in out if d in left and d in right]
    reduced = [d for d in left if d in right and d not in out]
    free = [[d for d in side if d not in batch and d not in reduced] for side in (left, right)]
    made = [*batch, *free[0], *free[1]]
    if sorted(made) != sorted(out) or len({*left, *right}) != count:
        raise Unsupported(CALL, f"vector.contract {operation.rest[:80]}")
    a, b, c = (frame.ball(match[i]) for i in (5, 6, 7))
    sizes = dict(zip((*left, *right), (*a.dims, *b.dims), strict=True))
    dtype = shape_of(match[9]).dtype

    def listed(side: Sequence[int], dims: Sequence[int]) -> str:
        return "{" + ",".join(str(side.index(d)) for d in dims) + "}"

    product = frame.apply(
        "dot", ArrayShape(dtype, tuple(sizes[d] for d in made)), a, b,
        lhs_batch_dims=listed(left, batch), rhs_batch_dims=listed(right, batch),
        lhs_contracting_dims=listed(left, reduced), rhs_contracting_dims=listed(right, reduced),
        operand_precision=f"{{{chosen},{chosen}}}",
    )  # fmt: skip
    order = [made.index(d) for d in out]
    return (frame.apply("add", shape_of(match[9]), moved(product, lambda x: x.transpose(order)), c),)


# ---------------------------------------------------------------- memory

_ACCESS = re.compile(r"(?:(%[\w#]+), )?(%[\w#]+)\[([^\]]*)\] : (.*)")


def _access(frame: Frame, operation: Operation) -> tuple[Ball | None, Buffer, list[int], str]:
    """(what is stored, where, the index, the types)."""
    match = _ACCESS.fullmatch(operation.rest)
    if match is None:
        raise Unsupported(CALL, f"{operation.name} {operation.rest[:60]}")
    buffer = frame.buffer(match[2])
    index = [frame.number(name) for name in _NAME.findall(match[3])]
    if any(not 0 <= i < size for i, size in zip(index, buffer.mid.shape, strict=True)):
        raise Unsupported(CALL, f"{operation.name} beyond its buffer")
    return None if match[1] is None else frame.ball(match[1]), buffer, index, match[4]


@_op("memref.load")
def _load_scalar(frame: Frame, operation: Operation) -> Sequence[Item]:
    _, buffer, index, _ = _access(frame, operation)
    return (buffer.load(index),)


@_op("memref.store")
def _store_scalar(frame: Frame, operation: Operation) -> Sequence[Item]:
    value, buffer, index, _ = _access(frame, operation)
    assert value is not None
    buffer.store(index, value)
    return ()


def _window(index: Sequence[int], dims: Sequence[int], buffer: Buffer) -> list[slice]:
    if any(i + n > size for i, n, size in zip(index, dims, buffer.mid.shape, strict=True)):
        raise Unsupported(CALL, "a vector beyond its buffer")
    return [slice(i, i + n) for i, n in zip(index, dims, strict=True)]


@_op("vector.load")
def _load(frame: Frame, operation: Operation) -> Sequence[Item]:
    _, buffer, index, kinds = _access(frame, operation)
    dims = shape_of("vector" + kinds.rpartition(", vector")[2]).dims
    return (buffer.load(_window(index, dims, buffer)),)


@_op("vector.store")
def _store(frame: Frame, operation: Operation) -> Sequence[Item]:
    value, buffer, index, _ = _access(frame, operation)
    assert value is not None
    buffer.store(_window(index, value.dims, buffer), value)
    return ()


# ---------------------------------------------------------------- control

_FOR = re.compile(r"(%\w+) = (%[\w#]+) to (%[\w#]+) step (%[\w#]+)(?: iter_args\(([^)]*)\) -> \([^)]*\))?(?:\s*: \w+)?")


@_op("scf.for")
def _for(frame: Frame, operation: Operation) -> Sequence[Item]:
    match = _FOR.fullmatch(operation.rest)
    if match is None:
        raise Unsupported(CALL, f"scf.for {operation.rest[:60]}")
    low, high, step = (frame.number(match[i]) for i in (2, 3, 4))
    pairs = re.findall(r"(%\w+) = (%[\w#]+)", match[5] or "")
    carried: Sequence[Item] = [frame.values[initial] for _, initial in pairs]
    for i in range(low, high, step):
        inner = Frame(frame.ctx, dict(frame.values))
        inner.values[match[1]] = Ball(DTYPES["s32"], np.asarray(i, np.int32))
        inner.values.update(zip((name for name, _ in pairs), carried, strict=True))
        handed = run(inner, operation.regions[0])
        carried = handed if pairs else ()
    return carried


@_op("scf.if")
def _if(frame: Frame, operation: Operation) -> Sequence[Item]:
    taken = frame.number(_NAME.findall(operation.rest)[0])
    if not taken and len(operation.regions) < 2:
        return ()
    handed = run(Frame(frame.ctx, dict(frame.values)), operation.regions[0 if taken else 1])
    return handed if operation.results else ()


@_op("scf.yield", "return", "func.return")
def _handed(frame: Frame, operation: Operation) -> Sequence[Item]:
    return [frame.values[name] for name in _NAME.findall(operation.rest.rpartition(" : ")[0])]
