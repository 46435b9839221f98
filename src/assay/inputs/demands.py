"""What each opcode asks of its operands: a row an opcode.

A *seed* asks something whatever becomes of the result: a gather wants indices in range, a logarithm a positive number.
A *transfer* hands on what is asked of the result: if `broadcast(x)` is to be in range, so is x. Both are advice for
drawing inputs, never a condition: a program is right or wrong on any input.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from functools import lru_cache

from assay.errors import AssayError
from assay.hlo import attributes
from assay.hlo.literal import Literal, literal_array
from assay.hlo.module import Computation, Instruction
from assay.hlo.shape import ArrayShape
from assay.inputs.domain import Domain

Demand = tuple[int, Domain]
"""Operand number, and what is asked of it."""

Rule = Callable[[Computation, Instruction], Iterator[Demand]]
Transfer = Callable[[Computation, Instruction, Domain], Iterator[Demand]]

POSITIVE = Domain(positive=True)
UNIT = Domain(low=-1.0, high=1.0)
DEFINITE = Domain(definite=True)


# ---- seeds


def _gather(computation: Computation, instruction: Instruction) -> Iterator[Demand]:
    dims = attributes.gather_dims(instruction)
    operand, indices = (i.array for i in computation.operands(instruction))
    highest = [operand.dims[d] - dims.slice_sizes[d] for d in dims.start_index_map]
    ordered = attributes.flag(instruction, "indices_are_sorted")
    yield 1, _index(highest, indices, dims.index_vector_dim, ordered, False)


def _scatter(computation: Computation, instruction: Instruction) -> Iterator[Demand]:
    dims = attributes.scatter_dims(instruction)
    arrays = len(instruction.operands) // 2
    operand, indices, updates = (computation.by_name[instruction.operands[k]].array for k in (0, arrays, arrays + 1))
    windowed = [d for d in range(operand.rank) if d not in (*dims.inserted_window_dims, *dims.input_batching_dims)]
    window = dict.fromkeys(range(operand.rank), 1)
    window.update(zip(windowed, (updates.dims[d] for d in dims.update_window_dims), strict=True))
    highest = [operand.dims[d] - window[d] for d in dims.scatter_dims_to_operand_dims]
    ordered = attributes.flag(instruction, "indices_are_sorted")
    distinct = attributes.flag(instruction, "unique_indices")
    yield arrays, _index(highest, indices, dims.index_vector_dim, ordered, distinct)


def _index(highest: list[int], indices: ArrayShape, vector: int, ordered: bool, distinct: bool) -> Domain:
    """Indices from 0 to the least of `highest`, one number for each component of an index vector."""
    axis = vector if vector < indices.rank and len(highest) > 1 else None
    return Domain(0, max(0, min(highest, default=0)), ordered=ordered, distinct=distinct, vector=axis)


def _dynamic_slice(computation: Computation, instruction: Instruction) -> Iterator[Demand]:
    update = instruction.opcode == "dynamic-update-slice"
    operands = computation.operands(instruction)
    sizes = operands[1].array.dims if update else instruction.array.dims
    first = 2 if update else 1
    room = [size - part for size, part in zip(operands[0].array.dims, sizes, strict=True)]
    for k in range(first, len(operands)):
        # One operand a dimension, or, in the old form, one vector of them all.
        here = room[k - first] if operands[k].array.rank == 0 else min(room, default=0)
        yield k, Domain(0, max(0, here))


def _dot(computation: Computation, instruction: Instruction) -> Iterator[Demand]:
    """The weights of a dot: its right-hand side, but not where the two are a batch of parameters."""
    dims = attributes.dot_dims(instruction)
    left = computation.by_name[instruction.operands[0]].array
    terms = math.prod(left.dims[d] for d in dims.lhs_contracting)
    if not dims.lhs_batch or source(computation, instruction.operands[0]).opcode != "parameter":
        yield 1, Domain(fan_in=terms)


def _convolution(computation: Computation, instruction: Instruction) -> Iterator[Demand]:
    dims = attributes.convolution_dims(instruction)
    kernel = computation.by_name[instruction.operands[1]].array
    spatial = math.prod(kernel.dims[d] for d in dims.rhs_spatial)
    yield 1, Domain(fan_in=spatial * kernel.dims[dims.rhs_input_feature])


def _power(computation: Computation, instruction: Instruction) -> Iterator[Demand]:
    exponent = known_range(computation, instruction.operands[1])
    if exponent is None or exponent[0] != exponent[1] or exponent[0] != int(exponent[0]) or exponent[0] < 0:
        yield 0, POSITIVE


def _custom_call(computation: Computation, instruction: Instruction) -> Iterator[Demand]:
    target = attributes.word(instruction, "custom_call_target", "").lower()
    if "potrf" in target or "cholesky" in target:
        yield 0, DEFINITE


def _always(*demands: Demand) -> Rule:
    return lambda computation, instruction: iter(demands)


SEEDS: dict[str, Rule] = {
    "gather":               _gather,
    "scatter":              _scatter,
    "dynamic-slice":        _dynamic_slice,
    "dynamic-update-slice": _dynamic_slice,
    "dot":                  _dot,
    "convolution":          _convolution,
    "power":                _power,
    "custom-call":          _custom_call,
    "log":                  _always((0, POSITIVE)),
    "log2":                 _always((0, POSITIVE)),
    "log-plus-one":         _always((0, POSITIVE)),
    "sqrt":                 _always((0, POSITIVE)),
    "rsqrt":                _always((0, POSITIVE)),
    "divide":               _always((1, POSITIVE)),
    "remainder":            _always((1, POSITIVE)),
    "asin":                 _always((0, UNIT)),
    "acos":                 _always((0, UNIT)),
    "atanh":                _always((0, UNIT)),
    "acosh":                _always((0, Domain(low=1.0, high=8.0))),
    "cholesky":             _always((0, DEFINITE)),
    "triangular-solve":     _always((0, DEFINITE)),
}  # fmt: skip


# ---- transfers


def _same(computation: Computation, instruction: Instruction, asked: Domain) -> Iterator[Demand]:
    yield 0, asked


def _marked(computation: Computation, instruction: Instruction, asked: Domain) -> Iterator[Demand]:
    """libtpu's marks on indices hand them on."""
    target = attributes.word(instruction, "custom_call_target", "")
    if target in ("AssumeGatherIndicesInBound", "GatherScatterIndicesBitpacked"):
        yield 0, asked


