"""MISCOMPILE on cpu, in code generation.
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
HloModule integer_power, entry_computation_layout={(s32[1]{0}, s32[1]{0})->s32[1]{0}}
ENTRY %main (base: s32[1], exponents: s32[1]) -> s32[1] {
  %base = s32[1]{0} parameter(0)
  %exponents = s32[1]{0} parameter(1)
  ROOT %r = s32[1]{0} power(%base, %exponents)
}
"""


def test_miscompile_on_cpu_in_code_generation():
    arguments = (np.array([3], np.int32), np.array([100], np.int32))
    outputs = jax.tree_util.tree_leaves(run(HLO, *arguments))
    np.testing.assert_array_equal(np.asarray(outputs[0]), np.array([-818408495], np.int32))
