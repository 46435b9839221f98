"""Every operation that a generated program may have. Importing a file registers its forms."""

from assay.generate.form import REGISTRY
from assay.generate.forms import (
    choice,
    contraction,
    convert,
    elementwise,
    indexing,
    integer,
    lifting,
    linear_algebra,
    movement,
    ordering,
    reduction,
    windows,
)

__all__ = [
    "NAMES",
    "choice",
    "contraction",
    "convert",
    "elementwise",
    "indexing",
    "integer",
    "lifting",
    "linear_algebra",
    "movement",
    "ordering",
    "reduction",
    "windows",
]

NAMES: frozenset[str] = frozenset(REGISTRY.forms) | {known.family for known in REGISTRY.forms.values()}
"""What an operation or a family of them is called."""
