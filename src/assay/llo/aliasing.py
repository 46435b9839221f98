"""Which outputs of an instruction lie in the memory of one of its operands.

Known: libtpu numbers a kernel's buffers, operands first, and lists those that are one under `aliasing_operands` in
`backend_config`; the dumps of the kernels say `may-alias` with the same numbers (libtpu 0.0.52). XLA's own attribute
for custom calls and fusions is `output_to_operand_aliasing={{1}: (0, {})}`: output, operand, where in the operand.
"""

from __future__ import annotations

import json
import re

from assay.hlo.module import Instruction
from assay.hlo.shape import ArrayShape, Shape, TupleShape, leaves

_ALIAS = re.compile(r"\{(?P<output>[\d, ]*)\}:\s*\((?P<operand>\d+),\s*\{(?P<inside>[\d, ]*)\}")


def shared_memory(instruction: Instruction, inputs: int, operands: tuple[Shape, ...] = ()) -> dict[int, int]:
    """Number of an output -> number of the input that it shares memory with, both counted in arrays.

    inputs: how many arrays the operands are. operands: their shapes; where they are given, XLA's own attribute counts.
    """
    found: dict[int, int] = {}
    for group in _groups(instruction.attributes.get("backend_config", "")):
        sources = [number for number in group if number < inputs]
        for number in group:
            if number >= inputs and sources:
                found[number - inputs] = sources[0]
    firsts = [sum(_count(shape) for shape in operands[:k]) for k in range(len(operands))]
    for match in _ALIAS.finditer(instruction.attributes.get("output_to_operand_aliasing", "")):
        operand = int(match["operand"])
        if operand < len(operands):
            source = firsts[operand] + _number(operands[operand], match["inside"])
            found[_number(instruction.shape, match["output"])] = source
    return found


def _groups(text: str) -> list[list[int]]:
    if '"aliasing_operands"' not in text:
        return []
    lists = json.loads(text)["aliasing_operands"].get("lists", [])
    return [[int(index) for index in one.get("indices", [])] for one in lists]


def _count(shape: Shape) -> int:
    return sum(1 for leaf in leaves(shape) if isinstance(leaf, ArrayShape))


def _number(shape: Shape, path: str) -> int:
    """The number of the array at `path`, as `1, 0`."""
    before = 0
    for index in (int(step) for step in path.split(",") if step.strip()):
        assert isinstance(shape, TupleShape)
        before += sum(_count(element) for element in shape.elements[:index])
        shape = shape.elements[index]
    return before
