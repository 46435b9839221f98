"""What all LAPACK calls of jaxlib's CPU backend have in common: their names, their options, their batches.

jaxlib before 0.4.32 passes sizes and options as operands, and work arrays as further results (`lapack_sgeqrf`); later
ones pass options as attributes of a typed call (`lapack_sgeqrf_ffi`). Sources: jaxlib's lapack_kernels.cc and
jax/_src/lax/linalg.py.

In a sampled run a factorization is that of a matrix moved at random within the algorithm's backward error, so that all
its results fit together, as those of the target do. What the algorithm leaves open (the sign of an eigenvector) is
drawn. Results that do not depend on it, such as a pseudo-inverse, come out alike in all runs and are decided.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from assay.errors import Unsupported
from assay.hlo import attributes
from assay.hlo.module import Instruction
from assay.hlo.shape import DTYPES, ArrayShape, DType, TupleShape
from assay.reference import factors
from assay.reference.context import Context
from assay.reference.factors import Bounded
from assay.reference.value import Array, Ball, Value, held_dtype, union

S32 = DTYPES["s32"]
KINDS = {"f32": "s", "f64": "d", "c64": "c", "c128": "z"}


def typed(routine: str, kinds: str = "sdcz") -> tuple[str, ...]:
    return tuple(f"lapack_{kind}{routine}_ffi" for kind in kinds)


def untyped(routine: str, prefix: str = "lapack", kinds: str = "sdcz") -> tuple[str, ...]:
    """The names of jaxlib before 0.4.32."""
    return tuple(f"{prefix}_{kind}{routine}" for kind in kinds)


# ---------------------------------------------------------------- options and results


def options(instr: Instruction) -> dict[str, int]:
    """`backend_config={uplo = 76 : ui8, left = true}` -> {"uplo": 76, "left": 1}: the options of a typed call."""
    text = instr.attributes.get("backend_config", "")
    numbers = {key: int(value) for key, value in re.findall(r"(\w+)\s*=\s*(-?\d+)\s*:", text)}
    return numbers | {key: int(value == "true") for key, value in re.findall(r"(\w+)\s*=\s*(true|false)\b", text)}


def option(instr: Instruction, key: str) -> int:
    found = options(instr)
    if key not in found:
        raise Unsupported(attributes.word(instr, "custom_call_target", instr.opcode), f"without the option {key}")
    return found[key]


def letter(instr: Instruction, key: str) -> str:
    """An option that is a letter, as LAPACK takes it."""
    return chr(option(instr, key))


def output_shape(instr: Instruction, index: int) -> ArrayShape:
    assert isinstance(instr.shape, TupleShape)
    shape = instr.shape.elements[index]
    assert isinstance(shape, ArrayShape)
    return shape


def outputs(instr: Instruction, known: Mapping[int, Ball]) -> Value:
    """The results of a call, undecided where they are not among the `known`: work arrays."""
    assert isinstance(instr.shape, TupleShape)
    return tuple(known[i] if i in known else unknown_output(instr, i) for i in range(len(instr.shape.elements)))


def unknown_output(instr: Instruction, index: int) -> Ball:
    shape = output_shape(instr, index)
    return Ball(shape.dtype, np.zeros(shape.dims, held_dtype(shape.dtype)), None, np.ones(shape.dims, bool))


def is_typed(instr: Instruction) -> bool:
    return attributes.word(instr, "custom_call_target").endswith("_ffi")


# ---------------------------------------------------------------- batches


def matrices(x: Ball) -> list[Bounded]:
    """The matrices of a batch, with their radii. (.., m, n) -> list of (m, n)"""
    m, n = x.mid.shape[-2:]
    count = int(np.prod(x.mid.shape[:-2]))
    mids = x.mid.reshape(count, m, n)
    rads = np.broadcast_to(0.0, mids.shape) if x.rad is None else np.asarray(x.rad).reshape(count, m, n)
    return [Bounded(mid, rad) for mid, rad in zip(mids, rads, strict=True)]


def vectors(x: Ball) -> list[Bounded]:
    """The vectors of a batch. (.., n) -> list of (n,)"""
    n = x.mid.shape[-1]
    count = int(np.prod(x.mid.shape[:-1]))
    rads = np.zeros((count, n)) if x.rad is None else np.asarray(x.rad).reshape(count, n)
    return [Bounded(mid, rad) for mid, rad in zip(x.mid.reshape(count, n), rads, strict=True)]


def unsure_matrices(*operands: Ball) -> Array:
    """Which matrices of a batch have an undecided or not finite element. (batch,)"""
    found: Array | None = None
    for x in operands:
        bad = ~np.isfinite(x.mid)
        bad = bad if x.und is None else bad | x.und
        count = int(np.prod(x.mid.shape[:-2]))
        found = union(found, np.asarray(bad.reshape(count, x.mid.shape[-2] * x.mid.shape[-1]).any(1)))
    assert found is not None
    return found


def as_columns(x: Ball) -> Ball:
    """Vectors as matrices of one column. (.., n) -> (.., n, 1)"""
    return Ball(
        x.dtype,
        x.mid[..., None],
        None if x.rad is None else x.rad[..., None],
        None if x.und is None else x.und[..., None],
    )


def masked(x: Ball, keep: Array) -> Ball:
    return Ball(x.dtype, np.where(keep, x.mid, 0.0), x.rad, None if x.und is None else x.und & keep)


def gathered(ctx: Context, dtype: DType, dims: Sequence[int], parts: Sequence[Bounded], und: Array | None) -> Ball:
    """A ball of `dims` from the matrices or vectors of a batch; a radius that is not finite means undecided.

    Each element is granted one rounding besides its radius, unless that is zero and the element representable.
    """
    if not parts:
        return Ball(dtype, np.zeros(dims, held_dtype(dtype)))
    mid = np.stack([part.mid for part in parts]).reshape(dims)
    rad = np.stack([np.broadcast_to(part.rad, part.mid.shape) for part in parts]).reshape(dims)
    return bounded_ball(ctx, dtype, mid, rad, und)


def bounded_ball(ctx: Context, dtype: DType, mid: Array, rad: Array, und: Array | None) -> Ball:
    lost = ~np.isfinite(rad)
    if lost.any():
        mid = np.where(lost & ~np.isfinite(mid), 0.0, mid)
        rad = np.where(lost, 0.0, rad)
        und = union(und, lost)
    if ctx.rng is not None:
        return ctx.rounded(dtype, mid, None, und)
    return ctx.rounded(dtype, mid, None, und, error=rad)


def status(dims: tuple[int, ...], und: Array) -> Ball:
    """LAPACK's info: 0 where all went well, undecided where it may not have."""
    return Ball(S32, np.zeros(dims, np.int32), None, und.reshape(dims) if und.any() else None)


