"""One case: an operation on operands, evaluated by the reference once and by everything else that is legal.

The figure of a case is the median over elements of radius / (largest deviation of any legal result from the midpoint).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import numpy as np
from formats import Array
from jaxlib import _hlo
from jaxlib import _jax as xc

from assay.hlo.module import Module
from assay.hlo.parse import parse_module
from assay.hlo.shape import ArrayShape
from assay.oracle.compare import compare_output
from assay.reference.evaluator import evaluate
from assay.reference.policies import for_target
from assay.reference.policy import Policy
from assay.reference.value import Ball, flatten

ELEMENTWISE, ACCUMULATION = 8.0, 200.0  # how many times the largest honest deviation a radius may be
COMPILED: dict[str, dict[str, Any]] = {
    "XLA": {},
    "XLA level 0": {"xla_backend_optimization_level": 0},
    "XLA fast-math off": {"xla_cpu_enable_fast_math": False, "xla_allow_excess_precision": False},
    "XLA in short vectors": {"xla_cpu_prefer_vector_width": 128},
}


@dataclass(frozen=True, slots=True)
class Case:
    """function: traced by jax for the reference and for XLA, or HLO text. variants: name and result of each legal
    evaluation of our own, in the result's type or wider, where it stands for one that has yet to be rounded. key: cases
    with the same program share its compilation.
    """

    operation: str
    dtype: str
    inputs: str
    length: int
    limit: float
    function: Callable[..., Any] | str
    operands: tuple[Array, ...]
    variants: Callable[[], Iterator[tuple[str, Array]]]
    key: tuple[Any, ...]


@dataclass(slots=True)
class Figures:
    """ratio: the case's figure. compiled: the same with XLA:CPU's own results alone. outside: by variant. worst: the
    largest deviation in radii (rounding to the result's type can put it a little above 1).
    """

    operation: str
    dtype: str
    inputs: str
    length: int
    limit: float
    variants: int = 0
    elements: int = 0
    undecided: int = 0
    outside: dict[str, int] = field(default_factory=dict)
    ratio: float = np.nan
    compiled: float = np.nan
    worst: float = 0.0

    @property
    def met(self) -> bool:
        return not self.outside and not self.ratio > self.limit


_programs: dict[tuple[Any, ...], tuple[Module, dict[str, Any]]] = {}


def program(case: Case, compiled: int) -> tuple[Module, dict[str, Any]]:
    """The unoptimized HLO, and what XLA:CPU makes of it under the first `compiled` sets of options."""
    if case.key not in _programs:
        chosen = dict(list(COMPILED.items())[:compiled])
        if isinstance(case.function, str):
            text, make = case.function, partial(_compiled_text, case.function)
        else:
            lowered = jax.jit(case.function).lower(*case.operands)
            text, make = lowered.as_text("hlo"), lowered.compile
        _programs.clear()  # cases of one program follow each other
        _programs[case.key] = parse_module(text), {n: make(compiler_options=o) for n, o in chosen.items()}
    return _programs[case.key]


def _compiled_text(text: str, compiler_options: dict[str, Any]) -> Callable[..., Any]:
    """HLO as it stands, for opcodes that jax writes out in others."""
    proto = _hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
    mlir = xc.mlir.xla_computation_to_mlir_module(_hlo.XlaComputation(proto))
    options = xc.CompileOptions()
    options.env_option_overrides = list(compiler_options.items())
    client = jax.devices()[0].client
    executable = client.compile_and_load(mlir, xc.DeviceList(tuple(client.local_devices()[:1])), options)

    def run(*operands: Array) -> Any:
        buffers = [jax.device_put(x) for x in operands]
        return executable.execute_sharded(buffers).disassemble_into_single_device_arrays()[0][0]

    return run


def policy() -> Policy:
    return for_target("cpu", jax.__version__)


def measured(case: Case, compiled: int = len(COMPILED)) -> Figures:
    module, runs = program(case, compiled)
    ball = flatten(evaluate(module, case.operands, policy()).value)[0]
    assert isinstance(ball, Ball)
    found = Figures(case.operation, case.dtype, case.inputs, case.length, case.limit, elements=ball.mid.size)
    decided = np.isfinite(ball.mid)
    if ball.und is not None:
        decided &= ~ball.und
        found.undecided = int(ball.und.sum())
    largest = np.zeros(ball.mid.shape)
    for name, run in runs.items():
        _add(found, ball, name, np.asarray(run(*case.operands)), largest)
    found.compiled = _ratio(ball, largest, decided)
    for name, value in case.variants():
        _add(found, ball, name, value, largest)
    found.ratio = _ratio(ball, largest, decided)
    if ball.rad is not None:
        with np.errstate(all="ignore"):
            found.worst = float(np.where(decided & (ball.rad > 0), largest / ball.rad, 0.0).max(initial=0.0))
    return found


def _add(found: Figures, ball: Ball, name: str, value: Array, largest: Array) -> None:
    """Judges one legal result, and keeps its deviations where they are the largest yet."""
    found.variants += 1
    value = value.reshape(ball.mid.shape)
    with np.errstate(all="ignore"):
        stored = np.asarray(value.astype(ball.dtype.numpy))
        judged = compare_output(ball, stored, ArrayShape(ball.dtype, ball.dims))
        if judged.outside:
            found.outside[name] = judged.outside
        deviation = np.abs(value.astype(ball.mid.dtype) - ball.mid)
        np.fmax(largest, np.where(np.isfinite(deviation), deviation, 0.0), out=largest)


def _ratio(ball: Ball, largest: Array, decided: Array) -> float:
    """The median of radius / deviation over decided elements, 1 for one that is exact; NaN where none is decided."""
    if ball.rad is None:
        return 1.0
    if not decided.any():
        return float("nan")
    rad, off = ball.rad[decided], largest[decided]
    with np.errstate(all="ignore"):
        return float(np.median(np.where(rad == 0, 1.0, rad / off)))
