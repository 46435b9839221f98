"""XLA:CPU as a target."""

from __future__ import annotations

import numpy as np
import pytest

from assay.errors import InputError
from assay.targets import cpu
from assay.toolchain import RequestRefused, StaleHandle, Worker, host

PROGRAM = """HloModule m
ENTRY e {
  p = f32[4] parameter(0)
  a = f32[4] tanh(p)
  b = f32[4] tanh(p)
  ROOT r = (f32[4], f32[4]) tuple(a, b)
}
"""
X = np.linspace(-1, 1, 4, dtype=np.float32)


def test_compile_run_and_the_optimized_hlo() -> None:
    with Worker(host()) as worker:
        done = cpu.execute(worker, PROGRAM, "hlo-text", [X])
        assert done.compiled.hlo.count(" tanh(") == 1
        assert done.compile_s > 0
        assert done.run_s > 0
        for output in done.outputs:
            np.testing.assert_allclose(output, np.tanh(X), rtol=1e-6)
        plain = cpu.execute(worker, PROGRAM, "hlo-text", [X], {"xla_disable_all_hlo_passes": "true"})
        assert plain.compiled.hlo.count(" tanh(") == 2
        compiled = cpu.compile(worker, PROGRAM, "hlo-text")
        first, second = (cpu.run(worker, compiled, [X]) for _ in range(2))
        np.testing.assert_array_equal(first, second)
        with pytest.raises(InputError):
            cpu.run(worker, compiled, [])
        with pytest.raises(RequestRefused):
            cpu.compile(worker, "nonsense", "hlo-text")
        worker.restart()
        with pytest.raises(StaleHandle):
            cpu.run(worker, compiled, [X])


def test_a_flag_of_the_process_has_its_effect() -> None:
    with Worker(host(), flags=["--xla_disable_hlo_passes=cse"]) as worker:
        assert worker.describe().xla_flags.endswith("--xla_disable_hlo_passes=cse")
        assert cpu.compile(worker, PROGRAM, "hlo-text").hlo.count(" tanh(") == 2
