"""Why elements are infinite or NaN in the reference and in the target: right, but no numeric evidence.

The reference is run once more with every infinite constant finite. Elements that are finite then come of a constant: a
mask, a padding, the start of a maximum, all of them meant. Of the rest, those that are finite once the arguments are
come of the arguments. What stays left the domain or the range of an operation on the way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from assay.checking.bounds import Bounds, Leaves
from assay.hlo.attributes import called
from assay.hlo.graph import reachable
from assay.hlo.literal import literal_array, literal_from_array
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.shape import ArrayShape
from assay.oracle.intent import CONSTANT, INPUT, Masked, Source, holds_constants, sources
from assay.programs.program import Array
from assay.reference.value import Ball, Value, flatten, joined

LARGE = 64.0
"""In place of an infinity: beyond what softmax and its like tell from one, and far from overflow."""

_WITH_BODY = frozenset(("reduce", "reduce-window", "scatter", "select-and-scatter", "map", "all-reduce", "sort"))


def explain(bounds: Bounds, masks: Sequence[Array | None]) -> Masked:
    """Of the elements marked, one mask for each array among the outputs. Raises what `evaluate` raises."""
    module, arguments = bounds.module, bounds.arguments
    marked = [np.zeros((), np.bool_) if mask is None else mask for mask in masks]
    infinite = frozenset(i for i, a in enumerate(arguments) if not _finite(a))
    static = _union(sources(module, infinite), marked)
    active = _active(bounds)
    by_name = {source.name: source for source in static}
    constants = sorted(name for name, source in by_name.items() if source.kind == CONSTANT)
    leaving = sorted(f"{name}: {opcode}" for name, opcode in active.names(module, by_name))

    meant = holds_constants(module)
    finite_module = without_infinities(module) if meant else module
    finite_arguments = [_cleaned(a) for a in arguments] if infinite else arguments
    left = stay = marked
    if meant or infinite:
        left = _still(marked, _numbers(bounds, finite_module, finite_arguments))
    if infinite and meant:
        stay = _still(marked, _numbers(bounds, finite_module, arguments))
    elif meant:
        stay = left
    total, lost, argued = (sum(int(np.count_nonzero(m)) for m in which) for which in (marked, left, stay))
    return Masked(total - argued, argued - lost, lost, tuple(constants), tuple(leaving) if lost else ())


def without_infinities(module: Module) -> Module:
    """`module` with +-LARGE for infinities in its constants, and 1 for NaN."""
    computations = tuple(
        replace(c, instructions=tuple(_finite_constant(i) for i in c.instructions)) for c in module.computations
    )
    return replace(module, computations=computations)


def _finite_constant(instruction: Instruction) -> Instruction:
    literal, shape = instruction.literal, instruction.shape
    if literal is None or not isinstance(shape, ArrayShape) or not (shape.dtype.is_float or shape.dtype.is_complex):
        return instruction
    if "inf" not in literal.text and "nan" not in literal.text:
        return instruction
    return replace(instruction, literal=literal_from_array(shape, _cleaned(literal_array(shape, literal))))


def _cleaned(array: Array) -> Array:
    """Finite, of the same type. `LARGE` is in the range of every type that has an infinity."""
    if array.dtype.kind in "biu":
        return array
    if array.dtype.kind == "c":
        return joined(_cleaned(array.real), _cleaned(array.imag)).astype(array.dtype)
    with np.errstate(all="ignore"):
        wide = array.astype(np.float64)
    return np.where(np.isfinite(wide), wide, np.where(np.isnan(wide), 1.0, np.copysign(LARGE, wide))).astype(
        array.dtype
    )


def _finite(array: Array) -> bool:
    return array.dtype.kind in "biu" or bool(np.isfinite(array.astype(np.complex128)).all())


def _numbers(bounds: Bounds, module: Module, arguments: Sequence[Array]) -> Leaves:
    other = Bounds(module, arguments, bounds.settings, bounds.step, bounds.seconds, [], bounds.flushed, bounds.resolved)
    return other.middle()


def _still(masks: Sequence[Array], found: Leaves) -> list[Array]:
    balls = [leaf for leaf in found if isinstance(leaf, Ball)]
    return [mask & ~np.isfinite(b.mid) if mask.any() else mask for mask, b in zip(masks, balls, strict=True)]


def _union(found: Sequence[frozenset[Source]], masks: Sequence[Array]) -> frozenset[Source]:
    return frozenset(s for one, mask in zip(found, masks, strict=True) if mask.any() for s in one if s.kind != INPUT)


@dataclass(slots=True)
class _Active:
    """Watches a run for instructions that make an infinity or a NaN of finite operands, of elements of the same place
    where they have its shape.
    """

    infinite: dict[tuple[str, str], list[Array]] = field(default_factory=dict)
    makers: dict[str, Instruction] = field(default_factory=dict)

    def see(self, computation: Computation, instruction: Instruction, value: Value) -> None:
        balls = [leaf for leaf in flatten(value) if isinstance(leaf, Ball) and leaf.mid.dtype.kind in "fc"]
        masks = [mask for ball in balls if (mask := ~np.isfinite(ball.mid)).any()]
        self.infinite[computation.name, instruction.name] = masks
        if not masks or instruction.name in self.makers:
            return
        brought = [m for name in instruction.operands for m in self.infinite.get((computation.name, name), ())]
        if len(masks) == 1 and all(m.shape == masks[0].shape for m in brought):
            new = masks[0]
            for mask in brought:
                new = new & ~mask
            brought = [] if new.any() else brought
        if not brought:
            self.makers[instruction.name] = instruction

    def names(self, module: Module, static: dict[str, Source]) -> Iterator[tuple[str, str]]:
        """The makers that are among the sources, or in whose body one of them is."""
        for name, maker in self.makers.items():
            if name in static:
                if static[name].kind != CONSTANT:
                    yield name, maker.opcode
            elif maker.opcode in _WITH_BODY and any(
                i.name in static for body in called(maker) for c in reachable(module, body) for i in c.instructions
            ):
                yield name, maker.opcode


def _active(bounds: Bounds) -> _Active:
    active = _Active()
    bounds.middle(active.see)
    return active
