"""A kernel's grid: which windows of the operands are in memory at each step.

The steps go through `iteration_bounds`, the last dimension fastest. A window holds the block of its array at the index
that `transform_indices` gives for the step. A result's window keeps what was written as long as its index stays, and
is written back when it changes; a block that is visited anew begins with contents that nobody knows (Pallas, "Grids and
BlockSpecs"; jaxlib/mosaic's `window_params`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from assay.errors import Unsupported
from assay.hlo.shape import DTYPES, ArrayShape
from assay.reference.context import Context
from assay.reference.mosaic.memory import Buffer, shape_of, unknown
from assay.reference.mosaic.ops import Frame, Item, run
from assay.reference.mosaic.text import CALL, Function, affine
from assay.reference.ops.movement import moved
from assay.reference.value import Ball

MOST_STEPS = 1 << 14
_DYNAMIC = -(2**63)  # a bound that comes as an operand, in front of the others
_WINDOW = re.compile(r"transform_indices = (@[\w$.-]+|affine_map<[^{}]*>)(?:, window_bounds = array<i64: ([\d, ]+)>)?")
_IGNORED = ("pipeline_mode", "transform_indices", "window_bounds")


@dataclass(frozen=True, slots=True)
class Window:
    """transform: `@function`, or `affine_map<..>` of the step's indices."""

    transform: str
    bounds: tuple[int, ...]


def _numbers(text: str, key: str) -> tuple[int, ...]:
    match = re.search(rf"{key} = array<i64: ([-\d, ]+)>", text)
    return tuple(int(n) for n in match[1].split(",")) if match else ()


def _count(text: str, key: str) -> int:
    match = re.search(rf"{key} = (\d+) : i64", text)
    return int(match[1]) if match else 0


def _windows(main: Function, first: int) -> tuple[Window, ...]:
    """The windows of the arguments from `first` on; one without bounds is as large as its argument."""
    match = re.search(r"window_params = \[(.*?\})\]", main.attributes)
    if match is None:
        return ()
    keys = set(re.findall(r"(\w+) = ", match[1]))
    if keys - set(_IGNORED):
        raise Unsupported(CALL, f"windows with {', '.join(sorted(keys - set(_IGNORED)))}")
    kinds = [kind for _, kind in main.arguments[first:]]
    return tuple(
        Window(transform, tuple(int(n) for n in bounds.split(",")) if bounds else shape_of(kind).dims)
        for (transform, bounds), kind in zip(_WINDOW.findall(match[1]), kinds, strict=False)
    )


@dataclass(frozen=True, slots=True)
class _Kernel:
    """A kernel with its operands sorted out: the size of the grid, what is prefetched, what comes in windows."""

    ctx: Context
    functions: dict[str, Function]
    bounds: tuple[int, ...]
    scalars: list[Item]
    sources: list[Buffer]
    targets: list[Buffer]
    scratch: list[Item]
    windows: tuple[Window, ...]

    def run(self, *values: Sequence[Item]) -> None:
        main = self.functions["main"]
        given = [value for group in (*values, self.scratch) for value in group]
        run(Frame(self.ctx, {name: v for (name, _), v in zip(main.arguments, given, strict=True)}), main.body)

    def place(self, window: Window, step: Sequence[Ball]) -> tuple[int, ...]:
        """The first element of the window in its array."""
        if window.transform.startswith("affine_map"):
            numbers = [int(i.mid) for i in step]
            return tuple(i * size for i, size in zip(affine(window.transform, numbers), window.bounds, strict=True))
        transform = self.functions[window.transform[1:]]
        given: list[Item] = [*step, *self.scalars]
        frame = Frame(self.ctx, {name: v for (name, _), v in zip(transform.arguments, given, strict=True)})
        handed = run(frame, transform.body)
        frame.values = {str(i): value for i, value in enumerate(handed)}
        return tuple(frame.number(str(i)) * size for i, size in enumerate(window.bounds))


def run_kernel(
    ctx: Context, functions: dict[str, Function], operands: Sequence[Ball], results: Sequence[ArrayShape]
) -> list[Ball]:
    """The results of a kernel. Raises Unsupported for what is not modelled, `ops.Open` where what steers it is open."""
    kernel = _sorted_out(ctx, functions, operands, results)
    targets = list(kernel.targets)
    if not kernel.windows:
        kernel.run(kernel.scalars, kernel.sources, targets)
        return [target.ball() for target in targets]
    inputs, outputs = kernel.windows[: len(kernel.sources)], kernel.windows[len(kernel.sources) :]
    held = _Held(outputs, targets)
    for step in _steps(kernel.bounds):
        blocks = [
            _block(source, kernel.place(window, step), window.bounds)
            for source, window in zip(kernel.sources, inputs, strict=True)
        ]
        kernel.run(step, kernel.scalars, blocks, held.at([kernel.place(window, step) for window in outputs]))
    held.write_back()
    return [target.ball() for target in targets]


