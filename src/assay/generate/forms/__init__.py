"""Every operation that a generated program may have. Importing a file registers its forms."""

from assay.generate.forms import (
    contraction,
    elementwise,
    indexing,
    lifting,
    linear_algebra,
    movement,
    ordering,
    reduction,
    windows,
)

__all__ = [
    "contraction",
    "elementwise",
    "indexing",
    "lifting",
    "linear_algebra",
    "movement",
    "ordering",
    "reduction",
    "windows",
]
