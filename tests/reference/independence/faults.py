"""What is not compared, and why: opcodes that are not drawn, what a party does not have, and what it is known to do
wrong. Each entry names its reason; an entry that no longer holds is to be taken out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from assay.hlo.shape import DTYPES

from .builder import Program

if TYPE_CHECKING:
    from .comparison import Disagreement
    from .rivals import Refused

NOT_DRAWN = {
    "custom-call": "not an operation but a door to others; those that jaxlib makes are in test_linalg.py",
    "dynamic-reshape": "its result has dimensions known at run time alone, which no party here can hand out",
    "set-dimension-size": "its result has dimensions known at run time alone, which no party here can hand out",
    "optimization-barrier": "another spelling of opt-barrier, which XLA's parser does not know",
    "rng-get-and-update-state": "its value is a state of the machine, which no program sees twice",
}

ADMITTED_YET_NOT_DRAWN = {
    "batch-norm-training": "the rule and XLA's parser admit any type, the operation is defined for floats",
    "batch-norm-inference": "likewise",
    "batch-norm-grad": "likewise",
    "rng": "the rule and XLA's parser admit complex numbers, no party draws them",
    "rng-bit-generator": "the rule and XLA's parser admit narrow states, no algorithm has one",
    "stochastic-convert": "the rule and XLA's parser admit any type, the operation is defined for floats",
    "topk": "the rule and XLA's parser admit complex numbers, which have no order",
}


@dataclass(frozen=True)
class Gap:
    """A party that does not run programs whose text matches the pattern: `xla` both levels, `*` everybody.

    when: a further condition on the program.
    """

    party: str
    pattern: str
    reason: str
    when: Callable[[Program], bool] = lambda _: True


def _on(opcodes: str, dtypes: str = r"\w+") -> str:
    """A pattern for instructions with these opcodes and result types."""
    return rf"= \(?({dtypes})\[[^=]* ({opcodes})\("


COMPLEX, NARROW = "c64|c128", "[su][24]"


def _not_neutral(d: Disagreement) -> bool:
    return "the initial value may not be neutral" in d.program.notes


def _of_float(program: Program) -> bool:
    return DTYPES[program.dtype].is_float


def _beyond_signed(program: Program) -> bool:
    """XLA:CPU has it from f32 and wider to signed integers."""
    to = program.outputs[0][1].dtype
    return DTYPES[program.dtype].bits < 32 or to.kind != "signed"


def _two_floats(program: Program) -> bool:
    kinds = {shape.dtype.name for _, shape in program.outputs if shape.dtype.is_float}
    return len(kinds) > 1


def _other_result(program: Program) -> bool:
    given = [shape.dtype.name for _, shape, _ in program.parameters]
    made = [shape.dtype.name for _, shape in program.outputs]
    return program.dtype == "pred" or any(name != program.dtype for name in (*given, *made))


def _divides_by_zero(program: Program) -> bool:
    return "integers may be divided by zero" in program.notes


def _overhangs(program: Program) -> bool:
    return "windows may lie partly outside" in program.notes


# Of jaxlib 0.10.2 and 0.12.0.1, where not said otherwise.
GAPS: tuple[Gap, ...] = (
    Gap("*", _on("atan"), "XLA's parser does not know the opcode"),
    Gap("*", _on("exp2|log2|mulhi"), "the conversion to StableHLO makes mhlo.unknown of it"),
    Gap("*", _on("abs|sign", r"u\d+"), "StableHLO has it for signed integers alone"),
    Gap("*", _on("bitcast"), "layouts are lost on the way through StableHLO, and a bitcast is nothing without"),
    Gap("*", r" async-(start|update|done)\(", "the way through StableHLO makes a tuple of the result: XLA refuses it"),
    Gap("*", r"(?s)= u32\[\d.*= \(u32\[\d+\].* rng-bit-generator\(", "XLA's expander mixes u32 and u64"),
    Gap("xla", r"= \(u\d+\[\d+\], s\d+\[[\d,]*\]\) rng-bit-generator\(", "XLA hands out unsigned bits for signed ones"),
    Gap("xla", r"\bf6e\dm\dfn\[", "XLA:CPU has no code for 6 bits"),
    Gap("xla", r" (copy-start|collective-broadcast|collective-reduce|ragged-dot)\(", "not implemented"),
    Gap("xla", _on("cbrt", COMPLEX), "not implemented"),
    Gap("xla", _on("acos|acosh|asin|asinh|atanh|cosh|sinh", COMPLEX), "findings/complex_opcodes.hlo: it segfaults"),
    Gap("xla", r"(?s)c128\[.* c64\[[\d,]*\] bitcast-convert\(", "findings/complex_bitcast.hlo: the compiler aborts"),
    Gap("xla", r"(?s)c64\[.* c128\[[\d,]*\] bitcast-convert\(", "findings/complex_bitcast.hlo: the compiler aborts"),
    Gap("xla", rf"(?s)({NARROW})\[.* (dot|convolution)\(", "findings/narrow_integers.py: it is refused"),
    Gap("xla", rf"(?s)({NARROW}|f4e2m1fn)\[.* topk\(", "findings/narrow_integers.py: it is refused"),
    Gap("xla", r"(?s)[su]2\[.* sort\(", "findings/narrow_integers.py: it is wrong, or refused"),
    Gap("xla", _on("concatenate", "[su]2"), "findings/narrow_integers.py: the compiler aborts"),
    Gap(
        "xla",
        _on(r"(all-|collective-|reduce-scatter)[\w-]*", "[su]2"),
        "findings/two_bit_collectives.hlo: the heap breaks",
    ),
    Gap("xla", _on("rng", r"pred|f8\w+|f4\w+|[su](2|4|8|16)"), "rng_expander.cc aborts: it knows f16 and bf16 alone"),
    Gap("xla", r"(?s)stochastic-convert\(", "not implemented", _beyond_signed),
    Gap(
        "xla", r" (scatter|reduce|reduce-window)\(", "a pass leaves floats of two precisions in one tuple", _two_floats
    ),
    Gap("xla", r" ragged-all-to-all\(", "findings/ragged_all_to_all.hlo: it segfaults"),
    Gap("level 0", r" (real|imag)\(", "of a real operand: only algsimp takes it away", _of_float),
    Gap("interpreter", r"\bf6e\dm\dfn\[", "it dies of some operations on 6 bits"),
    Gap("interpreter", r" (divide|remainder)\(", "integers divided by zero: it dies of SIGFPE", _divides_by_zero),
    Gap(
        "interpreter",
        r" scatter\(",
        "StableHLO drops an element outside, HLO the window that is not all inside",
        _overhangs,
    ),
    Gap(
        "interpreter",
        r" (acos|acosh|asin|asinh|atanh|cosh|sinh|erf|topk)\(",
        "CHLO, which it does not evaluate: it aborts",
    ),
    Gap(
        "interpreter",
        r" (copy|copy-start|fusion|domain|add-dependency|stochastic-convert|ragged-dot)\(",
        "MHLO: it aborts",
    ),
    Gap(
        "interpreter",
        r" (cholesky|triangular-solve|rng|rng-bit-generator|batch-norm-\w+|fft)\(",
        "it has none: it aborts",
    ),
    Gap(
        "interpreter",
        r" (ragged-)?(all|collective)-[\w-]+\(| reduce-scatter\(| \w+-id\(",
        "it has them for several processes alone",
    ),
    Gap(
        "interpreter", r" (dot|convolution)\(", "it aborts on results of another type than its operands'", _other_result
    ),
)


def lacks(party: str, program: Program) -> str:
    """Why this party cannot run the program; empty where it may."""
    parties = ("*", party, "interpreter" if party == "interpreter" else "xla")
    found = (g for g in GAPS if g.party in parties and re.search(g.pattern, program.text))
    return next((g.reason for g in found if g.when(program)), "")


def unknown_to_jaxlib(program: Program) -> str:
    """Why some jaxlib's parser does not take the program; empty where each should."""
    return next((why for opcode, why in NOT_IN_EVERY_JAXLIB.items() if f" {opcode}(" in program.text), "")


