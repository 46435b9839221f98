"""The target's own values, where it can be watched: XLA:CPU compiles the optimized module once more, with the values
asked for as outputs besides.

A tap is a copy of a value, made before anything else reads it: what reads it may write over it. It can still change
what it looks at: another buffer, another kernel. So whatever is tapped, the module's own outputs must keep their bits;
a set of taps with which they do not is halved until those are left that are not in the way, and the others are named. A
loop is watched by running its body on its own, trip by trip, on the state that the target itself came to; where it
ends, the state must be the loop's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from assay.checking.bounds import Step
from assay.checking.judge import same_bits
from assay.errors import Unsupported
from assay.hlo import attributes as read
from assay.hlo.graph import called_order
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.opcodes import CONTROL_FLOW
from assay.hlo.printer import print_for_compiler, print_shape
from assay.hlo.shape import ArrayShape, Shape, TupleShape, leaves
from assay.isolate.graph.alone import Closures, after, attributes
from assay.isolate.graph.piece import Operand
from assay.isolate.graph.trace import MEMORY, TRIPS, Key, Trace, indexed_leaves, names_of
from assay.isolate.graph.values import Values, values
from assay.programs.program import Array
from assay.targets import cpu
from assay.toolchain import Compiled, Worker

See = Callable[[Computation, Sequence[Operand], Mapping[Operand, Array]], None]

WINDOW = 1 << 30
"""Bytes of what is tapped at a time."""


@dataclass(slots=True)
class AsIs:
    """Runs optimized modules in the worker as they stand; each is compiled once."""

    worker: Worker
    options: Mapping[str, str] = field(default_factory=dict)
    step: Step = lambda _: None
    _compiled: dict[int, tuple[Module, Compiled]] = field(default_factory=dict)

    def outputs(self, module: Module, arguments: Sequence[Array]) -> list[Array]:
        """Raises WorkerDied, RequestRefused."""
        known = self._compiled.get(id(module))
        if known is None or not self.worker.holds(known[1]):
            self.step(f"compiling {module.name} with {len(read_root(module))} outputs")
            compiled = cpu.compile(self.worker, print_for_compiler(module), "hlo-optimized", self.options)
            known = self._compiled[id(module)] = module, compiled
        return cpu.run(self.worker, known[1], arguments)

    def close(self) -> None:
        for _, compiled in self._compiled.values():
            self.worker.release(compiled)
        self._compiled.clear()


def read_root(module: Module) -> list[Shape]:
    return list(leaves(module.entry.root.shape))


@dataclass(slots=True)
class Tapping:
    """One run of an optimized module, watched. windows: by computation, the values that are tapped at a time, by the
    names that `values` gives as their sources. see: called with each window's values; of a loop's body once a trip, for
    so many trips.

    disturbing: values that could not be tapped without changing an output. notes: what else there is to say.
    """

    module: Module
    on: AsIs
    windows: Mapping[str, Sequence[Sequence[Operand]]]
    see: See
    trips: int = TRIPS
    disturbing: set[Key] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    _closures: Closures = field(init=False)
    _known: dict[str, Values] = field(default_factory=dict)
    _programs: dict[tuple[str, tuple[Operand, ...]], Module] = field(default_factory=dict)
    _groups: dict[tuple[str, tuple[Operand, ...]], list[tuple[Operand, ...]]] = field(default_factory=dict)
    _wavering: frozenset[int] = frozenset()
    """Outputs of the module that differ between two runs of it, which therefore say nothing of taps."""

    def __post_init__(self) -> None:
        self._closures = Closures(self.module, {c.name: at for at, c in enumerate(called_order(self.module))})

    def run(self, arguments: Sequence[Array]) -> list[Array]:
        """The module's own outputs. Raises Unsupported, WorkerDied, RequestRefused."""
        plain = self.on.outputs(self._program(self.module.entry, ()), arguments)
        again = self.on.outputs(self._program(self.module.entry, ()), arguments)
        self._wavering = frozenset(n for n, (a, b) in enumerate(zip(plain, again, strict=True)) if not same_bits(a, b))
        if self._wavering:
            self.notes.append(f"{len(self._wavering)} outputs differ between two runs of one executable")
        return self._follow(self.module.entry, arguments)

    # ---- one computation

    def _follow(self, computation: Computation, arguments: Sequence[Array]) -> list[Array]:
        plain = self.on.outputs(self._program(computation, ()), arguments)
        for window in self.windows.get(computation.name, ()):
            self.see(computation, window, self._values(computation, tuple(window), arguments, plain))
        entered = [i for i in computation.instructions if self._is_followed(i)]
        if entered:
            found = self._values(computation, self._needed(computation, entered), arguments, plain)
            for instruction in entered:
                self._enter(computation, instruction, found)
        return plain

    def _values(
        self, computation: Computation, taps: tuple[Operand, ...], arguments: Sequence[Array], plain: Sequence[Array]
    ) -> dict[Operand, Array]:
        given = dict(zip(_parameter_leaves(computation), arguments, strict=True))
        found = {tap: given[tap] for tap in taps if tap in given}
        inner = tuple(tap for tap in taps if tap not in given and (computation.name, tap) not in self.disturbing)
        key = computation.name, inner
        todo = self._groups.get(key, [inner] if inner else [])
        undisturbed = []
        while todo:
            group, todo = todo[0], todo[1:]
            outputs = self.on.outputs(self._program(computation, group), arguments)
            if self._kept(computation, plain, outputs):
                found |= zip(group, outputs[len(plain) :], strict=True)
                undisturbed.append(group)
            elif len(group) == 1:
                self.disturbing.add((computation.name, group[0]))
            else:
                half = len(group) // 2
                todo = [group[:half], group[half:], *todo]
        self._groups[key] = undisturbed
        return found

    def _kept(self, computation: Computation, plain: Sequence[Array], outputs: Sequence[Array]) -> bool:
        wavering = self._wavering if computation is self.module.entry else frozenset()
        return all(same_bits(a, b) for n, (a, b) in enumerate(zip(plain, outputs, strict=False)) if n not in wavering)

    # ---- loops, branches and calls

    def _is_followed(self, instruction: Instruction) -> bool:
        if instruction.opcode not in CONTROL_FLOW:
            return False
        return any(name in self.windows for name in self._closures.names((instruction,)))

    def _needed(self, computation: Computation, entered: Sequence[Instruction]) -> tuple[Operand, ...]:
        """What the entered instructions are given, and what loops come to."""
        names = dict.fromkeys(name for i in entered for name in i.operands)
        names |= dict.fromkeys(i.name for i in entered if i.opcode == "while")
        return tuple(dict.fromkeys(leaf for name in names for leaf in self._leaves(computation, name)))

    def _leaves(self, computation: Computation, name: str) -> list[Operand]:
        """The arrays of a value, each by the name of its source."""
        if computation.name not in self._known:
            self._known[computation.name] = values(self.module, computation, {})
        known = self._known[computation.name]
        shape = computation.by_name[name].shape
        found = [(index, leaf) for index, leaf in indexed_leaves(shape) if isinstance(leaf, ArrayShape)]
        return [known.element(computation, name, index) for index, _ in found]

    def _enter(self, computation: Computation, instruction: Instruction, found: Mapping[Operand, Array]) -> None:
        wanted = [leaf for name in instruction.operands for leaf in self._leaves(computation, name)]
        if any(leaf not in found for leaf in wanted):
            self.notes.append(f"{instruction.name} is not followed: what it is given cannot be tapped")
            return
        if instruction.opcode == "while":
            self._loop(computation, instruction, [found[leaf] for leaf in wanted], found)
            return
        if instruction.opcode == "call":
            self._follow(self.module.by_name[read.called(instruction)[0]], [found[leaf] for leaf in wanted])
            return
        names = read.branches(instruction)
        chosen = int(found[wanted[0]].reshape(()))
        if found[wanted[0]].dtype == bool:
            chosen = 1 - chosen
        chosen = chosen if 0 <= chosen < len(names) else len(names) - 1
        inside = self._leaves(computation, instruction.operands[1 + chosen])
        self._follow(self.module.by_name[names[chosen]], [found[leaf] for leaf in inside])

    def _loop(
        self, computation: Computation, instruction: Instruction, state: list[Array], found: Mapping[Operand, Array]
    ) -> None:
        condition, body = (self.module.by_name[read.computation(instruction, key)] for key in ("condition", "body"))
        for trip in range(self.trips + 1):
            if trip == self.trips:
                return
            (go,) = self._follow(condition, state)
            if not go:
                break
            self.on.step(f"{instruction.name}, trip {trip + 1}")
            state = self._follow(body, state)
        ended = [found.get(leaf) for leaf in self._leaves(computation, instruction.name)]
        if any(a is not None and not same_bits(a, b) for a, b in zip(ended, state, strict=True)):
            self.notes.append(f"the body of {instruction.name}, run on its own, comes to another state than the loop")

    # ---- programs

    def _program(self, computation: Computation, taps: tuple[Operand, ...]) -> Module:
        key = computation.name, taps
        if key not in self._programs:
            self._programs[key] = with_outputs(self.module, computation, taps, self._closures)
        return self._programs[key]


