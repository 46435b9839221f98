"""Solves and factorisations of small matrices. On a TPU they are programs of their own, which are left out."""

from __future__ import annotations

from functools import partial

from assay.generate.expressions import number
from assay.generate.form import Hole, Made, Site, form
from assay.generate.types import PART_OF, Type, python

MOST = 16
"""Rows and columns: the error bounds of a factorisation grow with them until they say nothing."""
CPU = ("cpu",)


def matrix(out: Type) -> tuple[int, int] | None:
    """Rows and columns where the type is a matrix, or several, of a size to be factored."""
    if out.rank < 2 or min(out.dims) == 0 or max(out.dims[-2:]) > MOST or out.size > 1024:
        return None
    return out.dims[-2], out.dims[-1]


def square(out: Type) -> int | None:
    found = matrix(out)
    return found[0] if found is not None and found[0] == found[1] else None


def eye(n: int, dtype: str) -> str:
    return f"jnp.eye({n}, dtype={python(dtype)})"


def inner(out: Type, *dims: int) -> Type:
    """The type with other dimensions than the matrix's."""
    return out.shaped((*out.dims[:-2], *dims))


@form("triangular_solve", "linear_algebra", "f32 f64 bf16 f16", weight=0.4, targets=CPU)
def _solve(site: Site, out: Type) -> Made | None:
    """By a triangle with a strong diagonal, whose inverse is small."""
    if out.rank < 2 or min(out.dims) == 0 or out.dims[-2] > MOST:
        return None
    n = out.dims[-2]
    lower, unit, transposed = site.draw.chance(0.5), site.draw.chance(0.3), site.draw.chance(0.3)
    triangle = f"jnp.sin({{0}}) * {number(0.25, out.dtype)} + 2 * {eye(n, out.dtype)}"
    how = f"left_side=True, lower={lower}, unit_diagonal={unit}, transpose_a={transposed}"
    return Made((Hole(inner(out, n, n)), Hole(out)), f"lax.linalg.triangular_solve({triangle}, {{1}}, {how})")


@form("tridiagonal_solve", "linear_algebra", "f32 f64", weight=0.1, smooth=False, targets=CPU, since=(0, 5))
def _tridiagonal_solve(site: Site, out: Type) -> Made | None:
    if out.rank != 2 or min(out.dims) == 0 or out.dims[0] < 3 or out.dims[0] > 64:
        return None
    row = Hole(out.shaped(out.dims[:1]))
    lower, upper = "jnp.sin({0}).at[0].set(0)", "jnp.sin({2}).at[-1].set(0)"
    middle = f"jnp.abs({{1}}) + {number(3, out.dtype)}"
    return Made((row, row, row, Hole(out)), f"lax.linalg.tridiagonal_solve({lower}, {middle}, {upper}, {{3}})")


@form("cholesky", "linear_algebra", "f32 f64", weight=0.25, targets=CPU)
def _cholesky(site: Site, out: Type) -> Made | None:
    if (n := square(out)) is None:
        return None
    product = "jnp.matmul(jnp.sin({0}), jnp.swapaxes(jnp.sin({0}), -1, -2))"
    return Made((Hole(out),), f"lax.linalg.cholesky({product} + {n} * {eye(n, out.dtype)})")


@form("cholesky_update", "linear_algebra", "f32 f64", weight=0.05, smooth=False, targets=CPU, since=(0, 5))
def _cholesky_update(site: Site, out: Type) -> Made | None:
    if (n := square(out)) is None or out.rank != 2:
        return None
    triangle = f"jnp.triu(jnp.sin({{0}})) + 3 * {eye(n, out.dtype)}"
    return Made((Hole(out), Hole(out.shaped((n,)))), f"lax.linalg.cholesky_update({triangle}, {{1}})")


def _symmetric(text: str, dtype: str) -> str:
    return f"({text} + jnp.swapaxes({text}, -1, -2)) * {number(0.5, dtype)}"


@form("eigh", "linear_algebra", "f32 f64", weight=0.08, smooth=False, targets=CPU)
def _eigh(site: Site, out: Type) -> Made | None:
    """Eigenvalues far apart, so that vectors are known but for their signs; those a factor takes away."""
    if (n := square(out)) is None or n > 8:
        return None
    apart = f"jnp.diag(jnp.arange({n}, dtype={python(out.dtype)}) * 4)"
    text = f"lax.linalg.eigh({_symmetric('jnp.sin({0})', out.dtype)} + {apart})"
    return Made((Hole(out),), text, parts=(out, inner(out, n)))


@form("qr", "linear_algebra", "f32 f64", weight=0.1, smooth=False, targets=CPU)
def _qr(site: Site, out: Type) -> Made | None:
    if (found := matrix(out)) is None:
        return None
    m, n = found
    text = "lax.linalg.qr({0}, full_matrices=False)"
    if m >= n:
        return Made((Hole(out),), text, parts=(out, inner(out, n, n)))
    return Made((Hole(out),), text, parts=(inner(out, m, m), out), at=1)


@form("lu", "linear_algebra", "f32 f64", weight=0.1, smooth=False, targets=CPU)
def _lu(site: Site, out: Type) -> Made | None:
    if (found := matrix(out)) is None:
        return None
    pivots, permutation = inner(out, min(found)).of("s32"), inner(out, found[0]).of("s32")
    return Made((Hole(out),), "lax.linalg.lu({0})", parts=(out, pivots, permutation))


