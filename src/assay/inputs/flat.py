"""A module as one flat list of nodes: tuples resolved, computations put in where they are called.

A node is one array. Operands have smaller numbers than their users, but for the last operands of a `phi`, which joins
the value that enters a loop with the one that comes round, or the values of branches. A `guard` is a loop's counter
inside the body, below its limit. Past a budget of nodes the calls of one computation share one copy, whose parameters
are phis too, so that the list is linear in the size of the module.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from assay.errors import AssayError
from assay.hlo import attributes
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.shape import ArrayShape, Shape, TupleShape
from assay.reference.bodies import body_kind, component_kinds

Tree = int | None | tuple["Tree", ...]
"""A value: a node, None for what is no array (tokens, buffers), or a tuple."""


class Node:
    """One array: of `instruction` in `computation` (part `index` of a tuple), with the type and dimensions it has.

    kind: what the body of a reduction, a scatter or the like does (see `reference.bodies`), None where it is unknown.
    """

    __slots__ = ("computation", "dims", "dtype", "index", "instruction", "kind", "opcode", "operands")

    def __init__(
        self,
        opcode: str,
        instruction: Instruction,
        computation: Computation,
        shape: ArrayShape,
        operands: tuple[int, ...],
        index: int = 0,
        kind: str | None = None,
    ) -> None:
        self.opcode = opcode
        self.instruction = instruction
        self.computation = computation
        self.dtype = shape.dtype
        self.dims = shape.dims
        self.operands = operands
        self.index = index
        self.kind = kind

    @property
    def shape(self) -> ArrayShape:
        return ArrayShape(self.dtype, self.dims)

    def __repr__(self) -> str:
        return f"{self.computation.name}/{self.instruction.name}.{self.index} = {self.opcode}{self.operands}"


@dataclass(slots=True)
class Flat:
    """nodes, in order; parameters: of each array of the entry's parameters, tuples flattened; roots: of each array of
    the result; conditions: what decides whether a loop goes on."""

    nodes: list[Node]
    parameters: list[int]
    roots: list[int]
    conditions: list[int]
    phis: list[int] = field(default_factory=list)
    moving: list[bool] = field(default_factory=list)

    def dependents(self) -> list[bool]:
        """For each node whether it depends on a parameter of the entry."""
        moving = [False] * len(self.nodes)
        for number in self.parameters:
            moving[number] = True
        changed = True
        while changed:
            changed = False
            for number, node in enumerate(self.nodes):
                if not moving[number] and any(moving[k] for k in node.operands):
                    moving[number] = True
                    changed = changed or number in self._late
        return moving

    @property
    def _late(self) -> set[int]:
        return {k for phi in self.phis for k in self.nodes[phi].operands if k > phi}


def flatten(module: Module) -> Flat:
    """Raises nothing: what is malformed becomes a node that nothing is known of."""
    return _Flattener(module).run()


class _Flattener:
    def __init__(self, module: Module) -> None:
        self.module = module
        self.nodes: list[Node] = []
        self.phis: list[int] = []
        self.conditions: list[int] = []
        self.shared: dict[str, tuple[list[Tree], Tree]] = {}
        self.depth = 0
        self.budget = 20_000 + 10 * sum(len(c.instructions) for c in module.computations)

    def run(self) -> Flat:
        entry = self.module.entry
        arguments = [self.fresh(entry, p, p.shape, (), "parameter") for p in entry.parameters]
        parameters = [k for argument in arguments for k in _flat(argument)]
        root = self.inline(entry, arguments)
        flat = Flat(self.nodes, parameters, _flat(root), self.conditions, self.phis)
        flat.moving = flat.dependents()
        return flat

    # ---- nodes

    def add(self, node: Node) -> int:
        self.nodes.append(node)
        return len(self.nodes) - 1

    def fresh(
        self,
        computation: Computation,
        instruction: Instruction,
        shape: Shape,
        operands: tuple[int, ...],
        opcode: str | None = None,
    ) -> Tree:
        """Nodes for a result that is only known by its shape."""
        count = 0

        def build(part: Shape) -> Tree:
            nonlocal count
            if isinstance(part, TupleShape):
                return tuple(build(element) for element in part.elements)
            if not isinstance(part, ArrayShape):
                return None
            count += 1
            return self.add(Node(opcode or instruction.opcode, instruction, computation, part, operands, count - 1))

        return build(shape)

    def phi(self, computation: Computation, instruction: Instruction, value: Tree) -> Tree:
        """A phi for each array of `value`, which is what comes first."""
        if isinstance(value, tuple):
            return tuple(self.phi(computation, instruction, element) for element in value)
        if value is None:
            return None
        self.phis.append(self.add(Node("phi", instruction, computation, self.nodes[value].shape, (value,))))
        return self.phis[-1]

    def feed(self, phi: Tree, value: Tree) -> None:
        """Another value for a phi."""
        if isinstance(phi, tuple) and isinstance(value, tuple):
            for one, other in zip(phi, value, strict=False):
                self.feed(one, other)
        elif isinstance(phi, int) and isinstance(value, int) and phi != value and self.nodes[phi].opcode == "phi":
            node = self.nodes[phi]
            if value not in node.operands:
                node.operands += (value,)

    # ---- computations

    def call(self, name: str, arguments: Sequence[Tree]) -> Tree:
        if len(self.nodes) < self.budget and self.depth < 64:
            return self.inline(self.module.by_name[name], arguments)
        if name not in self.shared:
            callee = self.module.by_name[name]
            parameters = [self.phi(callee, p, a) for p, a in zip(callee.parameters, arguments, strict=True)]
            self.shared[name] = (parameters, None)  # a computation cannot call itself
            self.shared[name] = (parameters, self.inline(callee, parameters))
        parameters, result = self.shared[name]
        for parameter, argument in zip(parameters, arguments, strict=True):
            self.feed(parameter, argument)
        return result

    def inline(self, computation: Computation, arguments: Sequence[Tree]) -> Tree:
        values: dict[str, Tree] = {}
        self.depth += 1
        for instruction in computation.instructions:
            if instruction.parameter_number is not None:
                values[instruction.name] = arguments[instruction.parameter_number]
                continue
            operands = [values[name] for name in instruction.operands]
            special = _SPECIAL.get(instruction.opcode)
            try:
                value = (special or _Flattener.plain)(self, computation, instruction, operands)
            except (AssayError, AssertionError, IndexError, KeyError, TypeError, ValueError):
                # A malformed instruction is for the evaluator to complain of.
                value = self.fresh(computation, instruction, instruction.shape, (), "unknown")
            values[instruction.name] = value
        self.depth -= 1
        return values[computation.root_name]

    # ---- instructions

    def plain(self, computation: Computation, instruction: Instruction, operands: list[Tree]) -> Tree:
        return self.fresh(computation, instruction, instruction.shape, tuple(k for o in operands for k in _flat(o)))

    def tuple(self, computation: Computation, instruction: Instruction, operands: list[Tree]) -> Tree:
        return tuple(operands)

    def element(self, computation: Computation, instruction: Instruction, operands: list[Tree]) -> Tree:
        value = operands[0]
        assert isinstance(value, tuple)
        return value[attributes.integer(instruction, "index")]

    def same(self, computation: Computation, instruction: Instruction, operands: list[Tree]) -> Tree:
        return operands[0] if len(operands) == 1 or instruction.opcode == "add-dependency" else tuple(operands)

    def called(self, computation: Computation, instruction: Instruction, operands: list[Tree]) -> Tree:
        return self.call(attributes.called(instruction)[0], operands)

    def async_start(self, computation: Computation, instruction: Instruction, operands: list[Tree]) -> Tree:
        return (tuple(operands), self.called(computation, instruction, operands))

    def copy_start(self, computation: Computation, instruction: Instruction, operands: list[Tree]) -> Tree:
        return (operands[0], operands[0], None)

    def done(self, computation: Computation, instruction: Instruction, operands: list[Tree]) -> Tree:
        value = operands[0]
        if instruction.opcode == "all-reduce-done" or not isinstance(value, tuple):
            return value
        return value[0] if instruction.opcode == "copy-done" else value[1]

    def reduction(self, computation: Computation, instruction: Instruction, operands: list[Tree]) -> Tree:
        """reduce and reduce-window: a node for each array where the body is known, else the body as a loop."""
        count = len(operands) // 2
        name = attributes.called(instruction)[0]
        kinds = component_kinds(self.module, name, count)
        shapes = instruction.shape.elements if isinstance(instruction.shape, TupleShape) else (instruction.shape,)
        if None in kinds:
            accumulators = [self.phi(computation, instruction, value) for value in operands[count:]]
            result = self.call(name, [*accumulators, *operands[:count]])
            for accumulator, value in zip(
                accumulators, result if isinstance(result, tuple) else (result,), strict=True
            ):
                self.feed(accumulator, value)
            return tuple(accumulators) if isinstance(instruction.shape, TupleShape) else accumulators[0]
        found: list[Tree] = []
        for k, (kind, shape) in enumerate(zip(kinds, shapes, strict=True)):
            array, init = operands[k], operands[count + k]
            assert isinstance(shape, ArrayShape)
            assert isinstance(array, int)
            assert isinstance(init, int)
            found.append(self.add(Node(instruction.opcode, instruction, computation, shape, (array, init), k, kind)))
        return tuple(found) if isinstance(instruction.shape, TupleShape) else found[0]

    def scatter(self, computation: Computation, instruction: Instruction, operands: list[Tree]) -> Tree:
        count = len(operands) // 2
        kinds = component_kinds(self.module, attributes.called(instruction)[0], count)
        if count == 1:  # only this form knows a body that takes the update as it is
            kinds = (body_kind(self.module, attributes.called(instruction)[0]),)
        shapes = instruction.shape.elements if isinstance(instruction.shape, TupleShape) else (instruction.shape,)
        found: list[Tree] = []
        for k, (kind, shape) in enumerate(zip(kinds, shapes, strict=True)):
            three = (operands[k], operands[count], operands[count + 1 + k])
            assert isinstance(shape, ArrayShape)
            numbers = tuple(value for value in three if isinstance(value, int))
            found.append(self.add(Node("scatter", instruction, computation, shape, numbers, k, kind)))
        return tuple(found) if isinstance(instruction.shape, TupleShape) else found[0]

    def parallel(self, computation: Computation, instruction: Instruction, operands: list[Tree]) -> Tree:
        """Collectives and sorts: what becomes of each operand is a node of its own."""
        kind = None
        if instruction.opcode not in ("sort", "collective-permute", "all-gather"):
            kind = body_kind(self.module, attributes.called(instruction)[0])
        shapes = instruction.shape.elements if isinstance(instruction.shape, TupleShape) else (instruction.shape,)
        if len(shapes) != len(operands):
            return self.plain(computation, instruction, operands)
        found: list[Tree] = []
        for k, (value, shape) in enumerate(zip(operands, shapes, strict=True)):
            assert isinstance(value, int)
            assert isinstance(shape, ArrayShape)
            found.append(self.add(Node(instruction.opcode, instruction, computation, shape, (value,), k, kind)))
        return tuple(found) if isinstance(instruction.shape, TupleShape) else found[0]

    def select_and_scatter(self, computation: Computation, instruction: Instruction, operands: list[Tree]) -> Tree:
        assert isinstance(instruction.shape, ArrayShape)
        kind = body_kind(self.module, attributes.computation(instruction, "scatter"))
        numbers = tuple(value for value in operands if isinstance(value, int))
        return self.add(Node("select-and-scatter", instruction, computation, instruction.shape, numbers, 0, kind))

    def custom(self, computation: Computation, instruction: Instruction, operands: list[Tree]) -> Tree:
        """libtpu's marks on indices hand them on."""
        if attributes.word(instruction, "custom_call_target", "") not in MARKS:
            return self.plain(computation, instruction, operands)
        assert isinstance(operands[0], int)
        assert isinstance(instruction.shape, ArrayShape)
        return self.add(Node("custom-call", instruction, computation, instruction.shape, (operands[0],), 0, "same"))

    def branches(self, computation: Computation, instruction: Instruction, operands: list[Tree]) -> Tree:
        results = [self.call(name, [operands[k + 1]]) for k, name in enumerate(attributes.branches(instruction))]
        joined = self.phi(computation, instruction, results[0])
        for result in results[1:]:
            self.feed(joined, result)
        return joined

    def loop(self, computation: Computation, instruction: Instruction, operands: list[Tree]) -> Tree:
        condition = self.module.by_name[attributes.computation(instruction, "condition")]
        body = self.module.by_name[attributes.computation(instruction, "body")]
        value = operands[0]
        if isinstance(value, tuple):
            state: Tree = tuple(
                element if _invariant(body, k) else self.phi(computation, instruction, element)
                for k, element in enumerate(value)
            )
        else:
            state = self.phi(computation, instruction, value)
        goes_on = self.call(condition.name, [state])
        inner = state
        if isinstance(goes_on, int):
            self.conditions.append(goes_on)
            inner = self.guarded(computation, instruction, state, self.nodes[goes_on])
        self.feed(state, self.call(body.name, [inner]))
        return state

    def guarded(self, computation: Computation, instruction: Instruction, state: Tree, compare: Node) -> Tree:
        """The state inside the body of a loop that goes on while one element of it is below a limit."""
        direction = compare.instruction.attributes.get("direction")
        if compare.opcode != "compare" or direction not in ("LT", "GT") or not isinstance(state, tuple):
            return state
        counter, limit = compare.operands if direction == "LT" else compare.operands[::-1]
        if counter not in state or not self.nodes[counter].dtype.is_integer:
            return state
        guard = self.add(Node("guard", instruction, computation, self.nodes[counter].shape, (counter, limit)))
        return tuple(guard if element == counter else element for element in state)


