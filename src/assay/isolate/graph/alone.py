"""One instruction, or one asynchronous chain, as a module of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from assay.errors import HloTypeError
from assay.hlo.attributes import called
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.opcodes import CONTROL_FLOW
from assay.hlo.printer import print_shape
from assay.hlo.scan import Fault, inside, pairs
from assay.hlo.shape import Shape, TokenShape, TupleShape
from assay.isolate.graph.piece import Operand, Piece
from assay.isolate.graph.values import Values

_OF_PARAMETERS = frozenset(
    (
        "entry_computation_layout", "input_output_alias", "buffer_donor", "alias_passthrough_params",
        "allow_spmd_sharding_propagation_to_parameters", "allow_spmd_sharding_propagation_to_output",
        "origin_recovery_table",
    )
)  # fmt: skip
_MODES = ("arg_layout_modes", "arg_memory_spaces", "out_layout_modes", "out_memory_spaces")
_WRAPPING = frozenset(("tuple", "bitcast", "get-tuple-element"))
_CONTROL = "control-predecessors"
_OF_GRAPH = frozenset((_CONTROL, "sharding"))


def attributes(module: Module) -> dict[str, str]:
    """What the header says of the program and not of its parameters and results: what every piece keeps."""
    kept = {k: v for k, v in module.attributes.items() if k not in _OF_PARAMETERS}
    frontend = kept.get("frontend_attributes", "")
    if any(mode in frontend for mode in _MODES):
        try:
            left = {k: v for k, v in pairs(inside(frontend)).items() if k not in _MODES}
        except Fault as fault:
            raise HloTypeError(
                f"the header of {module.name} has frontend_attributes={frontend[:80]}: {fault}"
            ) from None
        kept["frontend_attributes"] = f"{{{','.join(f'{k}={v}' for k, v in left.items())}}}"
        if not left:
            del kept["frontend_attributes"]
    return kept


@dataclass(slots=True)
class Closures:
    """What a computation calls, directly or not, and itself, callees first; each found once."""

    module: Module
    order: Mapping[str, int]
    found: dict[str, frozenset[str]] = field(default_factory=dict)

    def of(self, instructions: Sequence[Instruction]) -> list[Computation]:
        return [self.module.by_name[name] for name in sorted(self.names(instructions), key=self.order.__getitem__)]

    def names(self, instructions: Sequence[Instruction]) -> set[str]:
        return {n for i in instructions if i.attributes for c in called(i) for n in self._closure(c)}

    def _closure(self, name: str) -> frozenset[str]:
        if name not in self.found:
            callees = {c for i in self.module.by_name[name].instructions if i.attributes for c in called(i)}
            self.found[name] = frozenset((name,)).union(*(self._closure(c) for c in callees))
        return self.found[name]


def alone(
    module: Module,
    computation: Computation,
    chain: Sequence[Instruction],
    known: Values,
    closures: Closures,
    header: Mapping[str, str],
) -> Piece:
    """The last of `chain` as the root of a module that has all of it. header: `attributes(module)`."""
    making = _Making(computation, known, {i.name for i in chain})
    making.count(chain)
    for instruction in chain:
        making.add(instruction)
    return making.piece(module, chain[-1], chain[-1].name, closures, header)


def together(
    module: Module,
    computation: Computation,
    members: Sequence[Instruction],
    outputs: Sequence[Operand],
    known: Values,
    closures: Closures,
    header: Mapping[str, str],
) -> Piece:
    """All of `members`, which stand in program order, as one module: its root is the tuple of `outputs`, arrays of
    theirs, or the one that there is. Arrays that loops and branches begin with are copied, for they write to them; so
    are outputs that members read, which may write over them.
    """
    making = _Making(computation, known, {i.name for i in members})
    making.count(members)
    for instruction in members:
        making.add(instruction)
    making.copy_what_is_written()
    parts = making.leaves(outputs)
    root = making.inside[parts[0]]
    if len(parts) > 1:
        root = Instruction(
            making.unused("together"), "tuple", TupleShape(tuple(making.inside[p].shape for p in parts)), tuple(parts)
        )
        making.inside[root.name] = root
    return making.piece(module, root, members[-1].name, closures, header)


def after(instruction: Instruction, copied: Mapping[str, Sequence[str]]) -> Instruction:
    """`instruction`, to run after the copies of its operands: a scheduler may put it first, and a write in place."""
    first = [name for operand in dict.fromkeys(instruction.operands) for name in copied.get(operand, ())]
    if not first:
        return instruction
    there = instruction.attributes.get(_CONTROL, "{}").strip("{}")
    text = ", ".join([there, *first] if there else first)
    return replace(instruction, attributes={**instruction.attributes, _CONTROL: f"{{{text}}}"})


@dataclass(slots=True)
class _Making:
    """The entry of a piece while it grows. names: by a value of the graph, its name in the piece. uses: under how many
    names each value comes that may need a bitcast.
    """

    computation: Computation
    known: Values
    chain: set[str]
    parameters: list[Instruction] = field(default_factory=list)
    operands: list[Operand] = field(default_factory=list)
    inside: dict[str, Instruction] = field(default_factory=dict)
    brought: list[str] = field(default_factory=list)
    names: dict[Operand, str] = field(default_factory=dict)
    uses: Counter[Operand] = field(default_factory=Counter)

    def count(self, chain: Sequence[Instruction]) -> None:
        wanted: set[Operand] = set()
        for name in dict.fromkeys(name for i in chain for name in i.operands if name not in self.chain):
            shape = self.computation.by_name[name].shape
            if isinstance(shape, TupleShape):
                wanted.update(self.known.element(self.computation, name, index) for index in _indices(shape))
            else:
                wanted.add(self.known.source[name])
        self.uses.update(self._base(value) for value in wanted)

    def piece(
        self, module: Module, root: Instruction, name: str, closures: Closures, header: Mapping[str, str]
    ) -> Piece:
        entry_name = f"{name}.alone"
        while entry_name in module.by_name:
            entry_name += ".alone"
        entry = Computation(entry_name, (*self.parameters, *self.inside.values()), root.name)
        layout = ", ".join([print_shape(p.shape) for p in self.parameters])
        layouts = {"entry_computation_layout": f"{{({layout})->{print_shape(root.shape)}}}"}
        computations = (*closures.of(tuple(self.inside.values())), entry)
        brought = set(self.brought)
        return Piece(
            name,
            self.computation.name,
            self.computation.by_name[name].opcode,
            Module(name, computations, entry_name, {**header, **layouts}),
            tuple(self.operands),
            tuple(name for name in self.inside if name in self.chain or name in brought),
            tuple(self.brought),
        )

    def _base(self, value: Operand) -> Operand:
        return value if value.index else self.known.base[value.name]

    def add(self, instruction: Instruction) -> None:
        operands = tuple([self.value(name) for name in instruction.operands])
        if operands != instruction.operands or not _OF_GRAPH.isdisjoint(instruction.attributes):
            instruction = replace(instruction, operands=operands, attributes=_own_attributes(instruction))
        self.inside[instruction.name] = instruction

    def value(self, name: str) -> str:
        """The name in the piece of what the graph calls `name`."""
        source = self.known.source[name]
        if name in self.chain:
            return name
        if not source.index and source.name in self.chain:
            return source.name
        if name in self.known.written:
            return self.bring(name)
        return self.part(source, self.computation.by_name[name].shape, Operand(name))

    def part(self, source: Operand, shape: Shape, spelled: Operand) -> str:
        """The name of a value in the piece, which becomes a parameter, or a tuple of parameters, where it is new."""
        if source in self.names:
            return self.names[source]
        if not source.index and source.name in self.known.written:
            return self.bring(source.name)
        base = self._base(source)
        if isinstance(shape, TupleShape):
            name = self._tuple(shape, spelled)
        elif isinstance(shape, TokenShape):
            name = self._name(spelled)
            self.inside[name] = Instruction(name, "after-all", shape)
        elif base != source and self.uses[base] > 1:
            name = self._bitcast(source.name)
        else:
            name = self._name(spelled)
            self.operands.append(spelled)
            self.parameters.append(Instruction(name, "parameter", shape, parameter_number=len(self.parameters)))
        self.names[source] = name
        return name

    def _tuple(self, shape: TupleShape, spelled: Operand) -> str:
        parts = []
        for i, element in enumerate(shape.elements):
            leaf = Operand(spelled.name, (*spelled.index, i))
            parts.append(self.part(self.known.element(self.computation, leaf.name, leaf.index), element, leaf))
        name = self._name(spelled)
        self.inside[name] = Instruction(name, "tuple", shape, tuple(parts))
        return name

    def _bitcast(self, name: str) -> str:
        """A bitcast comes along where its operand is in the piece under another name: both are one value."""
        instruction = self.computation.by_name[name]
        (operand,) = instruction.operands
        source = self.known.source[operand]
        inner = self.part(source, self.computation.by_name[operand].shape, Operand(operand))
        self.inside[name] = replace(instruction, operands=(inner,), attributes=_own_attributes(instruction))
        self.brought.append(name)
        return name

    def bring(self, name: str) -> str:
        """A constant in all but name, with all it comes from."""
        if name not in self.inside:
            instruction = self.computation.by_name[name]
            for operand in instruction.operands:
                self.bring(operand)
            if not _OF_GRAPH.isdisjoint(instruction.attributes):
                instruction = replace(instruction, attributes=_own_attributes(instruction))
            self.inside[name] = instruction
            self.brought.append(name)
        return name

    def leaves(self, outputs: Sequence[Operand]) -> list[str]:
        """The names of arrays of members, taken out of their tuples, and copied before other members read them."""
        wanted: dict[str, list[Operand]] = {}
        for output in outputs:
            wanted.setdefault(output.name, []).append(output)
        read = {name for instruction in self.inside.values() for name in instruction.operands}
        instructions, self.inside = list(self.inside.values()), {}
        copied: dict[str, list[str]] = {}
        names: dict[Operand, str] = {}
        for instruction in instructions:
            self.inside[instruction.name] = after(instruction, copied)
            for output in wanted.get(instruction.name, ()):
                names[output] = self._leaf(output)
                if instruction.name in read:
                    copy = self.unused(f"{names[output]}.kept")
                    self.inside[copy] = Instruction(copy, "copy", self.inside[names[output]].shape, (names[output],))
                    names[output] = copy
                    copied.setdefault(instruction.name, []).append(copy)
        return [names[output] for output in outputs]

    def _leaf(self, output: Operand) -> str:
        name = output.name
        for depth, place in enumerate(output.index):
            whole = self.inside[name]
            assert isinstance(whole.shape, TupleShape)
            name = self.unused(self._name(Operand(output.name, output.index[: depth + 1])))
            part = whole.shape.elements[place]
            self.inside[name] = Instruction(name, "get-tuple-element", part, (whole.name,), {"index": str(place)})
        return name

    def copy_what_is_written(self) -> None:
        copied: dict[str, str] = {}
        named = {p.name: p for p in self.parameters}
        into = {o for i in self.inside.values() if i.opcode in CONTROL_FLOW for o in i.operands}
        found: dict[str, Instruction] = {}
        reaches = self._reaching(into)
        for instruction in self.inside.values():
            if instruction.opcode in CONTROL_FLOW or instruction.name in reaches:
                for name in instruction.operands:
                    if name in named and name not in copied:
                        copied[name] = self.unused(f"{name}.copied")
                        found[copied[name]] = Instruction(copied[name], "copy", named[name].shape, (name,))
                operands = tuple(copied.get(name, name) for name in instruction.operands)
                instruction = replace(instruction, operands=operands)
            found[instruction.name] = instruction
        self.inside = found

    def _reaching(self, names: set[str]) -> set[str]:
        """The tuples and bitcasts whose arrays come to one of `names`."""
        found: set[str] = set()
        stack = list(names)
        while stack:
            instruction = self.inside.get(stack.pop())
            if instruction is not None and instruction.opcode in _WRAPPING and instruction.name not in found:
                found.add(instruction.name)
                stack += instruction.operands
        return found

    def unused(self, name: str) -> str:
        while name in self.computation.by_name or name in self.inside:
            name += ".element"
        return name

    def _name(self, spelled: Operand) -> str:
        """The graph's own name, or one that the computation does not have for a leaf of a tuple."""
        if not spelled.index:
            return spelled.name
        name = ".".join((spelled.name, "element", *map(str, spelled.index)))
        while name in self.computation.by_name:
            name += ".element"
        return name


def _indices(shape: TupleShape) -> Iterator[tuple[int, ...]]:
    for i, element in enumerate(shape.elements):
        if isinstance(element, TupleShape):
            yield from ((i, *rest) for rest in _indices(element))
        else:
            yield (i,)


def _own_attributes(instruction: Instruction) -> dict[str, str]:
    """Without what orders the graph, and without shardings: shapes are those of one device already."""
    kept = instruction.opcode == "custom-call"  # of which some are about nothing else
    return {
        k: v for k, v in instruction.attributes.items() if k != "control-predecessors" and (kept or k != "sharding")
    }
