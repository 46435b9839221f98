"""The cases of one operation or kernel, measured: a module of its own, so that a pool's processes can import it."""

from __future__ import annotations

import argparse

import accumulations
import elementwise
import jax
import kernels
from measure import Figures, measured

jax.config.update("jax_enable_x64", True)
QUICK_LENGTHS, QUICK_INPUTS = (16, 256), ("random", "positive")


def figures(name: str, arguments: argparse.Namespace) -> list[Figures]:
    """Every case of one operation or kernel."""
    quick = arguments.quick
    elements = 4096 if quick else arguments.elements
    dtypes = arguments.dtype or (("f32",) if quick else ("f32", "bf16", "f16"))
    if name in accumulations.MAKERS:
        lengths, inputs = (QUICK_LENGTHS, QUICK_INPUTS) if quick else (accumulations.LENGTHS, accumulations.INPUTS)
        found = accumulations.cases(name, elements, arguments.seed, dtypes, lengths, inputs)
    elif name in kernels.KERNELS:
        found = kernels.cases(name, elements, arguments.seed, dtypes)
    else:
        found = elementwise.cases(name, elements, arguments.seed, dtypes)
    return [measured(case, 1) if quick else measured(case) for case in found]