def with_outputs(module: Module, computation: Computation, taps: Sequence[Operand], closures: Closures) -> Module:
    """`computation` of `module` as a program that takes and gives arrays: its own outputs, then copies of `taps`, each
    made right after its value. Raises Unsupported where it gives other than arrays.
    """
    own = computation is module.entry
    making = _Making(computation, {}, [])
    for tap in taps:
        making.taps.setdefault(tap.name, []).append(tap)
    root = computation.root
    plain_tuple = own and root.opcode == "tuple" and all(isinstance(s, ArrayShape) for s in leaves(root.shape))
    plain_tuple = plain_tuple and not any(root.name in i.operands for i in computation.instructions)
    for instruction in computation.instructions:
        if instruction.parameter_number is not None:
            making.parameter(instruction)
        elif not (plain_tuple and instruction is root):
            making.instructions.append(after(instruction, making.copied))
        making.tap(instruction)
    if any(not isinstance(leaf, ArrayShape) for leaf in leaves(root.shape)):
        raise Unsupported(f"{computation.name} gives a token", "it cannot be run on its own")
    if plain_tuple:
        outputs = list(root.operands)
    elif isinstance(root.shape, ArrayShape) and own:
        outputs = [root.name]
    else:  # what a body hands on unchanged is no result of its own
        outputs = [making.copy(root, index) for index, _ in indexed_leaves(root.shape)]
    outputs += [making.copies[tap] for tap in taps]
    by_name = {i.name: i for i in (*making.parameters, *making.instructions)}
    end = by_name[outputs[0]] if outputs else root
    if len(outputs) != 1:  # one alone is no tuple of one: so the client gives it
        shape = TupleShape(tuple(by_name[name].shape for name in outputs))
        end = Instruction(making.unused("tapped"), "tuple", shape, tuple(outputs))
        making.instructions.append(end)
    entry = Computation(computation.name, (*making.parameters, *making.instructions), end.name)
    layout = ", ".join(print_shape(p.shape) for p in making.parameters)
    layouts = {"entry_computation_layout": f"{{({layout})->{print_shape(end.shape)}}}"}
    computations = (*closures.of(tuple(making.instructions)), entry)
    return Module(module.name, computations, entry.name, {**attributes(module), **layouts})