NOT_IN_EVERY_JAXLIB = {
    "atan": "in openxla of 2026 alone, in no jaxlib up to 0.12.0.1",
    "log2": "not in jaxlib 0.10.2",
    "exp2": "not in jaxlib 0.10.2",
    "collective-reduce": "not in jaxlib 0.10.2",
    "ragged-all-to-all": "not in jaxlib before 0.5",
}


@dataclass(frozen=True)
class Refusal:
    """What a party may say to programs that it may also run: opcodes (all where empty), a part of the message."""

    party: str
    opcodes: str
    message: str
    reason: str


REFUSALS: tuple[Refusal, ...] = (
    Refusal("interpreter", "dot convolution", "died", "it aborts on some dots whose chains hold another type"),
    Refusal("xla", "", "async_start: stablehlo.constant", "an operand of no elements becomes a constant inside"),
    Refusal("xla", "fusion", "Non-root instruction", "the canonicalizer folds a body of no elements away"),
    Refusal("xla", "reduce", "reduce_decomposer.cc", "findings/narrow_integers.py: layouts of 2-bit types differ"),
    Refusal("xla", "reduce-scatter", "cannot be zero", "StableHLO has no scatter of no elements"),
    Refusal("xla", "all-gather-done all-gather-start", "cannot be zero", "StableHLO has no gather of no elements"),
)


