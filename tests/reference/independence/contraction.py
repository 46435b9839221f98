"""Draws contractions, transforms, linear algebra and normalisation."""

from __future__ import annotations

import numpy as np

from assay.hlo.shape import DTYPES, ArrayShape, DType

from .builder import Builder, braces
from .catalogue import draws
from .folding import window_of
from .values import CLASSES, TAME


def result_type(b: Builder, dtype: DType) -> DType:
    """The operands' own type, or another one of its kind that a product may be kept in."""
    if not b.choices.chance(4):
        return dtype
    if dtype.is_complex:
        return DTYPES[b.choices.pick(("c64", "c128"))]
    if dtype.is_float:
        return DTYPES[b.choices.pick(("f32", "f64", "bf16"))]
    return DTYPES[b.choices.pick(("s32", "s64", "u32"))]


@draws("psufc", "dot")
def dot(b: Builder, opcode: str, dtype: DType) -> None:
    """Any batch and contracting dimensions in any order; now and then operands of two types."""
    batch = list(b.dims(0, 1, large=False))
    shared = list(b.dims(0, 2, large=b.choices.chance(3)))
    rows, columns = list(b.dims(0, 2, large=False)), list(b.dims(0, 1, large=False))
    lhs, lhs_at = _mixed(b, batch, shared, rows)
    rhs, rhs_at = _mixed(b, batch, shared, columns)
    n = len(batch)
    attributes = [
        f"lhs_batch_dims={braces(lhs_at[:n])}",
        f"lhs_contracting_dims={braces(lhs_at[n : n + len(shared)])}",
        f"rhs_batch_dims={braces(rhs_at[:n])}",
        f"rhs_contracting_dims={braces(rhs_at[n : n + len(shared)])}",
    ]
    if not n:
        attributes = attributes[1::2]
    other = dtype
    if b.choices.chance(10) and not dtype.is_complex and dtype.kind != "pred":
        other = DTYPES[b.choices.pick(("f32", "bf16") if dtype.is_float else ("s8", "s32", "u8"))]
    result = result_type(b, dtype if dtype.bits >= other.bits else other)
    classes = CLASSES if b.choices.chance(4) else TAME
    kept_l = [lhs[d] for d in range(len(lhs)) if d not in lhs_at[: n + len(shared)]]
    kept_r = [rhs[d] for d in range(len(rhs)) if d not in rhs_at[: n + len(shared)]]
    operands = f"{b.operand(dtype, lhs, classes)}, {b.operand(other, rhs, classes)}"
    b.result(result, [*batch, *kept_l, *kept_r], f"dot({operands}), {', '.join(attributes)}")


def _mixed(b: Builder, *groups: list[int]) -> tuple[list[int], list[int]]:
    """All sizes in a drawn order, and where each stands."""
    sizes = [size for group in groups for size in group]
    order = b.choices.shuffled(range(len(sizes)))
    return [sizes[k] for k in order], [order.index(k) for k in range(len(sizes))]


@draws("psufc", "ragged-dot")
def ragged_dot(b: Builder, opcode: str, dtype: DType) -> None:
    """Groups of rows; groups of contracted terms; groups of batches."""
    mode = b.choices.pick(("rows", "terms", "batches"))
    m, k, n, g = (b.choices.pick((4, 3, 7, 1)) for _ in range(4))
    ragged = {"rows": m, "terms": k, "batches": k}[mode]
    cuts = sorted(b.choices.between(0, ragged) for _ in range(g - 1))
    sizes = np.diff([0, *cuts, ragged]).astype(np.int32)
    groups = b.parameter(DTYPES["s32"], (g,), value=sizes)
    dims = {"lhs": (m, k), "rhs": (g, k, n), "result": (m, n)}
    attributes = "lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}"
    if mode == "terms":
        dims = {"lhs": (m, k), "rhs": (k, n), "result": (g, m, n)}
        attributes = "lhs_contracting_dims={1}, rhs_contracting_dims={0}, lhs_ragged_dims={1}"
    elif mode == "batches":
        dims = {"lhs": (k, m, 2), "rhs": (k, 2, n), "result": (k, m, n)}
        attributes = (
            "lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}, "
            "lhs_ragged_dims={0}"
        )
    operands = f"{b.operand(dtype, dims['lhs'], TAME)}, {b.operand(dtype, dims['rhs'], TAME)}, {groups}"
    b.result(result_type(b, dtype), dims["result"], f"ragged-dot({operands}), {attributes}")


