"""Runs one program on XLA:CPU and in the reference, and tells which elements of XLA's result lie outside the ball."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import numpy as np
from jaxlib import _hlo
from jaxlib import _jax as xc

from assay.hlo.module import Module
from assay.hlo.parse import parse_module
from assay.reference.evaluator import check_result, evaluate
from assay.reference.policy import Policy
from assay.reference.value import Array, Ball, flatten, held_dtype

POLICY = Policy("xla-cpu")


def hlo_text(function: Any, *args: Any) -> str:
    """The unoptimized HLO of a JAX function, constants in full."""
    module = jax.jit(function, keep_unused=True).lower(*args).compiler_ir("hlo").get_hlo_module()
    options = _hlo.HloPrintOptions()
    options.print_large_constants = True
    return module.to_string(options)


def reference(text: str | Module, args: Sequence[Array], policy: Policy = POLICY, rng: Any = None) -> list[Ball]:
    module = parse_module(text) if isinstance(text, str) else text
    result = evaluate(module, args, policy, rng=rng, on_value=lambda c, i, v: check_result(i, v))
    return [leaf for leaf in flatten(result.value) if isinstance(leaf, Ball)]


def run_hlo(text: str, args: Sequence[Array], **options: Any) -> list[Array]:
    """What XLA:CPU makes of HLO text."""
    computation = _hlo.XlaComputation(_hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto())
    mlir = xc.mlir.xla_computation_to_mlir_module(computation)
    client = jax.devices()[0].client
    compile_options = xc.CompileOptions()
    compile_options.env_option_overrides = list(options.items())
    devices = xc.DeviceList(tuple(client.local_devices()[:1]))
    executable = client.compile_and_load(mlir, devices, compile_options)
    with jax.enable_x64(True):  # else device_put narrows
        buffers = [jax.device_put(x) for x in args]
    return [np.asarray(x[0]) for x in executable.execute_sharded(buffers).disassemble_into_single_device_arrays()]


def outside(ball: Ball, got: Array) -> Array:
    """Which decided elements of `got` lie outside their ball."""
    got = np.asarray(got).astype(held_dtype(ball.dtype))
    assert got.shape == ball.dims, f"{got.shape} is not {ball.dims}"
    if ball.dtype.is_float or ball.dtype.is_complex:
        with np.errstate(all="ignore"):
            rad = 0.0 if ball.rad is None else ball.rad
            near = np.abs(got - ball.mid) <= rad * (1 + 1e-12)
            near |= (got == ball.mid) | (np.isnan(got) & np.isnan(ball.mid))
            bad = ~near
    else:
        bad = got != ball.mid
    return bad if ball.und is None else bad & ~ball.und


def undecided(balls: Sequence[Ball]) -> int:
    return sum(0 if b.und is None else int(b.und.sum()) for b in balls)


def assert_agree(function: Any, *args: Any, policy: Policy = POLICY, decided: bool = True) -> list[Ball]:
    """XLA:CPU's results of a JAX function lie in the reference's balls; `decided`: and no element is undecided."""
    args = tuple(np.asarray(a) for a in args)
    got = [np.asarray(x) for x in jax.tree.leaves(jax.jit(function)(*args))]
    return _compare(reference(hlo_text(function, *args), args, policy), got, decided)


def assert_hlo_agrees(
    text: str, *args: Any, policy: Policy = POLICY, decided: bool = True, **options: Any
) -> list[Ball]:
    """The same for HLO text, compiled with `options`."""
    arrays = [np.asarray(a) for a in args]
    return _compare(reference(text, arrays, policy), run_hlo(text, arrays, **options), decided)


def _compare(balls: list[Ball], got: list[Array], decided: bool) -> list[Ball]:
    assert len(balls) == len(got)
    for ball, array in zip(balls, got, strict=True):
        bad = outside(ball, array)
        assert not bad.any(), f"{bad.sum()} outside; first: XLA {array[bad][:4]}, ball {ball.mid[bad][:4]}"
        assert not decided or ball.und is None or not ball.und.any(), f"{ball.und.sum()} undecided"
    return balls
