"""Runs an HLO module on balls.

The evaluator knows no operation: it walks a computation, looks each opcode up in the registry, keeps a value until
its last use, and calls `on_value` with every value it makes, so that other tools (isolation, tapping) can watch.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from assay.errors import AssayError, HloTypeError, InputError, ReferenceLimit, Unsupported
from assay.hlo.attributes import output_reverse_dimensions
from assay.hlo.graph import last_uses
from assay.hlo.literal import literal_array
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.shape import ArrayShape, Shape, TupleShape, leaves
from assay.reference.context import Context, mark
from assay.reference.memory import keep_freed_memory
from assay.reference.policy import Policy
from assay.reference.registry import find
from assay.reference.settled import Known
from assay.reference.value import Array, Ball, Token, Value, as_ball, check_shape, from_array, held_dtype

FAMILIES = (
    "elementwise", "transcendental", "complex", "convert", "compare", "movement", "slicing", "contraction",
    "convolution", "reduction", "window", "selection", "indexing", "sorting", "control", "linalg", "orthogonal",
    "spectra", "normalization", "fft", "random", "collective", "tpu_calls", "tpu_kernels",
)  # fmt: skip
for _family in FAMILIES:
    importlib.import_module(f"assay.reference.ops.{_family}")

OnValue = Callable[[Computation, Instruction, Value], Value | None]
"""Sees a value, and may give another in its place."""


@dataclass(slots=True)
class Evaluation:
    """The result of one run: the entry's root value, what was noted on the way, and the peak of held bytes."""

    value: Value
    notes: frozenset[str]
    peak_bytes: int


def evaluate(
    module: Module,
    arguments: Sequence[Array | Ball],
    policy: Policy,
    *,
    rng: np.random.Generator | None = None,
    amplitude: float = 1.0,
    alike: bool = True,
    nearest: bool = False,
    declared: float = 0.0,
    flushed: bool = False,
    resolved: int | None = None,
    on_value: OnValue | None = None,
    known: Known | None = None,
    memory_limit: int = 8 << 30,
    deadline: Callable[[], None] | None = None,
) -> Evaluation:
    """The value of `module` on `arguments` (one target array, or a ball, for each parameter of array shape, tuples
    flattened).

    rng, amplitude, alike, nearest, declared: None for balls; a generator for a sampled run (see `Context`). flushed:
    whether subnormals are zero. resolved: how that is taken which is open, but not by rounding. known: values that
    need not be worked out (see `settled`). deadline: called between instructions; may raise. Raises Unsupported for
    what the reference does not model, ReferenceLimit above `memory_limit` bytes, InputError where an argument does not
    fit its parameter.
    """
    keep_freed_memory()
    run = _Run(module, policy, rng, on_value, memory_limit, deadline)
    run.context.amplitude, run.context.alike, run.context.nearest = amplitude, alike, nearest
    run.context.declared = declared
    run.known = known or {}
    run.context.flushed, run.context.resolved = flushed, resolved
    with np.errstate(all="ignore"):
        value = run.computation(module.entry, run.entry_arguments(arguments))
    return Evaluation(value, frozenset(run.context.notes), run.peak)


def estimate_bytes(module: Module) -> int:
    """A lower bound on the reference's peak memory: the largest set of values alive at once in the entry, as balls in
    float64.
    """
    computation = module.entry
    alive = 0
    peak = 0
    dead_after = last_uses(computation)
    for instruction, dead in zip(computation.instructions, dead_after, strict=True):
        alive += 0 if instruction.opcode in _FREE else _held_bytes(instruction.shape)
        peak = max(peak, alive)
        for name in dead:
            other = computation.by_name[name]
            alive -= 0 if other.opcode in _FREE else _held_bytes(other.shape)
    return peak


# These make views, not copies.
_FREE = {"broadcast", "reshape", "bitcast", "transpose", "slice", "reverse", "get-tuple-element", "tuple"}


_SEVERAL = {"reduce", "reduce-window", "scatter", "sort"}
"""Opcodes with several results, each of a type of its own."""

_COUNTED = 1 << 9  # elements from which on an array is counted: thousands of scalars are not worth it


def _held_bytes(shape: Shape) -> int:
    """Bytes of a ball of this shape: a float carries a midpoint and a radius."""
    total = 0
    for leaf in leaves(shape):
        if isinstance(leaf, ArrayShape):
            itemsize = held_dtype(leaf.dtype).itemsize
            total += leaf.size * (itemsize + 8 if leaf.dtype.is_float or leaf.dtype.is_complex else itemsize)
    return total


