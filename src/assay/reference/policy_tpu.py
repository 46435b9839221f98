"""XLA:TPU's numerics, as far as the compiler's own output tells.

Known from libtpu's LLO (low-level optimizer) dumps of releases 0.0.11 to 0.0.52, compiled ahead of time, never from
hardware: a dot of default precision is one pass of bf16 operands accumulated in f32; HIGH is three passes and HIGHEST
six, of f32 values cut into parts of 8 bits (`vand 0xffff0000`); convert pairs f32 -> f16 -> f32 are dropped unless
xla_allow_excess_precision=false; a division is a reciprocal with one Newton step on v4, v5e and v5p, and a product with
the bare reciprocal on v6e and tpu7x; exp, log, rsqrt, tanh and the reciprocal come from the extended unit (EUP).
tests/reference/test_tpu_policy.py counts the instructions.

Not known, and loose for that: how far the EUP's functions are off, and with them whatever XLA builds of them
(`LOOSE_ULPS`, and as many ulps of 1 where a subtraction may cancel: log next to 1, tanh next to 0); whether the MXU
rounds or cuts its operands (cut is allowed); in which order and width it accumulates (f32 in any order is allowed).
f64 is emulated by pairs of f32 and has no figures here at all.
"""

from __future__ import annotations

from dataclasses import replace

from assay.hlo.shape import DTYPES
from assay.reference.policy import Loss, Policy
from assay.reference.policy_cpu import WIDE_SUMS

LOOSE_ULPS = 64.0

# One pass: both operands cut to 8 bits, 2 * 2**-7. Three: the product of the low parts is left out, both low parts are
# cut, 2**-14 each. Six: two products of middle and lowest parts are left out and both operands end after 24 bits,
# 2**-21 each.
ONE_PASS, THREE_PASSES, SIX_PASSES = Loss(7, 2.0**-6), Loss(7, 2.0**-12), Loss(7, 2.0**-19)
_MXU = ("f32", "f16", "c64")

_FUNCTIONS = (
    "exponential", "exponential-minus-one", "log", "log-plus-one", "sqrt", "rsqrt", "cbrt", "tanh", "logistic", "sine",
    "cosine", "tan", "erf", "atan2", "power",
)  # fmt: skip
# exp(x) is 2**(x log2 e): the rounding of the product alone is up to 89 ulps at the ends. A power is exp(y log x).
_LOOSER = {"exponential": 256.0, "exponential-minus-one": 256.0, "logistic": 256.0, "power": 4096.0}
# Narrower types are computed in f32; what is loose there is little here. `sqrt` is x * rsqrt(x).
_NARROW = {name: 2.0 for name in DTYPES if DTYPES[name].is_float and DTYPES[name].bits < 32}

TPU_V5E = Policy(
    "tpu-v5e",
    accumulate=WIDE_SUMS,
    products={
        "default": dict.fromkeys(_MXU, ONE_PASS),
        "high": dict.fromkeys(_MXU, THREE_PASSES),
        "highest": dict.fromkeys(_MXU, SIX_PASSES),
    },
    ulps={name: {**_NARROW, "f32": _LOOSER.get(name, LOOSE_ULPS)} for name in _FUNCTIONS} | {"divide": {"f32": 4.0}},
    absolute={
        name: {"f32": LOOSE_ULPS, "c64": LOOSE_ULPS}
        for name in ("exponential-minus-one", "log", "log-plus-one", "sine", "cosine", "tan", "tanh")
    },
    merges_exponentials=True,  # until libtpu 0.0.46
    flushes_reciprocals=True,  # measured: the kernel of a division knows 2**126 alone of those beyond
    default_ulps=LOOSE_ULPS,
    unknown=frozenset({"f64", "c128"}),
)

TPU_V6E = replace(TPU_V5E, name="tpu-v6e", ulps={**TPU_V5E.ulps, "divide": {"f32": LOOSE_ULPS}})
"""That of v6e and tpu7x, whose reciprocal is not refined."""
