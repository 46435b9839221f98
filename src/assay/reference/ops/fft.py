"""`fft`: FFT, IFFT, RFFT and IRFFT over the last dimensions, computed in float64 by SciPy.

Every algorithm of the Cooley-Tukey kind, decimating in time or in frequency and of any radices, goes through the
transforms of length L of the n / L strided subsequences, for a chain of divisors L of n. Output k takes the values at
frequency k mod L of all of them, with weights of modulus one, and by Parseval's identity their squares add up to the
mean of |y|^2 over the outputs that are k modulo L. A value of that stage is off by eta = (4 + 2 sqrt(p)) u of the terms
that it is made of, p the largest prime factor (7 u for p = 2 by Higham, "Accuracy and Stability of Numerical
Algorithms", 24.1). Errors of a stage are independent of each other, so that output k is off by at most

    c eta sqrt(sum over L of min(r, n / L) mean of |y_j|^2 over j = k mod L)

but for a probability of 2 exp(-c^2 / 2) (Hoeffding; `Policy.confidence`), and for certain by the sum over L of eta
sqrt(n / L mean). r is how often one value occurs in the input: subsequences that are equal commit equal errors, which
for a periodic input add up. That is c eta sqrt(stages) times the typical size of the output for noise, and follows the
peak of a tone. All divisors are counted, which covers every chain. A tone's roundings follow its phase and gather at
its harmonics: 0.1 u of the peak on XLA:CPU up to 2**18, for which u of the peak is granted everywhere.

A real transform of even length may be a complex one of half the length, of pairs of neighbours: an IRFFT's outputs 2 k
and 2 k + 1 share an error. A length with a large prime factor may go by Bluestein's algorithm: a circular convolution
of length N of 2 n to 4 n, whose intermediate values have at most twice the norm of the output (a chirp's spectrum is
flat within that factor) and reach other outputs from the peak alone. In several dimensions errors of one axis are
spread by the others; every order of axes is covered.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import log2, prod, sqrt

import numpy as np
import scipy.fft

from assay.errors import Unsupported
from assay.hlo import attributes
from assay.hlo.module import Instruction
from assay.reference.context import Context, unit_roundoff
from assay.reference.registry import custom_call, operation
from assay.reference.value import Array, Ball, Value, union

_BLUESTEIN = 11  # pocketfft has passes of its own up to this factor; above it may prefer Bluestein's algorithm


@operation("fft")
def fft(ctx: Context, instr: Instruction, a: Ball) -> Value:
    kind = attributes.word(instr, "fft_type")
    lengths = attributes.int_list(instr, "fft_length", required=True)
    if kind not in ("FFT", "IFFT", "RFFT", "IRFFT"):
        raise Unsupported("fft", f"fft_type={kind}")
    scale = 1.0 if kind in ("FFT", "RFFT") else 1.0 / prod(lengths)
    return _transformed(ctx, instr, a, kind, lengths, scale)


@custom_call("dynamic_ducc_fft")
def dynamic_ducc_fft(ctx: Context, instr: Instruction, descriptor: Ball, a: Ball, *sizes: Ball) -> Value:
    """jaxlib 0.4.2 to 0.4.20: (descriptor, A, shape, strides of A, strides of the result, scale, shape of the result).

    The descriptor is a FlatBuffers table (ndims, is_double, type, axes, forward); jax transforms the last axes.
    """
    count, forward = _described(np.asarray(descriptor.mid, np.uint8))
    dims = tuple(int(n) for n in sizes[0].mid)
    lengths = dims[len(dims) - count :]
    if not a.dtype.is_complex:
        kind = "RFFT"
    elif not instr.array.dtype.is_complex:
        kind = "IRFFT"
    else:
        kind = "FFT" if forward else "IFFT"
    return _transformed(ctx, instr, a, kind, lengths, float(sizes[3].mid.reshape(-1)[0]))


def _described(table: Array) -> tuple[int, bool]:
    """(how many axes, whether forward) of a DynamicDuccFftDescriptor (jaxlib/cpu/ducc_fft.fbs)."""
    data = table.tobytes()

    def number(at: int, size: int) -> int:
        return int.from_bytes(data[at : at + size], "little", signed=size == 4)

    root = number(0, 4)
    fields = root - number(root, 4)

    def field(index: int) -> int | None:
        at = 4 + 2 * index
        offset = number(fields + at, 2) if at < number(fields, 2) else 0
        return root + offset if offset else None

    axes, forward = field(3), field(4)
    if axes is None:
        raise Unsupported("custom-call dynamic_ducc_fft", "without axes")
    return number(axes + number(axes, 4), 4), forward is not None and bool(data[forward])


def _transformed(ctx: Context, instr: Instruction, a: Ball, kind: str, lengths: tuple[int, ...], scale: float) -> Ball:
    """scale times the unnormalised transform over the last axes; the inverse one in IFFT and IRFFT."""
    dtype, dims = instr.array.dtype, instr.array.dims
    axes = tuple(range(-len(lengths), 0))
    if prod(dims) == 0 or a.mid.size == 0:
        return Ball(dtype, np.zeros(dims, np.complex128 if dtype.is_complex else np.float64))
    special = ~np.isfinite(a.mid).all(axis=axes, keepdims=True)
    source = np.where(special, 0.0, a.mid) if special.any() else a.mid
    whole = _whole(source, kind, lengths, axes)
    error = _error(ctx, source, whole, lengths) * unit_roundoff(dtype) * scale
    if dtype.part.name == "f64":
        error = 2 * error  # the midpoint has such an error too
    kept = (..., slice(0, dims[-1]))
    mid, error = scale * whole[kept], error[kept]
    doubled = 2.0 if kind == "IRFFT" else 1.0  # each stored term but the first stands for two
    rad = None if a.rad is None else doubled * scale * np.add.reduce(a.rad, axis=axes, keepdims=True)
    und = None
    if a.und is not None and a.und.any():
        und = np.broadcast_to(a.und.any(axis=axes, keepdims=True), dims)
    if special.any():
        und = union(und, np.broadcast_to(special, dims))
    # A sum may overflow that is divided, or cancels, afterwards: none is larger than all terms together, nor a product
    # with a weight than its two halves.
    largest = 2 * doubled * np.add.reduce(np.abs(source), axis=axes, keepdims=True)
    if (high := largest > dtype.part.max).any():
        und = union(und, np.broadcast_to(high, dims))
    spread = None if rad is None else np.broadcast_to(rad, dims)
    return ctx.rounded(dtype, mid, spread, und, error=error)


def _whole(x: Array, kind: str, lengths: Sequence[int], axes: tuple[int, ...]) -> Array:
    """The transform without a scale, in full: the second half of an RFFT's last axis too."""
    total = prod(lengths)
    if kind == "IRFFT":
        found: Array = scipy.fft.irfftn(x, s=lengths, axes=axes) * total
    elif kind == "IFFT":
        found = scipy.fft.ifftn(x, axes=axes) * total
    else:
        found = scipy.fft.fftn(x, axes=axes)
    return found


