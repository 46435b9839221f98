"""crash on tpu:v6e, in tpu_fusion.
Wrong with jax 0.12.0.1, jaxlib 0.12.0.1, libtpu 0.0.52, tpu:v6e.
"""

import os
import subprocess
import sys

import jax
import numpy as np
import pytest
from jax import lax
from jax.experimental import topologies

if not (TPU := os.path.exists("/dev/accel0") or os.path.exists("/dev/vfio/0")):
    jax.config.update("jax_platforms", "cpu")
    os.environ.update(TPU_SKIP_MDS_QUERY="1", ALLOW_MULTIPLE_LIBTPU_LOAD="1")


def on_cpu(*arguments):
    """Ahead of time, with libtpu; nothing is run."""
    topology = topologies.get_topology_desc(platform="tpu", topology_name="v6e:2x2")
    tpu = jax.sharding.SingleDeviceSharding(topology.devices[0])
    traced = jax.jit(program, in_shardings=tpu, out_shardings=tpu, keep_unused=True).trace(*arguments)
    compiled = traced.lower(lowering_platforms=("tpu",)).compile().runtime_executable()


def region_0(reduce_window, reduce_window_2):
    sub = lax.sub(reduce_window, reduce_window_2)
    add = lax.add(lax.max(reduce_window, reduce_window_2), lax.log1p(lax.exp(lax.neg(lax.abs(sub)))))
    return lax.select(lax.ne(sub, sub), lax.add(reduce_window, reduce_window_2), add)


def program(x):
    reduce_window = lax.reduce_window(x, np.float32("-inf"), region_0, (1, 1), (1, 1), [(0, 0), (0, 0)])
    return lax.abs(reduce_window)


def test_crash_on_tpu_v6e_in_tpu_fusion():
    pytest.importorskip("libtpu")
    try:
        done = subprocess.run([sys.executable, __file__], capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        done = None
    assert done is not None, "no end"
    assert done.returncode >= 0, done.stderr[-2000:]  # else a signal ended it
    done.check_returncode()


if __name__ == "__main__":
    arguments = (np.zeros((2, 1), np.float32),)
    (jax.jit(program) if TPU else on_cpu)(*arguments)