@form("lu_pivots_to_permutation", "linear_algebra", "s32", weight=0.1, smooth=False, targets=CPU)
def _permutation(site: Site, out: Type) -> Made | None:
    if out.rank == 0 or not 0 < out.dims[-1] <= 64:
        return None
    n = out.dims[-1]
    pivots = out.shaped((*out.dims[:-1], site.draw.between(1, n)))
    inside = f"lax.clamp(np.int32(0), {{0}}, np.int32({n - 1}))"
    return Made((Hole(pivots),), f"lax.linalg.lu_pivots_to_permutation({inside}, {n})")


@form("svd", "linear_algebra", "f32 f64", weight=0.06, smooth=False, targets=CPU)
def _svd(site: Site, out: Type) -> Made | None:
    if (found := matrix(out)) is None or found[0] < found[1]:
        return None
    n = found[1]
    parts = (out, inner(out, n), inner(out, n, n))
    return Made((Hole(out),), "lax.linalg.svd({0}, full_matrices=False)", parts=parts)


@form("singular values", "linear_algebra", "f32 f64", weight=0.06, smooth=False, targets=CPU)
def _singular_values(site: Site, out: Type) -> Made | None:
    if out.rank == 0 or not 0 < out.dims[-1] <= MOST or out.size > 256 or out.size == 0:
        return None
    n, more = out.dims[-1], site.draw.pick((0, 1, 3))
    whole = out.shaped((*out.dims[:-1], *site.draw.shuffled((n, n + more))))
    return Made((Hole(whole),), "lax.linalg.svd({0}, full_matrices=False, compute_uv=False)")


@form("eigenvalues", "linear_algebra", "c64 c128", weight=0.04, smooth=False, targets=CPU)
def _eigenvalues(site: Site, out: Type) -> Made | None:
    if out.rank == 0 or not 0 < out.dims[-1] <= 8 or out.size > 64 or out.size == 0:
        return None
    whole = Type(PART_OF[out.dtype], (*out.dims, out.dims[-1]))
    how = "compute_left_eigenvectors=False, compute_right_eigenvectors=False"
    return Made((Hole(whole),), f"lax.linalg.eig({{0}}, {how})[0]")


@form("schur", "linear_algebra", "f32 f64", weight=0.04, smooth=False, targets=CPU)
def _schur(site: Site, out: Type) -> Made | None:
    if (n := square(out)) is None or n > 8:
        return None
    return Made((Hole(out),), "lax.linalg.schur({0})", parts=(out, out), at=site.draw.below(2))


@form("hessenberg", "linear_algebra", "f32 f64", weight=0.04, smooth=False, targets=CPU)
def _hessenberg(site: Site, out: Type) -> Made | None:
    if (n := square(out)) is None or n < 2:
        return None
    return Made((Hole(out),), "lax.linalg.hessenberg({0})", parts=(out, inner(out, n - 1)))


@form("tridiagonal", "linear_algebra", "f32 f64", weight=0.04, smooth=False, targets=CPU)
def _tridiagonal(site: Site, out: Type) -> Made | None:
    if (n := square(out)) is None or n < 2:
        return None
    parts = (out, inner(out, n), inner(out, n - 1), inner(out, n - 1))
    text = f"lax.linalg.tridiagonal({_symmetric('{0}', out.dtype)}, lower={site.draw.chance(0.5)})"
    return Made((Hole(out),), text, parts=parts)


@form("householder_product", "linear_algebra", "f32 f64", weight=0.06, smooth=False, targets=CPU)
def _householder(site: Site, out: Type) -> Made | None:
    if (found := matrix(out)) is None or found[0] < found[1]:
        return None
    factors = inner(out, site.draw.between(1, found[1]))
    return Made((Hole(out), Hole(factors)), "lax.linalg.householder_product(jnp.sin({0}), jnp.sin({1}))")


@form("ormqr", "linear_algebra", "f32 f64", weight=0.05, smooth=False, targets=CPU, since=(0, 12))
def _ormqr(site: Site, out: Type) -> Made | None:
    """A matrix multiplied by the orthogonal factor of another, which is kept as reflections."""
    if (found := matrix(out)) is None or out.rank != 2:
        return None
    rows = found[0]
    factors = site.draw.between(1, rows)
    holes = (Hole(out.shaped((rows, factors))), Hole(out.shaped((factors,))), Hole(out))
    how = f"left=True, transpose={site.draw.chance(0.5)}"
    return Made(holes, f"lax.linalg.ormqr(jnp.sin({{0}}), jnp.sin({{1}}), {{2}}, {how})")


@form("symmetric_product", "linear_algebra", "f32 f64", weight=0.06, smooth=False, targets=CPU, since=(0, 5))
def _symmetric_product(site: Site, out: Type) -> Made | None:
    if (n := square(out)) is None:
        return None
    other = inner(out, n, site.draw.pick((1, 2, 5)))
    symmetric = _symmetric("{1}", out.dtype)
    text = f"lax.linalg.symmetric_product({{0}}, {symmetric}, alpha=1.5, beta=0.5, symmetrize_output=True)"
    return Made((Hole(other), Hole(out)), text)


def _solved(text: str, site: Site, out: Type) -> Made:
    diagonal = f"(lax.abs({{1}}) + {number(1, out.dtype)})"
    return Made((Hole(out), Hole(out)), text.replace("DIAGONAL", diagonal))


form("custom_linear_solve", "linear_algebra", "f32 f64", weight=0.15)(
    partial(
        _solved,
        "lax.custom_linear_solve(lambda x: x * DIAGONAL, {0}, lambda m, b: b / DIAGONAL, symmetric=True)",
    )
)
form("custom_root", "linear_algebra", "f32 f64", weight=0.15)(
    partial(
        _solved,
        "lax.custom_root(lambda y: y - lax.sin({0}), DIAGONAL, lambda f, y: y - f(y), "
        "lambda g, y: y / g(lax.full_like(y, 1)))",
    )
)
