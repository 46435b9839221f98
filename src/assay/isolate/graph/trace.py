"""What the pieces of a graph really see: the values of one run, kept for those that ask for them.

The run is the reference's, on the graph's own arguments, every result rounded to the nearest value of its type: what a
target would get, but for its own rounding. (`tapped` has the target's own values, where it can be watched.) The k-th
time that a computation runs, each of its instructions gives the k-th of its values: so the arguments of a piece in a
loop belong to one trip.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from assay.checking.judge import same_bits
from assay.errors import ReferenceLimit, Unsupported
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.shape import ArrayShape, DType, Shape, TupleShape
from assay.isolate.graph.piece import Operand, Piece
from assay.isolate.graph.values import Values, values
from assay.oracle.compare import round_out
from assay.reference.evaluator import evaluate
from assay.reference.policy import Policy
from assay.reference.value import Array, Ball, Value, joined
from assay.targets.dumps import scratch

Key = tuple[str, Operand]
"""A computation's name and a value of it."""

TRIPS = 3
"""Of a piece in a loop: the first is often on zeros."""
MEMORY = 2 << 30


@dataclass(frozen=True, slots=True)
class _OnDisk:
    path: Path
    dtype: np.dtype[Any]
    dims: tuple[int, ...]

    def read(self) -> Array:
        return np.fromfile(self.path, self.dtype).reshape(self.dims)


@dataclass(slots=True)
class Trace:
    """Values by computation and name. A context manager: what does not fit into memory lies in a scratch folder.

    trips: how many values of each are kept. memory_limit: bytes of those held in memory. why: the reason where the run
    did not come to its end; what it had by then is kept. known: by computation, which names are one value; each is kept
    once. seen: how often each value was made.
    """

    trips: int = TRIPS
    memory_limit: int = MEMORY
    why: str = ""
    known: Mapping[str, tuple[Computation, Values]] = field(default_factory=dict)
    seen: dict[Key, int] = field(default_factory=dict)
    _kept: dict[Key, list[Array | _OnDisk]] = field(default_factory=dict)
    _held: int = 0
    _folder: Path | None = None
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _open: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def __enter__(self) -> Trace:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._open.close()

    def source(self, key: Key) -> Key:
        """The value that a name, or a leaf of a tuple, stands for."""
        name, operand = key
        if name not in self.known:
            return key
        computation, known = self.known[name]
        return name, known.element(computation, operand.name, operand.index)

    def add(self, key: Key, array: Callable[[], Array]) -> None:
        """One more value of `key`, which is asked for where it is kept."""
        number = self.seen[key] = self.seen.get(key, 0) + 1
        if number > self.trips:
            return
        kept = self._kept.setdefault(key, [])
        value = array()
        if kept and isinstance(last := kept[-1], np.ndarray) and same_bits(last, value):
            kept.append(last)  # what a loop does not change
        elif self._held + value.nbytes <= self.memory_limit:
            self._held += value.nbytes
            kept.append(value)
        else:
            kept.append(self._written(value))

    def forget(self, key: Key) -> None:
        """Drop what is known of a value."""
        self._kept.pop(self.source(key), None)

    def of(self, computation: str, name: str, index: tuple[int, ...] = ()) -> list[Array]:
        """The values of an instruction in the order in which they were made, at most `trips`; none if not seen."""
        kept = self._kept.get(self.source((computation, Operand(name, index))), ())
        return [value.read() if isinstance(value, _OnDisk) else value for value in kept]

    def arguments(self, piece: Piece) -> list[list[Array]]:
        """The arguments of `piece.module`, a set for each time that it ran, no set twice; empty where a value is
        missing.
        """
        if not piece.operands:
            return [[]]
        columns = [self.of(piece.computation, operand.name, operand.index) for operand in piece.operands]
        found: list[list[Array]] = []
        for row in zip(*columns, strict=False):
            if not any(all(map(same_bits, row, before)) for before in found):
                found.append(list(row))
        return found

    def _written(self, value: Array) -> _OnDisk:
        if self._folder is None:
            self._folder = self._open.enter_context(scratch())
        path = self._folder / f"{next(self._numbers)}.bin"
        value.tofile(path)
        return _OnDisk(path, value.dtype, value.shape)


