"""A target's tensors as they are made: tapped on XLA:CPU, between the kernels of a TPU's simulator."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from assay.checking.bounds import Settings, Step
from assay.checking.each import balls_of
from assay.errors import AssayError
from assay.hlo.attributes import called
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.opcodes import CONTROL_FLOW
from assay.hlo.shape import ArrayShape, Shape, TupleShape
from assay.isolate.graph.cut import cut, running
from assay.isolate.graph.diverge import Watched, deadline
from assay.isolate.graph.in_place import Built
from assay.isolate.graph.piece import Operand
from assay.isolate.graph.tapped import WINDOW, AsIs, Tapping, size_of
from assay.isolate.graph.trace import TRIPS, element, indexed_leaves
from assay.isolate.graph.values import Values, is_memory, values
from assay.llo.module import Value as Simulated
from assay.llo.module import pairs, run_module
from assay.programs.program import Array
from assay.reference.value import Token, Value, from_array
from assay.report.summary import Row, State, first_of

Order = tuple[tuple[float, float], ...]


@dataclass(slots=True)
class OnCpu:
    """The computing instructions of an optimized module, in windows: each with its operands, so that it can be judged
    by itself. made: by computation, the names of those.
    """

    module: Module
    made: dict[str, list[str]] = field(default_factory=dict)
    _known: dict[str, Values] = field(default_factory=dict)
    _windows: dict[str, dict[tuple[Operand, ...], list[str]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        found = cut(self.module)
        names = {(piece.computation, piece.name) for piece in found.pieces}
        names |= {(left.computation, left.name) for left in found.left if left.opcode in CONTROL_FLOW}
        spreading: dict[str, bool] = {}
        for computation in running(self.module):
            self.made[computation.name] = [
                i.name for i in computation.instructions if (computation.name, i.name) in names
            ]
            self._known[computation.name] = values(self.module, computation, spreading)

    def has(self, computation: Computation, instruction: Instruction) -> bool:
        return instruction.name in self.made.get(computation.name, ())

    def run(self, on: AsIs, watched: Watched) -> None:
        """Raises WorkerDied, RequestRefused, Unsupported."""
        start = time.monotonic()
        windows = {name: self._windows_of(self.module.by_name[name]) for name in self.made}
        self._windows = windows

        def see(computation: Computation, window: Sequence[Operand], found: Mapping[Operand, Array]) -> None:
            watched.step(f"looking at {computation.name}")
            for name in windows[computation.name][tuple(window)]:
                self._see(watched, computation, computation.by_name[name], found)

        order = {name: list(map(list, groups)) for name, groups in windows.items()}
        tapping = Tapping(self.module, on, order, see, watched.trips)
        tapping.run(watched.arguments)
        watched.notes += tapping.notes
        watched.rows.sort(key=self._order())
        watched.seconds["target"] = time.monotonic() - start - watched.seconds.get("own", 0.0)

    def _see(
        self, watched: Watched, computation: Computation, instruction: Instruction, found: Mapping[Operand, Array]
    ) -> None:
        known = self._known[computation.name]
        leaves = [found.get(known.element(computation, instruction.name, i)) for i in _arrays(instruction.shape)]
        operands: list[Value] | None = []
        why = ""
        try:
            for name in instruction.operands:
                assert operands is not None
                operands.append(self._value(watched, computation, name, found))
        except KeyError as missing:
            operands, why = None, f"{missing.args[0]} cannot be watched"
        except AssayError as error:
            operands, why = None, str(error)
        if instruction.name in self._loops(computation):
            operands, why = None, ""
        unseen = "what is computed changes where it is an output as well"
        watched.see(computation, instruction, operands, leaves, unseen if any(leaf is None for leaf in leaves) else why)

    def _value(self, watched: Watched, computation: Computation, name: str, found: Mapping[Operand, Array]) -> Value:
        """Raises KeyError for a value that was not seen."""
        known = self._known[computation.name]
        if name in known.written:
            return watched.constant(computation, name)

        def leaf(shape: Shape, index: tuple[int, ...]) -> Value:
            if isinstance(shape, TupleShape):
                return tuple(leaf(part, (*index, place)) for place, part in enumerate(shape.elements))
            if not isinstance(shape, ArrayShape):
                return Token()
            source = known.element(computation, name, index)
            if source.name in known.written:
                return element(watched.constant(computation, source.name), source.index)
            if source not in found:
                raise KeyError(source.name)
            return from_array(shape.dtype, found[source])

        return leaf(computation.by_name[name].shape, ())

    def _loops(self, computation: Computation) -> set[str]:
        """Instructions whose bodies are watched themselves."""
        return {n for n in self.made[computation.name] if any(c in self.made for c in called(computation.by_name[n]))}

    def _windows_of(self, computation: Computation) -> dict[tuple[Operand, ...], list[str]]:
        """Groups of values of WINDOW bytes or so -> the instructions that can be judged by them."""
        known = self._known[computation.name]
        groups: dict[tuple[Operand, ...], list[str]] = {}
        taps: dict[Operand, None] = {}
        names: list[str] = []
        held = 0
        for name in self.made[computation.name]:
            wanted: dict[Operand, None] = {}
            for part in (name, *computation.by_name[name].operands):
                for index in _arrays(computation.by_name[part].shape):
                    source = known.element(computation, part, index)
                    if part == name or source.name not in known.written:
                        wanted[source] = None
            size = sum(size_of(computation, source) for source in wanted if source not in taps)
            if names and held + size > WINDOW:
                groups[tuple(taps)] = names
                taps, names, held = {}, [], 0
            taps |= wanted
            names.append(name)
            held += size
        if names:
            groups[tuple(taps)] = names
        return groups

    def _order(self) -> Callable[[Row], Order]:
        """Rows as the program makes them; what a loop runs comes before the loop is done."""
        paths: dict[str, Order] = {self.module.entry_name: ()}
        places: dict[tuple[str, str], int] = {}
        for computation in running(self.module):
            for place, instruction in enumerate(computation.instructions):
                places[computation.name, instruction.name] = place
                for name in called(instruction) if instruction.attributes else ():
                    paths.setdefault(name, (*paths[computation.name], (0, place)))
        end = (float("inf"), 0.0)

        def key(row: Row) -> Order:
            own = (*paths[row.computation], (row.trip, places[row.computation, row.name]))
            return (*own, end) if row.opcode in CONTROL_FLOW else own

        return key


def suspects(
    module: Module, arguments: Sequence[Array], settings: Settings, on: AsIs, step: Step = lambda _: None
) -> dict[str, set[str]]:
    """Where to look for what no single piece shows, by computation: instructions that cannot be watched without
    changing what is computed, and the first whose results diverge; and the loops, branches and calls that run them.

    Raises WorkerDied, RequestRefused, and what evaluating the module raises.
    """
    target = OnCpu(module)
    watched = Watched(module, arguments, settings, target.has, TRIPS, step)
    watched.evaluate()
    target.run(on, watched)
    rows = watched.told()
    found: dict[str, set[str]] = {}
    for row in (*first_of(rows), *(row for row in rows if row.state is State.UNSEEN)):
        found.setdefault(row.computation, set()).add(row.name)
    for computation in reversed(list(running(module))):
        for instruction in computation.instructions:
            if instruction.attributes and any(name in found for name in called(instruction)):
                found.setdefault(computation.name, set()).add(instruction.name)
    return found


def _arrays(shape: Shape) -> list[tuple[int, ...]]:
    return [index for index, leaf in indexed_leaves(shape) if isinstance(leaf, ArrayShape)]


@dataclass(slots=True)
class OnTpu:
    """The kernels of a TPU program in the simulator."""

    built: Built
    generation: str

    def has(self, computation: Computation, instruction: Instruction) -> bool:
        return self.built.dump.kernel(instruction.name) is not None and not is_memory(instruction)

    def run(self, watched: Watched) -> None:
        """Raises Unsupported, ReferenceLimit, UnwrittenChoice."""
        start = time.monotonic()

        def see(
            computation: Computation, instruction: Instruction, operands: Sequence[Simulated], value: Simulated
        ) -> None:
            if is_memory(instruction):
                return
            given = zip(computation.operands(instruction), operands, strict=True)
            found = pairs(value)
            balls = [balls_of(operand.shape, each) for operand, each in given]
            unwritten = [pair.unwritten for pair in found]
            watched.see(computation, instruction, balls, [pair.first for pair in found], unwritten=unwritten)

        run = run_module(
            self.built.module,
            self.built.dump,
            watched.arguments,
            self.generation,
            watched.settings.own or watched.settings.policy,
            stage="final",
            on_kernel=see,
            deadline=deadline(watched.settings.reference_timeout_s, "the simulation", watched.step),
        )
        watched.notes += [f"{kernel.name} did not run: {kernel.why}" for kernel in run.untrusted]
        watched.seconds["target"] = time.monotonic() - start - watched.seconds.get("own", 0.0)
