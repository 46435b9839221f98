"""Generated programs as jax has them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from assay.generate import Plan
from assay.generate.source import HEADER, function
from assay.generate.types import Type, python


def loaded(plan: Plan, text: str = "", **names: Any) -> tuple[Any, list[jax.ShapeDtypeStruct]]:
    """The function of a program, and its argument types. text: of the function, where it is not as the plan is printed.
    names: what it may use besides.
    """
    exec(HEADER + (text or function(plan, "program")), names)
    return names["program"], [jax.ShapeDtypeStruct(t.dims, held(t)) for t in plan.parameter_types]


def held(type_: Type) -> np.dtype[Any]:
    return np.dtype(eval(python(type_.dtype), {"jnp": jnp}))


def assert_typed(plan: Plan, wide: bool = False) -> None:
    """The results have the types that the plan says."""
    program, types = loaded(plan)
    with jax.enable_x64(wide):
        found = jax.eval_shape(program, *types)
    assert [(f.shape, f.dtype) for f in found] == [(t.dims, held(t)) for t in plan.result_types]
