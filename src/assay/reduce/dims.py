"""Which dimensions of a module must be equal, which follow from others, and which must stay as they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from assay.hlo.attributes import (
    WindowDim,
    branches,
    called,
    dot_dims,
    gather_dims,
    int_list,
    padding,
    scatter_dims,
    slices,
    window,
)
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.shape import ArrayShape, Shape, TupleShape, leaves
from assay.hlo.types.contraction import window_output
from assay.hlo.types.elementwise import ELEMENTWISE

Place = tuple[str, str, int, int]
"""Computation, instruction, which of its arrays, dimension."""


@dataclass(slots=True)
class Classes:
    """of: by place, the one that stands for its class. sizes: by those. frozen: classes that must stay. arithmetic: the
    instructions with sizes that follow from others.
    """

    of: dict[Place, Place] = field(default_factory=dict)
    sizes: dict[Place, int] = field(default_factory=dict)
    frozen: set[Place] = field(default_factory=set)
    arithmetic: list[tuple[Computation, Instruction]] = field(default_factory=list)
    free_places: set[Place] = field(default_factory=set)

    def free(self) -> list[Place]:
        """The classes that may be given another size: those that some instruction chooses, and none forbids."""
        found = {self.of[place] for place in self.free_places}
        return sorted(g for g in found if g not in self.frozen and self.sizes[g] > 1)


def places(computation: Computation, name: str, array: int = 0) -> list[Place]:
    """Those of one array of an instruction."""
    return array_places(computation, computation.by_name[name])[array]


def array_places(computation: Computation, instruction: Instruction) -> list[list[Place]]:
    """Those of each array of an instruction, tuples flattened."""
    arrays = [leaf for leaf in leaves(instruction.shape) if isinstance(leaf, ArrayShape)]
    return [
        [(computation.name, instruction.name, number, d) for d in range(array.rank)]
        for number, array in enumerate(arrays)
    ]


def classes(module: Module) -> Classes:
    """Of a whole module."""
    ties = _Ties()
    found = Classes()
    for computation in module.computations:
        for instruction in computation.instructions:
            for group, array in zip(
                array_places(computation, instruction),
                (leaf for leaf in leaves(instruction.shape) if isinstance(leaf, ArrayShape)),
                strict=True,
            ):
                for place, size in zip(group, array.dims, strict=True):
                    ties.add(place)
                    found.sizes[place] = size
    for computation in module.computations:
        for instruction in computation.instructions:
            _Links(module, computation, instruction, ties, found).link()
    sizes = found.sizes
    found.of = {place: ties.find(place) for place in sizes}
    found.sizes = {group: sizes[group] for group in set(found.of.values())}
    found.frozen = {found.of[place] for place in found.frozen}
    return found


class _Ties:
    """Union and find."""

    def __init__(self) -> None:
        self.parent: dict[Place, Place] = {}

    def add(self, place: Place) -> None:
        self.parent.setdefault(place, place)

    def find(self, place: Place) -> Place:
        while self.parent[place] != place:
            self.parent[place] = self.parent[self.parent[place]]
            place = self.parent[place]
        return place

    def tie(self, a: Place, b: Place) -> None:
        self.parent[self.find(a)] = self.find(b)


_CHOOSING = frozenset(("parameter", "constant", "iota", "broadcast", "slice", "dynamic-slice"))
"""Whose sizes nothing before them decides."""
_ALIKE = frozenset((*ELEMENTWISE, "reverse", "copy", "opt-barrier", "sort", "all-reduce", "clamp", "select"))


@dataclass(slots=True)
class _Links:
    """What one instruction says of dimensions."""

    module: Module
    computation: Computation
    instruction: Instruction
    ties: _Ties
    found: Classes

    def link(self) -> None:
        opcode = self.instruction.opcode
        if opcode in _CHOOSING:
            for group in array_places(self.computation, self.instruction):
                self.found.free_places.update(group)
        special = _SPECIAL.get(opcode)
        if special is not None:
            special(self)
        elif opcode in _ALIKE:
            self.alike()
        elif opcode not in ("parameter", "constant", "iota"):
            self.freeze()

    # ---- what they are made of

    def operand(self, index: int, array: int = 0) -> list[Place]:
        return places(self.computation, self.instruction.operands[index], array)

    def result(self, array: int = 0) -> list[Place]:
        return array_places(self.computation, self.instruction)[array]

    def shape(self, index: int) -> ArrayShape:
        return self.computation.by_name[self.instruction.operands[index]].array

    def size(self, place: Place) -> int:
        return self.found.sizes[place]

    def equal(self, a: Sequence[Place], b: Sequence[Place]) -> None:
        for one, other in zip(a, b, strict=True):
            self.ties.tie(one, other)

    def whole(self, where: Computation, a: str, other: Computation, b: str) -> None:
        """Two values of one shape."""
        pairs = zip(array_places(where, where.by_name[a]), array_places(other, other.by_name[b]), strict=True)
        for one, two in pairs:
            self.equal(one, two)

    def freeze(self) -> None:
        """Nothing of its operands and results may change."""
        for name in (*self.instruction.operands, self.instruction.name):
            for group in array_places(self.computation, self.computation.by_name[name]):
                self.found.frozen.update(group)

    def arithmetic(self) -> None:
        self.found.arithmetic.append((self.computation, self.instruction))

    # ---- opcodes

    def alike(self) -> None:
        """Every array has the same dimensions, but for scalars that stand for any."""
        first: list[Place] = max(array_places(self.computation, self.instruction), key=len, default=[])
        for index in range(len(self.instruction.operands)):
            if len(self.operand(index)) == len(first):
                self.equal(self.operand(index), first)
        for group in array_places(self.computation, self.instruction):
            self.equal(group, first)

    def broadcast(self) -> None:
        result = self.result()
        for place, d in zip(self.operand(0), int_list(self.instruction, "dimensions"), strict=True):
            self.ties.tie(place, result[d])

    def transpose(self) -> None:
        operand = self.operand(0)
        self.equal([operand[d] for d in int_list(self.instruction, "dimensions")], self.result())

    def reshape(self) -> None:
        """One by one, where nothing but dimensions of 1 comes or goes."""
        a = [place for place in self.operand(0) if self.size(place) != 1]
        b = [place for place in self.result() if self.size(place) != 1]
        if [self.size(p) for p in a] != [self.size(p) for p in b]:
            self.freeze()
            return
        self.equal(a, b)
        self.found.frozen.update(p for p in (*self.operand(0), *self.result()) if self.size(p) == 1)

    def reduce(self) -> None:
        count = len(self.instruction.operands) // 2
        dims = int_list(self.instruction, "dimensions", required=True)
        first = self.operand(0)
        for index in range(count):
            self.equal(self.operand(index), first)
        kept = [place for d, place in enumerate(first) if d not in dims]
        for group in array_places(self.computation, self.instruction):
            self.equal(group, kept)

    def reduce_window(self) -> None:
        first = self.operand(0)
        for index in range(len(self.instruction.operands) // 2):
            self.equal(self.operand(index), first)
        for group in array_places(self.computation, self.instruction):
            self.equal(group, self.result())
        for dim, a, b in zip(window(self.instruction), first, self.result(), strict=True):
            if dim == WindowDim(1):
                self.ties.tie(a, b)
        self.arithmetic()

    def concatenate(self) -> None:
        (along,) = int_list(self.instruction, "dimensions")
        result = self.result()
        for index in range(len(self.instruction.operands)):
            for d, place in enumerate(self.operand(index)):
                if d != along:
                    self.ties.tie(place, result[d])
        self.arithmetic()

    def slice_(self) -> None:
        """A whole dimension stays one; of another the part that is taken is free."""
        ranges = slices(self.instruction)
        for (start, limit, stride), a, b in zip(ranges, self.operand(0), self.result(), strict=True):
            if (start, limit, stride) == (0, self.size(a), 1):
                self.ties.tie(a, b)

    def dynamic_slice(self) -> None:
        for a, b in zip(self.operand(0), self.result(), strict=True):
            if self.size(a) == self.size(b):
                self.ties.tie(a, b)

    def dynamic_update_slice(self) -> None:
        self.equal(self.operand(0), self.result())
        for a, b in zip(self.operand(1), self.result(), strict=True):
            if self.size(a) == self.size(b):
                self.ties.tie(a, b)

    def dot(self) -> None:
        d, lhs, rhs = dot_dims(self.instruction), self.operand(0), self.operand(1)
        self.equal([lhs[i] for i in d.lhs_batch], [rhs[i] for i in d.rhs_batch])
        self.equal([lhs[i] for i in d.lhs_contracting], [rhs[i] for i in d.rhs_contracting])
        rows = [p for i, p in enumerate(lhs) if i not in (*d.lhs_batch, *d.lhs_contracting)]
        columns = [p for i, p in enumerate(rhs) if i not in (*d.rhs_batch, *d.rhs_contracting)]
        self.equal([*(lhs[i] for i in d.lhs_batch), *rows, *columns], self.result())

    def gather(self) -> None:
        """Index dimensions are the result's; of the operand what is taken whole."""
        g = gather_dims(self.instruction)
        operand, indices, result = self.operand(0), self.operand(1), self.result()
        batch = [p for d, p in enumerate(indices) if d != g.index_vector_dim]
        self.equal(batch, [p for d, p in enumerate(result) if d not in g.offset_dims])
        self.found.frozen.update(p for d, p in enumerate(indices) if d == g.index_vector_dim)
        gone = {*g.collapsed_slice_dims, *g.operand_batching_dims}
        inner = [d for d in range(len(operand)) if d not in gone]
        for d, place in zip(inner, g.offset_dims, strict=True):
            if g.slice_sizes[d] == self.size(operand[d]):
                self.ties.tie(operand[d], result[place])
            else:
                self.found.frozen.add(result[place])
        for a, b in zip(g.operand_batching_dims, g.start_indices_batching_dims, strict=True):
            self.ties.tie(operand[a], indices[b])

    def scatter(self) -> None:
        s = scatter_dims(self.instruction)
        count = len(self.instruction.operands) // 2
        first, indices = self.operand(0), self.operand(count)
        batch = [p for d, p in enumerate(indices) if d != s.index_vector_dim]
        self.found.frozen.update(p for d, p in enumerate(indices) if d == s.index_vector_dim)
        gone = {*s.inserted_window_dims, *s.input_batching_dims}
        inner = [p for d, p in enumerate(first) if d not in gone]
        for index in range(count):
            self.equal(self.operand(index), first)
            update = self.operand(count + 1 + index)
            self.equal([p for d, p in enumerate(update) if d not in s.update_window_dims], batch)
            for d, place in zip(s.update_window_dims, inner, strict=True):
                if self.size(update[d]) == self.size(place):
                    self.ties.tie(update[d], place)
        for a, b in zip(s.input_batching_dims, s.scatter_indices_batching_dims, strict=True):
            self.ties.tie(first[a], indices[b])
        for group in array_places(self.computation, self.instruction):
            self.equal(group, first)

    def pad(self) -> None:
        for width, a, b in zip(padding(self.instruction), self.operand(0), self.result(), strict=True):
            if width == (0, 0, 0):
                self.ties.tie(a, b)
        self.arithmetic()

    def tuple_(self) -> None:
        """The arrays of all elements, one after the other."""
        result = iter(array_places(self.computation, self.instruction))
        for name in self.instruction.operands:
            for group in array_places(self.computation, self.computation.by_name[name]):
                self.equal(group, next(result))

    def element(self) -> None:
        source = self.computation.by_name[self.instruction.operands[0]]
        assert isinstance(source.shape, TupleShape)
        index = int(self.instruction.attributes["index"])
        skipped = sum(map(_arrays, source.shape.elements[:index]))
        groups = array_places(self.computation, source)[skipped:]
        for one, two in zip(groups, array_places(self.computation, self.instruction), strict=False):
            self.equal(one, two)

    def call(self) -> None:
        callee = self.module.by_name[called(self.instruction)[0]]
        for operand, parameter in zip(self.instruction.operands, callee.parameters, strict=True):
            self.whole(self.computation, operand, callee, parameter.name)
        self.whole(self.computation, self.instruction.name, callee, callee.root_name)

    def loop(self) -> None:
        own = self.instruction.name
        body, condition = (self.module.by_name[self.instruction.attributes[k]] for k in ("body", "condition"))
        self.whole(self.computation, own, self.computation, self.instruction.operands[0])
        for inner in (body, condition):
            self.whole(self.computation, own, inner, inner.parameters[0].name)
        self.whole(self.computation, own, body, body.root_name)

    def conditional(self) -> None:
        for name, operand in zip(branches(self.instruction), self.instruction.operands[1:], strict=True):
            body = self.module.by_name[name]
            self.whole(self.computation, operand, body, body.parameters[0].name)
            self.whole(self.computation, self.instruction.name, body, body.root_name)


