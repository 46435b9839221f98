"""Sums that lose digits: the same program in f64 shows which of two values of a narrower type is nearer to the truth.

A file's expectation is one legal result: that of the order and the roundings which XLA:CPU happened to choose. Where
terms cancel it may be many ulps from the true value while the reference's midpoint is not. The program is evaluated
once more with every narrower float type replaced by f64 (c64 by c128); its balls hold the true values and are narrow
enough to tell. A program of f64 has no wider type here, and one that rounds on purpose would be another program.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from assay.conformance.case import Checked, Outcome, compared, handing_over
from assay.conformance.comparisons import ulps_apart
from assay.errors import AssayError
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.shape import DTYPES, ArrayShape, DType, Shape, TupleShape
from assay.reference.evaluator import evaluate
from assay.reference.policy import Policy
from assay.reference.value import flatten, round_to

WIDE = {name: DTYPES["f64"] for name, dtype in DTYPES.items() if dtype.is_float and name != "f64"}
WIDE["c64"] = DTYPES["c128"]
_BY_BITS = {"bitcast-convert", "reduce-precision", "rng", "stochastic-convert", "custom-call"}


def explained_by_f64(outcome: Outcome, policy: Policy) -> Outcome:
    """An outcome within the bound turned into `explained` where the program in f64 shows the file to be off in every
    element that does not pass at the midpoint; otherwise the outcome as it is.
    """
    if outcome.status != "within bound" or outcome.module is None:
        return outcome
    module = widened(handing_over(outcome.module))
    if module is None:
        return outcome
    try:
        wide = compared([c.comparison for c in outcome.checked], flatten(evaluate(module, [], policy).value))
    except AssayError:  # an operation that has no f64: then nothing is shown
        return outcome
    worst: tuple[int, str] | None = None
    for narrow, true in zip(outcome.checked, wide, strict=True):
        found = _shown(narrow, true)
        if found is None:
            return outcome
        worst = found if worst is None else max(worst, found)
    assert worst is not None
    count = sum(int(np.count_nonzero(~c.passes)) for c in outcome.checked)
    why = f"the file is off in {count} of {outcome.elements} by roundings of its own: {worst[1]}"
    return replace(outcome, status="explained", why=why)


def _shown(narrow: Checked, true: Checked) -> tuple[int, str] | None:
    """How far the worst element of the file is off, and in words; None where the file is not shown to be off."""
    dtype, file = narrow.actual.dtype, narrow.expected
    off = ~narrow.passes
    if not off.any():
        return 0, ""
    if not (dtype.is_float or dtype.is_complex) or (true.actual.und is not None and true.actual.und[off].any()):
        return None
    value, truth = narrow.value, round_to(dtype, true.actual.mid)
    nearest_to_file = round_to(dtype, true.nearest(file))
    holds = narrow.comparison.holds
    if not (holds(value, truth, dtype) & ~holds(nearest_to_file, file, dtype))[off].all():
        return None
    ulps = np.where(off, ulps_apart(file, truth, dtype), np.uint64(0))
    at = tuple(int(i) for i in np.unravel_index(int(np.argmax(ulps)), ulps.shape))
    rad = 0.0 if true.actual.rad is None else float(true.actual.rad[at])
    own = int(ulps_apart(value[at], truth[at], dtype))
    words = f"at {list(at)} the true value is {true.actual.mid[at]} ± {rad:.2g}, the file has {file[at]}"
    return int(ulps[at]), f"{words} ({int(ulps[at])} ulps off), the reference {value[at]} ({own})"


def widened(module: Module) -> Module | None:
    """The module with every float type that is narrower than f64 replaced; None where it looks at bits, or rounds."""
    computations = []
    for computation in module.computations:
        instructions: list[Instruction] = []
        for instruction in computation.instructions:
            if _rounds(computation, instruction):
                return None
            instructions.extend(_wide_instructions(instruction))
        computations.append(Computation(computation.name, tuple(instructions), computation.root_name))
    return Module(module.name, tuple(computations), module.entry_name)


def _rounds(computation: Computation, instruction: Instruction) -> bool:
    touched = [instruction, *computation.operands(instruction)]
    if instruction.opcode in _BY_BITS:
        return any(_narrow(i.shape) for i in touched)
    if instruction.opcode != "convert":
        return False
    to, source = (i.array.dtype for i in touched)
    return to.name in WIDE and (source.is_float or source.is_complex) and to.part.mantissa < source.part.mantissa


def _narrow(shape: Shape) -> bool:
    if isinstance(shape, TupleShape):
        return any(map(_narrow, shape.elements))
    return isinstance(shape, ArrayShape) and shape.dtype.name in WIDE


def _wide_instructions(instruction: Instruction) -> Iterator[Instruction]:
    """A constant keeps its type and is converted: its text means a value of that type."""
    if instruction.literal is not None and _narrow(instruction.shape):
        kept = replace(instruction, name=f"{instruction.name}.narrow")
        yield kept
        yield Instruction(instruction.name, "convert", _wide(instruction.shape), (kept.name,))
    else:
        yield replace(instruction, shape=_wide(instruction.shape))


def _wide(shape: Shape) -> Shape:
    if isinstance(shape, TupleShape):
        return TupleShape(tuple(map(_wide, shape.elements)))
    if isinstance(shape, ArrayShape):
        return replace(shape, dtype=_wide_type(shape.dtype))
    return shape


def _wide_type(dtype: DType) -> DType:
    return WIDE.get(dtype.name, dtype)
