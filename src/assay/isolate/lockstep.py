"""Modules evaluated one after another; what one shares with those before is not evaluated again.

Values are midpoints: the result in exact arithmetic, in float64, with no rounding but what the policy says must happen
(see `Context`, a sampled run of amplitude 0). Two tables make them shared:

    expression -> number    an instruction that computes the same of the same operands (`expressions`)
    contents -> number      an array that is one that is there already

By the second a rewrite that keeps a value ends where it kept it: all that follows is found in the first. One array is
another where they differ by float64's own rounding alone, which moves midpoints by some 1e-16 of their size (`near`:
2^13 times finer than the type), or where it lies in the other's ball, worked out for the one instruction that made it
on exact operands: so a rewrite is legal that rounds a constant or groups factors anew. Differences do not add up over
many snapshots, for each array is compared with the one that is kept. Integers have to be equal, f64 nearly.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

import numpy as np

from assay.errors import AssayError, ReferenceLimit
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.shape import ArrayShape, Shape, TupleShape
from assay.isolate.expressions import Expressions, Key, Ref, flat, walk
from assay.reference.context import unit_roundoff
from assay.reference.evaluator import Steps
from assay.reference.memory import keep_freed_memory
from assay.reference.policy import Policy
from assay.reference.value import Array, Ball, Token, Value, flatten

Alike = list[tuple[float, int]]
"""Sketches of the values of one type and shape, in order, each with its number."""

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
    """The instruction that made a value: leaf number `leaf` of its result."""

    module: Module
    computation: Computation
    instruction: Instruction
    operands: tuple[Ref, ...]
    leaf: int


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
    _numbers: dict[Key, Ref] = field(default_factory=dict)
    _values: dict[int, Ball | Token] = field(default_factory=dict)
    _near: dict[tuple[str, tuple[int, ...]], Alike] = field(default_factory=dict)
    _origins: dict[int, Origin] = field(default_factory=dict)
    _radii: dict[int, Array | None] = field(default_factory=dict)  # of single instructions; None where they say nothing
    _names: dict[tuple[int, ...], dict[str, Ref]] = field(default_factory=dict)  # by arguments: of instructions, last
    _named: dict[str, Ref] = field(default_factory=dict)  # with the arguments at hand
    _entered: dict[int, tuple[Array, int]] = field(default_factory=dict)  # arguments, and their numbers
    _touched: set[int] = field(default_factory=set)
    _next: int = 0
    _held: int = 0
    _steps: Steps | None = None
    _module: Module | None = None
    _balls: Steps | None = None
    _balls_of: Module | None = None

    def refs(self, module: Module, arguments: Sequence[Array]) -> dict[str, Ref]:
        """The refs of the entry's instructions by name, on one array for each array among its parameters.

        Raises what `evaluate` raises.
        """
        keep_freed_memory()
        self._touched = set()
        self._steps, self._module = Steps(module, self.policy, flushed=self.flushed), module
        self.expressions.enter(module)
        self._named = self._names.setdefault(tuple(map(id, arguments)), {})
        remaining = list(arguments)
        entering = [self._argument(parameter.shape, remaining) for parameter in module.entry.parameters]
        with np.errstate(all="ignore"):
            return walk(module, module.entry, entering, self._number)

    def results(self, module: Module, arguments: Sequence[Array]) -> list[int]:
        """The numbers of the module's flat results."""
        return flat(self.refs(module, arguments)[module.entry.root_name])

    def value(self, number: int) -> Ball | Token:
        """A value that the module evaluated last has, or an argument."""
        return self._values[number]

    def clear(self) -> None:
        """Forgets all values; numbers are not given again."""
        for table in (self._numbers, self._values, self._near, self._origins, self._radii):
            table.clear()
        self._held = 0

    # ---- numbers

    def _argument(self, shape: Shape, remaining: list[Array]) -> Ref:
        if isinstance(shape, TupleShape):
            return tuple(self._argument(element, remaining) for element in shape.elements)
        assert self._steps is not None
        if not isinstance(shape, ArrayShape):
            return self._register(Token())
        array = remaining.pop(0)
        entered = self._entered.get(id(array))
        if entered is None or entered[0] is not array or entered[1] not in self._values:
            entered = self._entered[id(array)] = array, self._register(self._steps.argument(shape, array))
        self._touched.add(entered[1])
        return entered[1]

    def _number(self, computation: Computation, instruction: Instruction, operands: tuple[Ref, ...]) -> Ref:
        key = self.expressions.key(computation, instruction, operands)
        found = self._numbers.get(key)
        if found is not None:
            self.spared += 1
            self._touched.update(flat(found))
            self._named[instruction.name] = found
            return found
        if self.deadline is not None:
            self.deadline()
        assert self._steps is not None
        self.evaluated += 1
        value = self._steps.step(computation, instruction, [self._assembled(operand) for operand in operands])
        assert self._module is not None
        origin = Origin(self._module, computation, instruction, operands, 0)
        found = self._numbers[key] = self._registered(value, origin, count())
        self._named[instruction.name] = found
        return found

    def _assembled(self, ref: Ref) -> Value:
        return tuple(map(self._assembled, ref)) if isinstance(ref, tuple) else self._values[ref]

    def _registered(self, value: Value, origin: Origin, leaf: Iterator[int]) -> Ref:
        if isinstance(value, tuple):
            return tuple([self._registered(element, origin, leaf) for element in value])
        return self._register(value, replace(origin, leaf=next(leaf)))

    def _register(self, value: Ball | Token, origin: Origin | None = None) -> int:
        """The number of a value that is the same, or a new one."""
        if isinstance(value, Token):
            self._values.setdefault(-1, value)
            return -1
        alike = self._near.setdefault((value.dtype.name, value.dims), [])
        sketch, size = _sketch(value)
        for number in (*self._alike(alike, sketch, size, value), *self._legal(alike, sketch, size, value, origin)):
            self._touched.add(number)
            return number
        number = self._next
        if origin is not None:
            self._origins[number] = origin
        self._next += 1
        self._hold(value)
        self._values[number] = value
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
        namesake = flat(self._named.get(origin.instruction.name, ()))[origin.leaf : origin.leaf + 1]
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
        lost = {number for number in self._values if number >= 0 and number not in self._touched}
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
    if sample.dtype.kind == "c":
        sample = sample.real + 0.5 * sample.imag
    with np.errstate(all="ignore"):
        terms = np.nan_to_num(sample.astype(np.float64), nan=0.0, posinf=1.0, neginf=-1.0) * _WEIGHTS[: len(sample)]
        total, size = float(terms.sum()), float(np.abs(terms).sum())
    if not np.isfinite(size):
        return 0.0, 0.0
    return total, size


_WEIGHTS = np.random.default_rng(0).uniform(0.5, 1.5, SAMPLED + 1)


def _own_bytes(value: Ball) -> int:
    return sum(part.nbytes for part in (value.mid, value.und) if part is not None and part.base is None)
