"""A whole scheduled module, run from its arguments to its outputs.

Instructions run in the order of the schedule. What has LLO of its own runs in the simulator; what moves or names data
(tuples, copies between memories, bitcasts, loops, calls) is done here; what the TPU's scalar core does in the program
that calls the kernels, operations on single elements, is done by the reference, and so are constants. Anything else
without LLO is missing from the dump. Values between instructions are logical arrays; layouts count where a kernel
starts and ends, and in a bitcast.

Where a kernel cannot be run or traps, the reference stands in for it, so that the others still run; the result says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from assay.errors import AssayError, InputError, ReferenceLimit, Unsupported
from assay.hlo import attributes
from assay.hlo.async_form import begun
from assay.hlo.graph import last_uses
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.shape import ArrayShape, Shape, TupleShape, leaves
from assay.llo import native
from assay.llo.aliasing import shared_memory
from assay.llo.code import Code
from assay.llo.files import Dump
from assay.llo.kernel import FILLS, LIMIT, Engine, Pair, code_of, joined, lying, run, same
from assay.llo.layout import WORD_BITS, array_of, words_held
from assay.llo.machine import Stop
from assay.reference.evaluator import Steps
from assay.reference.policy import Policy
from assay.reference.value import Ball, Token, from_array
from assay.reference.value import Value as Balls

Value = Pair | Token | tuple["Value", ...]

Kind = Literal["simulated", "unwritten", "unsupported", "trapped", "missing"]
"""unwritten: simulated, and a result depends on memory that nobody wrote though no operand did. missing: no LLO of it.
"""

OnKernel = Callable[[Computation, Instruction, Sequence[Value], Value], None]

MOST_TRIPS = 1_000_000


@dataclass(slots=True)
class KernelRun:
    """What became of one instruction that has to run as a kernel. why: in words, unless it was simulated. runs, steps,
    seconds: over all trips of loops.
    """

    name: str
    computation: str
    kind: Kind
    why: str = ""
    stop: Stop | None = None
    runs: int = 0
    steps: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ModuleRun:
    """outputs: one for each array of the root, in order; none where a kernel gave no value and the reference has none
    either. kernels: in the order in which they ran first.
    """

    outputs: tuple[Pair, ...]
    kernels: tuple[KernelRun, ...]

    @property
    def untrusted(self) -> tuple[KernelRun, ...]:
        """Those that the reference stood in for: the outputs are not the simulator's alone."""
        return tuple(k for k in self.kernels if k.kind in ("unsupported", "trapped", "missing"))

    def counts(self) -> dict[Kind, int]:
        found: dict[Kind, int] = {}
        for kernel in self.kernels:
            found[kernel.kind] = found.get(kernel.kind, 0) + 1
        return found


def run_module(
    module: Module,
    dump: Dump,
    arguments: Sequence[np.ndarray],
    generation: str,
    policy: Policy,
    *,
    stage: str = "original",
    engine: Engine = native.run,
    limit: int = LIMIT,
    codes: dict[str, Code] | None = None,
    on_kernel: OnKernel | None = None,
    deadline: Callable[[], None] | None = None,
) -> ModuleRun:
    """arguments: one for each parameter of array shape, tuples flattened. codes: what was lowered before of the same
    dump and stage, by kernel; this run adds to it. on_kernel: called with operands and result of each kernel that was
    simulated. deadline: called between instructions; may raise.

    Raises InputError where arguments do not fit, Unsupported where neither simulator nor reference has an instruction,
    UnwrittenChoice.
    """
    lowered = {} if codes is None else codes
    runner = _Runner(module, dump, generation, policy, stage, engine, limit, lowered, on_kernel, deadline)
    given = list(arguments)
    wanted = module.arrays
    if [a.shape for a in given] != [leaf.dims for leaf in wanted]:
        raise InputError(f"{module.name} takes {_spell(wanted)}, not {_spell_arrays(given)}")
    values = [_argument(p.shape, given) for p in module.entry.parameters]
    try:
        with np.errstate(all="ignore"):
            value = runner.computation(module.entry, values)
    except _NoValue:
        return ModuleRun((), tuple(runner.kernels.values()))
    return ModuleRun(tuple(pairs(value)), tuple(runner.kernels.values()))


SPARSE_CORE = '"sparsecore"'
OFF_SPARSE_CORE = (
    "--option xla_tpu_offload_gather_to_sparsecore=false "
    "--option xla_tpu_enable_offloading_scatter_to_sparsecore=false keep gathers and scatters off it"
)


def pairs(value: Value) -> list[Pair]:
    """The arrays in a value, in order."""
    if isinstance(value, tuple):
        return [pair for element in value for pair in pairs(element)]
    return [value] if isinstance(value, Pair) else []