# ---------------------------------------------------------------- the bound


def _error(ctx: Context, x: Array, y: Array, lengths: Sequence[int]) -> Array:
    """How far each output may be off, in unit roundoffs: the shape of y. x: what was transformed."""
    power = np.square(y.real) + np.square(y.imag) if np.iscomplexobj(y) else _paired(np.square(y))
    axes = range(y.ndim - len(lengths), y.ndim)
    total = np.zeros(y.shape)
    for axis, n in zip(axes, lengths, strict=True):
        own = _axis_error(ctx, power, axis, n, _repeated(x, axis, axes))
        others = [other for other in axes if other != axis]
        for count in range(len(others) + 1):
            for later in combinations(others, count):  # axes that are transformed after this one spread its errors
                total = total + (own.mean(axis=later, keepdims=True) if later else own)
    return np.asarray(np.sqrt(total)) + np.sqrt(power)


def _paired(power: Array) -> Array:
    """Each pair of neighbours in the last axis together."""
    n = power.shape[-1]
    if n % 2:
        return power
    pairs = power.reshape(*power.shape[:-1], n // 2, 2).sum(-1)
    return np.repeat(pairs, 2, axis=-1)


def _axis_error(ctx: Context, power: Array, axis: int, n: int, repeated: Array) -> Array:
    """The square of what the transforms along one axis of length n commit, from |y|^2. repeated: see `_repeated`, the
    shape of `power` with the transformed axes of size one.
    """
    largest = _largest_factor(n)
    eta = 4 + 2 * sqrt(min(largest, 64))
    confidence = ctx.policy.confidence
    lines = np.moveaxis(power, axis, -1)
    repeated = np.moveaxis(repeated, axis, -1)
    independent, certain = np.zeros(lines.shape), np.zeros(lines.shape)
    for length in _divisors(n):
        classes = lines.reshape(*lines.shape[:-1], n // length, length).mean(-2)
        each = np.tile(classes, n // length)
        independent += np.minimum(repeated, n // length) * each
        certain += np.sqrt(n / length * each)
    peak = lines.max(-1, keepdims=True)
    bound = np.minimum(confidence**2 * independent, certain**2) * eta**2 + (peak if n > 4 else 0.0)
    if largest > _BLUESTEIN:
        stages = 3 * log2(4 * n)
        typical = lines.mean(-1, keepdims=True)
        factor = min(confidence * sqrt(stages), stages * sqrt(4 * n))
        bound = bound + (factor * 7) ** 2 * (4 * typical + peak / stages)
    return np.moveaxis(bound, -1, axis)


def _repeated(x: Array, axis: int, axes: Sequence[int]) -> Array:
    """How much larger than independent roundings are those of a line along `axis` in which values occur again, at most
    among the lines of one transform: the mean, weighted by their squares, of how often each of its values occurs.

    Values that differ by less than 2**-22 of the largest count as one: their roundings are much alike.
    """
    lines = np.moveaxis(x, axis, -1)
    n = lines.shape[-1]
    parts = np.maximum(np.abs(lines.real), np.abs(lines.imag))
    grain = parts.max(-1, keepdims=True) * 2.0**-22
    cells: Array = lines / np.where(grain == 0, 1.0, grain)
    cells = np.rint(cells.real) + 1j * np.rint(cells.imag) if np.iscomplexobj(cells) else np.rint(cells)
    cells = np.sort(cells, axis=-1)
    changes = np.ones((*cells.shape[:-1], n + 1), bool)
    changes[..., 1:-1] = cells[..., 1:] != cells[..., :-1]
    places = np.arange(n + 1)
    first = np.maximum.accumulate(np.where(changes[..., :-1], places[:-1], 0), axis=-1)
    after = np.minimum.accumulate(np.where(changes[..., 1:], places[1:], n)[..., ::-1], axis=-1)[..., ::-1]
    power = np.square(np.abs(cells))
    total = power.sum(-1, keepdims=True)
    often = ((after - first) * power).sum(-1, keepdims=True) / np.where(total == 0, 1.0, total)
    often = np.maximum(np.broadcast_to(often, cells.shape), 1.0)
    return np.asarray(np.moveaxis(often, -1, axis).max(axis=tuple(axes), keepdims=True))


def _divisors(n: int) -> list[int]:
    small = [d for d in range(1, int(sqrt(n)) + 1) if n % d == 0]
    return sorted({*small, *(n // d for d in small)})


def _largest_factor(n: int) -> int:
    largest, factor = 1, 2
    while factor * factor <= n:
        while n % factor == 0:
            largest, n = factor, n // factor
        factor += 1
    return max(largest, n)