def _reshape(computation: Computation, instruction: Instruction, asked: Domain) -> Iterator[Demand]:
    if asked.vector is not None and computation.by_name[instruction.operands[0]].array.dims != instruction.array.dims:
        asked = dataclasses.replace(asked, vector=None)
    yield 0, asked


def _moved(computation: Computation, instruction: Instruction, asked: Domain) -> Iterator[Demand]:
    """Elements change places or are repeated: what is asked of each of them stays, their order does not."""
    yield 0, dataclasses.replace(asked, ordered=False, distinct=False, vector=None)


def _bitcast(computation: Computation, instruction: Instruction, asked: Domain) -> Iterator[Demand]:
    if computation.by_name[instruction.operands[0]].array.dtype == instruction.array.dtype:
        yield from _reshape(computation, instruction, asked)


def _all(computation: Computation, instruction: Instruction, asked: Domain) -> Iterator[Demand]:
    each = dataclasses.replace(asked, ordered=False, distinct=False, vector=None)
    for k in range(len(instruction.operands)):
        yield k, each


def _first_two(computation: Computation, instruction: Instruction, asked: Domain) -> Iterator[Demand]:
    for k, domain in _all(computation, instruction, asked):
        if k < 2:
            yield k, domain


def _select(computation: Computation, instruction: Instruction, asked: Domain) -> Iterator[Demand]:
    wrapped = _wrapped_index(computation, instruction)
    if wrapped is not None and asked.bounded:
        # select(i < 0, i + n, i): negative indices count from the end, and they are worth a try.
        size = wrapped
        promised = asked.ordered or asked.distinct
        low = asked.low if promised or asked.high != size - 1 else -size
        yield 2, dataclasses.replace(asked, low=low)
        return
    each = dataclasses.replace(asked, ordered=False, distinct=False, vector=None)
    yield 1, each
    yield 2, each