def wanted(pieces: Iterable[Piece]) -> set[Key]:
    """All values that the pieces are given."""
    return {(piece.computation, operand) for piece in pieces for operand in piece.operands}


def captured(
    module: Module,
    arguments: Sequence[Array],
    policy: Policy,
    keys: Collection[Key],
    *,
    trips: int = TRIPS,
    flushed: bool = False,
    memory_limit: int = MEMORY,
    reference_limit: int = 8 << 30,
    deadline: Callable[[], None] | None = None,
) -> Trace:
    """The values `keys` of one run of `module` on `arguments`, as arrays of their own types.

    reference_limit: bytes that the run itself may hold. deadline: called between instructions; may raise. Where the
    reference does not model an instruction, or a limit is reached, the trace says `why` and has what was seen before.
    """
    trace = Trace(trips, memory_limit, known=names_of(module, keys))
    indices = by_instruction(map(trace.source, keys))

    def see(computation: Computation, instruction: Instruction, value: Value) -> None:
        for index in indices.get((computation.name, instruction.name), ()):
            leaf = element(value, index)
            if isinstance(leaf, Ball):
                trace.add((computation.name, Operand(instruction.name, index)), partial(as_stored, leaf))

    rng = np.random.default_rng(0)
    try:
        evaluate(
            module,
            arguments,
            policy,
            rng=rng,
            amplitude=0.0,
            alike=False,
            nearest=True,
            flushed=flushed,
            on_value=see,
            memory_limit=reference_limit,
            deadline=deadline,
        )
    except (Unsupported, ReferenceLimit) as end:
        trace.why = str(end)
    return trace


def names_of(module: Module, keys: Iterable[Key]) -> dict[str, tuple[Computation, Values]]:
    """For the computations of `keys`, which names are one value."""
    homes = [module.by_name[name] for name in {name for name, _ in keys}]
    spreading: dict[str, bool] = {}
    return {home.name: (home, values(module, home, spreading)) for home in homes}


def every_value(module: Module, computation: str) -> set[Key]:
    """All arrays of a computation that a piece of it may be given."""
    home = module.by_name[computation]
    known = values(module, home, {})
    return {
        (computation, known.element(home, i.name, index))
        for i in home.instructions
        if i.name not in known.written
        for index, leaf in indexed_leaves(i.shape)
        if isinstance(leaf, ArrayShape)
    }


def indexed_leaves(shape: Shape, at: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], Shape]]:
    if isinstance(shape, TupleShape):
        for place, element_shape in enumerate(shape.elements):
            yield from indexed_leaves(element_shape, (*at, place))
    else:
        yield at, shape


def by_instruction(keys: Iterable[Key]) -> Mapping[tuple[str, str], list[tuple[int, ...]]]:
    """(computation, instruction) -> the leaves of its value that are meant."""
    found: dict[tuple[str, str], list[tuple[int, ...]]] = {}
    for computation, operand in dict.fromkeys(keys):
        found.setdefault((computation, operand.name), []).append(operand.index)
    return found


def element(value: Value, index: tuple[int, ...]) -> Value:
    for place in index:
        assert isinstance(value, tuple)
        value = value[place]
    return value


def as_stored(ball: Ball) -> Array:
    """A midpoint, rounded to the nearest, in the NumPy type of its element type."""
    dtype = ball.dtype
    assert dtype.numpy is not None
    with np.errstate(all="ignore"):
        if dtype.is_complex:
            parts = (_part(dtype.part, part) for part in (ball.mid.real, ball.mid.imag))
            return joined(*parts).astype(dtype.numpy)
        if dtype.is_float:
            return _part(dtype, ball.mid)
        return np.asarray(ball.mid).astype(dtype.numpy, order="C")


def _part(dtype: DType, values: Array) -> Array:
    return round_out(dtype, np.asarray(values)).astype(dtype.numpy, order="C").reshape(values.shape)
