"""Programs compiled by a compiler that is wrong on purpose: a pass rewrites the optimized module (jax >= 0.10.2).

The file is executed in the worker, as every user's file is, so that the pass is registered in the compiler under test.
"""

import os
import time

import jax.numpy as jnp
import numpy as np
from jax.extend import xla
from jaxlib import _hlo


def edit(old, new):
    """A pass that replaces text in the module."""

    def run(proto):
        module = _hlo.HloModule.from_serialized_hlo_module_proto(proto)
        options = _hlo.HloPrintOptions()
        options.print_large_constants = True
        text = module.to_string(options)
        if old not in text:
            return None
        return _hlo.hlo_module_from_text(text.replace(old, new)).as_serialized_hlo_module_proto()

    return run


def install(callback):
    xla.register_hlo_module_transformation(
        callback, name="wrong", stage=xla.PipelineStage.PRE_SCHEDULER, platforms="cpu"
    )


def abort(proto):
    os.abort()


def abort_at_minus(proto):
    """Aborts where there is a subtraction."""
    if b"subtract" in proto:
        os.abort()


def sleep(proto):
    time.sleep(1000)


PASSES = {
    "minus": edit(" subtract(", " add("),
    "direction": edit("direction=LT", "direction=LE"),
    "abort": abort,
    "abort at minus": abort_at_minus,
    "sleep": sleep,
}
if os.environ.get("WRONG_PASS"):
    install(PASSES[os.environ["WRONG_PASS"]])


def difference(x, y):
    return x - y


def smaller(x, y):
    return jnp.where(x < y, x, x + 1)


def example_args():
    return np.arange(12, dtype=np.float32).reshape(3, 4), np.full((3, 4), 5, np.float32)


def cases():
    yield "difference", difference, example_args(), None
    yield "smaller", smaller, example_args(), None
