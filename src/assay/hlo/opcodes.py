"""Every opcode of HLO, by the name in XLA's text, with the number of operands it takes.

Source: XLA's hlo_opcode.h in openxla/xla of 2026 and `jaxlib._hlo.HloOpcode` of jaxlib 0.12.0.1; opcodes that only
one of the two has are in the table. An opcode that is not here does not parse.
"""

from __future__ import annotations

ANY = -1
"""An arity: as many operands as are written."""

UNARY = (
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "ceil", "count-leading-zeros", "cosine", "cosh",
    "erf", "exp2", "exponential", "exponential-minus-one", "floor", "imag", "is-finite", "log", "log2",
    "log-plus-one", "logistic", "negate", "not", "popcnt", "real", "round-nearest-afz", "round-nearest-even", "rsqrt",
    "sign", "sine", "sinh", "sqrt", "tan", "tanh",
)  # fmt: skip

BINARY = (
    "add", "and", "atan2", "divide", "maximum", "minimum", "mulhi", "multiply", "or", "power", "remainder",
    "shift-left", "shift-right-arithmetic", "shift-right-logical", "subtract", "xor",
)  # fmt: skip

ARITY: dict[str, int] = {
    **dict.fromkeys(UNARY, 1),
    **dict.fromkeys(BINARY, 2),
    "add-dependency": 2,
    "after-all": ANY,
    "all-gather": ANY,
    "all-gather-done": 1,
    "all-gather-start": ANY,
    "all-reduce": ANY,
    "all-reduce-done": 1,
    "all-reduce-start": ANY,
    "all-to-all": ANY,
    "async-done": 1,
    "async-start": ANY,
    "async-update": ANY,
    "batch-norm-grad": 5,
    "batch-norm-inference": 5,
    "batch-norm-training": 3,
    "bitcast": 1,
    "bitcast-convert": 1,
    "broadcast": 1,
    "call": ANY,
    "cholesky": 1,
    "clamp": 3,
    "collective-broadcast": ANY,
    "collective-permute": ANY,
    "collective-permute-done": 1,
    "collective-permute-start": ANY,
    "collective-reduce": ANY,
    "compare": 2,
    "complex": 2,
    "concatenate": ANY,
    "conditional": ANY,
    "constant": 0,
    "convert": 1,
    "convolution": ANY,
    "copy": 1,
    "copy-done": 1,
    "copy-start": 1,
    "custom-call": ANY,
    "domain": 1,
    "dot": ANY,
    "dynamic-reshape": ANY,
    "dynamic-slice": ANY,
    "dynamic-update-slice": ANY,
    "fft": 1,
    "fusion": ANY,
    "gather": 2,
    "get-dimension-size": 1,
    "get-tuple-element": 1,
    "infeed": 1,
    "iota": 0,
    "map": ANY,
    "opt-barrier": 1,
    "outfeed": 2,
    "pad": 2,
    "parameter": 0,
    "partition-id": 0,
    "ragged-all-to-all": ANY,
    "ragged-dot": 3,
    "recv": 1,
    "recv-done": 1,
    "reduce": ANY,
    "reduce-precision": 1,
    "reduce-scatter": ANY,
    "reduce-window": ANY,
    "replica-id": 0,
    "reshape": 1,
    "reverse": 1,
    "rng": ANY,
    "rng-bit-generator": 1,
    "rng-get-and-update-state": 0,
    "scaled-dot": 4,
    "scan": ANY,
    "scatter": ANY,
    "select": 3,
    "select-and-scatter": 3,
    "send": 2,
    "send-done": 1,
    "set-dimension-size": 2,
    "shuffle": 1,
    "slice": 1,
    "sort": ANY,
    "stochastic-convert": 2,
    "topk": 1,
    "transpose": 1,
    "triangular-solve": 2,
    "tuple": ANY,
    "while": 1,
}

CONTROL_FLOW = frozenset(("while", "conditional", "call"))
"""Whose bodies are graphs that run, and not what is done for an element."""

ASYNC_SUFFIXES = {"-start": "async-start", "-update": "async-update", "-done": "async-done"}
"""XLA prints an async instruction whose computation is one instruction by its opcode and one of these suffixes."""


def wrapped_opcode(opcode: str) -> tuple[str, str] | None:
    """`slice-start` -> ("async-start", "slice"); None where `opcode` is not such a short form."""
    for suffix, long_form in ASYNC_SUFFIXES.items():
        if opcode.endswith(suffix) and opcode not in ARITY:
            inner = opcode.removesuffix(suffix)
            return (long_form, inner) if inner in ARITY else None
    return None
