"""Questions about the graph of a computation or a module: who uses what, in which order, how long a value lives.

Nothing here recurses over instructions: graphs have a hundred thousand of them.
"""

from __future__ import annotations

from assay.errors import HloTypeError
from assay.hlo.attributes import called
from assay.hlo.module import Computation, Instruction, Module


def users(computation: Computation) -> dict[str, tuple[str, ...]]:
    """For each instruction the names of those that have it as operand, once each, in program order."""
    found: dict[str, dict[str, None]] = {i.name: {} for i in computation.instructions}
    for instruction in computation.instructions:
        for operand in instruction.operands:
            found[operand][instruction.name] = None
    return {name: tuple(names) for name, names in found.items()}


def post_order(computation: Computation) -> tuple[Instruction, ...]:
    """Operands before users: what the root needs, depth first from it, then what it does not need, in program order.

    The order follows from the graph alone as far as the root reaches; it does not depend on the schedule.
    """
    done: set[str] = set()
    order: list[Instruction] = []
    by_name = computation.by_name
    for start in (computation.root_name, *by_name):
        if start in done:
            continue
        stack = [(by_name[start], 0)]
        while stack:
            instruction, i = stack.pop()
            if instruction.name in done:
                continue
            operands = instruction.operands
            while i < len(operands) and operands[i] in done:
                i += 1
            if i < len(operands):
                stack.append((instruction, i + 1))
                stack.append((by_name[operands[i]], 0))
            else:
                done.add(instruction.name)
                order.append(instruction)
    return tuple(order)


def live(computation: Computation) -> set[str]:
    """The names of the instructions that the root needs."""
    needed = {computation.root_name}
    for instruction in reversed(computation.instructions):
        if instruction.name in needed:
            needed.update(instruction.operands)
    return needed


def called_order(module: Module) -> tuple[Computation, ...]:
    """All computations, callees before callers, else as in the module. Raises HloTypeError where one calls itself."""
    callees = {
        c.name: dict.fromkeys(name for i in c.instructions if i.attributes for name in called(i))
        for c in module.computations
    }
    done: set[str] = set()
    active: set[str] = set()
    order: list[Computation] = []
    for start in callees:
        stack = [(start, iter(callees[start]))] if start not in done else []
        active.update(name for name, _ in stack)
        while stack:
            name, rest = stack[-1]
            following = next((callee for callee in rest if callee not in done), None)
            if following is None:
                stack.pop()
                active.discard(name)
                done.add(name)
                order.append(module.by_name[name])
            elif following in active:
                raise HloTypeError(f"computation {following} calls itself, through {name}")
            elif following not in callees:
                raise HloTypeError(f"computation {name} calls {following}, which is not in the module")
            else:
                active.add(following)
                stack.append((following, iter(callees[following])))
    return tuple(order)


def reachable(module: Module, name: str | None = None) -> tuple[Computation, ...]:
    """The computation (the entry by default) and all that it calls, directly or not, callees first."""
    wanted = {name or module.entry_name}
    order = called_order(module)
    for computation in reversed(order):
        if computation.name in wanted:
            wanted.update(callee for i in computation.instructions if i.attributes for callee in called(i))
    return tuple(c for c in order if c.name in wanted)


def live_ranges(computation: Computation) -> dict[str, tuple[int, int]]:
    """For each value the position that makes it and the last that reads it, by the order of `instructions`.

    The root lives to the last position; a value that nobody reads ends where it begins.
    """
    ranges: dict[str, tuple[int, int]] = {}
    for position, instruction in enumerate(computation.instructions):
        ranges[instruction.name] = (position, position)
        for operand in instruction.operands:
            ranges[operand] = (ranges[operand][0], position)
    start = ranges[computation.root_name][0]
    ranges[computation.root_name] = (start, len(computation.instructions) - 1)
    return ranges


def last_uses(computation: Computation) -> tuple[tuple[str, ...], ...]:
    """For each position of `instructions`, the values that may be freed after it. The root is in none of them."""
    dead: list[list[str]] = [[] for _ in computation.instructions]
    for name, (_, last) in live_ranges(computation).items():
        if name != computation.root_name:
            dead[last].append(name)
    return tuple(tuple(names) for names in dead)