@dataclass(slots=True)
class _Making:
    """taps: by instruction, what is wanted of it. copies: by tap, the name of its copy; copied: by instruction."""

    computation: Computation
    taps: dict[str, list[Operand]]
    instructions: list[Instruction]
    parameters: list[Instruction] = field(default_factory=list)
    copies: dict[Operand, str] = field(default_factory=dict)
    copied: dict[str, list[str]] = field(default_factory=dict)
    _names: set[str] = field(default_factory=set)

    def parameter(self, instruction: Instruction) -> None:
        """A tuple comes as its arrays."""
        if isinstance(instruction.shape, ArrayShape):
            self.parameters.append(replace(instruction, parameter_number=len(self.parameters)))
        else:
            self.instructions.append(
                replace(self._assembled(instruction.shape, instruction.name), name=instruction.name)
            )

    def _assembled(self, shape: Shape, stem: str) -> Instruction:
        if isinstance(shape, TupleShape):
            parts = []
            for place, element in enumerate(shape.elements):
                part = self._assembled(element, f"{stem}.{place}")
                if part.parameter_number is None:
                    self.instructions.append(part)
                parts.append(part.name)
            return Instruction(self.unused(stem), "tuple", shape, tuple(parts))
        if not isinstance(shape, ArrayShape):
            return Instruction(self.unused(stem), "after-all", shape)
        found = Instruction(self.unused(stem), "parameter", shape, parameter_number=len(self.parameters))
        self.parameters.append(found)
        return found

    def tap(self, instruction: Instruction) -> None:
        for tap in self.taps.get(instruction.name, ()):
            self.copies[tap] = self.copy(instruction, tap.index)
            self.copied.setdefault(instruction.name, []).append(self.copies[tap])

    def copy(self, instruction: Instruction, index: tuple[int, ...]) -> str:
        """The name of a copy of a leaf of an instruction's value."""
        name, shape = instruction.name, instruction.shape
        for place in index:
            assert isinstance(shape, TupleShape)
            shape = shape.elements[place]
            part = Instruction(self.unused("tap"), "get-tuple-element", shape, (name,), {"index": str(place)})
            self.instructions.append(part)
            name = part.name
        copy = Instruction(self.unused("tap"), "copy", shape, (name,))
        self.instructions.append(copy)
        return copy.name

    def unused(self, stem: str) -> str:
        number = len(self._names)
        while (name := f"{stem}.{number}") in self.computation.by_name or name in self._names:
            number += 1
        self._names.add(name)
        return name