def known_refusal(party: str, program: Program, refused: Refused) -> str:
    """Why this party may refuse the program; empty where it should not."""
    said = ("died " if refused.died else "") + refused.message
    parties = (party, "interpreter" if party == "interpreter" else "xla")
    return next(
        (
            r.reason
            for r in REFUSALS
            if r.party in parties and program.opcode in (r.opcodes.split() or [program.opcode]) and r.message in said
        ),
        "",
    )


@dataclass(frozen=True)
class Fault:
    """What a party is known to do wrong in programs whose text matches the pattern.

    only: a further condition on the disagreement.
    """

    party: str
    pattern: str
    reason: str
    only: Callable[[Disagreement], bool] = lambda _: True


def _far_index(d: Disagreement) -> bool:
    """Some unsigned argument or constant has its highest bit set."""
    arrays = [(shape.dtype.bits, value) for _, shape, value in d.program.parameters if shape.dtype.kind == "unsigned"]
    if any((value.astype(np.uint64) >> (bits - 1)).any() for bits, value in arrays):
        return True
    constants = re.findall(r"= u(\d+)\[[\d,]*\] constant\(([^)]*)\)", d.program.text)
    return any(int(n) >> (int(bits) - 1) for bits, text in constants for n in re.findall(r"\d+", text))


def _large_exponent(d: Disagreement) -> bool:
    return "f" not in d.program.dtype and "c" not in d.program.dtype and DTYPES[d.program.dtype].bits > 8


def _gives_nan(d: Disagreement) -> bool:
    return d.comparison.peak_target != d.comparison.peak_target


def _overflows(d: Disagreement) -> bool:
    return not np.isfinite(d.comparison.peak_target)


def _small(d: Disagreement) -> bool:
    return d.comparison.peak_reference is not None and abs(d.comparison.peak_reference) < 2.0**-12


def _of_nan(d: Disagreement) -> bool:
    return d.comparison.peak_reference != d.comparison.peak_reference


def _least_power(d: Disagreement) -> bool:
    """2**-127 is among the arguments, or the reference's result is as small."""
    given = (value for _, shape, value in d.program.parameters if shape.dtype.name == "f8e8m0fnu")
    return _tiny(d) or any((value.view(np.uint8) == 0).any() for value in given)


def _soon_overflows(d: Disagreement) -> bool:
    return DTYPES[d.program.dtype].bits <= 16


