"""The rules of the upstream tool for drawing inputs, written anew as a baseline: xla/tools/hlo_isolation's
constraint_propagator.cc as it stood in 2026, read and not copied.

An interval an instruction, closed, in double precision, with a flag for values that must not be zero. Computations are
walked callees first; what is asked of the parameters of a fusion reaches its operands, what is asked of its result does
not enter it. Loops, branches, calls and maps hand on nothing. Demands that exclude each other give an empty interval.
Floats are drawn evenly from the interval, a free end being -0.1 or 0.2; integers over all that their type holds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.errors import AssayError
from assay.hlo import attributes
from assay.hlo.graph import called_order
from assay.hlo.literal import literal_array
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.shape import ArrayShape, DType, leaves
from assay.reference.bodies import body_kind

Array = np.ndarray[Any, np.dtype[Any]]
FREE = float(np.finfo(np.float64).max)
TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, slots=True)
class Asked:
    low: float = -FREE
    high: float = FREE
    nonzero: bool = False
    distinct: bool = False
    ordered: bool = False

    def and_(self, other: Asked) -> Asked:
        return Asked(
            max(self.low, other.low),
            min(self.high, other.high),
            self.nonzero or other.nonzero,
            self.distinct or other.distinct,
            self.ordered or other.ordered,
        )


Demand = tuple[str, Asked]
IDENTITY = frozenset(
    (
        "bitcast", "convert", "copy", "reshape", "transpose", "reduce-precision", "reverse", "slice", "broadcast",
        "bitcast-convert", "gather", "dynamic-slice",
    )
)  # fmt: skip


def asked_of_parameters(module: Module) -> dict[str, Asked]:
    """By the name of each parameter of the entry."""
    inner: dict[str, dict[int, Asked]] = {}
    for computation in called_order(module):
        known = _computation(module, computation, inner)
        inner[computation.name] = {p.parameter_number or 0: known.get(p.name, Asked()) for p in computation.parameters}
    return {p.name: inner[module.entry_name][p.parameter_number or 0] for p in module.entry.parameters}


def _computation(module: Module, computation: Computation, inner: dict[str, dict[int, Asked]]) -> dict[str, Asked]:
    known: dict[str, Asked] = {}

    def ask(name: str, asked: Asked) -> None:
        known[name] = known.get(name, Asked()).and_(asked)

    root = computation.root
    if computation.name == module.entry_name:
        for leaf in (root.shape,):
            if isinstance(leaf, ArrayShape) and leaf.dtype.name in ("bf16", "f16"):
                ask(root.name, Asked(-65504.0, 65504.0))
    for instruction in computation.instructions:
        for name, asked in _seeds(module, computation, instruction, inner):
            ask(name, asked)
    for _ in range(8):
        before = dict(known)
        for instruction in reversed(computation.instructions):
            if instruction.name in known:
                for name, asked in _backward(module, computation, instruction, known):
                    ask(name, asked)
        if known == before:
            break
    return known


def _seeds(
    module: Module, computation: Computation, instruction: Instruction, inner: dict[str, dict[int, Asked]]
) -> Iterator[Demand]:
    operands = instruction.operands
    try:
        match instruction.opcode:
            case "log" | "rsqrt":
                yield operands[0], Asked(low=TINY)
            case "sqrt":
                yield operands[0], Asked(low=0.0)
            case "divide":
                yield operands[1], Asked(nonzero=True)
            case "power":
                yield operands[0], Asked(low=0.0)
            case "abs":
                yield instruction.name, Asked(low=0.0)
            case "constant":
                found = _constant(instruction)
                if found is not None:
                    yield instruction.name, Asked(*found)
            case "dynamic-slice" | "dynamic-update-slice":
                update = instruction.opcode == "dynamic-update-slice"
                sizes = computation.by_name[operands[1]].array.dims if update else instruction.array.dims
                whole = computation.by_name[operands[0]].array.dims
                for name, size, part in zip(operands[2 if update else 1 :], whole, sizes, strict=True):
                    yield name, Asked(0.0, float(size - part))
            case "gather":
                dims = attributes.gather_dims(instruction)
                whole = computation.by_name[operands[0]].array.dims
                most = min((whole[d] for d in dims.start_index_map), default=1) - 1
                yield operands[1], Asked(0.0, float(most), ordered=attributes.flag(instruction, "indices_are_sorted"))
            case "scatter":
                scatter = attributes.scatter_dims(instruction)
                whole = computation.by_name[operands[0]].array.dims
                most = min((whole[d] for d in scatter.scatter_dims_to_operand_dims), default=1) - 1
                ordered = attributes.flag(instruction, "indices_are_sorted")
                yield operands[len(operands) // 2], Asked(0.0, float(most), ordered=ordered)
            case "sort":
                key = computation.by_name[operands[0]]
                if key.array.dtype.is_integer:
                    yield operands[0], Asked(distinct=True)
            case "reduce" | "reduce-window":
                kind = body_kind(module, attributes.called(instruction)[0])
                if kind in ("add", "multiply"):
                    number = 0.0 if kind == "add" else 1.0
                    yield operands[-1], Asked(number, number)
            case "fusion":
                for number, asked in inner[attributes.called(instruction)[0]].items():
                    yield operands[number], asked
    except (AssayError, AssertionError, IndexError, KeyError, ValueError):
        return


def _constant(instruction: Instruction) -> tuple[float, float] | None:
    shape, literal = instruction.shape, instruction.literal
    if not isinstance(shape, ArrayShape) or literal is None or shape.dtype.is_complex or not 0 < shape.size < 1 << 16:
        return None
    values = literal_array(shape, literal).astype(np.float64)
    return float(values.min()), float(values.max())


def _backward(
    module: Module, computation: Computation, instruction: Instruction, known: dict[str, Asked]
) -> Iterator[Demand]:
    asked = known[instruction.name]
    operands = instruction.operands
    values = Asked(asked.low, asked.high, asked.nonzero)
    match instruction.opcode:
        case opcode if opcode in IDENTITY:
            same = opcode in ("copy", "reshape", "convert", "bitcast")
            yield operands[0], asked if same else values
        case "negate":
            yield operands[0], Asked(-asked.high, -asked.low, asked.nonzero)
        case "abs":
            if asked.high < FREE:
                yield operands[0], Asked(-asked.high, asked.high, asked.nonzero)
        case "pad" | "scatter":
            yield operands[0], values
        case "select":
            yield operands[1], values
            yield operands[2], values
        case "add" | "subtract":
            yield from _sum(computation, instruction, asked)
        case "multiply":
            yield from _product(computation, instruction, asked, 1, known)
        case "dot" | "convolution":
            yield from _product(computation, instruction, asked, _depth(computation, instruction), known)
        case "divide":
            if asked.low >= 0:
                yield operands[0], Asked(low=0.0)
                yield operands[1], Asked(low=0.0)
        case "maximum":
            for name in operands:
                yield name, Asked(high=asked.high)
        case "minimum":
            for name in operands:
                yield name, Asked(low=asked.low)
        case "reduce":
            yield from _reduce(module, computation, instruction, asked)
        case _:
            return


def _sum(computation: Computation, instruction: Instruction, asked: Asked) -> Iterator[Demand]:
    one, other = instruction.operands
    sign = 1.0 if instruction.opcode == "add" else -1.0
    for name, against, flipped in ((one, other, False), (other, one, True)):
        constant = _constant(computation.by_name[against])
        if constant is None:
            if asked.low >= 0 and sign > 0:
                yield name, Asked(low=0.0)
            if asked.high <= 0 and sign > 0:
                yield name, Asked(high=0.0)
        elif not flipped:
            low = asked.low - sign * constant[0] if asked.low > -FREE else -FREE
            high = asked.high - sign * constant[0] if asked.high < FREE else FREE
            yield name, Asked(low, high)


def _product(
    computation: Computation, instruction: Instruction, asked: Asked, depth: int, known: dict[str, Asked]
) -> Iterator[Demand]:
    one, other = instruction.operands[:2]
    for name, against in ((one, other), (other, one)):
        constant = _constant(computation.by_name[against])
        if constant is not None and constant[0] == constant[1] and constant[0]:
            ends = [end / constant[0] if abs(end) < FREE else math.copysign(FREE, end * constant[0])
                    for end in (asked.low, asked.high)]  # fmt: skip
            yield name, Asked(max(-FREE, min(ends)), min(FREE, max(ends)), asked.nonzero)
            return
    if asked.low >= 0:
        yield one, Asked(low=0.0)
        yield other, Asked(low=0.0)
    most = min(abs(asked.low), abs(asked.high))
    if most < FREE:
        root = math.sqrt(most / max(1, depth))
        yield one, Asked(-root, root)
        yield other, Asked(-root, root)


def _depth(computation: Computation, instruction: Instruction) -> int:
    if instruction.opcode == "convolution":
        kernel = computation.by_name[instruction.operands[1]].array.dims
        dims = attributes.convolution_dims(instruction)
        return math.prod(kernel[d] for d in dims.rhs_spatial) * kernel[dims.rhs_input_feature]
    left = computation.by_name[instruction.operands[0]].array.dims
    return math.prod(left[d] for d in attributes.dot_dims(instruction).lhs_contracting)


def _reduce(module: Module, computation: Computation, instruction: Instruction, asked: Asked) -> Iterator[Demand]:
    if len(instruction.operands) != 2:
        return
    array = computation.by_name[instruction.operands[0]].array.dims
    count = max(1, math.prod(array[d] for d in attributes.int_list(instruction, "dimensions")))
    kind = body_kind(module, attributes.called(instruction)[0])
    name = instruction.operands[0]
    if kind == "add":
        low = asked.low / count if asked.low > -FREE else -FREE
        yield name, Asked(low, asked.high / count if asked.high < FREE else FREE)
    elif kind == "multiply" and 0 < asked.high < FREE:
        yield name, Asked(max(0.0, asked.low) ** (1 / count), asked.high ** (1 / count))
    elif kind in ("maximum", "minimum"):
        yield name, Asked(asked.low, asked.high)


# ---- drawing


def draw(module: Module, seed: int) -> list[Array]:
    """Inputs for a module, as the upstream tool draws them."""
    rng = np.random.default_rng(seed)
    asked = asked_of_parameters(module)
    arrays = []
    for parameter in module.entry.parameters:
        for leaf in leaves(parameter.shape):
            if isinstance(leaf, ArrayShape):
                arrays.append(_array(rng, leaf, asked[parameter.name]))
    return arrays


def _array(rng: np.random.Generator, shape: ArrayShape, asked: Asked) -> Array:
    dtype = shape.dtype
    assert dtype.numpy is not None
    if dtype.kind == "pred":
        return rng.integers(0, 2, shape.dims).astype(np.bool_)
    if dtype.is_complex:
        made: Array = rng.uniform(-0.1, 0.2, shape.dims) + 1j * rng.uniform(-0.1, 0.2, shape.dims)
        return made.astype(dtype.numpy)
    if dtype.is_integer:
        return _integers(rng, shape, asked)
    low, high = asked.low, asked.high
    if low == -FREE:
        low = -0.1 if high > -0.1 else high - 0.3
    if high == FREE:
        high = 0.2 if asked.low < 0.2 else low + 0.3
    with np.errstate(all="ignore"):
        values = low + (high - low) * rng.random(shape.dims)
        if asked.nonzero:
            values = np.where(values == 0, high, values)
        return np.asarray(values).astype(dtype.numpy)


def _integers(rng: np.random.Generator, shape: ArrayShape, asked: Asked) -> Array:
    dtype: DType = shape.dtype
    least, most = (
        (-(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1) if dtype.kind == "signed" else (0, 2**dtype.bits - 1)
    )
    if asked.distinct:
        return rng.permutation(shape.size).reshape(shape.dims).astype(dtype.numpy)
    low, high = max(least, math.ceil(max(asked.low, -1e30))), min(most, math.floor(min(asked.high, 1e30)))
    if low > high:
        low, high = least, most
    wide = np.uint64 if dtype.kind == "unsigned" else np.int64
    values: Array = rng.integers(low, high, shape.dims, wide, endpoint=True)
    values = np.where(values == 0, max(low, 1), values) if asked.nonzero else values
    if asked.ordered:
        values = np.sort(values, axis=None).reshape(shape.dims)
    return np.asarray(values).astype(dtype.numpy)