MARKS = frozenset(("AssumeGatherIndicesInBound", "GatherScatterIndicesBitpacked"))

_SPECIAL: dict[str, Callable[[_Flattener, Computation, Instruction, list[Tree]], Tree]] = {
    "tuple":                   _Flattener.tuple,
    "get-tuple-element":       _Flattener.element,
    "opt-barrier":             _Flattener.same,
    "domain":                  _Flattener.same,
    "add-dependency":          _Flattener.same,
    "call":                    _Flattener.called,
    "fusion":                  _Flattener.called,
    "map":                     _Flattener.called,
    "async-start":             _Flattener.async_start,
    "async-update":            _Flattener.same,
    "async-done":              _Flattener.done,
    "copy-start":              _Flattener.copy_start,
    "copy-done":               _Flattener.done,
    "all-reduce-done":         _Flattener.done,
    "all-gather-done":         _Flattener.done,
    "collective-permute-done": _Flattener.done,
    "reduce":                  _Flattener.reduction,
    "reduce-window":           _Flattener.reduction,
    "scatter":                 _Flattener.scatter,
    "select-and-scatter":      _Flattener.select_and_scatter,
    "custom-call":             _Flattener.custom,
    "sort":                    _Flattener.parallel,
    "all-reduce":              _Flattener.parallel,
    "all-reduce-start":        _Flattener.parallel,
    "reduce-scatter":          _Flattener.parallel,
    "conditional":             _Flattener.branches,
    "while":                   _Flattener.loop,
}  # fmt: skip
_WITH_NODES = (
    _Flattener.reduction,
    _Flattener.scatter,
    _Flattener.select_and_scatter,
    _Flattener.parallel,
    _Flattener.custom,
)
STRUCTURAL = frozenset(opcode for opcode, build in _SPECIAL.items() if build not in _WITH_NODES)
"""Opcodes that have no nodes of their own: what they hand on is resolved here."""


def _flat(value: Tree) -> list[int]:
    if isinstance(value, tuple):
        return [k for element in value for k in _flat(element)]
    return [] if value is None else [value]


def _invariant(body: Computation, element: int) -> bool:
    """Whether a loop hands on this element of its state as it is."""
    root = body.root
    if root.opcode != "tuple":
        return False
    handed = body.by_name[root.operands[element]]
    return (
        handed.opcode == "get-tuple-element"
        and attributes.integer(handed, "index") == element
        and body.by_name[handed.operands[0]].opcode == "parameter"
    )