def _tiny(d: Disagreement) -> bool:
    """The reference is of the size of the smallest normal numbers."""
    value, output = d.comparison.peak_reference, d.program.outputs[d.output][1].dtype
    return value is not None and abs(value) < 2.0 ** (output.part.min_exponent + 60)


FAULTS: tuple[Fault, ...] = (
    Fault("xla", r" power\(", "findings/integer_power.hlo: exponents are taken modulo 64", _large_exponent),
    Fault("xla", r" (reduce-scatter|all-reduce)\(", "findings/collective_minimum.hlo: NaN is lost", _of_nan),
    Fault("xla", r"scatter_dims_to_operand_dims=\{\}", "findings/scatter_empty_index_vector.py"),
    Fault("xla", r"= s4\[[\d,]*\] popcnt\(", "findings/narrow_integers.py"),
    Fault("xla", r"(?s)[su]2\[.* (clamp|sort)\(", "findings/narrow_integers.py"),
    Fault("xla", r"(?s)f4e2m1fn\[.*convert\(", "findings/four_bit_float.hlo: 6 becomes the largest integer"),
    Fault("xla", r" reduce\(", "findings/maximum_drops_nan.py", _of_nan),
    Fault("xla", r" convolution\(.*batch_group_count=", "findings/batch_group_nan.py", _gives_nan),
    Fault("xla", r"(?s)= f8e3m4\[.* constant\(.* round-nearest-even\(", "findings/round_f8e3m4.py", _gives_nan),
    Fault("xla", r"(?s)= \w+\[(\d+,)*0[],].* select-and-scatter\(", "findings/select_and_scatter_empty.hlo"),
    Fault("interpreter", r"= f8e8m0fnu\[.* (convolution|dot)\(", "every partial sum is rounded to a power of two"),
    Fault("interpreter", r"= f8\w+\[.* (convolution|dot)\(", "partial sums overflow in the type itself", _overflows),
    Fault(
        "interpreter", r" reduce-precision\(.*mantissa_bits=0", "NaN becomes infinite: no bit is left for it", _of_nan
    ),
    Fault(
        "interpreter",
        _on("log-plus-one", COMPLEX),
        "log |1 + z| from the rounded 1 + z, which loses a small z",
        _small,
    ),
    Fault("xla", r"f8e8m0fnu\[", "2**-127 is subnormal in f32, in which XLA computes, and is flushed", _least_power),
    Fault(
        "interpreter",
        r"(?s)f8e3m4\[.* (ceil|floor|round-nearest-afz|round-nearest-even)\(",
        "NaN for all but whole numbers from 8 on: LLVM's roundToIntegral adds 2**4, beyond the largest f8e3m4",
    ),
    Fault("interpreter", "type=TOTALORDER", "the type of a comparison is ignored: NaN and -0 compare as floats do"),
    Fault(
        "interpreter",
        r"(gather|scatter|dynamic-(update-)?slice)\(",
        "unsigned indices are taken for signed",
        _far_index,
    ),
    Fault(
        "interpreter",
        r" logistic\(",
        "1 / (1 + exp(-x)) in the type itself, whose exp overflows",
        _soon_overflows,
    ),
    Fault("interpreter", r" select-and-scatter\(", "it counts the initial value twice", _not_neutral),
    Fault(
        "interpreter",
        _on(
            "exponential-minus-one|log-plus-one|tan|tanh|sine|cosine|sqrt|rsqrt|log|power|divide|logistic|exponential",
            COMPLEX,
        ),
        "complex functions by textbook formulas, whose parts underflow on the way",
        _tiny,
    ),
)


def known_fault(d: Disagreement) -> str:
    """Why this disagreement is none; empty where it is one."""
    parties = (d.party, "interpreter" if d.party == "interpreter" else "xla")
    found = (f for f in FAULTS if f.party in parties and re.search(f.pattern, d.program.text))
    return next((f.reason for f in found if f.only(d)), "")
