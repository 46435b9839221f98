"""How far XLA:CPU's own routines are off, in units in the last place, against float64, 80-bit and mpmath truth.

    python benchmarks/ulps.py [--dtype f32 bf16 f16 f64] [--opcode tanh ...] [--samples 22] [--json out.json]

Run it with the interpreter of the jax to measure. Per opcode and type: the largest error of a result in ulps of that
result's type, where, and the largest error of results next to zero or below the normal range is kept apart. f32
inputs are spread evenly over all exponents and both signs; bf16 and f16 inputs are all there are; f64 inputs are
2**18 over the exponents that matter. Each is run four ways, since XLA:CPU compiles them differently: vectors, vectors
of three, scalars in a loop, and of the least of three arrays, which newer releases hand to YNNPACK. The figures of
`assay.reference.policy_cpu` are the largest over the versions
named there.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
import jax
import ml_dtypes
import numpy as np
import scipy.special as sp

jax.config.update("jax_enable_x64", True)
lax = jax.lax

ld = np.longdouble
# name: (XLA's function, truth in float64 for the narrow types, truth in 80 bits for f64)
UNARY: dict[str, tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any] | None]] = {
    "exponential": (lax.exp, np.exp, np.exp),
    "exponential-minus-one": (lax.expm1, np.expm1, np.expm1),
    "log": (lax.log, np.log, np.log),
    "log-plus-one": (lax.log1p, np.log1p, np.log1p),
    "sqrt": (lax.sqrt, np.sqrt, np.sqrt),
    "rsqrt": (lax.rsqrt, lambda x: 1 / np.sqrt(x), lambda x: 1 / np.sqrt(x)),
    "cbrt": (lax.cbrt, np.cbrt, np.cbrt),
    "tanh": (lax.tanh, np.tanh, np.tanh),
    "logistic": (lax.logistic, sp.expit, lambda x: 1 / (1 + np.exp(-x))),
    "sine": (lax.sin, np.sin, np.sin),
    "cosine": (lax.cos, np.cos, np.cos),
    "tan": (lax.tan, np.tan, np.tan),
    "erf": (lax.erf, sp.erf, None),
    "atan2 by one": (lambda x: lax.atan2(x, lax.full_like(x, 1)), np.arctan, np.arctan),
}
BINARY: dict[str, tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]] = {
    "atan2": (lax.atan2, np.arctan2, np.arctan2),
    "power": (lax.pow, np.power, np.power),
    "divide": (lax.div, np.divide, np.divide),
    "remainder": (lax.rem, np.fmod, np.fmod),
}
# explicit fraction bits and exponent of the smallest normal
FORMATS = {
    "f32": (23, -126, np.float32),
    "f64": (52, -1022, np.float64),
    "bf16": (7, -126, ml_dtypes.bfloat16),
    "f16": (10, -14, np.float16),
}


def spread(rng: np.random.Generator, dtype: str, count: int, positive: bool = False) -> np.ndarray[Any, Any]:
    """Values over all exponents of the type, evenly; every value of a 16-bit type where `count` allows."""
    _, low, held = FORMATS[dtype]
    if dtype in ("bf16", "f16") and count >= 1 << 16:
        values = np.arange(1 << 16, dtype=np.uint16).view(held)
        size = np.abs(values.astype(np.float64))
        values = values[np.isfinite(size) & ((size >= 2.0**low) if dtype == "bf16" else True)]
    elif dtype == "f32":
        exponents = rng.integers(1, 255, count).astype(np.uint32)
        values = (
            rng.integers(0, 1 << 23, count).astype(np.uint32)
            | exponents << 23
            | rng.integers(0, 2, count).astype(np.uint32) << 31
        ).view(held)
    elif dtype == "f64":
        exponents = np.where(
            rng.random(count) < 0.7, rng.integers(1023 - 60, 1023 + 60, count), rng.integers(1, 2047, count)
        )
        values = np.ldexp(1 + rng.random(count), exponents - 1023) * rng.choice([-1, 1], count)
    else:
        values = (np.ldexp(1 + rng.random(count), rng.integers(low, -low, count)) * rng.choice([-1, 1], count)).astype(
            held
        )
    return np.abs(values) if positive else values


def moderate(rng: np.random.Generator, dtype: str, count: int) -> np.ndarray[Any, Any]:
    """Uniform over ranges in which the functions bend."""
    held = FORMATS[dtype][2]
    parts = [rng.uniform(-r, r, count // 6) for r in (0.5, 2, 9, 90, 1000)] + [1 + rng.uniform(-1e-2, 1e-2, count // 6)]
    return np.concatenate(parts).astype(held)


def run(function: Callable[..., Any], arguments: list[np.ndarray[Any, Any]], way: str) -> np.ndarray[Any, Any]:
    if way == "vector":
        return np.asarray(jax.jit(function)(*arguments))
    if way == "level 0":
        compiled = jax.jit(function).lower(*arguments).compile(compiler_options={"xla_backend_optimization_level": 0})
        return np.asarray(compiled(*arguments))
    if way == "reduced":
        # Of the least of three equals: what newer XLA hands to YNNPACK, with that library's own routines.
        rows = [np.stack([a] * 3) for a in arguments]
        return np.asarray(jax.jit(lambda *xs: function(*(x.min(0) for x in xs)))(*rows))
    count = min(len(arguments[0]), 3 << 14)
    count -= count % 3
    picked = np.linspace(0, len(arguments[0]) - 1, count).astype(np.int64)
    parts = [a[picked].reshape((-1, 3) if way == "three" else (-1,)) for a in arguments]
    out = jax.jit(lambda *xs: lax.map(lambda row: function(*row), xs))(*parts)
    full = np.full(len(arguments[0]), np.nan, np.asarray(out).dtype)
    full[picked] = np.asarray(out).reshape(-1)
    return full


def errors(
    dtype: str, got: np.ndarray[Any, Any], truth: np.ndarray[Any, Any]
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Error in ulps of the result, and where it may be judged: truth normal and finite in the type, and `got` not
    skipped.
    """
    mantissa, low, held = FORMATS[dtype]
    size = np.abs(truth)
    limit = float(np.finfo(held).max) if dtype in ("f32", "f64") else float(ml_dtypes.finfo(held).max)
    normal = (size >= 2.0**low * (1 + 1e-6)) & (size <= limit)
    _, exponent = np.frexp(np.where(normal, size, 1.0))
    ulp = np.ldexp(np.ones_like(truth), exponent - 1 - mantissa)
    with np.errstate(all="ignore"):
        return np.abs(got.astype(truth.dtype) - truth) / ulp, normal


