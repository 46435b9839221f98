"""crash on cpu, in code generation.
Wrong with jax 0.12.0.1, jaxlib 0.12.0.1, cpu.
"""

import importlib.util
import subprocess
import sys

import jax
import jax.numpy as jnp
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
HloModule two_bit_collectives
ENTRY %main (x: s2[4096]) -> s2[4096] {
  %x = s2[4096]{0} parameter(0)
  ROOT %r = s2[4096]{0} all-gather(%x), replica_groups={{0}}, dimensions={0}
}
"""


def test_crash_on_cpu_in_code_generation():
    try:
        done = subprocess.run([sys.executable, __file__], capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        done = None
    assert done is not None, "no end"
    assert done.returncode >= 0, done.stderr[-2000:]  # else a signal ended it
    done.check_returncode()


if __name__ == "__main__":
    arguments = (np.zeros((4096,), jnp.int2),)
    run(HLO, *arguments)
