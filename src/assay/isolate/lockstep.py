"""Modules evaluated one after another; what one shares with those before is not evaluated again.

Values are midpoints: the result in exact arithmetic, in float64, with no rounding but what the policy says must happen
(see `Context`, a sampled run of amplitude 0). Two tables make them shared:

    expression -> number    an instruction that computes the same of the same operands (`expressions`)
    contents -> number      an array that is, but for float64's own rounding, one that is there already

By the second a rewrite that keeps a value ends where it kept it: all that follows is found in the first. A correct
rewrite of real arithmetic moves midpoints by some 1e-16 of their size and a wrong one by a multiple of the type's own
precision or more, so NEAR lies between: 2^13 times finer than the type. What is given an earlier number in spite of a
difference is therefore less than a rounding away from it, and never more however many snapshots there are, for each is
compared with the one that is kept. Integers and f64 have to be equal.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from assay.errors import ReferenceLimit
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.shape import ArrayShape, Shape, TupleShape, leaves
from assay.isolate.expressions import Expressions, Key, Ref, flat, walk
from assay.reference.evaluator import Steps
from assay.reference.memory import keep_freed_memory
from assay.reference.policy import Policy
from assay.reference.value import Array, Ball, Token, Value

NEAR_BITS = 13
SAMPLED = 512  # elements that a sketch is made of
CANDIDATES = 8


@dataclass(slots=True)
class Lockstep:
    """The tables, and counts of what they spared.

    deadline: called between instructions; may raise. memory_limit: bytes of values held; before it is reached, values
    that the module at hand does not need are dropped, and beyond it ReferenceLimit is raised.
    """

    policy: Policy
    memory_limit: int = 4 << 30
    deadline: Callable[[], None] | None = None
    evaluated: int = 0
    spared: int = 0
    expressions: Expressions = field(default_factory=Expressions)
    _numbers: dict[Key, Ref] = field(default_factory=dict)
    _values: dict[int, Ball | Token] = field(default_factory=dict)
    _near: dict[tuple[str, tuple[int, ...]], list[tuple[float, int]]] = field(default_factory=dict)
    _touched: set[int] = field(default_factory=set)
    _next: int = 0
    _held: int = 0
    _steps: Steps | None = None

    def refs(self, module: Module, arguments: Sequence[Array]) -> dict[str, Ref]:
        """The refs of the entry's instructions by name, on one array for each array among its parameters.

        Raises what `evaluate` raises.
        """
        keep_freed_memory()
        self._touched = set()
        self._steps = Steps(module, self.policy)
        self.expressions.enter(module)
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

    # ---- numbers

    def _argument(self, shape: Shape, remaining: list[Array]) -> Ref:
        if isinstance(shape, TupleShape):
            return tuple(self._argument(element, remaining) for element in shape.elements)
        assert self._steps is not None
        if not isinstance(shape, ArrayShape):
            return self._register(Token())
        return self._register(self._steps.argument(shape, remaining.pop(0)))

    def _number(self, computation: Computation, instruction: Instruction, operands: tuple[Ref, ...]) -> Ref:
        key = self.expressions.key(computation, instruction, operands)
        found = self._numbers.get(key)
        if found is not None:
            self.spared += 1
            self._touched.update(flat(found))
            return found
        if self.deadline is not None:
            self.deadline()
        assert self._steps is not None
        self.evaluated += 1
        value = self._steps.step(computation, instruction, [self._assembled(operand) for operand in operands])
        found = self._numbers[key] = self._registered(value)
        return found

    def _assembled(self, ref: Ref) -> Value:
        return tuple(map(self._assembled, ref)) if isinstance(ref, tuple) else self._values[ref]

    def _registered(self, value: Value) -> Ref:
        return tuple(map(self._registered, value)) if isinstance(value, tuple) else self._register(value)

    def _register(self, value: Ball | Token) -> int:
        """The number of an equal value, or a new one."""
        if isinstance(value, Token):
            self._values.setdefault(-1, value)
            return -1
        alike = self._near.setdefault((value.dtype.name, value.dims), [])
        sketch, reach = _sketch(value)
        start = bisect.bisect_left(alike, (sketch - reach, -1))
        for other_sketch, number in alike[start : start + CANDIDATES]:
            if other_sketch > sketch + reach:
                break
            other = self._values[number]
            if isinstance(other, Ball) and near(value, other):
                self._touched.add(number)
                return number
        number = self._next
        self._next += 1
        self._hold(value)
        self._values[number] = value
        self._touched.add(number)
        bisect.insort(alike, (sketch, number))
        return number

    # ---- memory

    def _hold(self, value: Ball) -> None:
        self._held += _own_bytes(value)
        if self._held > self.memory_limit:
            self._drop_untouched()
            if self._held > self.memory_limit:
                limit = f"its limit of {self.memory_limit >> 20} MiB"
                raise ReferenceLimit(f"the snapshots' values need more than {limit}; raise it with --memory")

    def _drop_untouched(self) -> None:
        """Forget the values that the module at hand has not asked for, and every expression in terms of them."""
        lost = {number for number in self._values if number >= 0 and number not in self._touched}
        for number in lost:
            value = self._values.pop(number)
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
        return bool(((a.mid == b.mid) | (np.isnan(a.mid) & np.isnan(b.mid))).all()) if part.is_float else False
    with np.errstate(all="ignore"):
        close = np.abs(a.mid - b.mid) <= 2.0 ** -(part.mantissa + NEAR_BITS) * np.abs(a.mid)
        return bool((close | (a.mid == b.mid) | (np.isnan(a.mid) & np.isnan(b.mid))).all())


def _sketch(value: Ball) -> tuple[float, float]:
    """A number that near values have nearly alike, and how nearly."""
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
    return total, size * 1e-9


_WEIGHTS = np.random.default_rng(0).uniform(0.5, 1.5, SAMPLED + 1)


def _own_bytes(value: Ball) -> int:
    return sum(part.nbytes for part in (value.mid, value.und) if part is not None and part.base is None)


def array_count(module: Module) -> int:
    """How many arrays the module takes."""
    return sum(isinstance(leaf, ArrayShape) for p in module.entry.parameters for leaf in leaves(p.shape))
