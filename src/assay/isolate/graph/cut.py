"""Cuts a module into pieces.

Every fusion and every other computing instruction of the entry, and of the bodies of loops, branches and calls that it
runs, is a piece. Kept inside a piece: constants, iotas and what only spreads or renames them, for a piece that gets
them as arguments is another program. A value used twice is one parameter, under whatever names. Instructions keep
their names, layouts, backend_config and attributes, computations are the module's own, and the module's configuration
stays. One walk: linear in the instructions of the module and of the pieces.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from assay.hlo.attributes import called, frontend
from assay.hlo.graph import called_order
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.opcodes import CONTROL_FLOW
from assay.hlo.shape import ArrayShape, BufferShape, OpaqueShape, leaves
from assay.isolate.graph.alone import Closures, alone, attributes
from assay.isolate.graph.piece import Cut, Left, Piece
from assay.isolate.graph.values import SAME, Values, is_memory, values

_NAMING = frozenset(("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", *SAME))
_PLACE = frozenset(("partition-id", "replica-id"))
_STARTS = frozenset(("async-start", "copy-start", "all-gather-start", "all-reduce-start", "collective-permute-start"))
_DONES = frozenset(("async-done", "copy-done", "all-gather-done", "all-reduce-done", "collective-permute-done"))
_OUTSIDE = frozenset(("infeed", "outfeed", "send", "send-done", "recv", "recv-done"))
_ELSEWHERE = "the other end of its chain is in another computation, or nowhere"


def cut(module: Module) -> Cut:
    """All pieces of a module, in program order, each instruction once. Raises HloTypeError for a computation that calls
    itself or one that is not there.
    """
    pieces: list[Piece] = []
    left: list[Left] = []
    closures = Closures(module, {c.name: place for place, c in enumerate(called_order(module))})
    header = attributes(module)
    spreading: dict[str, bool] = {}
    for computation in running(module):
        known = values(module, computation, spreading)
        chains = _chains(module, computation, known)
        for instruction in computation.instructions:
            why = _left(module, computation, instruction, chains)
            if why:
                left.append(Left(instruction.name, computation.name, instruction.opcode, why))
            elif instruction.name not in chains.inside:
                chain = chains.of.get(instruction.name, (instruction,))
                pieces.append(alone(module, computation, chain, known, closures, header))
    return Cut(module, tuple(pieces), tuple(left))


def running(module: Module) -> Iterator[Computation]:
    """The entry, and what its loops, branches and calls run, in the order in which they are met."""
    met = {module.entry_name}
    todo = deque((module.entry,))
    while todo:
        computation = todo.popleft()
        yield computation
        for instruction in computation.instructions:
            if _enters(module, instruction):
                for name in called(instruction):
                    if name not in met:
                        met.add(name)
                        todo.append(module.by_name[name])


def _enters(module: Module, instruction: Instruction) -> bool:
    """Whether what the instruction calls is a graph, and not the inside of one kernel."""
    if instruction.opcode == "async-start":
        inner = module.by_name[called(instruction)[0]]
        return len(inner.instructions) != len(inner.parameters) + 1 or inner.root.opcode in CONTROL_FLOW
    return instruction.opcode in CONTROL_FLOW and not _is_kernel(module, instruction)


def _is_kernel(module: Module, instruction: Instruction) -> bool:
    """Whether XLA:CPU makes one kernel of a call: its root runs on several threads (parallel_task_assignment.cc), or it
    is a loop too small for a thunk of its own (small_while_loop_hoisting_pass.cc).
    """
    if instruction.opcode != "call":
        return False
    if frontend(instruction).get("xla_cpu_small_call") == "true":
        return True
    root = module.by_name[called(instruction)[0]].root
    return any(
        "outer_dimension_partitions" in i.attributes
        or "outer_dimension_partitions" in i.attributes.get("backend_config", "")
        for i in (instruction, root)
    )


@dataclass(slots=True)
class _Chains:
    """of: by the name of a -done, the chain from its start. inside: those of a chain that are not its end. entered: the
    names of all members of a chain whose computation is a graph. broken: ends that have no other end here. bound: of
    chains that work on memory of the graph.
    """

    of: dict[str, tuple[Instruction, ...]] = field(default_factory=dict)
    inside: set[str] = field(default_factory=set)
    entered: set[str] = field(default_factory=set)
    broken: set[str] = field(default_factory=set)
    bound: set[str] = field(default_factory=set)


def _chains(module: Module, computation: Computation, known: Values) -> _Chains:
    chains = _Chains()
    so_far: dict[str, tuple[Instruction, ...]] = {}
    for instruction in computation.instructions:
        if instruction.opcode in _STARTS:
            so_far[instruction.name] = (instruction,)
            if _enters(module, instruction):
                chains.entered.add(instruction.name)
            chains.broken.add(instruction.name)
        elif instruction.opcode == "async-update" or instruction.opcode in _DONES:
            source = known.source[instruction.operands[0]]
            before = () if source.index else so_far.pop(source.name, ())
            if before and before[0].name in chains.entered:
                chains.entered.add(instruction.name)
            if not before or instruction.opcode == "async-update":
                chains.broken.add(instruction.name)
            if before and instruction.opcode == "async-update":
                so_far[instruction.name] = (*before, instruction)
            elif before:
                chains.of[instruction.name] = (*before, instruction)
                names = {i.name for i in before}
                chains.inside |= names
                chains.broken -= names
                if _bound(computation, chains.of[instruction.name]):
                    chains.bound |= {instruction.name, *names}
    return chains


def _left(module: Module, computation: Computation, instruction: Instruction, chains: _Chains) -> str:
    """Why an instruction is no piece; "" where it is one or part of one."""
    opcode = instruction.opcode
    if opcode in _NAMING:
        return "names a value"
    if opcode in _PLACE:
        return "says where the program runs"
    if is_memory(instruction):
        return "is memory that nothing was written to"
    if instruction.name in chains.entered or _enters(module, instruction):
        return "what it calls is cut"
    if instruction.name in chains.broken:
        return _ELSEWHERE
    if opcode in _OUTSIDE:
        return "moves values into the program or out of it"
    if instruction.name in chains.bound or (instruction.name not in chains.of and _bound(computation, (instruction,))):
        return "works on memory that only the graph has"
    return ""


def _bound(computation: Computation, chain: Sequence[Instruction]) -> bool:
    """Whether a chain takes or gives what no program can be given: a buffer or an opaque value."""
    names = {i.name for i in chain}
    shapes = [computation.by_name[o].shape for i in chain for o in i.operands if o not in names]
    shapes.append(chain[-1].shape)
    return any(
        not isinstance(shape, ArrayShape) and any(isinstance(leaf, BufferShape | OpaqueShape) for leaf in leaves(shape))
        for shape in shapes
    )
