"""The two forms of asynchronous instructions: `slice-start(a), slice={...}` and `async-start(a), calls=` a slice.

XLA prints the short form where the computation that is called has one instruction besides its parameters. A module of
ours always has the long form, so that nothing else needs to know the short one; the printer shortens again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from assay.errors import HloTypeError
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.opcodes import ARITY, ASYNC_SUFFIXES, wrapped_opcode
from assay.hlo.reader import referred
from assay.hlo.shape import TupleShape

# hlo_parser.cc gives these to the outer instruction alone, and those below to both.
_OUTER = ("async_execution_thread", "async_group_id", "control-predecessors", "sharding")
_BOTH = ("metadata", "origin", "backend_config", "frontend_attributes", "statistics")
_SUFFIX = {opcode: suffix for suffix, opcode in ASYNC_SUFFIXES.items()}


OFFLOADED = "TODO(b/522284627)"
"""The target of the custom call in which libtpu (0.0.52) wraps what it offloads to the sparse core of a v6e."""


def begun(module: Module, start: Instruction) -> str:
    """The computation that an async-start begins, whose parameters are the operands of the start and of its updates.

    What is offloaded is called by a custom call without operands; before libtpu's pass `embed-call-graph` a plain call
    of the same computation stands there.
    """
    name = referred(start)[0]
    root = module.by_name[name].root
    if root.opcode == "custom-call" and root.attributes.get("custom_call_target", "").strip('"') == OFFLOADED:
        name = referred(root)[0]
    return name


def long_form(
    short: Instruction, operands: Sequence[Instruction], new_name: Callable[[str], str]
) -> tuple[Instruction, Computation | None]:
    """The async-start, -update or -done that `short` stands for and, for a start, the computation that it calls.

    Raises HloTypeError where the shape or the operand is not that of such an instruction.
    """
    forms = wrapped_opcode(short.opcode)
    assert forms is not None, f"{short.opcode} is no short form"
    opcode, inner_opcode = forms
    outer = {k: v for k, v in short.attributes.items() if k in _OUTER or k in _BOTH}
    if opcode != "async-start":
        starts = [operand.opcode in ("async-start", "async-update") for operand in operands]
        if starts[:1] != [True] or (opcode == "async-done" and len(operands) != 1):
            raise HloTypeError(f"`{short.opcode}` takes the value of an async-start or async-update")
        return replace(short, opcode=opcode, attributes=outer), None
    shape = short.shape
    if not (isinstance(shape, TupleShape) and len(shape.elements) >= 2):
        raise HloTypeError(f"`{short.opcode}` has a tuple shape, ((operands), result, ...)")
    if inner_opcode not in ("custom-call", "fusion") and "output_to_operand_aliasing" in short.attributes:
        outer["output_to_operand_aliasing"] = short.attributes["output_to_operand_aliasing"]
    if "calls" in short.attributes and inner_opcode not in ("fusion", "call", "custom-call"):
        # The canonical style prints the computation as well.
        return replace(short, opcode=opcode, attributes={"calls": short.attributes["calls"], **outer}), None
    if inner_opcode == "call" and not operands and "to_apply" in short.attributes:
        # An update brings the operands: nothing here says how many, so the computation is called itself.
        return replace(short, opcode=opcode, attributes={"calls": short.attributes["to_apply"], **outer}), None
    parameters = tuple(
        Instruction(f"async_param.{i}", "parameter", operand.shape, parameter_number=i)
        for i, operand in enumerate(operands)
    )
    attributes = {k: v for k, v in short.attributes.items() if k in _BOTH or k not in outer}
    root = Instruction("async_op", inner_opcode, shape.elements[1], tuple(p.name for p in parameters), attributes)
    name = new_name(f"async_wrapped.{short.name}")
    thread = outer.get("async_execution_thread")
    on_thread = {"execution_thread": thread} if thread else {}
    wrapped = Computation(name, (*parameters, root), root.name, on_thread)
    return replace(short, opcode=opcode, attributes={"calls": name, **outer}), wrapped


def shortened(module: Module) -> Module:
    """The module with the short form wherever XLA prints it; the computations that this makes needless are gone."""
    starts = [i for c in module.computations for i in c.instructions if i.opcode == "async-start"]
    if not starts:
        return module
    callers = Counter(name for c in module.computations for i in c.instructions for name in referred(i))
    gone = {
        name
        for start in starts
        if (name := start.attributes.get("calls", "")) in module.by_name and callers[name] == _chain(module, name)
        if _fits(start, module.by_name[name])
    }
    kept = tuple(_with_short_forms(c, module, gone) for c in module.computations if c.name not in gone)
    return replace(module, computations=kept)


def _chain(module: Module, name: str) -> int:
    """How many instructions of one asynchronous chain name the computation; 0 where there are several chains."""
    chains = [i.opcode for c in module.computations for i in c.instructions if i.attributes.get("calls") == name]
    return len(chains) if chains.count("async-start") == 1 and set(chains) <= set(_SUFFIX) else 0


def _fits(start: Instruction, wrapped: Computation) -> bool:
    """Whether the short form says all that the long one does."""
    root = wrapped.root
    thread = start.attributes.get("async_execution_thread")
    return (
        f"{root.opcode}-start" not in ARITY
        and len(wrapped.instructions) == len(wrapped.parameters) + 1
        and root.operands == tuple(p.name for p in wrapped.parameters)
        and len(start.operands) == len(root.operands)
        and all(root.attributes.get(key) == start.attributes.get(key) for key in _BOTH)
        and wrapped.attributes.get("execution_thread") == thread
        and not any(p.attributes for p in wrapped.parameters)
        and not any(key in root.attributes for key in _OUTER)
    )


def _with_short_forms(computation: Computation, module: Module, gone: set[str]) -> Computation:
    inner: dict[str, Instruction] = {}
    instructions: list[Instruction] = []
    for instruction in computation.instructions:
        if instruction.opcode == "async-start" and instruction.attributes.get("calls") in gone:
            root = module.by_name[instruction.attributes["calls"]].root
            inner[instruction.name] = root
            own = {k: v for k, v in instruction.attributes.items() if k != "calls"}
            first = {k: v for k, v in own.items() if k in ("async_execution_thread", "async_group_id")}
            specific = {k: v for k, v in root.attributes.items() if k not in _BOTH}
            instruction = replace(instruction, opcode=f"{root.opcode}-start", attributes=first | specific | own)
        elif instruction.opcode in _SUFFIX and instruction.operands and instruction.operands[0] in inner:
            root = inner[instruction.name] = inner[instruction.operands[0]]
            own = {k: v for k, v in instruction.attributes.items() if k != "calls"}
            instruction = replace(instruction, opcode=root.opcode + _SUFFIX[instruction.opcode], attributes=own)
        instructions.append(instruction)
    return replace(computation, instructions=tuple(instructions)) if inner else computation
