"""Modules evaluated one after another; what one shares with those before is not evaluated again.

Values are midpoints: the result in exact arithmetic, in float64, with no rounding but what the policy says must happen
(see `Context`, a sampled run of amplitude 0). Three tables make them shared:

    symbol -> number        an expression in terms of the arguments (`expressions`): nothing that is the same there is
                            looked at again, for any set of arguments
    expression -> number    an instruction that computes the same of the same values
    contents -> number      an array that is one that is there already

By the third a rewrite that keeps a value ends where it kept it: all that follows is found in the second. One array is
another where they differ by float64's own rounding alone, which moves midpoints by some 1e-16 of their size (`near`:
2^13 times finer than the type), or where it lies in the other's ball, worked out for the one instruction that made it
on exact operands: so a rewrite is legal that rounds a constant or groups factors anew. Differences do not add up over
many snapshots, for each array is compared with the one that is kept. Integers have to be equal, f64 nearly.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count
from math import isfinite

import numpy as np

from assay.errors import AssayError, InputError, ReferenceLimit
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.shape import ArrayShape
from assay.isolate.expressions import TOKEN, Element, Expressions, Key, Made, Ref, flat, sorted_operands
from assay.reference.context import unit_roundoff
from assay.reference.evaluator import Steps
from assay.reference.memory import keep_freed_memory
from assay.reference.policy import Policy
from assay.reference.value import Array, Ball, Token, Value, flatten

Table = dict[int, Ref]
"""Symbol -> what it stands for on one set of arguments."""

Place = tuple[str, int, tuple[int, ...], tuple[int, ...]]
"""Where an array lies in memory: type, address, dimensions, strides."""

Alike = list[tuple[float, int]]
"""Sketches of the values of one type and shape, in order, each with its number."""

_NOTHING = -1  # the number of all tokens
NEAR_BITS = 13
SAMPLED = 512  # elements that a sketch is made of
CANDIDATES = 8
# What a radius says of these it says after much work: each may be as long as a program.
_WHOLE_PROGRAMS = frozenset(("while", "conditional", "async-start", "custom-call"))
NOISE = 1e-9  # how far sketches of values may be apart that are the same but for float64's rounding


class Crowded(ReferenceLimit):
    """The values of one module need more memory than the limit."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The instruction that made a value: leaf number `leaf` of its result. namesakes: the numbers of what the
    instruction of that name gave before.
    """

    module: Module
    computation: Computation
    instruction: Instruction
    operands: tuple[Ref, ...]
    namesakes: Sequence[int]
    leaf: int = 0


@dataclass(slots=True)
class Lockstep:
    """The tables, and counts of what they spared.

    flushed: whether subnormals are zero, as on a device that has none. deadline: called between instructions; may
    raise. memory_limit: bytes of values held; before it is reached, values that the module at hand does not need are
    dropped, and beyond it Crowded is raised.
    """

    policy: Policy
    flushed: bool = False
    memory_limit: int = 4 << 30
    deadline: Callable[[], None] | None = None
    evaluated: int = 0
    spared: int = 0
    expressions: Expressions = field(default_factory=Expressions)
    _tables: dict[tuple[int, ...], Table] = field(default_factory=dict)  # by arguments
    _numbers: dict[Key, Ref] = field(default_factory=dict)
    _values: dict[int, Ball | Token] = field(default_factory=dict)
    _near: dict[tuple[str, tuple[int, ...]], Alike] = field(default_factory=dict)
    _places: dict[Place, int] = field(default_factory=dict)
    _origins: dict[int, Origin] = field(default_factory=dict)
    _radii: dict[int, Array | None] = field(default_factory=dict)  # of single instructions; None where they say nothing
    _entered: dict[int, tuple[Array, int]] = field(default_factory=dict)  # arguments, and their numbers
    _table: Table = field(default_factory=dict)  # that of the arguments at hand
    _results: Ref = ()  # of the module at hand
    _touched: set[int] = field(default_factory=set)  # beside what the results are made of
    _next: int = 0
    _held: int = 0
    _steps: Steps | None = None
    _module: Module | None = None
    _balls: Steps | None = None
    _balls_of: Module | None = None

    def results(self, module: Module, arguments: Sequence[Array]) -> list[int]:
        """The numbers of the module's flat results, on one array for each array among its parameters. Raises what
        `evaluate` raises.
        """
        keep_freed_memory()
        entry = self.expressions.entry(module)
        table = self._table = self._tables.setdefault(tuple(map(id, arguments)), {})
        self._results, self._touched = entry.results, set()
        if len(entry.arguments) != len(arguments):
            raise InputError(f"{module.name} takes {len(entry.arguments)} arrays, not {len(arguments)}")
        for (symbol, shape), array in zip(entry.arguments, arguments, strict=True):
            table[symbol] = self._argument(module, shape, array)
        table[self.expressions.number_of.get(TOKEN, -1)] = self._register(Token())
        unknown = [symbol for symbol in sorted(self._made_of(entry.results, known=False)) if symbol not in table]
        before = self.evaluated
        with np.errstate(all="ignore"):
            for symbol in unknown:
                made = self.expressions.made[symbol]
                table[symbol] = self._number(made) if isinstance(made, Made) else _element(table, made)
        self.spared += entry.instructions - (self.evaluated - before)
        return [number for symbol in flat(entry.results) for number in flat(table[symbol])]

    def value(self, number: int) -> Ball | Token:
        """A value that the module evaluated last has, or an argument."""
        return self._values[number]

    def clear(self) -> None:
        """Forgets all values; numbers are not given again."""
        for table in (self._tables, self._numbers, self._values, self._near, self._places, self._origins, self._radii):
            table.clear()
        self._held = 0

    # ---- numbers

    def _made_of(self, results: Ref, known: bool) -> set[int]:
        """The symbols that the results are made of, from them up to the arguments; without `known` up to the first
        that have a number.
        """
        found: set[int] = set()
        stack = flat(results)
        while stack:
            symbol = stack.pop()
            if symbol in found or (symbol in self._table and not known):
                continue
            found.add(symbol)
            if (made := self.expressions.made.get(symbol)) is not None:
                stack += made.sources
        return found

    def _argument(self, module: Module, shape: ArrayShape, array: Array) -> int:
        entered = self._entered.get(id(array))
        if entered is None or entered[0] is not array or entered[1] not in self._values:
            value = self._steps_of(module).argument(shape, array)
            entered = self._entered[id(array)] = array, self._register(value)
        self._touched.add(entered[1])
        return entered[1]

    def _number(self, made: Made) -> Ref:
        table = self._table
        operands = tuple([table[o] if isinstance(o, int) else self._ref(o) for o in made.operands])
        key = made.words, made.called, sorted_operands(made.instruction, operands)
        found = self._numbers.get(key)
        if found is None:
            if self.deadline is not None:
                self.deadline()
            self.evaluated += 1
            values = [self._assembled(operand) for operand in operands]
            value = self._steps_of(made.module).step(made.computation, made.instruction, values)
            origin = Origin(made.module, made.computation, made.instruction, operands, self._known(made.namesake))
            found = self._numbers[key] = self._registered(value, origin, count())
        return found

    def _steps_of(self, module: Module) -> Steps:
        if self._steps is None or module is not self._module:
            self._steps, self._module = Steps(module, self.policy, flushed=self.flushed), module
        return self._steps

    def _ref(self, symbols: Ref) -> Ref:
        return tuple(map(self._ref, symbols)) if isinstance(symbols, tuple) else self._table[symbols]

    def _known(self, symbols: Ref | None) -> Sequence[int]:
        """The numbers of what symbols stand for, -1 for those that have none."""
        if symbols is None:
            return ()
        return [number for symbol in flat(symbols) for number in flat(self._table.get(symbol, -1))]

    def _assembled(self, ref: Ref) -> Value:
        return tuple(map(self._assembled, ref)) if isinstance(ref, tuple) else self._values[ref]

    def _registered(self, value: Value, origin: Origin, leaf: Iterator[int]) -> Ref:
        if isinstance(value, tuple):
            return tuple([self._registered(element, origin, leaf) for element in value])
        return self._register(value, replace(origin, leaf=next(leaf)))

    def _register(self, value: Ball | Token, origin: Origin | None = None) -> int:
        """The number of a value that is the same, or a new one."""
        if isinstance(value, Token):
            self._values.setdefault(_NOTHING, value)
            return _NOTHING
        place = _place(value)
        if place is not None and (there := self._places.get(place)) is not None:
            self._touched.add(there)
            return there
        alike = self._near.setdefault((value.dtype.name, value.dims), [])
        sketch, size = _sketch(value)
        for number in chain(self._alike(alike, sketch, size, value), self._legal(alike, sketch, size, value, origin)):
            self._touched.add(number)
            return number
        number = self._next
        if origin is not None:
            self._origins[number] = origin
        self._next += 1
        self._hold(value)
        self._values[number] = value
        if place is not None:
            self._places[place] = number
        self._touched.add(number)
        bisect.insort(alike, (sketch, number))
        return number

    def _alike(self, alike: Alike, sketch: float, size: float, value: Ball) -> Iterator[int]:
        """Values that differ by the rounding of float64 alone."""
        for number in _within(alike, sketch, size * NOISE):
            other = self._values[number]
            if isinstance(other, Ball) and near(value, other):
                yield number

    def _legal(self, alike: Alike, sketch: float, size: float, value: Ball, origin: Origin | None) -> Iterator[int]:
        """Values whose instruction might have given this one."""
        dtype = value.dtype
        if origin is None or not (dtype.is_float or dtype.is_complex) or value.und is not None or value.mid.size == 0:
            return
        # Values that are nothing but what a sum left over need not be close: the instruction of the same name tells.
        namesake = origin.namesakes[origin.leaf : origin.leaf + 1]
        for number in (*namesake, *_within(alike, sketch, size * 4 * unit_roundoff(dtype))):
            other = self._values.get(number)
            if not isinstance(other, Ball) or (other.dtype.name, other.dims) != (dtype.name, value.dims):
                continue
            radius = self._radius(number)
            if radius is not None:
                with np.errstate(all="ignore"):
                    if ((np.abs(value.mid - other.mid) <= radius) | _both_same(value.mid, other.mid)).all():
                        yield number

    def _radius(self, number: int) -> Array | None:
        """How far the instruction that made a value may be off on exact operands; None where that is not known."""
        if number not in self._radii:
            self._radii[number] = self._worked_out(number)
        return self._radii[number]

    def _worked_out(self, number: int) -> Array | None:
        origin = self._origins.get(number)
        if (
            origin is None
            or origin.instruction.opcode in _WHOLE_PROGRAMS
            or any(ref not in self._values for operand in origin.operands for ref in flat(operand))
        ):
            return None
        if origin.module is not self._balls_of or self._balls is None:
            self._balls, self._balls_of = Steps(origin.module, self.policy, balls=True), origin.module
        operands = [self._assembled(operand) for operand in origin.operands]
        try:
            ball = flatten(self._balls.step(origin.computation, origin.instruction, operands))[origin.leaf]
        except AssayError:
            return None
        return ball.rad if isinstance(ball, Ball) and ball.und is None else None

    # ---- memory

    def _hold(self, value: Ball) -> None:
        self._held += _own_bytes(value)
        if self._held > self.memory_limit:
            self._drop_untouched()
            if self._held > self.memory_limit:
                limit = f"its limit of {self.memory_limit >> 20} MiB"
                raise Crowded(f"the snapshots' values need more than {limit}; raise it with --memory")

    def _drop_untouched(self) -> None:
        """Forget the values that the module at hand has not asked for, and every expression in terms of them."""
        kept = set(self._touched)
        for symbol in self._made_of(self._results, known=True):
            kept.update(flat(self._table.get(symbol, ())))
        lost = {number for number in self._values if number >= 0 and number not in kept}
        for number in lost:
            value = self._values.pop(number)
            self._origins.pop(number, None)
            self._radii.pop(number, None)
            assert isinstance(value, Ball)
            self._held -= _own_bytes(value)
        for alike in self._near.values():
            alike[:] = [entry for entry in alike if entry[1] not in lost]
        gone = [
            key
            for key, ref in self._numbers.items()
            if not lost.isdisjoint(flat(ref)) or not lost.isdisjoint(flat(key[2]))
        ]
        for key in gone:
            del self._numbers[key]
        for table in self._tables.values():
            for symbol in [symbol for symbol, ref in table.items() if not lost.isdisjoint(flat(ref))]:
                del table[symbol]
        self._places = {place: number for place, number in self._places.items() if number not in lost}


def _element(table: Table, element: Element) -> Ref:
    (whole,) = element.sources
    ref = table[whole]
    for index in element.place:
        if ref == _NOTHING:
            return ref  # of the context of an asynchronous instruction, which has no value
        assert isinstance(ref, tuple)
        ref = ref[index]
    return ref


def near(a: Ball, b: Ball) -> bool:
    """Whether two values of one type and shape are the same but for the rounding of float64."""
    if a.mid is b.mid and a.und is b.und:
        return True
    if (a.und is None) != (b.und is None) or (a.und is not None and b.und is not None and (a.und != b.und).any()):
        return False
    if (a.mid == b.mid).all():
        return True
    part = a.dtype.part
    if not (a.dtype.is_float or a.dtype.is_complex) or part.bits >= 64:
        return part.is_float and bool(_both_same(a.mid, b.mid).all())
    with np.errstate(all="ignore"):
        close = np.abs(a.mid - b.mid) <= 2.0 ** -(part.mantissa + NEAR_BITS) * np.abs(a.mid)
        close &= np.isfinite(a.mid)
        return bool((close | _both_same(a.mid, b.mid)).all())


def _both_same(a: Array, b: Array) -> Array:
    same: Array = (a == b) | (np.isnan(a) & np.isnan(b))
    return same


def _within(alike: Alike, sketch: float, reach: float) -> list[int]:
    """The numbers of a few values whose sketches are close, the closest first."""
    start = bisect.bisect_left(alike, (sketch - reach, -1))
    end = bisect.bisect_right(alike, (sketch + reach, 1 << 62))
    nearest = sorted(alike[start:end], key=lambda entry: abs(entry[0] - sketch))
    return [number for _, number in nearest[:CANDIDATES]]


def _sketch(value: Ball) -> tuple[float, float]:
    """A number that close values have nearly alike, and the size of what it is made of."""
    mid = value.mid.reshape(-1) if value.mid.flags.c_contiguous else value.mid.flat
    step = max(1, value.mid.size // SAMPLED)
    sample = np.asarray(mid[::step][:SAMPLED])
    weights = _WEIGHTS[: len(sample)]
    with np.errstate(over="ignore", invalid="ignore"):  # of the largest values: then there is no size
        sample = (sample.real + 0.5 * sample.imag if sample.dtype.kind == "c" else sample).astype(np.float64)
        size = float(np.abs(sample) @ weights)
        if not isfinite(size):
            sample = np.nan_to_num(sample, nan=0.0, posinf=1.0, neginf=-1.0)
            size = float(np.abs(sample) @ weights)
        return (float(sample @ weights), size) if isfinite(size) else (0.0, 0.0)


def _place(value: Ball) -> Place | None:
    if value.und is not None:
        return None
    mid = value.mid
    return value.dtype.name, mid.__array_interface__["data"][0], mid.shape, mid.strides


_WEIGHTS = np.random.default_rng(0).uniform(0.5, 1.5, SAMPLED + 1)


def _own_bytes(value: Ball) -> int:
    return sum(part.nbytes for part in (value.mid, value.und) if part is not None and part.base is None)
