"""Which memory XLA:CPU gives to each value of a graph, and pieces that share theirs as they do in the graph.

A kernel that writes over an operand is other code than one that does not, for LLVM is told which pointers may be one
(measured: 16 of 394 kernels of eight programs). So a piece whose result lies in an operand's memory gets a copy of that
operand, whose memory the result may have; it counts as another piece than its like that does not.

Source: `*.cpu_after_optimizations-buffer-assignment.txt` and `-values.txt` of a dump: which value lies where, and under
which names it goes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from assay.errors import InputError
from assay.hlo.module import Instruction, Module
from assay.hlo.shape import ArrayShape, Shape, TupleShape, byte_size
from assay.isolate.graph.piece import Cut, Operand, Piece

ASSIGNMENT = "cpu_after_optimizations-buffer-assignment.txt"
_ALLOCATION = re.compile(r"allocation (\d+): ")
_PLACED = re.compile(r" value: (<\d+) .*> \(size=(\d+),offset=(\d+)\): ")
_VALUE = re.compile(r"(<\d+) .*>$")
_POSITION = re.compile(r"  (\S+)(?: \{([\d, ]*)\})?$")

Place = tuple[int, int, int]
"""Allocation, offset, bytes."""


@dataclass(frozen=True, slots=True)
class Memory:
    """The places of the arrays of a graph."""

    places: Mapping[Operand, frozenset[Place]]

    def one(self, name: str, index: tuple[int, ...]) -> Place | None:
        """Where the array lies; None where that is not known, or differs from one moment to another."""
        found = self.places.get(Operand(name, index), frozenset())
        return next(iter(found)) if len(found) == 1 else None


def read(folder: Path) -> Memory:
    """From the dump of one compilation. Raises InputError where there is not one assignment in it."""
    files = sorted(folder.glob(f"*.{ASSIGNMENT}"))
    if len(files) != 1:
        raise InputError(f"{folder}: {len(files)} files *.{ASSIGNMENT}, one is needed: dump one compilation into it")
    values = files[0].with_name(files[0].name.removesuffix(".txt") + "-values.txt")
    if not values.exists():
        raise InputError(f"{values}: not there, and it says under which names a value goes")
    placed = dict(_placed(files[0].read_text()))
    places: dict[Operand, set[Place]] = {}
    for value, position in _positions(values.read_text()):
        if value in placed:
            places.setdefault(position, set()).add(placed[value])
    return Memory({position: frozenset(found) for position, found in places.items()})


def _placed(text: str) -> Iterator[tuple[str, Place]]:
    allocation = -1
    for line in text.splitlines():
        if match := _ALLOCATION.match(line):
            allocation = int(match[1])
        elif match := _PLACED.match(line):
            yield match[1], (allocation, int(match[3]), int(match[2]))


def _positions(text: str) -> Iterator[tuple[str, Operand]]:
    value, listed = "", False
    for line in text.splitlines():
        if match := _VALUE.match(line):
            value, listed = match[1], False
        elif line.startswith("  ") and listed and (match := _POSITION.match(line)):
            yield value, Operand(match[1], tuple(int(i) for i in match[2].split(",")) if match[2] else ())
        else:
            listed = line == " positions:"


def as_in_graph(cut: Cut, memory: Memory) -> Cut:
    """The pieces, each with its results in the memory of those operands in which they lie in the graph."""
    return replace(cut, pieces=tuple(_sharing(piece, memory) for piece in cut.pieces))


def _sharing(piece: Piece, memory: Memory) -> Piece:
    free: dict[Place, int] = {}
    for number, operand in enumerate(piece.operands):
        place = memory.one(operand.name, operand.index)
        if place is not None and place[2] > 0:
            free[place] = number
    shared = set()
    root = piece.module.entry.root
    for index, shape in _arrays(root.shape) if free else ():
        place = memory.one(root.name, index)
        if place is not None and place[2] == byte_size(shape) and place in free:
            shared.add(free.pop(place))
    return replace(piece, module=_copying(piece.module, shared)) if shared else piece


def _copying(module: Module, shared: set[int]) -> Module:
    """With a copy of each of these parameters in its place: it has their name, and its memory is free for the result.

    An `input_output_alias` would do the same, but jax 0.10.2 loses it where a module is compiled as it is.
    """
    entry = module.entry
    parameters: list[Instruction] = []
    copies: list[Instruction] = []
    for parameter in entry.parameters:
        if parameter.parameter_number in shared:
            name = f"{parameter.name}.given"
            while name in entry.by_name:
                name += ".given"
            copies.append(Instruction(parameter.name, "copy", parameter.shape, (name,)))
            parameter = replace(parameter, name=name)
        parameters.append(parameter)
    rest = [i for i in entry.instructions if i.parameter_number is None]
    changed = replace(entry, instructions=(*parameters, *copies, *rest))
    return replace(module, computations=tuple(changed if c is entry else c for c in module.computations))


def _arrays(shape: Shape, index: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], ArrayShape]]:
    if isinstance(shape, TupleShape):
        for i, element in enumerate(shape.elements):
            yield from _arrays(element, (*index, i))
    elif isinstance(shape, ArrayShape):
        yield index, shape
