"""Attributes, element types, constants and values: each to what says the least."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from assay.errors import AssayError
from assay.hlo.attributes import without
from assay.hlo.literal import literal_array, literal_from_array
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.shape import DTYPES, ArrayShape, DType, Shape, TupleShape, leaves
from assay.isolate.graph.cut import running
from assay.reduce.candidate import Candidate, roughness, tidied, with_computation
from assay.reduce.focus import possible
from assay.reduce.search import Search
from assay.reference.value import Array

_SAID = ("metadata", "frontend_attributes", "sharding", "origin", "statistics", "backend_config", "result_accuracy")
"""What an instruction of a program carries and does not need to mean what it means."""
_PROMISES = ("indices_are_sorted", "unique_indices", "operand_precision", "is_stable", "algorithm")
_HEADER = ("frontend_attributes",)
_SIMPLE = {
    **dict.fromkeys(("f64", "f16", "bf16"), "f32"),
    **dict.fromkeys(("s64", "s16", "s8", "u64", "u32", "u16", "u8"), "s32"),
    "c128": "c64",
}
"""To which element type each is tried to be changed, all over the program."""


def everything(search: Search) -> None:
    attributes(search)
    types(search)
    constants(search)
    values(search)


# ---------------------------------------------------------------- attributes


def attributes(search: Search) -> None:
    """Without what is only said; at once, else each kind alone, then instruction by instruction."""
    kinds = sorted({k for c in search.current.module.computations for i in c.instructions for k in i.attributes})
    there = [kind for kind in kinds if kind in (*_SAID, *_PROMISES)]
    if search.current.module.scheduled:  # of an optimized module the backend's words are part of what is compiled
        there = [kind for kind in there if kind not in ("backend_config", *_PROMISES)]
    choices = [there, [kind for kind in there if kind in _SAID], *([kind] for kind in there)]
    for _ in range(len(choices)):
        made = (_without(search.current, choice) for choice in choices if choice)
        if search.first(made) is None:
            break


def _without(candidate: Candidate, kinds: Sequence[str]) -> Candidate:
    header = {k: v for k, v in candidate.module.attributes.items() if k not in _HEADER}
    module = replace(without(candidate.module, kinds), attributes=header, tables="")
    return Candidate(module, candidate.arguments, f"without {', '.join(kinds)}")


# ---------------------------------------------------------------- element types


def types(search: Search) -> None:
    """One element type for another all over the program."""
    for name, plain in _SIMPLE.items():
        if name in _types(search.current.module):
            search.first([possible(partial(_retyped, search.current, DTYPES[name], DTYPES[plain]))])


def _types(module: Module) -> set[str]:
    shapes = (leaf for c in module.computations for i in c.instructions for leaf in leaves(i.shape))
    return {shape.dtype.name for shape in shapes if isinstance(shape, ArrayShape)}


def _retyped(candidate: Candidate, old: DType, new: DType) -> Candidate:
    def shape_of(shape: Shape) -> Shape:
        if isinstance(shape, TupleShape):
            return TupleShape(tuple(map(shape_of, shape.elements)))
        return replace(shape, dtype=new) if isinstance(shape, ArrayShape) and shape.dtype is old else shape

    def changed(instruction: Instruction) -> Instruction:
        shape = shape_of(instruction.shape)
        if instruction.literal is None or shape == instruction.shape:
            return replace(instruction, shape=shape, attributes=_compared(instruction, old, new))
        assert isinstance(shape, ArrayShape)
        return _with_value(
            replace(instruction, shape=shape), _as(literal_array(instruction.array, instruction.literal), new)
        )

    computations = tuple(
        replace(c, instructions=tuple(map(changed, c.instructions))) for c in candidate.module.computations
    )
    shapes = [p.array for p in candidate.module.entry.parameters]
    pairs = zip(candidate.arguments, shapes, strict=True)
    arguments = tuple(_as(a, new) if s.dtype is old else a for a, s in pairs)
    return tidied(replace(candidate.module, computations=computations), arguments, f"{new} for {old}")


def _as(array: Array, dtype: DType) -> Array:
    assert dtype.numpy is not None
    with np.errstate(all="ignore"):
        return array.astype(dtype.numpy)


def _compared(instruction: Instruction, old: DType, new: DType) -> Mapping[str, str]:
    """A comparison that says how its operands are to be taken says so of another type now."""
    if instruction.opcode != "compare" or old.kind == new.kind or "type" not in instruction.attributes:
        return instruction.attributes
    return {k: v for k, v in instruction.attributes.items() if k != "type"}


def _with_value(instruction: Instruction, value: Array) -> Instruction:
    return replace(instruction, literal=literal_from_array(instruction.array, value))


# ---------------------------------------------------------------- constants


def constants(search: Search) -> None:
    """Simpler constants in what runs; those that reductions begin with stay, for they are to be neutral."""
    for name in [c.name for c in running(search.current.module)]:
        position = 0
        while position < len(places := _constants(search.current.module, name)):
            place = places[position]
            made = (possible(partial(_constant, search.current, name, place, v)) for v in _simpler_of(search, place))
            if search.first(made) is None:
                position += 1


def _constants(module: Module, name: str) -> list[Instruction]:
    there = module.by_name.get(name)
    if there is None:
        return []
    neutral = set(_neutral(there))
    return [i for i in there.instructions if i.literal is not None and i.name not in neutral and _writable(i)]


def _writable(instruction: Instruction) -> bool:
    shape = instruction.shape
    return isinstance(shape, ArrayShape) and shape.dtype.numpy is not None and shape.size > 0


def _neutral(computation: Computation) -> Iterator[str]:
    """The operands that an operation asks to be neutral (see `assay.contracts`), as many as there are arrays."""
    for instruction in computation.instructions:
        if instruction.opcode in ("reduce", "reduce-window"):
            yield from instruction.operands[len(instruction.operands) // 2 :]
        elif instruction.opcode == "select-and-scatter":
            yield instruction.operands[2]


def _simpler_of(search: Search, instruction: Instruction) -> Iterator[Array]:
    assert instruction.literal is not None
    return simpler(literal_array(instruction.array, instruction.literal))


def _constant(candidate: Candidate, name: str, place: Instruction, value: Array) -> Candidate:
    there = candidate.module.by_name[name]
    changed = tuple(_with_value(i, value) if i.name == place.name else i for i in there.instructions)
    module = with_computation(candidate.module, replace(there, instructions=changed))
    return Candidate(module, candidate.arguments, f"another value of {place.name}")


# ---------------------------------------------------------------- values of the arguments


def values(search: Search) -> None:
    """Simpler arguments, whole and then in ever smaller parts."""
    for position in range(len(search.current.arguments)):
        parameter = search.current.module.entry.parameters[position]
        if parameter.name in set(_neutral(search.current.module.entry)):
            continue
        while search.first(_with_argument(search.current, position, v) for v in _choices(search, position)) is not None:
            pass
        _parts(search, position)


def _choices(search: Search, position: int) -> Iterator[Array]:
    return simpler(search.current.arguments[position])


def _with_argument(candidate: Candidate, position: int, value: Array) -> Candidate:
    arguments = tuple(value if i == position else a for i, a in enumerate(candidate.arguments))
    return Candidate(candidate.module, arguments, f"another value of argument {position}")


def _parts(search: Search, position: int) -> None:
    """Zeros in more and more of the elements."""
    size = search.current.arguments[position].size
    step = size // 2
    for _ in range(PART_ROUNDS):
        if step == 0:
            return
        starts = range(0, size, step)
        made = (_with_argument(search.current, position, v) for v in _zeroed(search, position, starts, step))
        if search.first(made) is None:
            step //= 2


def _zeroed(search: Search, position: int, starts: Sequence[int], step: int) -> Iterator[Array]:
    for start in starts:
        changed = search.current.arguments[position].copy()
        changed.reshape(-1)[start : start + step] = np.zeros((), changed.dtype)
        yield changed


PART_ROUNDS = 12


def simpler(array: Array) -> Iterator[Array]:
    """Arrays of the same type and shape that are nearer to zeros and ones, the simplest first."""
    if array.size == 0:
        return
    made: list[Array] = []
    with np.errstate(all="ignore"):
        for make in (_zeros, _ones, _counted, _same, _near, _rounded, _halves):
            try:
                made.append(np.asarray(make(array)).astype(array.dtype))
            except (AssayError, TypeError, ValueError, OverflowError):
                continue  # this type has none such
    rough = roughness(array)
    for one in made:
        if roughness(one) < rough:
            yield one


def _wide(array: Array) -> Array:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _zeros(array: Array) -> Array:
    return np.zeros_like(array)


def _ones(array: Array) -> Array:
    return np.ones_like(array)


def _counted(array: Array) -> Array:
    return np.arange(array.size).reshape(array.shape)


def _same(array: Array) -> Array:
    return np.broadcast_to(array.reshape(-1)[:1].reshape((1,) * array.ndim), array.shape)


def _near(array: Array) -> Array:
    """Signs alone."""
    return np.sign(_wide(array)) if array.dtype.kind != "c" else _rounded(array)


def _rounded(array: Array) -> Array:
    return np.round(_wide(array))


def _halves(array: Array) -> Array:
    wide = _wide(array)
    return np.trunc(wide / 2) if array.dtype.kind != "c" else wide / 2
