"""A compiler that is wrong on purpose, where two instructions stand in one module and not else (jax >= 0.10.2).

The file is executed in the worker, so the pass is registered in the compiler under test: after the scheduler, where it
sees a module that is compiled as it is.
"""

import jax.numpy as jnp
import numpy as np
from jax.extend import xla
from jaxlib import _hlo


def wrong(proto):
    options = _hlo.HloPrintOptions()
    options.print_large_constants = True
    text = _hlo.HloModule.from_serialized_hlo_module_proto(proto).to_string(options)
    if " sine(" not in text or " tanh(" not in text:
        return None
    return _hlo.hlo_module_from_text(text.replace(" sine(", " cosine(")).as_serialized_hlo_module_proto()


xla.register_hlo_module_transformation(wrong, name="wrong", stage=xla.PipelineStage.POST_SCHEDULER, platforms="cpu")


def chain(x):
    a = jnp.sort(x + 1.0, axis=1)
    b = jnp.sin(a @ x)
    c = jnp.sort(b, axis=0)
    d = jnp.tanh(c @ x)
    e = jnp.sort(d, axis=1)
    return jnp.exp(e @ x)


def example_args():
    return (np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8),)
