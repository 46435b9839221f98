"""What the tests of linear algebra share: matrices, sampled judgement, and calls as old jaxlib writes them."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from xla_cpu import POLICY, assert_agree, hlo_text

from assay.checking.bounds import Bounds, Settings
from assay.hlo.parse import parse_module
from assay.reference.value import Array, Ball

RNG = np.random.default_rng(6)
_START = RNG.bit_generator.state


@pytest.fixture(autouse=True)
def same_matrices_in_any_order():
    """Imported by a test file, this gives each test the same numbers whichever tests run before it."""
    RNG.bit_generator.state = _START


def matrix(*dims: int, dtype: str = "float32") -> Array:
    x = RNG.normal(size=dims)
    if dtype.startswith("complex"):
        x = x + 1j * RNG.normal(size=dims)
    return x.astype(dtype)


def definite(*dims: int, dtype: str = "float32") -> Array:
    x = matrix(*dims, dtype=dtype)
    return (x @ np.conj(np.swapaxes(x, -1, -2)) + dims[-1] * np.eye(dims[-1])).astype(dtype)


def agree(f: Any, *args: Any, **options: Any) -> list[Ball]:
    with jax.enable_x64(True):
        return assert_agree(f, *args, **options)


def sampled(f: Any, *args: Any) -> list[tuple[Ball, Array]]:
    """Each result of a function as the checker bounds it, by sampled runs where radii say too little, and XLA:CPU's."""
    with jax.enable_x64(True):
        got = [np.asarray(x) for x in jax.tree.leaves(jax.jit(f)(*args))]
        module = parse_module(hlo_text(f, *args))
    balls, _ = Bounds(module, [np.asarray(a) for a in args], Settings(POLICY)).sharp()
    return list(zip([ball for ball in balls if isinstance(ball, Ball)], got, strict=True))


def old_call(target: str, results: str, sizes: str, operands: str, kind: str) -> str:
    """HLO of a call with its sizes in front; `A` stands for the element type of `kind`."""
    dtype = {"s": "f32", "d": "f64", "c": "c64", "z": "c128"}[kind]
    shapes = [shape.replace("A", dtype) for shape in operands.split()]
    constants = [f"  c{i} = s32[] constant({size})" for i, size in enumerate(sizes.split())]
    parameters = [f"  p{i} = {shape} parameter({i})" for i, shape in enumerate(shapes)]
    names = [f"c{i}" for i in range(len(constants))] + [f"p{i}" for i in range(len(shapes))]
    root = f'  ROOT r = ({results.replace("A", dtype)}) custom-call({", ".join(names)}), custom_call_target="{target}"'
    return "\n".join(["HloModule m", "", "ENTRY e {", *constants, *parameters, root, "}", ""])
