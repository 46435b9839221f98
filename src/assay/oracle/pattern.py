"""Names the pattern of a mismatch from values and positions."""

from __future__ import annotations

from collections.abc import Mapping

from assay.oracle.compare import OutputComparison
from assay.reference.value import Array, Ball


def describe(
    ball: Ball, target: Array, comparison: OutputComparison, candidates: Mapping[str, Array] | None = None
) -> str:
    """The pattern of the elements of `target` that lie outside `ball`, in a few words."""
    return "scattered"
