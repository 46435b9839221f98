"""A piece without its fusions: the same instructions, one by one, in the entry.

Fusions and calls are inlined, all layouts are the default ones, and a bitcast is the reshape and the transposes that it
stands for: what a compiler takes for an ordinary program and compiles its own way.
"""

from __future__ import annotations

from dataclasses import replace

from assay.errors import Unsupported
from assay.hlo.attributes import called
from assay.hlo.graph import reachable
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.shape import ArrayShape, Layout, Shape, TupleShape

INLINED = frozenset(("fusion", "call"))
_DROPPED = frozenset(("backend_config", "control-predecessors", "metadata", "output_to_operand_aliasing"))


def unfused(module: Module) -> Module:
    """`module` with nothing fused in what runs of it. Raises Unsupported for a bitcast that is no rearrangement."""
    computations = tuple(_inlined(module, c) for c in module.computations)
    whole = Module(module.name, computations, module.entry_name)  # the header speaks of a schedule and of layouts
    return replace(whole, computations=reachable(whole))


def _inlined(module: Module, computation: Computation) -> Computation:
    made: list[Instruction] = []
    names = _inline(module, computation, "", None, made)
    return Computation(computation.name, tuple(made), names[computation.root_name])


def _inline(
    module: Module, computation: Computation, prefix: str, operands: tuple[str, ...] | None, made: list[Instruction]
) -> dict[str, str]:
    """Adds what `computation` does to `made`; the new name of each of its instructions.

    operands: what its parameters stand for, None where it keeps them. Names are unique by the path of their callers.
    """
    names: dict[str, str] = {}
    for instruction in computation.instructions:
        if instruction.parameter_number is not None and operands is not None:
            names[instruction.name] = operands[instruction.parameter_number]
            continue
        given = tuple(names[name] for name in instruction.operands)
        if instruction.opcode in INLINED:
            body = module.by_name[called(instruction)[0]]
            inner = _inline(module, body, f"{prefix}{instruction.name}.", given, made)
            names[instruction.name] = inner[body.root_name]
            continue
        name = f"{prefix}{instruction.name}"
        names[instruction.name] = name
        attributes = {k: v for k, v in instruction.attributes.items() if k not in _DROPPED}
        plain = replace(instruction, name=name, operands=given, shape=_plain(instruction.shape), attributes=attributes)
        if instruction.opcode == "bitcast":
            made.extend(rearranged(plain, computation.by_name[instruction.operands[0]].shape, instruction.shape))
        else:
            made.append(plain)
    return names


def rearranged(instruction: Instruction, source: Shape, target: Shape) -> list[Instruction]:
    """A bitcast from one layout to another in logical terms; the last instruction has its name.

    The bytes are the array's with its dimensions in the order of memory, so: transpose to that order, reshape, and
    transpose back from the result's. Raises Unsupported where the layouts are tiled or the types are not the same.
    """
    if not isinstance(source, ArrayShape) or not isinstance(target, ArrayShape) or source.dtype != target.dtype:
        raise Unsupported("bitcast", "that is no rearrangement of one array")
    ((before, rows), (after, columns)) = (_in_memory(shape) for shape in (source, target))
    name, operand = instruction.name, instruction.operands[0]
    made: list[Instruction] = []
    if list(before) != sorted(before):
        operand = _add(made, f"{name}.from", "transpose", replace(source, dims=rows), operand, before)
    operand = _add(made, f"{name}.as", "reshape", replace(target, dims=columns), operand, None)
    if list(after) != sorted(after):
        back = tuple(after.index(k) for k in range(len(after)))
        _add(made, f"{name}.to", "transpose", target, operand, back)
    made[-1] = replace(made[-1], name=name)
    return made


def _add(
    made: list[Instruction], name: str, opcode: str, shape: ArrayShape, operand: str, order: tuple[int, ...] | None
) -> str:
    attributes = {} if order is None else {"dimensions": "{" + ",".join(map(str, order)) + "}"}
    made.append(Instruction(name, opcode, _plain(shape), (operand,), attributes))
    return name


def _in_memory(shape: ArrayShape) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Dimensions from major to minor, and their sizes in that order."""
    layout = shape.layout
    if layout is not None and layout.tiles:
        raise Unsupported("bitcast", "of a tiled array")
    order = tuple(range(shape.rank)) if layout is None else tuple(reversed(layout.minor_to_major))
    return order, tuple(shape.dims[k] for k in order)


def _plain(shape: Shape) -> Shape:
    """With default layouts."""
    if isinstance(shape, TupleShape):
        return replace(shape, elements=tuple(map(_plain, shape.elements)))
    if isinstance(shape, ArrayShape):
        return replace(shape, layout=Layout(tuple(reversed(range(shape.rank)))))
    return shape
