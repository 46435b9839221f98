"""Every operation that a generated program may have. Importing a file registers its forms."""

from assay.generate.form import REGISTRY
from assay.generate.forms import (
    choice,
    collectives,
    contraction,
    convert,
    elementwise,
    fourier,
    indexing,
    integer,
    lifting,
    linear_algebra,
    movement,
    ordering,
    pieces,
    random,
    reduction,
    special,
    windows,
)

__all__ = [
    "NAMES",
    "choice",
    "collectives",
    "contraction",
    "convert",
    "elementwise",
    "fourier",
    "indexing",
    "integer",
    "lifting",
    "linear_algebra",
    "movement",
    "ordering",
    "pieces",
    "random",
    "reduction",
    "special",
    "windows",
]

NAMES: frozenset[str] = frozenset(REGISTRY.forms) | {known.family for known in REGISTRY.forms.values()}
"""What an operation or a family of them is called."""
