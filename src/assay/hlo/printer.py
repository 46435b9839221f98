"""Module -> HLO text, in the long style of `HloModule.to_string()` with large constants.

What XLA printed in that style comes back letter by letter. Shapes are printed from the data; literals, attributes and
tables are the text that was parsed, in its order, since XLA's parser takes attributes in any order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache

from assay.hlo import async_form
from assay.hlo.attribute_names import REFERENCES
from assay.hlo.literal import with_negative_zeros
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.reader import NAMES
from assay.hlo.shape import (
    UNBOUNDED,
    ArrayShape,
    BufferShape,
    Layout,
    OpaqueShape,
    Shape,
    TokenShape,
    TupleShape,
    leaves,
)


def print_module(module: Module) -> str:
    """The text of a whole module, which XLA parses to the same module."""
    return "".join(_pieces(module))


def print_for_compiler(module: Module) -> str:
    """The text to give to a compiler: as `print_module`, with `-0.0` where XLA wrote `-0` and would read 0 back, and
    without stack frames by number where the module has no table of them, which XLA warns of.
    """
    mended = _with_negative_zeros if module.tables else lambda i: _without_frame(_with_negative_zeros(i))
    computations = tuple(replace(c, instructions=tuple(mended(i) for i in c.instructions)) for c in module.computations)
    return print_module(replace(module, computations=computations))


def _without_frame(instruction: Instruction) -> Instruction:
    metadata = instruction.attributes.get("metadata", "")
    if "stack_frame_id=" not in metadata:
        return instruction
    kept = {**instruction.attributes, "metadata": _FRAME.sub("", metadata)}
    if kept["metadata"] == "{}":
        del kept["metadata"]
    return replace(instruction, attributes=kept)


_FRAME = re.compile(r"(?<=[{ ])stack_frame_id=\d+ ?| stack_frame_id=\d+(?=})")


def _with_negative_zeros(instruction: Instruction) -> Instruction:
    literal = instruction.literal
    if literal is None or "-0" not in literal.text:
        return instruction
    if any(
        isinstance(s, ArrayShape) and not (s.dtype.is_float or s.dtype.is_complex) for s in leaves(instruction.shape)
    ):
        return instruction
    return replace(instruction, literal=with_negative_zeros(literal))


def _pieces(module: Module) -> Iterator[str]:
    module = async_form.shortened(module)
    yield f"HloModule {module.name or 'module'}{_listed(module.attributes)}\n\n"
    if module.tables:
        yield f"{module.tables}\n\n\n"
    for computation in module.computations:
        yield "ENTRY " if computation.name == module.entry_name else ""
        yield print_computation(computation)
        yield "\n\n"


def print_computation(computation: Computation) -> str:
    """The text of one computation, from its name to its closing brace and its attributes; without ENTRY."""
    parameters = ", ".join(f"{p.name}: {print_shape(p.shape, layout=False)}" for p in computation.parameters)
    result = print_shape(computation.root.shape, layout=False)
    lines = [f"%{computation.name} ({parameters}) -> {result} {{"]
    for instruction in computation.instructions:
        root = "ROOT " if instruction.name == computation.root_name else ""
        lines.append(f"  {root}{print_instruction(instruction)}")
    lines.append("}" + _listed(computation.attributes))
    return "\n".join(lines)


def print_instruction(instruction: Instruction) -> str:
    """One instruction on one line, without ROOT and indentation."""
    if instruction.literal is not None:
        inside = instruction.literal.text
    elif instruction.parameter_number is not None:
        inside = str(instruction.parameter_number)
    else:
        inside = _numbered(["%" + name for name in instruction.operands])
    head = f"%{instruction.name} = {print_shape(instruction.shape)} {instruction.opcode}({inside})"
    return head + _listed(instruction.attributes) if instruction.attributes else head


def _listed(attributes: Mapping[str, str]) -> str:
    return "".join([f", {k}={_with_percent(v) if k in REFERENCES else v}" for k, v in attributes.items()])


def _with_percent(value: str) -> str:
    return NAMES.sub(r"%\g<0>", value)


def _numbered(texts: Iterable[str]) -> str:
    """XLA marks each fifth element of a long list with its index."""
    listed = list(texts)
    if len(listed) <= 5:
        return ", ".join(listed)
    return ", ".join([f"/*index={i}*/{t}" if i and i % 5 == 0 else t for i, t in enumerate(listed)])


@lru_cache(maxsize=8192)
def print_shape(shape: Shape, layout: bool = True) -> str:
    """`f32[8,<=128]{1,0:T(8,128)S(1)}`, `(f32[], s32[2]{0})`, `token[]`; without layouts on request."""
    match shape:
        case ArrayShape():
            return _array(shape) + (_layout(shape.layout) if layout and shape.layout is not None else "")
        case TupleShape():
            return f"({_numbered(print_shape(element, layout) for element in shape.elements)})"
        case TokenShape():
            return "token[]"
        case OpaqueShape():
            return "opaque[]"
        case BufferShape():
            return f"b({print_shape(shape.array, layout)})"


def _array(shape: ArrayShape) -> str:
    if not shape.dynamic:
        return f"{shape.dtype.name}[{','.join(map(str, shape.dims))}]"
    sizes = [
        "?" if size == UNBOUNDED else f"<={size}" if dynamic else str(size)
        for size, dynamic in zip(shape.dims, shape.dynamic, strict=True)
    ]
    return f"{shape.dtype.name}[{','.join(sizes)}]"


# The order in which Layout::Print of XLA writes the properties, and its parser wants them. `D` comes before the tiles
# (`T`), `S` is the memory space.
_ORDER = ("D", "T", "L", "#", "*", "E", "S", "SC", "P", "M")


def _layout(layout: Layout) -> str:
    properties = {extra.split("(", 1)[0]: extra for extra in layout.extra}
    if layout.tiles:
        groups = (",".join("*" if d is None else str(d) for d in tile.dims) for tile in layout.tiles)
        properties["T"] = "T" + "".join(f"({group})" for group in groups)
    if layout.memory_space:
        properties["S"] = f"S({layout.memory_space})"
    order = ",".join(map(str, layout.minor_to_major))
    if not properties:
        return f"{{{order}}}" if order else ""
    return f"{{{order}:{''.join(properties[key] for key in sorted(properties, key=_ORDER.index))}}}"