def _wrapped_index(computation: Computation, instruction: Instruction) -> int | None:
    """n where the instruction is select(i < 0, i + n, i), which is how NumPy's negative indices are lowered."""
    _, on_true, on_false = computation.operands(instruction)
    if on_true.opcode != "add" or on_false.name not in on_true.operands:
        return None
    other = on_true.operands[1] if on_true.operands[0] == on_false.name else on_true.operands[0]
    size = known_range(computation, other)
    return int(size[0]) if size is not None and size[0] == size[1] and size[0] > 0 else None


def _clamp(computation: Computation, instruction: Instruction, asked: Domain) -> Iterator[Demand]:
    yield 1, dataclasses.replace(asked, ordered=False, distinct=False, vector=None, fan_in=0)


def _extremum(computation: Computation, instruction: Instruction, asked: Domain) -> Iterator[Demand]:
    for k, other in ((0, 1), (1, 0)):
        against = known_range(computation, instruction.operands[other])
        if asked.positive and against is not None and instruction.opcode == "maximum" and against[0] > 0:
            asked = dataclasses.replace(asked, positive=False)  # it is positive already
        yield k, _values(asked)


def _add(computation: Computation, instruction: Instruction, asked: Domain) -> Iterator[Demand]:
    for k, other in ((0, 1), (1, 0)):
        against = known_range(computation, instruction.operands[other])
        if against is None:
            # Two unknown terms share the room that there is.
            yield k, dataclasses.replace(_values(asked), low=_ceil(asked.low / 2), high=_floor(asked.high / 2))
        else:
            positive = asked.positive and against[0] >= 0
            definite = asked.definite
            yield k, dataclasses.replace(_shifted(asked, against[0], against[1]), positive=positive, definite=definite)


def _subtract(computation: Computation, instruction: Instruction, asked: Domain) -> Iterator[Demand]:
    against = known_range(computation, instruction.operands[1])
    if against is not None:
        yield 0, dataclasses.replace(_shifted(asked, -against[1], -against[0]), positive=False)
        return
    against = known_range(computation, instruction.operands[0])
    if against is not None and asked.bounded:
        yield 1, Domain(against[1] - asked.high, max(against[1] - asked.high, against[0] - asked.low))


def _shifted(asked: Domain, least: float, greatest: float) -> Domain:
    """What is asked of x where x + c is asked for, c being from `least` to `greatest`."""
    low, high = asked.low - least, asked.high - greatest
    return dataclasses.replace(_values(asked), low=low, high=max(low, high) if asked.bounded else high)


def _multiply(computation: Computation, instruction: Instruction, asked: Domain) -> Iterator[Demand]:
    for k, other in ((0, 1), (1, 0)):
        against = known_range(computation, instruction.operands[other])
        if against is not None and against[0] == against[1] and 0 < against[0] < math.inf:
            factor = against[0]
            scaled = dataclasses.replace(_values(asked), low=asked.low / factor, high=asked.high / factor)
            if instruction.array.dtype.is_integer:
                scaled = dataclasses.replace(scaled, low=_ceil(scaled.low), high=_floor(scaled.high))
            yield k, scaled


def _divide(computation: Computation, instruction: Instruction, asked: Domain) -> Iterator[Demand]:
    against = known_range(computation, instruction.operands[1])
    if against is None and asked.positive:
        yield 0, POSITIVE  # every divisor is asked to be positive
    if against is not None and against[0] == against[1] and 0 < against[0] < math.inf:
        factor = against[0]
        rest = factor - 1 if instruction.array.dtype.is_integer else 0
        yield 0, dataclasses.replace(_values(asked), low=asked.low * factor, high=asked.high * factor + rest)