def _arrays(shape: Shape) -> int:
    return sum(isinstance(leaf, ArrayShape) for leaf in leaves(shape))


_SPECIAL: dict[str, Callable[[_Links], None]] = {
    "broadcast": _Links.broadcast,
    "transpose": _Links.transpose,
    "reshape": _Links.reshape,
    "reduce": _Links.reduce,
    "reduce-window": _Links.reduce_window,
    "concatenate": _Links.concatenate,
    "slice": _Links.slice_,
    "dynamic-slice": _Links.dynamic_slice,
    "dynamic-update-slice": _Links.dynamic_update_slice,
    "dot": _Links.dot,
    "gather": _Links.gather,
    "scatter": _Links.scatter,
    "pad": _Links.pad,
    "tuple": _Links.tuple_,
    "get-tuple-element": _Links.element,
    "call": _Links.call,
    "fusion": _Links.call,
    "while": _Links.loop,
    "conditional": _Links.conditional,
    "bitcast-convert": _Links.freeze,
}


def derived(
    module: Module, computation: Computation, instruction: Instruction, size: Callable[[Place], int]
) -> Iterator[tuple[Place, int]]:
    """Sizes of the result that follow by arithmetic from those of the operands."""
    result = array_places(computation, instruction)[0]
    operand = places(computation, instruction.operands[0])
    if instruction.opcode == "pad":
        for (low, high, interior), a, b in zip(padding(instruction), operand, result, strict=True):
            n = size(a)
            yield b, n + low + high + max(n - 1, 0) * interior
    elif instruction.opcode == "concatenate":
        (along,) = int_list(instruction, "dimensions")
        yield result[along], sum(size(places(computation, name)[along]) for name in instruction.operands)
    elif instruction.opcode == "reduce-window":
        for dim, a, b in zip(window(instruction), operand, result, strict=True):
            yield b, window_output(size(a), dim)
