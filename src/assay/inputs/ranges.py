"""Finds what a program can use as the value of each of its parameters.

What instructions ask of their operands (`demands`) is followed back from value to value until it meets the parameters
of the entry: through tuples, calls, fusions, conditionals and loops. A demand that arises inside a computation holds
for all its callers; one that comes in with the result of a call goes out to that call's operands alone. Each value is
visited a bounded number of times, so that the walk is linear in the size of the module.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from assay.errors import AssayError
from assay.hlo import attributes
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.shape import ArrayShape, Shape, TupleShape
from assay.inputs.demands import SEEDS, TRANSFERS
from assay.inputs.domain import ANY, Domain

VISITS = 4
"""How often one value is looked at again because more is asked of it."""

Path = tuple[int, ...]
Site = tuple["Site | None", str, str]
"""A call through which a demand came in: the site through which its caller's came, the caller and the call by name."""


@dataclass(frozen=True, slots=True)
class _Value:
    """One array: an instruction's, or the element at `path` of its tuple, seen from `site` (None: from anywhere)."""

    site: Site | None
    computation: str
    name: str
    path: Path = ()


def domains(module: Module) -> list[Domain]:
    """One domain for each array among the entry's parameters, tuples flattened."""
    walk = _Walk(module)
    walk.seed()
    walk.run()
    return [
        walk.known.get(_Value(None, module.entry_name, parameter.name, path), ANY)
        for parameter in module.entry.parameters
        for path in _array_paths(parameter.shape)
    ]


def _array_paths(shape: Shape, path: Path = ()) -> list[Path]:
    if isinstance(shape, TupleShape):
        return [p for k, element in enumerate(shape.elements) for p in _array_paths(element, (*path, k))]
    return [path] if isinstance(shape, ArrayShape) else []


# Opcodes whose operands are the parameters of what they call, one for one.
_CALLS = ("call", "fusion", "async-start", "map")


@dataclass(slots=True)
class _Walk:
    module: Module
    known: dict[_Value, Domain] = field(default_factory=dict)
    visits: dict[_Value, int] = field(default_factory=dict)
    pending: deque[_Value] = field(default_factory=deque)
    callers: dict[str, list[tuple[str, str]]] = field(default_factory=dict)

    def seed(self) -> None:
        for computation in self.module.computations:
            for instruction in computation.instructions:
                for callee in attributes.called(instruction):
                    self.callers.setdefault(callee, []).append((computation.name, instruction.name))
                self._seed(computation, instruction)

    def _seed(self, computation: Computation, instruction: Instruction) -> None:
        if instruction.opcode == "while":
            condition = self.module.by_name.get(attributes.computation(instruction, "condition"))
            if condition is not None:
                self.ask(_Value(None, condition.name, condition.root_name), Domain(steps=True))
        rule = SEEDS.get(instruction.opcode)
        if rule is None:
            return
        try:
            demands = list(rule(computation, instruction))
        except (AssayError, AssertionError, IndexError, ValueError):
            return  # a malformed instruction is for the evaluator to complain of
        for operand, domain in demands:
            self.ask(_Value(None, computation.name, instruction.operands[operand]), domain)

    def ask(self, value: _Value, domain: Domain) -> None:
        old = self.known.get(value, ANY)
        new = old.merged(domain)
        if new == old:
            return
        self.known[value] = new
        visits = self.visits.get(value, 0)
        if visits < VISITS:
            self.visits[value] = visits + 1
            self.pending.append(value)

    def run(self) -> None:
        # Demands that come in through calls multiply with the call sites; past any sensible number they are dropped.
        budget = 20_000 + 10 * sum(len(c.instructions) for c in self.module.computations)
        while self.pending and budget:
            budget -= 1
            value = self.pending.popleft()
            computation = self.module.by_name[value.computation]
            self.visit(value, computation, computation.by_name[value.name], self.known[value])

    def visit(self, value: _Value, computation: Computation, instruction: Instruction, asked: Domain) -> None:
        opcode = instruction.opcode
        if opcode == "parameter":
            self.leave(value, instruction, asked)
        elif opcode == "get-tuple-element":
            index = attributes.integer(instruction, "index")
            self.ask(self.operand(value, instruction, 0, (index, *value.path)), asked)
        elif opcode == "tuple" and value.path:
            self.ask(self.operand(value, instruction, value.path[0], value.path[1:]), asked)
        elif opcode == "opt-barrier":
            self.ask(self.operand(value, instruction, 0, value.path), asked)
        elif opcode == "while":
            if self.invariant(instruction, value.path):
                self.ask(self.operand(value, instruction, 0, value.path), asked)
        elif opcode in ("call", "fusion", "conditional"):
            for name in attributes.called(instruction):
                callee = self.module.by_name[name]
                site = (value.site, value.computation, value.name)
                self.ask(_Value(site, name, callee.root_name, value.path), asked)
        elif opcode == "sort" and (value.path or len(instruction.operands) == 1):
            self.ask(
                self.operand(value, instruction, value.path[0] if value.path else 0, ()), Domain(asked.low, asked.high)
            )
        elif not value.path and opcode in TRANSFERS and not _is_tuple(instruction.shape):
            for operand, domain in TRANSFERS[opcode](computation, instruction, asked):
                if domain:
                    self.ask(self.operand(value, instruction, operand, ()), domain)

    def operand(self, value: _Value, instruction: Instruction, operand: int, path: Path) -> _Value:
        return _Value(value.site, value.computation, instruction.operands[operand], path)

    def leave(self, value: _Value, parameter: Instruction, asked: Domain) -> None:
        """From a computation's parameter to the operands of its calls."""
        if value.site is not None:
            outer, caller, call = value.site
            self._argument(outer, caller, call, value, parameter, asked)
            return
        for caller, call in self.callers.get(value.computation, ()):
            self._argument(None, caller, call, value, parameter, asked)

    def _argument(
        self, site: Site | None, caller: str, call: str, value: _Value, parameter: Instruction, asked: Domain
    ) -> None:
        instruction = self.module.by_name[caller].by_name[call]
        number = parameter.parameter_number or 0
        if instruction.opcode in _CALLS:
            operand = number
        elif instruction.opcode == "while":
            operand = 0
        elif instruction.opcode == "conditional":
            # A computation may stand for several branches; each has an operand of its own, after the selector.
            for branch, name in enumerate(attributes.branches(instruction)):
                if name == value.computation:
                    self.ask(_Value(site, caller, instruction.operands[branch + 1], value.path), asked)
            return
        else:
            return
        if operand < len(instruction.operands):
            self.ask(_Value(site, caller, instruction.operands[operand], value.path), asked)

    def invariant(self, loop: Instruction, path: Path) -> bool:
        """Whether the loop hands on the element at `path` of its state as it is."""
        body = self.module.by_name[attributes.computation(loop, "body")]
        root = body.root
        if root.opcode != "tuple" or not path:
            return False
        element = body.by_name[root.operands[path[0]]]
        return (
            element.opcode == "get-tuple-element"
            and attributes.integer(element, "index") == path[0]
            and body.by_name[element.operands[0]].opcode == "parameter"
        )


def _is_tuple(shape: Shape) -> bool:
    return isinstance(shape, TupleShape)
