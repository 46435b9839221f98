"""One kernel run on arrays: operands put into memory by their layouts, results read back.

A kernel runs twice, in memory that held one pattern and another before. Every value is a `Pair` of what it is in either
run; where the two differ, it depends on memory that nobody wrote, and so does all that is computed from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from assay.errors import InputError
from assay.hlo.printer import print_shape
from assay.hlo.shape import DTYPES, ArrayShape
from assay.hlo.shape_text import shape_or_none
from assay.llo import native
from assay.llo.code import TABLE, Argument, Code
from assay.llo.files import KernelFiles
from assay.llo.layout import array_of, bits_differ, image, scalar_word, words_held
from assay.llo.listing import load
from assay.llo.lowering import lower
from assay.llo.machine import GRANULE, NAN_FILL, NUMBER_FILL, Machine, Outcome, Stop
from assay.reference.value import Array

Engine = Callable[[Code, Machine, int], Outcome]

FILLS = (NAN_FILL, NUMBER_FILL)
LIMIT = 50_000_000
"""Records; some thousand times what a kernel of a train step takes."""


Lying = tuple[str, tuple[int, ...], object]
"""Type, dimensions, and layout without the memory space."""


def lying(shape: ArrayShape) -> Lying:
    layout = shape.layout
    return shape.dtype.name, shape.dims, None if layout is None else (layout.minor_to_major, layout.tiles)


@dataclass(frozen=True, slots=True)
class Pair:
    """An array in the two runs; one object where no element depends on memory that nobody wrote. memory: the words that
    hold it in either run, and how it lies in them, where a bitcast left something in its padding that another bitcast
    may read; else None.
    """

    first: Array
    second: Array
    memory: tuple[Lying, Array, Array] | None = None

    def words(self, shape: ArrayShape, run: int, fill: int) -> Array:
        """What it takes in memory as an array of `shape`, in run 0 or 1; bits that no element has are those of `fill`,
        where nothing is known of them.
        """
        if self.memory is not None and self.memory[0] == lying(shape):
            _, first, second = self.memory
            return second if run else first
        return image(shape, self.second if run else self.first, fill)

    @property
    def unwritten(self) -> Array | None:
        """Where the two runs differ. (dims); None for nowhere."""
        if self.first is self.second:
            return None
        differ = bits_differ(self.first, self.second)
        return differ if differ.any() else None


def same(array: Array) -> Pair:
    """An array that is known."""
    return Pair(array, array)


@dataclass(frozen=True, slots=True)
class Result:
    """stop: the trap that ended a run; then there are no outputs. steps: records executed in the first run. left:
    entries of queues that nobody popped. flying: DMAs that nobody waited for. unsteady: whether only one of the two
    runs ended in a trap.
    """

    outputs: tuple[Pair, ...]
    stop: Stop | None
    steps: int
    left: int
    unsteady: bool = False
    flying: int = 0

    @property
    def words(self) -> str:
        """How it stopped."""
        wild = ", and whether it comes to that depends on memory that nobody wrote" if self.unsteady else ""
        return f"{self.stop}{wild}" if self.stop is not None else ""


def code_of(kernel: KernelFiles, which: str = "original") -> Code:
    """The bytecode of one stage of a dumped kernel. Raises InputError where the stage is not there, LloSyntaxError
    where it does not parse, Unsupported with the name of an opcode that is not modelled.
    """
    loaded = load(kernel, kernel.stage(which))
    return lower(loaded.kernel, loaded.declared)


def run(
    code: Code,
    generation: str,
    inputs: Sequence[tuple[ArrayShape, Pair]],
    outputs: Sequence[ArrayShape],
    shared: Mapping[int, int] | None = None,
    *,
    engine: Engine = native.run,
    limit: int = LIMIT,
    fills: tuple[int, int] = FILLS,
) -> Result:
    """inputs, outputs: in the order of the dump, with the layouts of the HLO. shared: the number of an output -> that
    of the input in whose memory it lies. Raises InputError where the kernel takes other operands, Unsupported for a
    layout.
    """
    arguments = _checked_operands(code, [shape for shape, _ in inputs], outputs)
    runs = []
    for fill, part in zip(fills, (0, 1), strict=True):
        machine = Machine(code, generation, fill)
        places = _place(machine, arguments, inputs, part, outputs, shared or {})
        runs.append((engine(code, machine, limit), machine, places))
    (first, machine, places), (second, other, others) = runs
    stop = first.stop or second.stop
    if stop is not None:
        return Result((), stop, first.steps, 0, first.stop is None or second.stop is None)
    found = []
    for argument, shape, at, bt in zip(arguments[len(inputs) :], outputs, places, others, strict=True):
        here, there = _words(machine, argument, shape, at), _words(other, argument, shape, bt)
        pair = joined(shape, here, there)
        if any(given.memory is not None for _, given in inputs):
            pair = replace(pair, memory=(lying(shape), here.copy(), there.copy()))
        found.append(pair)
    return Result(tuple(found), None, first.steps, first.left, flying=first.flying)


def _operands(code: Code, inputs: Sequence[ArrayShape], outputs: Sequence[ArrayShape]) -> list[Argument]:
    """The kernel's operands in order. Of those in a table the dump says nothing: they lie where their layouts say, and
    an input of one element that is not in vmem is handed over as its value (so libtpu does with those in registers).
    """
    if not any(argument.index == TABLE for argument in code.arguments):
        return sorted(code.arguments, key=lambda argument: argument.index)
    found = []
    for index, shape in enumerate((*inputs, *outputs)):
        output, vmem = index >= len(inputs), shape.layout is not None and shape.layout.memory_space == 1
        space = "vmem" if vmem else "" if shape.size == 1 and not output else "hbm"
        found.append(Argument(index, TABLE, output, space, print_shape(shape, layout=False)))
    return found


def _checked_operands(code: Code, inputs: Sequence[ArrayShape], outputs: Sequence[ArrayShape]) -> list[Argument]:
    """The operands in order. Raises InputError, with the first that does not fit, where a kernel takes others."""
    arguments = _operands(code, inputs, outputs)
    counts = [sum(1 for a in arguments if a.output is output) for output in (False, True)]
    if counts != [len(inputs), len(outputs)] or any(a.output for a in arguments[: len(inputs)]):
        raise InputError(
            f"{code.source}: {code.name} has {counts[0]} inputs and {counts[1]} outputs, "
            f"given are {len(inputs)} and {len(outputs)}"
        )
    for argument, shape in zip(arguments, (*inputs, *outputs), strict=True):
        wanted = shape_or_none(argument.shape)
        if not isinstance(wanted, ArrayShape) or (wanted.dtype.name, wanted.dims) != (shape.dtype.name, shape.dims):
            given = f"{shape.dtype}[{','.join(map(str, shape.dims))}]"
            raise InputError(f"{code.source}: operand {argument.index} of {code.name} is {argument.shape}, not {given}")
    return arguments


def _place(
    machine: Machine,
    arguments: Sequence[Argument],
    inputs: Sequence[tuple[ArrayShape, Pair]],
    part: int,
    outputs: Sequence[ArrayShape],
    shared: Mapping[int, int],
) -> list[int]:
    """Puts inputs, as run `part` has them, into memory and makes room for outputs, whose addresses it gives."""
    addresses = []
    for argument, (shape, pair) in zip(arguments, inputs, strict=False):
        if not argument.space:
            addresses.append(scalar_word(shape, pair.second if part else pair.first))
        else:
            words = pair.words(shape, part, machine.fill)
            addresses.append(machine.allocate(argument.space, 4 * words.size))
            _memory(machine, argument.space, addresses[-1], words.size)[:] = words
    found = []
    for number, (argument, shape) in enumerate(zip(arguments[len(inputs) :], outputs, strict=True)):
        if number in shared and arguments[shared[number]].space:  # a value that is handed over lies in no memory
            found.append(addresses[shared[number]])
        else:
            found.append(machine.allocate(argument.space, 4 * words_held(shape)))
    table = next((argument for argument in machine.code.arguments if argument.index == TABLE), None)
    if table is not None:
        handed = zip(arguments, (*addresses, *found), strict=True)
        machine.table(table, [machine.handed(argument.space, value) for argument, value in handed])
    else:
        for argument, value in zip(arguments, (*addresses, *found), strict=True):
            machine.bind(argument, value)
    return found


def _memory(machine: Machine, space: str, at: int, words: int) -> Array:
    """A view of `words` words of a space from an address on."""
    if space == "hbm":
        return machine.hbm[at * GRANULE : at * GRANULE + words]
    if space == "vmem":
        return machine.vmem[at:].reshape(-1)[:words]
    return machine.smem[at : at + words]


def _words(machine: Machine, argument: Argument, shape: ArrayShape, at: int) -> Array:
    return _memory(machine, argument.space, at, words_held(shape))


def joined(shape: ArrayShape, first: Array, second: Array) -> Pair:
    """What two memories hold as arrays of `shape`."""
    a = array_of(shape, first)
    if np.array_equal(first, second):
        return same(a)
    b = array_of(shape, second)
    if shape.dtype.kind == "pred":
        # Patterns of memory are all true: of a pred that nobody wrote the second run is to see the other value.
        b = np.where(bits_differ(_bytes(shape, first), _bytes(shape, second)), ~a, a)
    return Pair(a, b) if bits_differ(a, b).any() else same(a)


_U8 = DTYPES["u8"]


def _bytes(shape: ArrayShape, words: Array) -> Array:
    return array_of(ArrayShape(_U8, shape.dims, shape.layout), words)
