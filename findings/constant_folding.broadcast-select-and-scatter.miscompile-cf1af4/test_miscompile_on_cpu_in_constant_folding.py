"""MISCOMPILE on cpu, in constant_folding.
Wrong with jax 0.12.0.1, jaxlib 0.12.0.1, cpu.
"""

import importlib.util

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


HLO = """
HloModule empty_source
%choose (a0: f32[], a1: f32[]) -> pred[] {
  %a0 = f32[] parameter(0)
  %a1 = f32[] parameter(1)
  ROOT %r = pred[] compare(%a0, %a1), direction=GE
}
%join (a0: f32[], a1: f32[]) -> f32[] {
  %a0 = f32[] parameter(0)
  %a1 = f32[] parameter(1)
  ROOT %r = f32[] maximum(%a0, %a1)
}
ENTRY %entry (source: f32[0,2,2]) -> f32[2,2,2] {
  %source = f32[0,2,2] parameter(0)
  %init = f32[] constant(-1)
  %operand = f32[2,2,2] constant({ { { 0.0, 0.0 }, { 0.0, 0.0 } }, { { 0.0, 0.0 }, { 0.0, 0.0 } } })
  ROOT %result = f32[2,2,2] select-and-scatter(%operand, %source,
      %init), window={size=3x1x1}, select=%choose, scatter=%join
}
"""


def test_miscompile_on_cpu_in_constant_folding():
    arguments = (np.zeros((0, 2, 2), np.float32),)
    outputs = jax.tree_util.tree_leaves(run(HLO, *arguments))
    np.testing.assert_array_equal(np.asarray(outputs[0]), np.full((2, 2, 2), -1, np.float32))
