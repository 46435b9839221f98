"""Attributes, constants, values, element types."""

from __future__ import annotations

from assay.reduce.search import Search


def everything(search: Search) -> None:
    pass