def _argument(shape: Shape, given: list[np.ndarray]) -> Value:
    if isinstance(shape, TupleShape):
        return tuple(_argument(element, given) for element in shape.elements)
    if not isinstance(shape, ArrayShape):
        return Token()
    return same(np.asarray(given.pop(0), shape.dtype.numpy))


@dataclass(slots=True)
class _Runner:
    module: Module
    dump: Dump
    generation: str
    policy: Policy
    stage: str
    engine: Engine
    limit: int
    codes: dict[str, Code]
    on_kernel: OnKernel | None
    deadline: Callable[[], None] | None
    kernels: dict[str, KernelRun] = field(default_factory=dict)
    steps: Steps = field(init=False)
    dead_after: dict[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    apart: int = 0
    """How many asynchronous starts are being done."""

    def __post_init__(self) -> None:
        self.steps = Steps(self.module, self.policy, flushed=True)

    def computation(self, computation: Computation, arguments: Sequence[Value]) -> Value:
        if computation.name not in self.dead_after:
            self.dead_after[computation.name] = last_uses(computation)
        live: dict[str, Value] = {}
        for instruction, dead in zip(computation.instructions, self.dead_after[computation.name], strict=True):
            if self.deadline is not None:
                self.deadline()
            if instruction.parameter_number is not None:
                live[instruction.name] = arguments[instruction.parameter_number]
            else:
                operands = [live[name] for name in instruction.operands]
                live[instruction.name] = self.instruction(computation, instruction, operands)
            for name in dead:
                live.pop(name, None)
        return live[computation.root_name]

    def call(self, name: str, arguments: Sequence[Value]) -> Value:
        return self.computation(self.module.by_name[name], arguments)

    def instruction(self, computation: Computation, instruction: Instruction, operands: list[Value]) -> Value:
        if self.dump.kernel(instruction.name) is not None:
            return self.kernel(computation, instruction, operands)
        plain = _PLAIN.get(instruction.opcode)
        if plain is not None:
            return plain(self, computation, instruction, operands)
        if not self.outside(instruction):
            why = f"the dump has no LLO of {instruction.name}"
            if computation.attributes.get("execution_thread") == SPARSE_CORE:
                why = f"{instruction.name} runs on a SparseCore, which is not modelled; {OFF_SPARSE_CORE}"
            self.kernels.setdefault(instruction.name, KernelRun(instruction.name, computation.name, "missing", why))
        return self.reference(computation, instruction, operands)

    def outside(self, instruction: Instruction) -> bool:
        """Whether an instruction has no LLO of its own: the calling program does it, or it is no work at all."""
        if instruction.opcode == "custom-call":
            return attributes.word(instruction, "custom_call_target") in _MARKS
        if instruction.opcode in _FREE or (self.apart and instruction.opcode in _COPIES):
            return True
        arrays = [leaf for leaf in leaves(instruction.shape) if isinstance(leaf, ArrayShape)]
        return all(array.size <= 1 for array in arrays)

    # ---- kernels

    def kernel(self, computation: Computation, instruction: Instruction, operands: list[Value]) -> Value:
        entry = self.kernels.get(instruction.name)
        if entry is None:
            entry = KernelRun(instruction.name, computation.name, "simulated")
            self.kernels[instruction.name] = entry
        start = time.monotonic()
        value = self._simulated(entry, computation, instruction, operands)
        entry.seconds += time.monotonic() - start
        if value is None:
            try:
                return self.reference(computation, instruction, operands)
            except Unsupported as missing:
                raise _NoValue from missing
        if self.on_kernel is not None:
            self.on_kernel(computation, instruction, operands, value)
        return value

    def _simulated(
        self, entry: KernelRun, computation: Computation, instruction: Instruction, operands: list[Value]
    ) -> Value | None:
        """None where it cannot be had."""
        given = tuple(operand.shape for operand in computation.operands(instruction))
        shapes = [leaf for shape in given for leaf in leaves(shape) if isinstance(leaf, ArrayShape)]
        arrays = [pair for operand in operands for pair in pairs(operand)]
        outputs = [leaf for leaf in leaves(instruction.shape) if isinstance(leaf, ArrayShape)]
        try:
            result = run(
                self.code(instruction.name),
                self.generation,
                list(zip(shapes, arrays, strict=True)),
                outputs,
                shared_memory(instruction, len(arrays), given),
                engine=self.engine,
                limit=self.limit,
            )
        except Unsupported as missing:
            entry.kind, entry.why = "unsupported", str(missing)
            return None
        entry.runs += 1
        entry.steps += result.steps
        if result.stop is not None:
            entry.kind, entry.stop, entry.why = "trapped", result.stop, result.words
            return None
        if entry.kind == "simulated" and not _is_memory(instruction) and all(p.unwritten is None for p in arrays):
            wild = [number for number, pair in enumerate(result.outputs) if pair.unwritten is not None]
            if wild:
                entry.kind = "unwritten"
                entry.why = f"output {wild[0]} depends on memory that nobody wrote"
        return _shaped(instruction.shape, list(result.outputs))

    def code(self, name: str) -> Code:
        files = self.dump.kernel(name)
        assert files is not None
        if files.name not in self.codes:
            self.codes[files.name] = code_of(files, self.stage)
        return self.codes[files.name]

    # ---- what the reference does

    def reference(self, computation: Computation, instruction: Instruction, operands: Sequence[Value]) -> Value:
        """On both runs' values; what the reference leaves undecided is the pattern of either run."""
        given = [(o.shape, value) for o, value in zip(computation.operands(instruction), operands, strict=True)]
        first = self.steps.step(computation, instruction, [_balls(shape, value, 0) for shape, value in given])
        second = first
        if any(pair.first is not pair.second for operand in operands for pair in pairs(operand)):
            second = self.steps.step(computation, instruction, [_balls(shape, value, 1) for shape, value in given])
        return _from_balls(instruction.shape, first, second)

    # ---- what is done here

    def tuple_(self, computation: Computation, instruction: Instruction, operands: list[Value]) -> Value:
        return tuple(operands)

    def element(self, computation: Computation, instruction: Instruction, operands: list[Value]) -> Value:
        (whole,) = operands
        assert isinstance(whole, tuple)
        return whole[attributes.integer(instruction, "index")]

    def unchanged(self, computation: Computation, instruction: Instruction, operands: list[Value]) -> Value:
        return operands[0]

    def copy_start(self, computation: Computation, instruction: Instruction, operands: list[Value]) -> Value:
        """(destination, source, context)."""
        assert isinstance(instruction.shape, TupleShape)
        return (operands[0], operands[0], *(Token() for _ in instruction.shape.elements[2:]))

    def copy_done(self, computation: Computation, instruction: Instruction, operands: list[Value]) -> Value:
        (started,) = operands
        assert isinstance(started, tuple)
        return started[0]

    def bitcast(self, computation: Computation, instruction: Instruction, operands: list[Value]) -> Value:
        """The same memory read by another layout."""
        (operand,), (source,) = operands, computation.operands(instruction)
        if isinstance(operand, Pair) and isinstance(source.shape, ArrayShape):
            return reinterpreted(operand, source.shape, instruction.array)
        return operand

    def call_(self, computation: Computation, instruction: Instruction, operands: list[Value]) -> Value:
        return self.call(attributes.called(instruction)[0], operands)

    def async_start(self, computation: Computation, instruction: Instruction, operands: list[Value]) -> Value:
        """((operands), result, contexts..): done at the start, given at the done. One with fewer operands than its
        computation has parameters waits for an update that brings the others.
        """
        assert isinstance(instruction.shape, TupleShape)
        waits = len(operands) < len(self.module.by_name[begun(self.module, instruction)].parameters)
        result = () if waits else self.asynchronous(instruction, operands)
        return (tuple(operands), result, *(Token() for _ in instruction.shape.elements[2:]))

    def async_update(self, computation: Computation, instruction: Instruction, operands: list[Value]) -> Value:
        started, *others = operands
        (start, *_) = computation.operands(instruction)
        if not others:
            return started
        assert isinstance(started, tuple)
        if start.opcode != "async-start" or not isinstance(started[0], tuple):
            raise Unsupported("async-update", "of what is no async-start")
        whole = (*started[0], *others)
        return (whole, self.asynchronous(start, whole), *started[2:])

    def asynchronous(self, start: Instruction, operands: Sequence[Value]) -> Value:
        self.apart += 1
        result = self.call(begun(self.module, start), operands)
        self.apart -= 1
        return result

    def async_done(self, computation: Computation, instruction: Instruction, operands: list[Value]) -> Value:
        (started,) = operands
        assert isinstance(started, tuple)
        return started[1]

    def while_(self, computation: Computation, instruction: Instruction, operands: list[Value]) -> Value:
        condition, body = (attributes.computation(instruction, key) for key in ("condition", "body"))
        (state,) = operands
        for _ in range(MOST_TRIPS):
            if not _decided(instruction, self.call(condition, (state,))):
                return state
            state = self.call(body, (state,))
        raise ReferenceLimit(f"{instruction.name} runs more than {MOST_TRIPS} trips")

    def conditional(self, computation: Computation, instruction: Instruction, operands: list[Value]) -> Value:
        names = attributes.branches(instruction)
        selector = _decided(instruction, operands[0])
        if computation.operands(instruction)[0].array.dtype.kind == "pred":
            index = 0 if selector else 1
        else:
            index = selector if 0 <= selector < len(names) else len(names) - 1
        return self.call(names[index], (operands[1 + index],))


_Plain = Callable[[_Runner, Computation, Instruction, list[Value]], Value]
_PLAIN: Mapping[str, _Plain] = {
    "tuple": _Runner.tuple_,
    "get-tuple-element": _Runner.element,
    "opt-barrier": _Runner.unchanged,
    "optimization-barrier": _Runner.unchanged,
    "add-dependency": _Runner.unchanged,
    "copy-start": _Runner.copy_start,
    "copy-done": _Runner.copy_done,
    "bitcast": _Runner.bitcast,
    "call": _Runner.call_,
    "async-start": _Runner.async_start,
    "async-update": _Runner.async_update,
    "async-done": _Runner.async_done,
    "while": _Runner.while_,
    "conditional": _Runner.conditional,
}
_FREE = frozenset(("constant", "after-all", "partition-id", "replica-id"))
_COPIES = frozenset(("slice", "dynamic-slice", "dynamic-update-slice", "copy"))
"""What an asynchronous start does by DMA alone."""
_MARKS = frozenset(("AllocateBuffer", "ConcatBitcast"))


def _is_memory(instruction: Instruction) -> bool:
    """Whether it is only memory, to be written later."""
    return instruction.attributes.get("custom_call_target", "").strip('"') == "AllocateBuffer"


class _NoValue(Exception):
    """Neither simulator nor reference has a value of the last kernel."""


class UnwrittenChoice(AssayError):
    """Which way the program goes depends on memory that nobody wrote."""


def _decided(instruction: Instruction, value: Value) -> int:
    assert isinstance(value, Pair)
    if value.unwritten is not None:
        raise UnwrittenChoice(f"{instruction.name} ({instruction.opcode}) goes by memory that nobody wrote")
    return int(value.first.reshape(()))


def reinterpreted(pair: Pair, source: ArrayShape, target: ArrayShape) -> Pair:
    """What lies in the memory of an array of `source`, read as one of `target`; padding that comes in is unwritten.
    Elements that come to lie in padding are kept: what computes on whole registers computes on them too.
    """
    if lying(source) == lying(target):
        return pair
    words = max(words_held(source), words_held(target))
    memories = []
    for run_, fill in enumerate(FILLS):
        memory = np.full(words, fill, np.uint32)
        memory[: words_held(source)] = pair.words(source, run_, fill)
        memories.append(memory)
    found = joined(target, memories[0], memories[1])
    if words_held(target) * WORD_BITS > target.size * target.dtype.bits:
        held = words_held(target)
        found = replace(found, memory=(lying(target), memories[0][:held], memories[1][:held]))
    return found


def _shaped(shape: Shape, arrays: list[Pair]) -> Value:
    if isinstance(shape, TupleShape):
        return tuple(_shaped(element, arrays) for element in shape.elements)
    return arrays.pop(0) if isinstance(shape, ArrayShape) else Token()


def _balls(shape: Shape, value: Value, run: Literal[0, 1]) -> Balls:
    if isinstance(shape, TupleShape):
        assert isinstance(value, tuple)
        return tuple(_balls(s, v, run) for s, v in zip(shape.elements, value, strict=True))
    if not isinstance(shape, ArrayShape) or not isinstance(value, Pair):
        return Token()
    return from_array(shape.dtype, value.second if run else value.first)


def _from_balls(shape: Shape, first: Balls, second: Balls) -> Value:
    if isinstance(shape, TupleShape):
        assert isinstance(first, tuple)
        assert isinstance(second, tuple)
        return tuple(_from_balls(*three) for three in zip(shape.elements, first, second, strict=True))
    if not isinstance(first, Ball) or not isinstance(second, Ball):
        return Token()
    assert isinstance(shape, ArrayShape)
    a = _stored(shape, first, 0)
    if first is second and first.und is None:
        return same(a)
    return Pair(a, _stored(shape, second, 1))


def _stored(shape: ArrayShape, ball: Ball, run: Literal[0, 1]) -> np.ndarray:
    """A midpoint as the target stores it; undecided elements are what memory holds in this run."""
    array = np.asarray(np.asarray(ball.mid).astype(shape.dtype.numpy))
    if ball.und is None or not ball.und.any():
        return array
    if shape.dtype.kind == "pred":
        return np.where(ball.und, run == 0, array)
    memory = np.full(words_held(shape), FILLS[run], np.uint32)
    return np.where(ball.und, array_of(shape, memory), array)


def _spell(shapes: Sequence[ArrayShape]) -> str:
    return ", ".join(f"{s.dtype}[{','.join(map(str, s.dims))}]" for s in shapes) or "no arrays"


def _spell_arrays(arrays: Sequence[np.ndarray]) -> str:
    return ", ".join(f"{a.dtype}[{','.join(map(str, a.shape))}]" for a in arrays) or "none"
