"""What XLA:CPU asks of a module that is scheduled, and an edit of it does not keep: nothing in a fusion is without a
use, and elementwise operations that stand alone are in fusions of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from assay.hlo.attributes import called
from assay.hlo.graph import live, reachable
from assay.hlo.module import Computation, Instruction, Module

STEPS = frozenset(("while", "conditional", "call"))
"""What they call is run step by step, as the entry is; a reduction's body, say, is not."""
ALONE = frozenset(("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "copy"))


def fitted(module: Module, before: Module) -> Module:
    """`module`, which is `before` with edits, as XLA:CPU takes it."""
    changed = [c.name for c in module.computations if c != before.by_name[c.name]]
    stepwise = _stepwise(module)
    made: list[Computation] = []
    for name in changed:
        if name in stepwise:
            old = before.by_name[name].by_name
            new = {i.name for i in module.by_name[name].instructions if old.get(i.name) != i and i.opcode not in ALONE}
            *wrapped, whole = _wrapped(module.by_name[name], {n for n in new if _is_new(n, module, before, name)})
            made += [*wrapped, whole]
    by_name = {c.name: c for c in made}
    old_ones = [by_name.pop(c.name, c) for c in module.computations]
    module = replace(module, computations=(*by_name.values(), *old_ones))
    return _without_unused(module, [name for name in changed if name not in stepwise])


def _is_new(name: str, module: Module, before: Module, computation: str) -> bool:
    """Whether it is another opcode than what stood there, or nothing did: an operation that stood alone may do so."""
    old = before.by_name[computation].by_name.get(name)
    own = module.by_name[computation].by_name[name]
    kept = {i.opcode for i in before.by_name[computation].instructions}
    return (old is None or old.opcode != own.opcode) and own.opcode not in kept


def _stepwise(module: Module) -> set[str]:
    found = {module.entry_name}
    for computation in reversed(reachable(module)):  # callers first
        if computation.name in found:
            for i in computation.instructions:
                if i.opcode in STEPS:
                    found |= set(called(i))
    return found


def _wrapped(computation: Computation, names: set[str]) -> Iterator[Computation]:
    """A computation for each of these instructions, and then the one that calls them."""
    whole: list[Instruction] = []
    for i in computation.instructions:
        if i.name not in names:
            whole.append(i)
            continue
        distinct = list(dict.fromkeys(i.operands))
        inside = [
            Instruction(f"p{n}", "parameter", computation.by_name[operand].shape, parameter_number=n)
            for n, operand in enumerate(distinct)
        ]
        own = replace(i, name="made", operands=tuple(f"p{distinct.index(operand)}" for operand in i.operands))
        body = Computation(f"wrapped.{computation.name}.{i.name}", (*inside, own), own.name)
        yield body
        whole.append(Instruction(i.name, "fusion", i.shape, tuple(distinct), {"kind": "kLoop", "calls": body.name}))
    yield replace(computation, instructions=tuple(whole))


def _without_unused(module: Module, changed: list[str]) -> Module:
    """What an edit left without a use, in the fusions among these computations, and then what is handed to them."""
    kept: dict[str, list[int]] = {}
    new: dict[str, Computation] = {}
    fused = {name for c in module.computations for i in c.instructions if i.opcode == "fusion" for name in called(i)}
    for name in fused.intersection(changed):
        computation = module.by_name[name]
        alive = live(computation)
        kept[name] = [n for n, p in enumerate(computation.parameters) if p.name in alive]
        numbers = {computation.parameters[old].name: number for number, old in enumerate(kept[name])}
        new[name] = replace(
            computation,
            instructions=tuple(
                replace(i, parameter_number=numbers[i.name]) if i.name in numbers else i
                for i in computation.instructions
                if i.name in alive
            ),
        )
    computations = []
    for c in module.computations:
        c = new.get(c.name, c)
        computations.append(replace(c, instructions=tuple(_handed(i, kept) for i in c.instructions)))
    return replace(module, computations=tuple(computations))


def _handed(i: Instruction, kept: dict[str, list[int]]) -> Instruction:
    if i.opcode != "fusion" or (name := called(i)[0]) not in kept:
        return i
    return replace(i, operands=tuple(i.operands[n] for n in kept[name]))
