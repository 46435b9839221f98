"""MISCOMPILE on cpu, in code generation.
Wrong with jax 0.12.0.1, jaxlib 0.12.0.1, cpu.
"""

import base64
import importlib.util
import zlib

import jax
import numpy as np

jax.config.update("jax_platforms", "cpu")


def xla(name):
    """A binding of jaxlib, which has moved them about."""
    names = [f"jaxlib.{n}" for n in ("_hlo", "_jax", "xla_extension") if importlib.util.find_spec(f"jaxlib.{n}")]
    return next(getattr(m, name) for m in map(importlib.import_module, names) if hasattr(m, name))


def run(text, *arguments):
    """The outputs of HLO text, compiled by XLA:CPU."""
    proto = xla("hlo_module_from_text")(text).as_serialized_hlo_module_proto()
    module = xla("mlir").xla_computation_to_mlir_module(xla("XlaComputation")(proto))
    device, options = jax.devices("cpu")[0], xla("CompileOptions")()
    options.env_option_overrides = []
    if hasattr(device.client, "compile_and_load"):
        program = device.client.compile_and_load(module, xla("DeviceList")((device,)), options)
    else:
        program = device.client.compile(module, options)
    return program.execute([jax.device_put(a, device) for a in arguments])


def unpack(text, dtype, *shape):
    return np.frombuffer(zlib.decompress(base64.b85decode(text)), dtype).reshape(shape)


HLO = """
HloModule collective_minimum, entry_computation_layout={(f32[4]{0})->f32[4]{0}}
%minimum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %r = f32[] minimum(%a, %b)
}
ENTRY %main (nan: f32[4]) -> f32[4] {
  %nan = f32[4]{0} parameter(0)
  ROOT %r = f32[4]{0} reduce-scatter(%nan), replica_groups={{0}}, dimensions={0}, to_apply=%minimum
}
"""


def test_miscompile_on_cpu_in_code_generation():
    arguments = (unpack("c-muNKn4f?0{{Y#0l)", np.float32, 4),)
    outputs = jax.tree_util.tree_leaves(run(HLO, *arguments))
    np.testing.assert_array_equal(np.asarray(outputs[0]), unpack("c-muNKn4f?0{{Y#0l)", np.float32, 4))
