"""What HLO asks of a program without checking it: the litmus test's preconditions, as data.

A program that breaks one has no single right result, so nothing that depends on it is a compiler bug. The table says
what is asked, how far it can be decided, and where it is written; `checking/litmus` decides it. What only looks like
one, because XLA says what happens, is in `DEFINED`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cache

XLA = "openxla.org/xla/operation_semantics"
STABLEHLO = "openxla.org/stablehlo/spec"


class Strength(StrEnum):
    """What becomes of a program that breaks a precondition."""

    UNDEFINED = "undefined"  # the compiler may assume that it holds, and anything may come of it
    UNSPECIFIED = "unspecified"  # some value that no document fixes, so targets and passes may differ in it


class Decided(StrEnum):
    """How it is found out whether it holds. What is not found out is undecided, and never taken to hold."""

    STATICALLY = "statically"  # by the module alone
    ON_INPUTS = "on the inputs"  # by the values of one evaluation
    BY_TRIAL = "by trial"  # may be refuted by values that occur; not shown by them


@dataclass(frozen=True, slots=True)
class Contract:
    """name: unique. opcodes: of the instructions that ask it. precondition: what must hold, in words. decided: the ways
    that are tried, in order. source: where it is written.
    """

    name: str
    opcodes: tuple[str, ...]
    precondition: str
    strength: Strength
    decided: tuple[Decided, ...]
    source: str


_U, _X = Strength.UNDEFINED, Strength.UNSPECIFIED
_S, _I, _T = Decided.STATICALLY, Decided.ON_INPUTS, Decided.BY_TRIAL
_REDUCING = ("reduce", "reduce-window")
_COMBINING = (*_REDUCING, "all-reduce", "all-reduce-start", "reduce-scatter", "select-and-scatter")

CONTRACTS = (
    Contract(
        "neutral-init",
        _REDUCING,
        "the initial value is the identity of the body",
        _U,
        (_S, _I, _T),
        f"{STABLEHLO}#reduce: an implementation-defined number of initial values; jax.lax.reduce: undefined otherwise",
    ),
    Contract(
        "associative-body",
        _COMBINING,
        "the body is associative, but for rounding",
        _U,
        (_S, _T),
        f"{XLA}#reduce: the order is arbitrary; #selectandscatter: the same; jax.lax.reduce: undefined otherwise",
    ),
    Contract(
        "commutative-body",
        _COMBINING,
        "the body is commutative",
        _X,
        (_S, _T),
        f"{XLA}#reduce: the order is arbitrary ({STABLEHLO}#reduce keeps neighbours in order, XLA's text does not)",
    ),
    Contract(
        "strict-weak-order",
        ("sort",),
        "the comparator is a strict weak order of what is sorted",
        _U,
        (_S, _I, _T),
        f"{STABLEHLO}#sort: true where the left is less than the right; XLA sorts with it as std::sort does",
    ),
    Contract(
        "transitive-select",
        ("select-and-scatter",),
        "the select computation is transitive",
        _U,
        (_S,),
        f"{XLA}#selectandscatter: the function must hold transitivity",
    ),
    Contract(
        "sorted-indices",
        ("gather", "scatter"),
        "indices ascend where indices_are_sorted says so",
        _U,
        (_S, _I),
        f"{XLA}#gather, #scatter: implementation defined otherwise; XLA can assume it",
    ),
    Contract(
        "unique-indices",
        ("scatter",),
        "no element is reached twice where unique_indices says so",
        _U,
        (_S, _I),
        f"{XLA}#gather: implementation defined otherwise; XLA can assume it",
    ),
    Contract(
        "scatter-order",
        ("scatter",),
        "updates of one element give the same in any order",
        _X,
        (_S, _I),
        f"{XLA}#scatter: the order in which updates are applied is non-deterministic",
    ),
    Contract(
        "nonzero-divisor",
        ("divide", "remainder"),
        "no integer is divided by zero, nor the least one by -1",
        _X,
        (_I,),
        f"{XLA}#div: integer division overflow produces an implementation defined value",
    ),
    Contract(
        "natural-exponent",
        ("power",),
        "no integer has a negative exponent",
        _X,
        (_I,),
        f"{STABLEHLO}#power: integer exponentiation, of which a negative exponent is no case",
    ),
    Contract(
        "shift-within",
        ("shift-left", "shift-right-logical", "shift-right-arithmetic"),
        "the amount is from 0 up to the width, exclusive",
        _X,
        (_I,),
        f"{STABLEHLO}#shift_left says nothing of others (XLA's elemental_ir_emitter.cc saturates them)",
    ),
    Contract(
        "convert-in-range",
        ("convert",),
        "a float fits the type that it is truncated or rounded to, which has no value for it otherwise",
        _X,
        (_I,),
        f"{STABLEHLO}#convert: if the truncated value cannot be represented the behavior is TBD (stablehlo#180)",
    ),
    Contract(
        "nan-bits",
        ("bitcast-convert",),
        "no NaN is read as bits",
        _X,
        (_I,),
        "IEEE 754-2019, 6.2.3: the payload and sign of a NaN that an operation gives are not specified",
    ),
    Contract(
        "positive-definite",
        ("cholesky",),
        "the matrix is Hermitian and positive definite",
        _X,
        (_I,),
        f"{XLA}#cholesky: implementation-defined otherwise",
    ),
    Contract(
        "uniform-interval",
        ("rng",),
        "the upper end of an interval lies above the lower one",
        _X,
        (_I,),
        f"{XLA}#rnguniform: if b <= a the result is implementation-defined",
    ),
    Contract(
        "no-random-numbers",
        ("rng", "rng-get-and-update-state"),
        "the result does not depend on numbers of the target's own generator",
        _X,
        (_S,),
        f"{XLA}#rnguniform, #rngnormal: a distribution, and no algorithm",
    ),
    Contract(
        "random-algorithm",
        ("rng-bit-generator",),
        "the algorithm is named",
        _X,
        (_S,),
        f"{XLA}#rngbitgenerator: RNG_DEFAULT is the backend's own algorithm",
    ),
    Contract(
        "dot-algorithm",
        ("dot", "convolution", "ragged-dot"),
        "the accuracy that the algorithm stands for is known",
        _X,
        (_S,),
        "xla_data.proto, PrecisionConfig.Algorithm",
    ),
    Contract(
        "written-before-read",
        ("custom-call",),
        "nothing is read from a buffer that nobody wrote",
        _U,
        (_S,),
        "jax.lax.empty, custom call AllocateBuffer: uninitialized",
    ),
    Contract(
        "known-call",
        ("custom-call", "infeed", "recv", "recv-done"),
        "what comes from outside of HLO is known",
        _U,
        (_S,),
        f"{STABLEHLO}#custom_call: encapsulates an implementation-defined operation",
    ),
    Contract(
        "loop-ends",
        ("while",),
        "the loop ends",
        _U,
        (_I,),
        f"{STABLEHLO}#while: what an infinite loop does is to be decided (stablehlo#383)",
    ),
)

BY_NAME = {contract.name: contract for contract in CONTRACTS}


@cache
def asked_of(opcode: str) -> tuple[Contract, ...]:
    """The preconditions of an opcode."""
    return tuple(contract for contract in CONTRACTS if opcode in contract.opcodes)


@dataclass(frozen=True, slots=True)
class Defined:
    """What looks like a broken precondition and is none: XLA says what comes of it."""

    opcodes: tuple[str, ...]
    case: str
    result: str
    source: str


DEFINED = (
    Defined(
        ("dynamic-slice", "dynamic-update-slice"),
        "a start out of range",
        "it is clamped so that the slice fits",
        f"{XLA}#dynamicslice",
    ),
    Defined(("gather",), "a start index out of range", "it is clamped so that the slice fits", f"{STABLEHLO}#gather"),
    Defined(("scatter",), "an index out of range", "the update is skipped", f"{STABLEHLO}#scatter"),
    Defined(("conditional",), "a branch index out of range", "the last branch runs", f"{XLA}#conditional"),
    Defined(("sort",), "equal keys without is_stable", "they come in any order; the reference knows", f"{XLA}#sort"),
    Defined(("convert",), "an integer that does not fit", "it wraps", "XLA's hlo_evaluator.cc; jax.lax.convert"),
    Defined(("divide", "remainder"), "a float divided by zero", "as IEEE 754 says", f"{STABLEHLO}#divide"),
    Defined(("add", "subtract", "multiply"), "integers that overflow", "they wrap", f"{STABLEHLO}#add"),
    Defined(
        ("bitcast-convert",), "a constant that is a NaN", "the bits that it is written with", "xla_data.proto, Literal"
    ),
    Defined(
        ("scatter",), "an update that its body does not read", "the body is applied as often", f"{STABLEHLO}#scatter"
    ),
    Defined(("clamp",), "a lower bound above the upper", "minimum(maximum(x, low), high)", f"{STABLEHLO}#clamp"),
    Defined(("pad",), "negative padding", "elements are cut off", f"{XLA}#pad"),
)
