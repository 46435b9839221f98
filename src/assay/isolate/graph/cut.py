"""Cuts a module into pieces.

Every fusion and every other computing instruction of the entry, and of the bodies of loops, branches and calls that it
runs, is a piece. Kept inside a piece: constants, iotas and what only spreads or renames them, for a piece that gets
them as arguments is another program. A value used twice is one parameter. Instructions keep their names, layouts,
backend_config and attributes, computations are the module's own, and the module's configuration stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from assay.hlo.attributes import called
from assay.hlo.graph import reachable
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.printer import print_shape
from assay.hlo.shape import ArrayShape, TupleShape
from assay.isolate.graph.piece import Cut, Left, Piece

NAMING = frozenset(("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "opt-barrier"))
ENTERED = frozenset(("while", "conditional", "call"))
STARTS = frozenset(("async-start", "copy-start"))
_KEPT = frozenset(("constant", "iota"))
_SPREADING = frozenset(("broadcast", "bitcast", "reshape"))


def cut(module: Module) -> Cut:
    """All pieces of a module, in program order, each instruction once."""
    pieces: list[Piece] = []
    left: list[Left] = []
    for computation in _running(module):
        for instruction in computation.instructions:
            if instruction.opcode in NAMING:
                left.append(_left(computation, instruction, "names a value"))
            elif instruction.opcode in ENTERED:
                left.append(_left(computation, instruction, "what it calls is cut"))
            elif instruction.opcode in STARTS or instruction.opcode == "async-update":
                left.append(_left(computation, instruction, "part of the chain that its -done ends"))
            else:
                pieces.append(_piece(module, computation, instruction))
    return Cut(module, tuple(pieces), tuple(left))


def _left(computation: Computation, instruction: Instruction, why: str) -> Left:
    return Left(instruction.name, computation.name, instruction.opcode, why)


def _running(module: Module) -> Iterator[Computation]:
    """The entry, and what its loops, branches and calls run, in the order in which they are met."""
    met = {module.entry_name: module.entry}
    todo = [module.entry]
    while todo:
        computation = todo.pop(0)
        yield computation
        for instruction in computation.instructions:
            if instruction.opcode in ENTERED:
                for name in called(instruction):
                    if name not in met:
                        met[name] = module.by_name[name]
                        todo.append(met[name])


def _piece(module: Module, computation: Computation, instruction: Instruction) -> Piece:
    inside: dict[str, Instruction] = {}
    operands: dict[str, Instruction] = {}
    _take(computation, instruction, inside, operands)
    parameters: list[Instruction] = []
    unpacked: dict[str, list[Instruction]] = {}
    for name, operand in operands.items():
        if isinstance(operand.shape, TupleShape):
            raise NotImplementedError  # a tuple: one parameter a leaf
        parameters.append(Instruction(name, "parameter", operand.shape, parameter_number=len(parameters)))
    assert not unpacked
    entry = Computation(f"{instruction.name}.alone", (*parameters, *inside.values()), instruction.name)
    inner = {c.name: c for i in inside.values() for name in called(i) for c in reachable(module, name)}
    layout = ", ".join(print_shape(p.shape) for p in parameters)
    attributes = {**module.attributes, "entry_computation_layout": f"{{({layout})->{print_shape(instruction.shape)}}}"}
    alone = Module(instruction.name, (*inner.values(), entry), entry.name, attributes)
    return Piece(instruction.name, computation.name, instruction.opcode, alone, tuple(operands), tuple(inside))


def _take(
    computation: Computation,
    instruction: Instruction,
    inside: dict[str, Instruction],
    operands: dict[str, Instruction],
) -> None:
    for name in dict.fromkeys(instruction.operands):
        operand = computation.by_name[name]
        if operand.opcode in STARTS or operand.opcode == "async-update" or _kept(computation, operand):
            if name not in inside:
                _take(computation, operand, inside, operands)
        else:
            operands.setdefault(name, operand)
    inside[instruction.name] = replace(
        instruction, attributes={k: v for k, v in instruction.attributes.items() if k != "control-predecessors"}
    )


def _kept(computation: Computation, operand: Instruction) -> bool:
    """Whether a value is a constant in all but name."""
    while operand.opcode in _SPREADING and isinstance(operand.shape, ArrayShape):
        operand = computation.by_name[operand.operands[0]]
    return operand.opcode in _KEPT
