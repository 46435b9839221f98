"""What the reference does not model, and why: a program that holds one of these is `unverified`, never guessed at.

Together with the registry this decides on every opcode of `assay.hlo.opcodes`; a test holds it to that.
"""

from __future__ import annotations

_HOST = "it exchanges data with the host while the program runs"
_DEVICES = "it exchanges data with another device"
_UNDEFINED = "its meaning is not in XLA's operation semantics"

OPCODES: dict[str, str] = {
    "infeed": _HOST,
    "outfeed": _HOST,
    "recv": _DEVICES,
    "recv-done": _DEVICES,
    "send": _DEVICES,
    "send-done": _DEVICES,
    "scaled-dot": _UNDEFINED,
    "scan": _UNDEFINED,
    "shuffle": _UNDEFINED,
}

PARTLY: dict[str, str] = {
    "all-gather, all-reduce, all-to-all, collective-*, reduce-scatter, ragged-all-to-all": "one participant",
    "acos, acosh, asin, asinh, atan, atan2, atanh, cbrt, clamp, cosh, erf, exp2, log2, maximum, minimum, remainder, "
    "sinh": "not of complex numbers, which no frontend writes so",
    "set-dimension-size, dynamic-reshape": "to the full size: no value has a size that is known at run time alone",
    "rng, rng-get-and-update-state": "undecided: the target's own numbers",
    "rng-bit-generator": "the algorithms three_fry and philox, which default is taken for",
    "ragged-dot": "one group size for all batches",
    "select-and-scatter": "without dilation",
    "map, reduce, scatter, sort and windows": "with a body of scalar operations, without control flow in it",
}

CUSTOM_CALLS: dict[str, str] = {
    "ApproxTopK": "an approximate result is whatever meets its recall",
    "PartialReduce": "an approximate result is whatever meets its recall",
    "xla_ffi_partitioned_python_cpu_callback": "it calls Python on the host",
    "xla_ffi_python_cpu_callback": "it calls Python on the host",
    "xla_python_cpu_callback": "it calls Python on the host",
}