def measure(opcode: str, dtype: str, samples: int, ways: list[str]) -> dict[str, Any]:
    rng = np.random.default_rng(20)
    held = FORMATS[dtype][2]
    count = 1 << (samples if dtype in ("f32",) else 18)
    function, narrow, wide = (UNARY | BINARY)[opcode]
    if opcode in UNARY:
        arguments = [np.concatenate([spread(rng, dtype, count), moderate(rng, dtype, count // 2)])]
    elif opcode == "power":
        base, exponent = [], []
        for scale in (1, 3, 10, 100, 1000):
            base.append(np.exp(rng.uniform(-80, 80, count // 8) / scale))
            exponent.append(rng.uniform(-scale, scale, count // 8))
        arguments = [np.concatenate(base).astype(held), np.concatenate(exponent).astype(held)]
    else:
        arguments = [
            np.concatenate([spread(rng, dtype, count // 2 | 1)[: count // 2], moderate(rng, dtype, count // 2)])
            for _ in range(2)
        ]
        shortest = min(map(len, arguments))
        arguments = [rng.permutation(a)[:shortest] for a in arguments]
    with np.errstate(all="ignore"):
        if dtype == "f64":
            if wide is None:
                import mpmath

                arguments = [a[:: max(1, len(a) >> 13)] for a in arguments]
                with mpmath.workdps(30):
                    pairs = [
                        (float(t), t) for t in (getattr(mpmath, opcode)(mpmath.mpf(float(v))) for v in arguments[0])
                    ]
                    truth = np.array([ld(f) + ld(float(t - f)) for f, t in pairs])
            else:
                truth = wide(*(a.astype(ld) for a in arguments))
        else:
            truth = narrow(*(a.astype(np.float64) for a in arguments))
    result: dict[str, Any] = {"opcode": opcode, "dtype": dtype}
    for way in ways:
        try:
            got = run(function, arguments, way)
        except Exception as error:
            result[way] = None
            result.setdefault("failed", f"{type(error).__name__}: {error}"[:200])
            continue
        off, normal = errors(dtype, got, truth)
        judged = normal & ~np.isnan(got.astype(np.float64))
        worst = int(np.argmax(np.where(judged, off, -1)))
        result[way] = round(float(off[worst]), 3)
        result[way + " at"] = [float(a[worst]) for a in arguments] + [float(got[worst]), float(truth[worst])]
        lost = normal & ~np.isfinite(got.astype(np.float64)) & (way in ("vector", "level 0"))
        if lost.any():
            where = int(np.argmax(lost))
            result[way + " not finite"] = [float(a[where]) for a in arguments] + [
                float(got[where]),
                float(truth[where]),
            ]
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtype", nargs="+", default=list(FORMATS), choices=list(FORMATS))
    parser.add_argument("--opcode", nargs="+", default=[*UNARY, *BINARY])
    parser.add_argument("--samples", type=int, default=22, help="log2 of the number of f32 inputs")
    parser.add_argument("--ways", nargs="+", default=["vector", "three", "scalar", "reduced"])
    parser.add_argument("--json")
    options = parser.parse_args()
    print("jax", jax.__version__, "numpy", np.__version__)
    rows = []
    for opcode in options.opcode:
        for dtype in options.dtype:
            row = measure(opcode, dtype, options.samples, options.ways)
            rows.append(row)
            figures = "  ".join(f"{way} {row[way]}" for way in options.ways)
            where = max((way for way in options.ways if row[way] is not None), key=lambda way: row[way], default=None)
            extra = {k: v for k, v in row.items() if "finite" in k or k == "failed"}
            print(f"{opcode:22} {dtype:5} {figures}  at {row.get(f'{where} at')} {extra or ''}", flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"jax": jax.__version__, "machine": os.uname().machine, "rows": rows}, file, indent=1)


if __name__ == "__main__":
    sys.exit(main())
