"""The table of type rules, and a module checked against it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from assay.errors import HloTypeError
from assay.hlo.graph import called_order
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.opcodes import ANY, ARITY
from assay.hlo.scan import Fault
from assay.hlo.shape import DTYPES, ArrayShape, Shape, TupleShape, compatible, is_tiled
from assay.hlo.shape_text import entry_shapes
from assay.hlo.types.contraction import CONTRACTION
from assay.hlo.types.control import CONTROL
from assay.hlo.types.elementwise import ELEMENTWISE
from assay.hlo.types.movement import MOVEMENT
from assay.hlo.types.rule import Rule, show

RULES: dict[str, Rule] = {**ELEMENTWISE, **MOVEMENT, **CONTRACTION, **CONTROL}


def infer_shape(instruction: Instruction, operand_shapes: Sequence[Shape], module: Module) -> Shape:
    """The shape of the instruction's result, without layouts, from its operands' shapes and its attributes.

    What no operand decides (a convert's element type, a custom-call's shape) is taken from the instruction. Raises
    HloTypeError where operands and attributes contradict each other.
    """
    arity = ARITY.get(instruction.opcode)
    if arity is None:
        raise HloTypeError(f"{instruction.name}: unknown opcode {instruction.opcode}")
    if arity != ANY and arity != len(operand_shapes):
        raise HloTypeError(
            f"{instruction.name}: {instruction.opcode} takes {arity} operands, there are {len(operand_shapes)}"
        )
    return RULES[instruction.opcode](instruction, tuple(operand_shapes), module)


def check_module(module: Module) -> None:
    """Raises HloTypeError, with computation and instruction, where a shape contradicts operands or attributes.

    Layouts and which dimensions are dynamic are not compared. Where the module has tiled layouts it is the TPU
    compiler's, whose operations take and give any float type for another (hlo_verifier.h, allow_mixed_precision).
    """
    called_order(module)
    mixed = _one_float(module) if _is_tiled(module) else None
    for computation in module.computations:
        numbers = [p.parameter_number for p in computation.parameters]
        if numbers != list(range(len(numbers))):
            raise HloTypeError(f"computation {computation.name}: its parameters are numbered {numbers}")
        for i, instruction in enumerate(computation.instructions):
            contradiction = _contradiction(instruction, computation, module)
            if contradiction and mixed is not None:
                twin = mixed.by_name[computation.name]
                contradiction = contradiction if _contradiction(twin.instructions[i], twin, mixed) else ""
            if contradiction:
                where = f"computation {computation.name}, instruction {instruction.name} ({instruction.opcode})"
                raise HloTypeError(f"{where}: {contradiction}")
    _check_entry_layout(module)


def _contradiction(instruction: Instruction, computation: Computation, module: Module) -> str:
    """What is wrong with the instruction; empty where nothing is."""
    by_name = computation.by_name
    try:
        expected = infer_shape(instruction, [by_name[name].shape for name in instruction.operands], module)
    except HloTypeError as error:
        return str(error)
    if compatible(expected, instruction.shape):
        return ""
    return f"expected {show(expected)}, there is {show(instruction.shape)}"


def _is_tiled(module: Module) -> bool:
    return any(is_tiled(instruction.shape) for instruction in module.entry.instructions)


def _one_float(module: Module) -> Module:
    """The module with f32 for every float type, in which mixed precision shows no more."""
    computations = tuple(
        replace(c, instructions=tuple(replace(i, shape=_with_one_float(i.shape)) for i in c.instructions))
        for c in module.computations
    )
    return replace(module, computations=computations)


def _with_one_float(shape: Shape) -> Shape:
    if isinstance(shape, TupleShape):
        return TupleShape(tuple(map(_with_one_float, shape.elements)))
    if isinstance(shape, ArrayShape) and shape.dtype.is_float:
        return replace(shape, dtype=DTYPES["f32"])
    return shape


def _check_entry_layout(module: Module) -> None:
    text = module.attributes.get("entry_computation_layout")
    if text is None:
        return
    entry = module.entry
    wanted = [*(p.shape for p in entry.parameters), entry.root.shape]
    try:
        given = entry_shapes(text)
    except Fault as fault:
        raise HloTypeError(f"entry_computation_layout: {fault.message}") from None
    if len(given) != len(wanted) or not all(map(compatible, given, wanted)):
        raise HloTypeError(
            f"entry_computation_layout has {', '.join(map(show, given[:-1]))} -> {show(given[-1])}, "
            f"computation {entry.name} {', '.join(map(show, wanted[:-1]))} -> {show(wanted[-1])}"
        )