def across(flags: Array, dims: Sequence[int], trailing: int) -> Array | None:
    """One flag a matrix -> one an element, where any is set."""
    if not flags.any():
        return None
    lead = dims[: len(dims) - trailing]
    return np.broadcast_to(flags.reshape(*lead, *(1,) * trailing), dims)


# ---------------------------------------------------------------- errors


def growth(ctx: Context, dtype: DType, n: int) -> float:
    """The backward error of inner products of length n, relative to the absolute values that take part."""
    return factors.gamma(n, dtype, ctx.policy.confidence)


def orthogonal_growth(ctx: Context, dtype: DType, length: int, reflections: int) -> float:
    """The error of so many Householder reflections of vectors of this length, relative to the norm of what they are
    applied to.

    One reflection has an inner product and an update: gamma_(length + 3), twice (Higham, Lemmas 19.1 to 19.3), and
    errors of successive ones add up, as squares where they are independent (Higham and Mary 2019).
    """
    one = 2 * factors.gamma(length + 3, dtype, ctx.policy.confidence)
    certain = reflections * 2 * (length + 3) * factors.roundoff(dtype)
    return float(min(one * np.sqrt(max(reflections, 1)), certain))


def draw(ctx: Context, like: Array) -> Array:
    """Independent random numbers of unit variance, zero in a run without errors."""
    assert ctx.rng is not None
    noise = ctx.rng.uniform(-np.sqrt(3.0), np.sqrt(3.0), like.shape)
    if np.iscomplexobj(like):
        noise = noise + 1j * ctx.rng.uniform(-np.sqrt(3.0), np.sqrt(3.0), like.shape)
    return np.asarray(ctx.amplitude * noise)


def drawn_signs(ctx: Context, count: int, turns: bool) -> Array:
    """Random signs, or complex numbers of modulus one where a vector may be turned; ones in a run without errors."""
    assert ctx.rng is not None
    if ctx.amplitude == 0:
        return np.ones(count)
    if turns:
        return np.asarray(np.exp(2j * np.pi * ctx.rng.random(count)))
    return np.where(ctx.rng.random(count) < 0.5, -1.0, 1.0)


def moved_by_norm(ctx: Context, dtype: DType, a: Array, hermitian: bool = False) -> Array:
    """`a` within the backward error of an algorithm by orthogonal transformations: some u ||A||_2 in norm.

    Element by element that is a few u ||A||_F / sqrt(m n), each of about sqrt(min(m, n)) transformations adding its
    own.
    """
    m, n = a.shape
    typical = np.sqrt((np.abs(a) ** 2).sum() / max(1, m * n))
    noise = draw(ctx, a)
    if hermitian:
        noise = (noise + noise.conj().T) / np.sqrt(2.0)
    size = 3 * factors.roundoff(dtype) * typical * (1 + np.sqrt(min(m, n)) / 2)
    return np.asarray(a + size * noise)


def moved_by_columns(ctx: Context, dtype: DType, a: Array) -> Array:
    """`a` within the backward error of a QR factorization: some u of each column's norm (Higham, Theorem 19.4)."""
    m, n = a.shape
    typical = np.sqrt((np.abs(a) ** 2).mean(0, keepdims=True))
    size = 3 * factors.roundoff(dtype) * typical * (1 + np.sqrt(min(m, n)) / 2)
    return np.asarray(a + size * draw(ctx, a))
