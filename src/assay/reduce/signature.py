"""What loops, branches and calls take and give, without what is not used.

Each function gives the candidate with one of them pruned, None where it takes and gives nothing but what is used.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from assay.errors import HloTypeError
from assay.hlo.attributes import branches, called
from assay.hlo.graph import users
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.shape import ArrayShape, TupleShape
from assay.reduce.candidate import Candidate, callers, tidied, with_computation, with_operands, without_dead
from assay.reduce.edit import constant
from assay.reduce.values import Seen

_GTE = "get-tuple-element"


def pruned_call(candidate: Candidate, where: Computation, call: Instruction) -> Candidate | None:
    """Parameters that the body does not read, elements of the result that nobody takes."""
    callee = candidate.module.by_name[called(call)[0]]
    if callers(candidate.module)[callee.name] > 1:
        return None
    used = users(callee)
    kept = [p for p in callee.parameters if used[p.name] or p.name == callee.root_name]
    taken = _taken(where, call)
    if callee.root.opcode != "tuple" or taken is None or len(taken) == len(callee.root.operands):
        taken = None
    if taken is None and len(kept) == len(callee.parameters):
        return None
    numbers = {p.name: number for number, p in enumerate(kept)}
    body = [
        replace(i, parameter_number=numbers[i.name]) if i.name in numbers else i
        for i in callee.instructions
        if i.parameter_number is None or i.name in numbers
    ]
    operands = tuple(call.operands[p.parameter_number or 0] for p in kept)
    changed = replace(callee, instructions=tuple(body))
    given = replace(call, operands=operands)
    if taken is not None:
        changed = _giving(changed, taken)
        given = replace(given, shape=changed.root.shape)
    module = with_computation(candidate.module, changed)
    module = with_computation(module, _receiving(where, given, taken))
    return tidied(module, candidate.arguments, f"what {call.name} takes and gives")


def pruned_conditional(candidate: Candidate, where: Computation, instruction: Instruction) -> Candidate | None:
    """Elements of the result that nobody takes."""
    names = branches(instruction)
    bodies = [candidate.module.by_name[name] for name in dict.fromkeys(names)]
    taken = _taken(where, instruction)
    if taken is None or any(body.root.opcode != "tuple" for body in bodies):
        return None
    if len(taken) == len(bodies[0].root.operands) or any(callers(candidate.module)[b.name] > 1 for b in bodies):
        return None
    module = candidate.module
    changed = [_giving(body, taken) for body in bodies]
    for body in changed:
        module = with_computation(module, body)
    given = replace(instruction, shape=changed[0].root.shape)
    module = with_computation(module, _receiving(where, given, taken))
    return tidied(module, candidate.arguments, f"what {instruction.name} gives")


def pruned_while(candidate: Candidate, where: Computation, loop: Instruction) -> Candidate | None:
    """What the loop carries though neither its condition nor what is taken of its result depends on it."""
    parts = _loop(candidate.module, where, loop)
    if parts is None:
        return None
    start, body, condition, taken = parts
    live = set(taken) | _elements_read(condition)
    while True:
        needed = _elements_needed(body, [body.root.operands[i] for i in live])
        if needed <= live:
            break
        live |= needed
    kept = sorted(live)
    if len(kept) == len(start.operands) or not kept:
        return None
    return _carrying(candidate, where, loop, kept, f"what {loop.name} carries")


def with_constant(
    candidate: Candidate, where: Computation, loop: Instruction, seen: Seen, which: Collection[int] | None = None
) -> Candidate | None:
    """What the loop carries and never changes, as constants inside; all of it, or what `which` says."""
    parts = _loop(candidate.module, where, loop)
    if parts is None:
        return None
    start, body, condition, _ = parts
    same = [i for i in invariants(candidate.module, where, loop) if which is None or i in which]
    if not same:
        return None
    values: dict[int, Instruction] = {}
    for index in same:
        operand = where.by_name[start.operands[index]]
        if isinstance(operand.shape, ArrayShape):
            try:
                values[index] = constant(operand, seen.array(where.name, operand))
            except HloTypeError:
                continue  # too large to be written down
    module = candidate.module
    for inner in (body, condition):
        module = with_computation(module, _with_values(inner, values))
    outside: dict[str, str] = {
        i.name: start.operands[int(i.attributes["index"])]
        for i in where.instructions
        if i.opcode == _GTE and i.operands[0] == loop.name and int(i.attributes["index"]) in values
    }
    changed = tuple(
        with_operands(i, outside) for i in where.instructions if i.name not in outside or i.name == where.root_name
    )
    module = with_computation(module, replace(where, instructions=changed))
    made = tidied(module, candidate.arguments, f"constants in {loop.name}")
    again = made.module.by_name[where.name]
    loops = [i for i in again.instructions if i.name == loop.name]
    return (pruned_while(made, again, loops[0]) if loops else None) or made


def invariants(module: Module, where: Computation, loop: Instruction) -> list[int]:
    """The places of what a loop hands on as it is."""
    parts = _loop(module, where, loop)
    if parts is None:
        return []
    body = parts[1]
    found = []
    for index, name in enumerate(body.root.operands):
        element = body.by_name[name]
        if element.opcode == _GTE and int(element.attributes["index"]) == index:
            found.append(index)
    return found


def _loop(
    module: Module, where: Computation, loop: Instruction
) -> tuple[Instruction, Computation, Computation, list[int]] | None:
    """What it starts from, its body, its condition, and what is taken of its result, where all are elements of tuples
    that are put together and taken apart.
    """
    start = where.by_name[loop.operands[0]]
    body, condition = (module.by_name[loop.attributes[key]] for key in ("body", "condition"))
    taken = _taken(where, loop)
    simple = start.opcode == "tuple" and body.root.opcode == "tuple" and taken is not None
    if not simple or any(callers(module)[c.name] > 1 for c in (body, condition)):
        return None
    if any(_taken(inner, inner.parameters[0]) is None for inner in (body, condition)):
        return None
    return start, body, condition, taken or []


def _taken(where: Computation, instruction: Instruction) -> list[int] | None:
    """The places of the elements that are taken of a tuple, None where it is read whole."""
    if where.root_name == instruction.name:
        return None
    found: set[int] = set()
    for other in where.instructions:
        if instruction.name in other.operands:
            if other.opcode != _GTE:
                return None
            found.add(int(other.attributes["index"]))
    return sorted(found)


def _elements_read(computation: Computation) -> set[int]:
    return set(_taken(computation, computation.parameters[0]) or ())


def _elements_needed(body: Computation, names: Iterable[str]) -> set[int]:
    """The elements of the parameter from which `names` come."""
    needed = set(names)
    parameter = body.parameters[0].name
    found: set[int] = set()
    for instruction in reversed(body.instructions):
        if instruction.name not in needed:
            continue
        if instruction.opcode == _GTE and instruction.operands[0] == parameter:
            found.add(int(instruction.attributes["index"]))
        else:
            needed.update(instruction.operands)
    return found


def _carrying(
    candidate: Candidate, where: Computation, loop: Instruction, kept: Sequence[int], words: str
) -> Candidate:
    """The loop with only the elements `kept`; it stays a tuple, which loops of one element may be."""
    module = candidate.module
    start = where.by_name[loop.operands[0]]
    assert isinstance(start.shape, TupleShape)
    shape = TupleShape(tuple(start.shape.elements[i] for i in kept))
    place = {old: new for new, old in enumerate(kept)}
    for key in ("body", "condition"):
        inner = module.by_name[loop.attributes[key]]
        parameter = replace(inner.parameters[0], shape=shape)
        changed = [
            parameter if i.name == parameter.name else _renumbered(i, parameter.name, place)
            for i in inner.instructions
            if not _drops(i, parameter.name, place)
        ]
        if key == "body":
            root = replace(inner.root, shape=shape, operands=tuple(inner.root.operands[i] for i in kept))
            changed = [root if i.name == root.name else i for i in changed]
        module = with_computation(
            module, without_dead(replace(inner, instructions=tuple(changed)), parameters_too=False)
        )
    fresh = replace(start, name=f"{loop.name}.start", shape=shape, operands=tuple(start.operands[i] for i in kept))
    found: list[Instruction] = []
    for instruction in where.instructions:
        if instruction.name == loop.name:
            found += [fresh, replace(loop, shape=shape, operands=(fresh.name,))]
        elif not _drops(instruction, loop.name, place):
            found.append(_renumbered(instruction, loop.name, place))
    module = with_computation(module, replace(where, instructions=tuple(found)))
    return tidied(module, candidate.arguments, words)


def _drops(instruction: Instruction, source: str, place: Mapping[int, int]) -> bool:
    takes = instruction.opcode == _GTE and instruction.operands[0] == source
    return takes and int(instruction.attributes["index"]) not in place


def _renumbered(instruction: Instruction, source: str, place: Mapping[int, int]) -> Instruction:
    """An element of `source` at its new place."""
    if instruction.opcode != _GTE or instruction.operands[0] != source:
        return instruction
    index = str(place[int(instruction.attributes["index"])])
    return replace(instruction, attributes={**instruction.attributes, "index": index})


def _giving(callee: Computation, taken: Sequence[int]) -> Computation:
    """The body with fewer results; one alone is no tuple."""
    names = [callee.root.operands[i] for i in taken]
    if len(names) == 1:
        return replace(callee, root_name=names[0])
    shape = TupleShape(tuple(callee.by_name[name].shape for name in names))
    root = replace(callee.root, operands=tuple(names), shape=shape)
    return replace(callee, instructions=tuple(root if i.name == root.name else i for i in callee.instructions))


def _receiving(where: Computation, call: Instruction, taken: Sequence[int] | None) -> Computation:
    """The caller with what the call gives now."""
    if taken is None:
        changed = tuple(call if i.name == call.name else i for i in where.instructions)
        return replace(where, instructions=changed)
    place = {old: new for new, old in enumerate(taken)}
    single = not isinstance(call.shape, TupleShape) or len(taken) == 1
    names: dict[str, str] = {}
    found: list[Instruction] = []
    for instruction in where.instructions:
        if instruction.name == call.name:
            found.append(call)
        elif instruction.opcode == _GTE and instruction.operands[0] == call.name and single:
            names[instruction.name] = call.name
        else:
            found.append(_renumbered(with_operands(instruction, names), call.name, place))
    root = names.get(where.root_name, where.root_name)
    return replace(where, instructions=tuple(found), root_name=root)


def _with_values(inner: Computation, values: Mapping[int, Instruction]) -> Computation:
    """A loop's body or condition with constants for elements of its parameter; the root hands these on as before."""
    parameter = inner.parameters[0].name
    found: list[Instruction] = []
    handed: dict[str, str] = {}
    for instruction in inner.instructions:
        takes = instruction.opcode == _GTE and instruction.operands[0] == parameter
        if takes and (index := int(instruction.attributes["index"])) in values:
            found.append(replace(values[index], name=instruction.name))
            kept = replace(instruction, name=f"{instruction.name}.handed")
            handed[instruction.name] = kept.name
            if inner.root.opcode == "tuple":
                found.append(kept)
        elif instruction.name == inner.root_name and instruction.opcode == "tuple":
            operands = tuple(
                handed.get(name, name) if index in values else name for index, name in enumerate(instruction.operands)
            )
            found.append(replace(instruction, operands=operands))
        else:
            found.append(instruction)
    return replace(inner, instructions=tuple(found))
