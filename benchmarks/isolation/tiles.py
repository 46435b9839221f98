"""Layouts of what a fault brings into a TPU's fusion: tiles go with the width of a type."""

from __future__ import annotations

from dataclasses import replace

from assay.hlo.module import Instruction, Module
from assay.hlo.shape import ArrayShape, Tile

ROWS = {16: 2, 8: 4, 1: 4}
"""Bits -> rows in a word; a pred takes a byte."""


def retiled(wrong: Module, right: Module) -> Module:
    """`wrong` with the instructions that `right` has not in layouts that libtpu takes."""
    known = {i.name for c in right.computations for i in c.instructions}

    def fitting(i: Instruction) -> Instruction:
        return i if i.name in known or not isinstance(i.shape, ArrayShape) else replace(i, shape=_tiled(i.shape))

    computations = tuple(replace(c, instructions=tuple(map(fitting, c.instructions))) for c in wrong.computations)
    return replace(wrong, computations=computations)


def _tiled(shape: ArrayShape) -> ArrayShape:
    """The first tile stays; what is packed into words follows from the type."""
    layout = shape.layout
    if layout is None or not layout.tiles:
        return shape
    first, rows = layout.tiles[0], ROWS.get(shape.dtype.bits)
    packed = () if rows is None else (Tile((rows, 1)),)
    lanes = (Tile((128,)),) if packed and len(first.dims) == 1 else ()
    return replace(shape, layout=replace(layout, tiles=(first, *lanes, *packed)))
