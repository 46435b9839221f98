"""Whether an optimized module was made for another target: what the compiler then refuses has a plain reason.

Known: XLA:TPU tiles the layout of every array of an optimized module that has a dimension, XLA:CPU of none.
"""

from __future__ import annotations

from assay.hlo.module import Module
from assay.hlo.shape import ArrayShape, leaves


def made_elsewhere(module: Module, target: str) -> str:
    """A hint, "" where nothing tells. target: the one that the module is compiled for now."""
    if not module.scheduled:
        return ""
    arrays = [
        leaf
        for computation in module.computations
        for instruction in computation.instructions
        for leaf in leaves(instruction.shape)
        if isinstance(leaf, ArrayShape) and leaf.dims
    ]
    tiled = any(leaf.layout is not None and leaf.layout.tiles for leaf in arrays)
    again = "give its HLO before optimization, or what this target makes of that"
    if target.startswith("tpu") and arrays and not tiled:
        return f"it is optimized (is_scheduled=true), and not for a TPU, for no layout is tiled: {again}"
    if not target.startswith("tpu") and tiled:
        return f"it is optimized for a TPU (is_scheduled=true, tiled layouts), not for {target}: {again}"
    return ""