@draws("psufc", "convolution")
def convolution(b: Builder, opcode: str, dtype: DType) -> None:
    """Up to three spatial dimensions in any order of dimensions; groups; windows with every attribute."""
    spatial = list(b.dims(0, 2, large=b.choices.chance(4)))
    features, batches = b.choices.pick(((1, 1), (1, 1), (2, 1), (3, 1), (1, 2), (1, 3)))
    window, sizes, places = window_of(b, spatial)
    if spatial and b.choices.chance(3):
        window = f"{window[:-1]} rhs_reversal={'x'.join(b.choices.pick('01') for _ in spatial)}}}"
    batch = b.choices.pick((1, 2)) * batches
    inputs = b.choices.pick((1, 2, 3))
    outputs = b.choices.pick((1, 2, 3)) * features * batches
    names = "0123"[: len(spatial)]
    lhs, lhs_dims = _labelled(b, {"b": batch, "f": inputs * features, **dict(zip(names, spatial, strict=True))})
    rhs, rhs_dims = _labelled(b, {"i": inputs, "o": outputs, **dict(zip(names, sizes, strict=True))})
    out, out_dims = _labelled(b, {"b": batch // batches, "f": outputs, **dict(zip(names, places, strict=True))})
    attributes = [f"dim_labels={lhs}_{rhs}->{out}"]
    if spatial:
        attributes.insert(0, window)
    if features > 1:
        attributes.append(f"feature_group_count={features}")
    if batches > 1:
        attributes.append(f"batch_group_count={batches}")
    classes = CLASSES if b.choices.chance(6) else TAME
    operands = f"{b.operand(dtype, lhs_dims, classes)}, {b.operand(dtype, rhs_dims, classes)}"
    b.result(result_type(b, dtype), out_dims, f"convolution({operands}), {', '.join(attributes)}")


def _labelled(b: Builder, sizes: dict[str, int]) -> tuple[str, list[int]]:
    labels = b.choices.shuffled(list(sizes)) if b.choices.chance(2) else list(sizes)
    return "".join(labels), [sizes[label] for label in labels]


@draws("f32 f64 c64 c128", "fft")
def fft(b: Builder, opcode: str, dtype: DType) -> None:
    dims = b.dims(1, 4, empty=False, large=b.choices.chance(4))
    lengths = dims[-b.choices.between(1, min(3, len(dims))) :]
    kind = "RFFT" if dtype.is_float else b.choices.pick(("FFT", "IFFT", "IRFFT"))
    result, to = dims, dtype
    if kind == "RFFT":
        result, to = (*dims[:-1], dims[-1] // 2 + 1), DTYPES["c64" if dtype.name == "f32" else "c128"]
    elif kind == "IRFFT":
        result, to = dims, dtype.part
        dims = (*dims[:-1], dims[-1] // 2 + 1)
    operand = b.operand(dtype, dims, TAME)
    b.result(to, result, f"fft({operand}), fft_type={kind}, fft_length={braces(lengths)}")


def _rng(b: Builder) -> np.random.Generator:
    return np.random.default_rng(b.choices.below(1 << 20))


def _gaussian(rng: np.random.Generator, dtype: DType, dims: tuple[int, ...]) -> np.ndarray:
    value = rng.normal(size=dims)
    return value + 1j * rng.normal(size=dims) if dtype.is_complex else value


@draws("fc", "cholesky")
def cholesky(b: Builder, opcode: str, dtype: DType) -> None:
    n = b.choices.pick((3, 1, 2, 5, 9))
    dims = (*b.dims(0, 1, large=False), n, n)
    half = _gaussian(_rng(b), dtype, dims)
    whole = half @ np.conj(np.swapaxes(half, -1, -2)) + n * np.eye(n)
    lower = b.choices.pick(("true", "false"))
    operand = b.parameter(dtype, dims, value=whole.astype(dtype.numpy))
    b.result(dtype, dims, f"cholesky({operand}), lower={lower}")


@draws("fc", "triangular-solve")
def triangular_solve(b: Builder, opcode: str, dtype: DType) -> None:
    n, m = b.choices.pick((3, 1, 2, 5, 9)), b.choices.pick((2, 1, 4))
    batch = b.dims(0, 1, large=False)
    left, lower, unit = (b.choices.pick(("true", "false")) for _ in range(3))
    transposed = b.choices.pick(("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"))
    rng = _rng(b)
    matrix = _gaussian(rng, dtype, (*batch, n, n)) * 0.5 + 2 * np.eye(n)
    right = _gaussian(rng, dtype, (*batch, n, m) if left == "true" else (*batch, m, n))
    operands = [b.parameter(dtype, v.shape, value=v.astype(dtype.numpy)) for v in (matrix, right)]
    attributes = f"left_side={left}, lower={lower}, unit_diagonal={unit}, transpose_a={transposed}"
    b.result(dtype, right.shape, f"triangular-solve({', '.join(operands)}), {attributes}")


@draws("f", "batch-norm-training", "batch-norm-inference", "batch-norm-grad")
def batch_norm(b: Builder, opcode: str, dtype: DType) -> None:
    dims = b.dims(1, 4, empty=False, large=False)
    feature = b.choices.below(len(dims))
    one = ArrayShape(dtype, (dims[feature],))
    whole = ArrayShape(dtype, dims)
    rng = _rng(b)

    def value(shape: ArrayShape, low: float, high: float) -> str:
        found = rng.uniform(low, high, shape.dims)
        return b.parameter(dtype, shape.dims, value=found.astype(dtype.numpy))

    operands = [value(whole, -2, 2), value(one, 0.5, 2)]
    if opcode == "batch-norm-grad":
        operands += [value(one, -1, 1), value(one, 0.5, 2), value(whole, -2, 2)]
    elif opcode == "batch-norm-inference":
        operands += [value(one, -1, 1), value(one, -1, 1), value(one, 0.5, 2)]
    else:
        operands += [value(one, -1, 1)]
    shapes = [whole] if opcode == "batch-norm-inference" else [whole, one, one]
    epsilon = b.choices.pick(("0.001", "0.125", "1e-05"))
    b.results(shapes, f"{opcode}({', '.join(operands)}), epsilon={epsilon}, feature_index={feature}")


@draws("u32 u64", "rng-bit-generator")
def rng_bit_generator(b: Builder, opcode: str, dtype: DType) -> None:
    """`dtype` is the state's."""
    algorithm = b.choices.pick(("rng_three_fry", "rng_philox", "rng_default"))
    words = 2 if algorithm == "rng_three_fry" or b.choices.chance(2) else 3
    words = words if dtype.name == "u64" else 2 * words
    to = DTYPES[b.choices.pick(("u32", "u64", "s32", "u16", "u8", "s64", "s8"))]
    state = ArrayShape(dtype, (words,))
    bits = ArrayShape(to, b.dims())
    operand = b.operand(dtype, state.dims, ("bits", "edges", "small"))
    b.results([state, bits], f"rng-bit-generator({operand}), algorithm={algorithm}")


@draws("psuf", "rng")
def rng(b: Builder, opcode: str, dtype: DType) -> None:
    """What it draws is nobody's business: the shape is compared, the values are undecided."""
    ends = (1.0, 2.0) if dtype.name == "f8e8m0fnu" else (0.0, 1.0)  # it has no zero
    operands = [b.parameter(dtype, (), value=np.asarray(np.float64(end).astype(dtype.numpy))) for end in ends]
    b.result(dtype, b.dims(), f"rng({', '.join(operands)}), distribution=rng_uniform")
