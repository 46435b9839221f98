"""MISCOMPILE on tpu:v5e, in convolution-group-converter.
Wrong with jax 0.12.0.1, jaxlib 0.12.0.1, libtpu 0.0.52, tpu:v5e.
"""

import base64
import os
import re
import zlib

import jax
import numpy as np
import pytest
from jax import lax
from jax.experimental import topologies
from jax.extend import xla
from jaxlib import _hlo

if not (TPU := os.path.exists("/dev/accel0") or os.path.exists("/dev/vfio/0")):
    jax.config.update("jax_platforms", "cpu")
    os.environ.update(TPU_SKIP_MDS_QUERY="1", ALLOW_MULTIPLE_LIBTPU_LOAD="1")


def on_cpu(*arguments):
    """What libtpu makes of the program ahead of time, run by XLA:CPU in place of what its passes make."""
    topology = topologies.get_topology_desc(platform="tpu", topology_name="v5e:2x2")
    tpu = jax.sharding.SingleDeviceSharding(topology.devices[0])
    traced = jax.jit(program, in_shardings=tpu, out_shardings=tpu, keep_unused=True).trace(*arguments)
    compiled = traced.lower(lowering_platforms=("tpu",)).compile().runtime_executable()
    text = compiled.hlo_modules()[0].to_string(_hlo.HloPrintOptions.short_parsable())
    text = re.sub(r"(\{[\d,]+):[^}]*|\{:[^}]*\}|, (is_)?cross_program\w+=\w+", r"\1", text)
    text = re.sub(r"fusion\((.*?)\), kind=\w+, calls=", r"call(\1), to_apply=", text)
    began = {n: op + rest for n, op, rest in re.findall(r"(\S+) = .* ([\w-]+)-start(\(.*)", text)}
    text = re.sub(r"(?m)^.* [\w-]+-start\(.*\n", "", text)
    text = re.sub(r"[\w-]+-done\(([^)]+)\).*", lambda m: began[m[1]], text)
    text = text.replace("bf16[", "f32[")  # of what is multiplied; XLA:CPU mixes no types in one operation
    modules = [_hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()]
    where = {"name": "libtpu", "stage": xla.PipelineStage.PRE_SCHEDULER, "platforms": "cpu"}
    xla.register_hlo_module_transformation(lambda _: (modules or [None]).pop(), **where)
    compiled = jax.jit(program, keep_unused=True).lower(*arguments).compile()
    xla.clear_hlo_module_transformation(**where)
    return compiled(*arguments)


def unpack(text, dtype, *shape):
    return np.frombuffer(zlib.decompress(base64.b85decode(text)), dtype).reshape(shape)


def program(x, w):
    return lax.conv_general_dilated(x, w, (1, 1), [(0, 0), (0, 0)], dimension_numbers=lax.ConvDimensionNumbers((0, 1,
        2, 3), (0, 1, 2, 3), (0, 1, 2, 3)), feature_group_count=2)


def test_miscompile_on_tpu_v5e_in_convolution_group_convert():
    pytest.importorskip("libtpu")
    arguments = (unpack("c-muNzy=!X8HNY|0I8P&00", np.float32, 2, 2, 3, 4), np.zeros((4, 1, 1, 2), np.float32))
    outputs = jax.tree_util.tree_leaves((jax.jit(program) if TPU else on_cpu)(*arguments))
    np.testing.assert_array_equal(np.asarray(outputs[0]), unpack("c-muNU}#`~;{*R87+DM*6QgGMU;qxIDE$", np.float32, 2,
        4, 3, 3))