@dataclass(slots=True)
class _Run:
    module: Module
    policy: Policy
    rng: np.random.Generator | None
    on_value: OnValue | None
    memory_limit: int
    deadline: Callable[[], None] | None
    context: Context = field(init=False)
    held: int = 0
    peak: int = 0
    dead_after: dict[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    constants: dict[tuple[str, str], Value] = field(default_factory=dict)
    known: Known = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.context = Context(self.module, self.policy, self.call, self.rng)

    def entry_arguments(self, arguments: Sequence[Array | Ball]) -> list[Value]:
        remaining = list(arguments)
        values = []
        for parameter in self.module.entry.parameters:
            wanted = sum(1 for leaf in leaves(parameter.shape) if isinstance(leaf, ArrayShape))
            if wanted > len(remaining):
                break
            values.append(self._argument(parameter.shape, remaining, parameter.name))
        expected = len(self.module.arrays)
        if expected != len(arguments):
            raise InputError(f"{self.module.name} takes {expected} arrays, not {len(arguments)}")
        return values

    def _argument(self, shape: Shape, remaining: list[Array | Ball], name: str) -> Value:
        if isinstance(shape, TupleShape):
            return tuple(self._argument(element, remaining, name) for element in shape.elements)
        if not isinstance(shape, ArrayShape):
            return Token()
        given = remaining.pop(0)
        if not isinstance(given, Ball):
            given = np.asarray(given)
        elif given.dtype.name != shape.dtype.name:
            raise InputError(f"parameter {name} is of {shape.dtype}, the argument of {given.dtype}")
        found = given.dims if isinstance(given, Ball) else given.shape
        if found != shape.dims:
            wanted = ",".join(map(str, shape.dims))
            raise InputError(f"parameter {name} is {shape.dtype}[{wanted}], the argument has shape {found}")
        return given if isinstance(given, Ball) else self.source(from_array(shape.dtype, given))

    def source(self, ball: Ball) -> Ball:
        return self.context.entering(ball)

    def call(self, name: str, arguments: Sequence[Value]) -> Value:
        return self.computation(self.module.by_name[name], arguments)

    def computation(self, computation: Computation, arguments: Sequence[Value]) -> Value:
        """The root's value. Each value is freed after its last use, also one of `arguments` where they are a list."""
        if computation.name not in self.dead_after:
            self.dead_after[computation.name] = last_uses(computation)
        live: dict[str, Value] = {}
        result: Value | None = None
        for instruction, dead in zip(computation.instructions, self.dead_after[computation.name], strict=True):
            if self.deadline is not None:
                self.deadline()
            value = self._instruction(computation, instruction, arguments, live)
            live[instruction.name] = value
            if isinstance(arguments, list) and instruction.parameter_number is not None:
                arguments[instruction.parameter_number] = Token()
            if instruction.name == computation.root_name:
                result = value
            self._hold(value, 1)
            for name in dead:
                if name in live:
                    self._hold(live.pop(name), -1)
        for value in live.values():
            self._hold(value, -1)
        assert result is not None
        return result

    def _instruction(
        self, computation: Computation, instruction: Instruction, arguments: Sequence[Value], live: dict[str, Value]
    ) -> Value:
        if instruction.parameter_number is not None:
            value = arguments[instruction.parameter_number]
        elif instruction.literal is not None:
            value = self._constant(computation, instruction)
        elif (computation.name, instruction.name) in self.known:
            value = self.known[computation.name, instruction.name]
        else:
            operands = [live[name] for name in instruction.operands]
            try:
                value = self._typed(instruction, find(instruction.opcode)(self.context, instruction, *operands))
                if "backend_config" in instruction.attributes and (back := output_reverse_dimensions(instruction)):
                    value = _backwards(as_ball(value), back)
            except AssayError:
                raise
            except MemoryError as error:
                raise ReferenceLimit(f"out of memory in {instruction.name} ({instruction.opcode})") from error
            except Exception as error:
                # Our own fault, and the user must see where: never a verdict on the compiler.
                raise AssayError(
                    f"the reference failed in {computation.name}/{instruction.name} ({instruction.opcode}): "
                    f"{type(error).__name__}: {error}; please report this with the program"
                ) from error
        if self.rng is not None:
            value = without_radii(value)
        if self.on_value is not None:
            other = self.on_value(computation, instruction, value)
            value = value if other is None else other
        return value

    def _typed(self, instruction: Instruction, value: Value) -> Value:
        """libtpu's `bfloat16-propagation` leaves copies, gathers, slices, pads, reductions of f32 that give bf16: they
        convert as well.
        """
        shape = instruction.shape
        if isinstance(shape, TupleShape) and isinstance(value, tuple) and instruction.opcode in _SEVERAL:
            elements = zip(shape.elements, value, strict=True)
            return tuple(self._typed(replace(instruction, shape=element), part) for element, part in elements)
        if not isinstance(value, Ball) or not isinstance(shape, ArrayShape) or value.dtype.name == shape.dtype.name:
            return value
        floats = value.dtype.is_float and shape.dtype.is_float
        return find("convert")(self.context, instruction, value) if floats else value

    def _constant(self, computation: Computation, instruction: Instruction) -> Value:
        key = (computation.name, instruction.name)
        if key not in self.constants:
            assert instruction.literal is not None
            if not isinstance(instruction.shape, ArrayShape):
                raise Unsupported("constant of tuple shape")
            self.constants[key] = self.source(
                from_array(instruction.shape.dtype, literal_array(instruction.shape, instruction.literal))
            )
        return self.constants[key]

    def _hold(self, value: Value, sign: int) -> None:
        if isinstance(value, tuple):
            for element in value:
                self._hold(element, sign)
        elif isinstance(value, Ball) and value.mid.size >= _COUNTED:
            for array in (value.mid, value.rad, value.und):
                if array is not None and array.base is None:
                    self.held += sign * array.nbytes
            if sign > 0 and self.held > self.peak:
                self.peak = self.held
                if self.held > self.memory_limit:
                    limit = f"its limit of {self.memory_limit >> 20} MiB"
                    raise ReferenceLimit(
                        f"the reference holds {self.held >> 20} MiB, above {limit}; raise it with --memory"
                    )


class Steps:
    """One instruction at a time, for those who keep the values themselves: midpoints without any drawn error, or balls.

    Each step is a function of its operands alone, whatever was evaluated before.
    """

    def __init__(self, module: Module, policy: Policy, balls: bool = False, flushed: bool = False) -> None:
        self._rng = None if balls else np.random.default_rng(0)
        self._run = _Run(module, policy, self._rng, None, 8 << 30, None)
        self._run.context.flushed = flushed
        self._start = {} if self._rng is None else self._rng.bit_generator.state
        if not balls:
            self._run.context.amplitude, self._run.context.alike = 0.0, False

    def argument(self, shape: ArrayShape, array: Array) -> Ball:
        """An argument as a value. Raises InputError where it does not fit."""
        value = self._run._argument(shape, [array], "of the program")
        assert isinstance(value, Ball)
        return value

    @property
    def flushed(self) -> bool:
        return self._run.context.flushed

    def entering(self, ball: Ball) -> Ball:
        """As a value that enters the program is taken: see `Context.entering`."""
        return self._run.context.entering(ball)

    def step(self, computation: Computation, instruction: Instruction, operands: Sequence[Value]) -> Value:
        """The value of `instruction`, which must be the module's own and no parameter. Raises what `evaluate` does."""
        if self._rng is not None:
            self._rng.bit_generator.state = self._start
        live = dict(zip(instruction.operands, operands, strict=True))
        return self._run._instruction(computation, instruction, (), live)


def _backwards(ball: Ball, dimensions: tuple[int, ...]) -> Ball:
    parts = [None if part is None else np.flip(part, dimensions) for part in (ball.mid, ball.rad, ball.und)]
    assert parts[0] is not None
    return Ball(ball.dtype, parts[0], *parts[1:])


def without_radii(value: Value) -> Value:
    """For a sampled run, which has no radii: what an operation could only enclose is undecided."""
    if isinstance(value, tuple):
        return tuple(map(without_radii, value))
    if not isinstance(value, Ball) or value.rad is None:
        return value
    return mark(Ball(value.dtype, value.mid, None, value.und), value.rad > 0)


def check_result(instruction: Instruction, value: Value) -> None:
    """Raises HloTypeError where an operation gave a value of another shape than its instruction declares. For tests
    and debugging.
    """
    if isinstance(instruction.shape, ArrayShape) and not check_shape(as_ball(value), instruction.shape):
        ball = as_ball(value)
        raise HloTypeError(
            f"{instruction.name} ({instruction.opcode}) gave {ball.dtype}{ball.dims}, not {instruction.shape}"
        )
