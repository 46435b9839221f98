"""What programs are drawn from: sizes, types and the weights of operations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from assay.errors import InputError, guessed
from assay.generate.draw import Draw, running
from assay.generate.types import WIDE, Type

DTYPES: Mapping[str, float] = {
    "f32": 26, "bf16": 9, "f16": 7, "s32": 13, "pred": 6, "s8": 6, "u8": 6, "s16": 4, "u16": 4, "u32": 6, "c64": 4,
    "f64": 3, "s64": 3, "u64": 2, "c128": 1, "f8e4m3fn": 1.5, "f8e5m2": 1.5, "s4": 1.5, "u4": 1,
}  # fmt: skip

# (sizes, weight): a size is drawn from one of these rows. Bugs live at dimensions of 0 and 1, at narrow index types'
# ends (127, 255), at tiles of 8 and 128 and one off them.
Sizes = tuple[tuple[tuple[int, ...], float], ...]
SMALL: Sizes = (
    ((0,), 1.2),
    ((1,), 9),
    ((2, 3, 4, 5, 6, 7), 38),
    ((8, 9, 10, 12, 15, 16, 17, 20), 22),
    ((31, 32, 33, 48, 63, 64, 65), 9),
    ((100, 127, 128, 129, 130, 200), 11),
    ((254, 255, 256, 257, 300, 513), 6),
    ((1000, 1024, 1025, 4096), 1.2),
    ((16383, 16385, 20000), 0.8),
)
TILED: Sizes = (
    ((0,), 0.6),
    ((1,), 7),
    ((2, 3, 4, 5, 6), 22),
    ((7, 8, 9, 15, 16, 17), 30),
    ((31, 32, 33, 63, 64, 65), 8),
    ((127, 128, 129), 24),
    ((255, 256, 257, 511, 512, 513), 9),
    ((100, 200, 300, 1000), 3),
)
NEWEST = (99,)
RANKS = ((0, 7.0), (1, 26.0), (2, 36.0), (3, 21.0), (4, 8.0), (5, 2.0))


@dataclass(frozen=True, slots=True, eq=False)
class Grammar:
    """The fields are a template's and the command line's options.

    dtypes: weight by element type. sizes: of dimensions, see SMALL. ranks: weight by number of dimensions. most: how
    many elements an array may have. forms: factor on the weight of operations, by name or by family. only: where not
    empty, the operations (or families) that may occur, besides parameters and constants. depth: how deep bodies nest.
    target: which compiler; some operations have no lowering for a TPU. wide: whether 64-bit types may occur. jax: the
    version that is to trace it; some operations are newer than others. differentiable: whether jax is to differentiate
    it. roots: numbers of results, to be drawn from. shared: how often an operand is one that there is already.
    constants: how often a value without operands is a constant.
    """

    dtypes: Mapping[str, float] = field(default_factory=lambda: dict(DTYPES))
    sizes: Sizes = SMALL
    ranks: tuple[tuple[int, float], ...] = RANKS
    most: int = 1 << 14
    forms: Mapping[str, float] = field(default_factory=dict)
    only: frozenset[str] = frozenset()
    depth: int = 2
    target: str = "cpu"
    wide: bool = True
    jax: tuple[int, ...] = NEWEST
    differentiable: bool = False
    roots: tuple[int, ...] = (1, 1, 1, 2, 3)
    shared: float = 0.25
    constants: float = 0.22

    def dim(self, draw: Draw, most: int) -> int:
        """A dimension of at most `most` elements."""
        rows, cumulative = _rows(self.sizes, most)
        if not rows:
            return min(1, most)
        return draw.pick(draw.weighted(rows, cumulative))

    def dims(self, draw: Draw, rank: int, most: int | None = None) -> tuple[int, ...]:
        """So many dimensions whose product is at most `most`."""
        left = self.most if most is None else most
        found = []
        for _ in range(rank):
            size = self.dim(draw, max(left, 1))
            found.append(size)
            left //= max(size, 1)
        return tuple(draw.shuffled(found)) if rank > 1 else tuple(found)

    def rank(self, draw: Draw, least: int = 0) -> int:
        ranks = [(rank, weight) for rank, weight in self.ranks if rank >= least] or [(least, 1.0)]
        return draw.weighted([r for r, _ in ranks], running([w for _, w in ranks]))

    def dtype(self, draw: Draw, among: tuple[str, ...] | None = None) -> str:
        """An element type; `among`: of these, where the grammar has one of them, else the first."""
        names, cumulative = _dtypes(self, among)
        return draw.weighted(names, cumulative) if names else (among or ("f32",))[0]

    def type(self, draw: Draw) -> Type:
        return Type(self.dtype(draw), self.dims(draw, self.rank(draw)))


@lru_cache(maxsize=4096)
def _rows(sizes: Sizes, most: int) -> tuple[list[tuple[int, ...]], list[float]]:
    if most > 1 << 15:
        most = 1 << 15
    kept = [
        (tuple(s for s in row if s <= most), weight * sum(s <= most for s in row) / len(row)) for row, weight in sizes
    ]
    kept = [(row, weight) for row, weight in kept if row]
    return [row for row, _ in kept], running([weight for _, weight in kept])


@lru_cache(maxsize=1024)
def _dtypes(grammar: Grammar, among: tuple[str, ...] | None) -> tuple[list[str], list[float]]:
    kept = [(n, w) for n, w in grammar.dtypes.items() if w > 0 and (among is None or n in among)]
    return [n for n, _ in kept], running([w for _, w in kept])


@lru_cache(maxsize=64)
def for_target(target: str, wide: bool = False, jax: str | None = None) -> Grammar:
    """The default grammar of a target: `cpu`, or `tpu:v5e` and the like, with dimensions at tiles. jax: its version,
    as in `0.10.2`; the newest where None. The same object each time, by which other things are kept.
    """
    version = tuple(int(n) for n in re.findall(r"\d+", jax)[:3]) if jax else NEWEST
    narrow = {name: weight for name, weight in DTYPES.items() if wide or name not in WIDE}
    if target.startswith("tpu"):
        # 64-bit floats and complex numbers are emulated on a TPU by custom calls that nothing here models.
        narrow = {name: weight for name, weight in narrow.items() if name not in ("f64", "c128")}
        return Grammar(dtypes=narrow, sizes=TILED, target="tpu", wide=wide, jax=version)
    return Grammar(dtypes=narrow, target="cpu", wide=wide, jax=version)


def limited(grammar: Grammar, ops: tuple[str, ...], known: frozenset[str]) -> Grammar:
    """With the operations named alone. Raises InputError for a name that is neither an operation nor a family."""
    if wrong := [name for name in ops if name not in known]:
        guess = guessed(wrong[0], known, "; `assay fuzz --list-ops` shows them")
        raise InputError(f"--ops {wrong[0]}: no such operation{guess}")
    return replace(grammar, only=frozenset(ops))