def _negate(computation: Computation, instruction: Instruction, asked: Domain) -> Iterator[Demand]:
    if asked.bounded:
        yield 0, Domain(-asked.high, -asked.low)


def _reduce(computation: Computation, instruction: Instruction, asked: Domain) -> Iterator[Demand]:
    """Each term of a positive sum; each candidate of a maximum. Of a sum, bounds say little about a term."""
    yield 0, Domain(positive=asked.positive)


def _compare(computation: Computation, instruction: Instruction, asked: Domain) -> Iterator[Demand]:
    if asked.steps:
        for k, operand in enumerate(computation.operands(instruction)):
            if operand.array.dtype.is_integer:
                yield k, Domain(steps=True)


def _logic(computation: Computation, instruction: Instruction, asked: Domain) -> Iterator[Demand]:
    if asked.steps:
        for k in range(len(instruction.operands)):
            yield k, Domain(steps=True)


TRANSFERS: dict[str, Transfer] = {
    "copy":                 _same,
    "convert":              _same,
    "custom-call":          _marked,
    "reduce-precision":     _same,
    "floor":                _same,
    "ceil":                 _same,
    "round-nearest-afz":    _same,
    "round-nearest-even":   _same,
    "reshape":              _reshape,
    "bitcast":              _bitcast,
    "broadcast":            _moved,
    "transpose":            _moved,
    "reverse":              _moved,
    "slice":                _moved,
    "dynamic-slice":        _moved,
    "gather":               _moved,
    "all-gather":           _moved,
    "collective-permute":   _moved,
    "concatenate":          _all,
    "pad":                  _first_two,
    "dynamic-update-slice": _first_two,
    "select":               _select,
    "clamp":                _clamp,
    "maximum":              _extremum,
    "minimum":              _extremum,
    "add":                  _add,
    "subtract":             _subtract,
    "multiply":             _multiply,
    "divide":               _divide,
    "negate":               _negate,
    "reduce":               _reduce,
    "reduce-window":        _reduce,
    "compare":              _compare,
    "and":                  _logic,
    "or":                   _logic,
    "not":                  _logic,
}  # fmt: skip


# ---- what both need


def known_range(computation: Computation, name: str) -> tuple[float, float] | None:
    """Least and greatest element of a constant or an iota, seen through what only moves elements; None for all else."""
    instruction = source(computation, name)
    if not isinstance(instruction.shape, ArrayShape):
        return None
    shape = instruction.shape
    if instruction.opcode == "iota":
        last = shape.dims[attributes.integer(instruction, "iota_dimension", 0)] - 1 if shape.dims else 0
        return 0, max(0, last)
    if instruction.literal is None or shape.dtype.is_complex or not 0 < shape.size <= 1 << 16:
        return None
    return _literal_range(shape, instruction.literal)


@lru_cache(maxsize=1024)
def _literal_range(shape: ArrayShape, literal: Literal) -> tuple[float, float] | None:
    try:
        values = literal_array(shape, literal).astype("float64")
    except AssayError:
        return None
    return float(values.min()), float(values.max())


MOVES = frozenset(("broadcast", "reshape", "convert", "copy", "transpose", "bitcast", "slice"))


def source(computation: Computation, name: str) -> Instruction:
    """Where the elements of a value come from, seen through what only moves them (a few dozen steps at most)."""
    instruction = computation.by_name[name]
    for _ in range(64):
        if instruction.opcode not in MOVES:
            break
        instruction = computation.by_name[instruction.operands[0]]
    return instruction


def _values(asked: Domain) -> Domain:
    """What is asked of single elements, not of how they stand together."""
    return Domain(asked.low, asked.high, asked.positive, steps=asked.steps, definite=asked.definite)


def _ceil(value: float) -> float:
    return math.ceil(value) if math.isfinite(value) else value


def _floor(value: float) -> float:
    return math.floor(value) if math.isfinite(value) else value
