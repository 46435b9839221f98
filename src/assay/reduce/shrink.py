"""Dimensions."""

from __future__ import annotations

from assay.reduce.search import Search


def dimensions(search: Search) -> None:
    pass