def _parameter_leaves(computation: Computation) -> Iterator[Operand]:
    for parameter in computation.parameters:
        for index, shape in indexed_leaves(parameter.shape):
            if isinstance(shape, ArrayShape):
                yield Operand(parameter.name, index)


def captured_on(
    module: Module,
    arguments: Sequence[Array],
    keys: Collection[Key],
    on: AsIs,
    *,
    trips: int = TRIPS,
    memory_limit: int = MEMORY,
) -> tuple[Trace, Tapping]:
    """As `trace.captured`, of the target's own values. What could not be tapped is not in the trace. Raises what
    `Tapping.run` does.
    """
    trace = Trace(trips, memory_limit, known=names_of(module, keys))
    by_computation: dict[str, list[Operand]] = {}
    for computation, operand in dict.fromkeys(map(trace.source, keys)):
        by_computation.setdefault(computation, []).append(operand)
    windows = {name: list(by_size(module.by_name[name], operands)) for name, operands in by_computation.items()}

    def see(computation: Computation, _: Sequence[Operand], found: Mapping[Operand, Array]) -> None:
        for operand, array in found.items():
            trace.add((computation.name, operand), lambda array=array: array)  # type: ignore[misc]

    tapping = Tapping(module, on, windows, see, trips)
    tapping.run(arguments)
    for key in tapping.disturbing:
        trace.forget(key)
    trace.why = "; ".join(tapping.notes)
    return trace, tapping


def by_size(computation: Computation, operands: Sequence[Operand], limit: int = WINDOW) -> Iterator[list[Operand]]:
    """The values in groups of at most `limit` bytes, in program order."""
    place = {i.name: at for at, i in enumerate(computation.instructions)}
    group: list[Operand] = []
    held = 0
    for operand in sorted(operands, key=lambda o: (place[o.name], o.index)):
        size = size_of(computation, operand)
        if group and held + size > limit:
            yield group
            group, held = [], 0
        group.append(operand)
        held += size
    if group:
        yield group


def size_of(computation: Computation, operand: Operand) -> int:
    """Bytes of a value."""
    shape = computation.by_name[operand.name].shape
    for place in operand.index:
        assert isinstance(shape, TupleShape)
        shape = shape.elements[place]
    return shape.size * max(shape.dtype.bits // 8, 1) if isinstance(shape, ArrayShape) else 0
