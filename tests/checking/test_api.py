"""The functions that users call from Python."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import assay
from assay.errors import InputError, ProgramError


def mean_and_shift(tree, scale):
    return {"mean": jnp.mean(tree["x"]) * scale, "shifted": tree["x"] + 1}


def test_a_function_with_pytrees_agrees_and_its_outputs_are_named():
    report = assay.check(mean_and_shift, {"x": np.arange(12, dtype=np.float32), "unused": np.ones(3)}, 2.0)
    assert report.ok
    assert [output.name for output in report.cases[0].outputs] == ["['mean']", "['shifted']"]


def test_shapes_alone_are_enough():
    report = assay.check(jax.jit(lambda x: jnp.tanh(x)), jax.ShapeDtypeStruct((8, 8), jnp.bfloat16), seed=3)
    assert report.ok
    assert report.cases[0].outputs[0].elements == 64


def test_assert_correct_returns_the_report_of_what_is_right():
    assert assay.assert_correct(jnp.sort, np.array([3, 1, 2])).ok


def test_a_function_that_raises_is_a_program_error():
    def bad(x):
        raise ValueError("no")

    with pytest.raises(ProgramError, match="bad does not trace: ValueError: no"):
        assay.check(bad, np.ones(3))


def test_arguments_beside_a_path_are_refused():
    with pytest.raises(InputError, match="example_args"):
        assay.check("file.py", np.ones(3))