def _sorted_out(
    ctx: Context, functions: dict[str, Function], operands: Sequence[Ball], results: Sequence[ArrayShape]
) -> _Kernel:
    """Operands come in this order: bounds of the grid that are dynamic, what is prefetched, what comes in windows."""
    if "main" not in functions:
        raise Unsupported(CALL, "a body without @main")
    main = functions["main"]
    bounds = _numbers(main.attributes, "iteration_bounds")
    dynamic = sum(bound == _DYNAMIC for bound in bounds)
    given = iter([_single(ctx, ball) for ball in operands[:dynamic]])
    bounds = tuple(next(given) if bound == _DYNAMIC else bound for bound in bounds)
    if prod(bounds) > MOST_STEPS:
        raise Unsupported(CALL, f"a grid of {prod(bounds)} steps")
    prefetched = dynamic + _count(main.attributes, "scalar_prefetch")
    scalars, sources = operands[dynamic:prefetched], operands[prefetched:]
    windows, scratch = _windows(main, len(bounds) + len(scalars)), _count(main.attributes, "scratch_operands")
    wanted = len(bounds) + len(scalars) + len(sources) + len(results) + scratch
    if bool(windows) != bool(bounds) or (windows and len(windows) != len(sources) + len(results)):
        raise Unsupported(CALL, f"{len(windows)} windows for {len(sources)} operands and {len(results)} results")
    if len(main.arguments) != wanted:
        raise Unsupported(CALL, f"{len(main.arguments)} arguments where {wanted} are needed")
    return _Kernel(
        ctx,
        functions,
        bounds,
        [Buffer.of(ball) for ball in scalars],
        [Buffer.of(ball) for ball in sources],
        [Buffer.of(unknown(shape)) for shape in results],
        [Buffer.of(unknown(shape_of(kind))) for _, kind in main.arguments[wanted - scratch :]],
        windows,
    )


def _single(ctx: Context, ball: Ball) -> int:
    """The number in an array of one."""
    return Frame(ctx, {"bound": moved(ball, lambda x: x.reshape(()))}).number("bound")


def _steps(bounds: Sequence[int]) -> Iterator[list[Ball]]:
    for step in product(*map(range, bounds)):
        yield [Ball(DTYPES["s32"], np.asarray(i, np.int32)) for i in step]


def _spans(place: Sequence[int], bounds: Sequence[int], dims: Sequence[int]) -> tuple[list[slice], list[slice]]:
    """What of a window lies in its array, there and in the window itself."""
    if len(place) != len(dims) or any(p < 0 or p >= n for p, n in zip(place, dims, strict=True)):
        raise Unsupported(CALL, "a window outside its array")
    kept = [min(size, n - p) for p, size, n in zip(place, bounds, dims, strict=True)]
    return [slice(p, p + n) for p, n in zip(place, kept, strict=True)], [slice(0, n) for n in kept]


def _block(source: Buffer, place: Sequence[int], bounds: tuple[int, ...]) -> Buffer:
    there, here = _spans(place, bounds, source.mid.shape)
    block = Buffer.of(unknown(ArrayShape(source.dtype, bounds)))
    block.store(here, source.load(there))
    return block


@dataclass(slots=True)
class _Held:
    """The windows of the results that are in memory, and where they belong."""

    windows: Sequence[Window]
    targets: Sequence[Buffer]
    places: list[tuple[int, ...] | None] | None = None
    blocks: list[Buffer] | None = None

    def at(self, places: Sequence[tuple[int, ...]]) -> list[Buffer]:
        places_now = self.places or [None] * len(places)
        blocks = self.blocks or [Buffer.of(unknown(ArrayShape(t.dtype, w.bounds))) for t, w in self._pairs()]
        for i, (target, window) in enumerate(self._pairs()):
            if places_now[i] != places[i]:
                self._write(i)
                blocks[i] = Buffer.of(unknown(ArrayShape(target.dtype, window.bounds)))
        self.places, self.blocks = list(places), blocks
        return blocks

    def write_back(self) -> None:
        for i in range(len(self.targets)):
            self._write(i)

    def _write(self, i: int) -> None:
        place = self.places[i] if self.places else None
        if place is None or self.blocks is None:
            return
        there, here = _spans(place, self.windows[i].bounds, self.targets[i].mid.shape)
        self.targets[i].store(there, self.blocks[i].load(here))

    def _pairs(self) -> list[tuple[Buffer, Window]]:
        return list(zip(self.targets, self.windows, strict=True))
