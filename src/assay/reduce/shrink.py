"""Dimensions: which must be equal, and how a program is with some of them smaller.

Dimensions of instructions that must be equal are one class. A class is given another size; what follows by arithmetic
(the result of a pad, of a concatenation, of a window) follows, attributes that repeat sizes are written anew, and
constants and arguments are cut. What comes out is a candidate like any other: the type rules say whether it fits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from assay.errors import HloTypeError
from assay.hlo.attributes import gather_dims, slices
from assay.hlo.literal import literal_array, literal_from_array
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.shape import ArrayShape, Shape, TupleShape
from assay.reduce.candidate import Candidate, tidied
from assay.reduce.dims import Classes, Place, array_places, classes, derived
from assay.reduce.focus import possible
from assay.reduce.search import Search
from assay.reference.value import Array

ROUNDS = 64
"""Of what follows from what; more means that sizes chase one another."""


def dimensions(search: Search) -> None:
    """Every class smaller, the one with most elements first, as long as that works."""
    while search.first(_smaller(search)) is not None:
        pass


def _smaller(search: Search) -> Iterator[Candidate | None]:
    current = search.current
    found = classes(current.module)
    for group in sorted(found.free(), key=lambda g: -found.sizes[g]):
        size = found.sizes[group]
        for wanted in dict.fromkeys((1, 2, size // 4, *(size - size // 2**n for n in range(1, 7)), size - 1)):
            if 0 < wanted < size:
                for last in (False, True):
                    yield possible(partial(_with_size, current, found, group, wanted, last))


def _with_size(candidate: Candidate, found: Classes, group: Place, size: int, last: bool) -> Candidate:
    """last: of what is cut, the last elements stay, and not the first."""
    sizes = dict(found.sizes)
    sizes[group] = size
    _follow(candidate.module, found, sizes, {group})
    changed = {g for g, n in sizes.items() if n != found.sizes[g]}
    if any(g in found.frozen for g in changed):
        raise HloTypeError("a dimension that must stay")
    module = candidate.module

    def dims(computation: Computation, instruction: Instruction) -> Shape:
        numbers = iter(array_places(computation, instruction))

        def resized(shape: Shape) -> Shape:
            if isinstance(shape, TupleShape):
                return TupleShape(tuple(map(resized, shape.elements)))
            if not isinstance(shape, ArrayShape):
                return shape
            new = tuple(sizes[found.of[place]] for place in next(numbers))
            return replace(shape, dims=new)

        return resized(instruction.shape)

    computations = []
    for computation in module.computations:
        shapes = {i.name: dims(computation, i) for i in computation.instructions}
        computations.append(
            replace(
                computation,
                instructions=tuple(_rewritten(computation, i, shapes, last) for i in computation.instructions),
            )
        )
    made = replace(module, computations=tuple(computations))
    parameters = {p.parameter_number: p for p in made.entry.parameters}
    arguments = [_cut(a, parameters[n].array.dims, last) for n, a in enumerate(candidate.arguments)]
    words = f"dimensions of {found.sizes[group]} as {size}"
    return tidied(made, arguments, words)


def _follow(module: Module, found: Classes, sizes: dict[Place, int], fixed: set[Place]) -> None:
    """Gives the sizes that follow by arithmetic from others. Raises HloTypeError where they contradict one another."""
    for _ in range(ROUNDS):
        moved = False
        for computation, instruction in found.arithmetic:
            for place, size in derived(module, computation, instruction, lambda p: sizes[found.of[p]]):
                group = found.of[place]
                if sizes[group] == size:
                    continue
                if group in fixed or size < 0:
                    raise HloTypeError(f"{instruction.name}: {size} elements do not fit")
                sizes[group], moved = size, True
                fixed.add(group)
        if not moved:
            return
    raise HloTypeError("no sizes fit together")


def _cut(array: Array, dims: Sequence[int], last: bool) -> Array:
    if any(new > old for new, old in zip(dims, array.shape, strict=True)):
        raise HloTypeError("an array would have to be larger")
    places = tuple(slice(old - new, old) if last else slice(new) for new, old in zip(dims, array.shape, strict=True))
    return array[places].copy()


def _rewritten(computation: Computation, instruction: Instruction, shapes: dict[str, Shape], last: bool) -> Instruction:
    """The instruction with its new shape, and what in it repeats sizes."""
    shape = shapes[instruction.name]
    if shape == instruction.shape and all(
        shapes[name] == computation.by_name[name].shape for name in instruction.operands
    ):
        return instruction
    made = replace(instruction, shape=shape)
    if instruction.literal is not None and isinstance(shape, ArrayShape):
        value = _cut(literal_array(instruction.array, instruction.literal), shape.dims, last)
        return replace(made, literal=literal_from_array(shape, value))
    if not isinstance(shape, ArrayShape):
        return made
    old = [computation.by_name[name].shape for name in instruction.operands]
    new = [shapes[name] for name in instruction.operands]
    attributes = dict(instruction.attributes)
    if instruction.opcode == "slice":
        attributes["slice"] = _sliced(instruction, shape)
    elif instruction.opcode == "dynamic-slice":
        attributes["dynamic_slice_sizes"] = _listed(shape.dims)
    elif instruction.opcode == "gather":
        attributes["slice_sizes"] = _listed(_gathered(instruction, old[0], new[0]))
    return replace(made, attributes=attributes)


def _listed(numbers: Sequence[int]) -> str:
    return f"{{{','.join(map(str, numbers))}}}"


def _sliced(instruction: Instruction, shape: ArrayShape) -> str:
    parts = []
    for (start, _, stride), size in zip(slices(instruction), shape.dims, strict=True):
        limit = start + (size - 1) * stride + 1 if size else start
        parts.append(f"[{start}:{limit}{f':{stride}' if stride != 1 else ''}]")
    return f"{{{', '.join(parts)}}}"


def _gathered(instruction: Instruction, old: Shape, new: Shape) -> list[int]:
    """Slices of a whole dimension stay such."""
    assert isinstance(old, ArrayShape)
    assert isinstance(new, ArrayShape)
    sizes = gather_dims(instruction).slice_sizes
    return [n if size == whole else size for size, whole, n in zip(sizes, old.dims, new.dims, strict=True)]
