"""XLA:CPU as a target."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from assay.errors import InputError
from assay.targets import cpu
from assay.targets.dumps import DumpLimit
from assay.targets.snapshots import read
from assay.toolchain import RequestRefused, StaleHandle, Worker, host, resolve
from assay.toolchain.environments import installed

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


TABLE = np.random.default_rng(0).integers(0, 1 << 20, 600)
DUMPED = f"""HloModule dumped
ENTRY e {{
  p = s32[600] parameter(0)
  c = s32[600] constant({{{",".join(map(str, TABLE))}}})
  a = s32[600] add(p, c)
  b = s32[600] add(p, c)
  ROOT m = s32[600] multiply(a, b)
}}
"""


def dumped(worker: Worker, folder: Path) -> list[str]:
    """The texts of the snapshots, by way of their protos where constants are left out."""
    compiled = cpu.compile(worker, DUMPED, "hlo-text", dump=folder)
    x = np.arange(600, dtype=np.int32)
    np.testing.assert_array_equal(cpu.run(worker, compiled, [x])[0], (x + TABLE).astype(np.int32) ** 2)
    texts = []
    for snapshot in read(folder):
        text = snapshot.text()
        if "constant({...})" in text:
            text = worker.to_hlo(snapshot.path.with_suffix(".hlo.pb").read_bytes(), "hlo-proto")
        texts.append(text)
    return texts


def test_a_dump_has_every_snapshot_in_full(tmp_path: Path) -> None:
    with Worker(host()) as worker:
        texts = dumped(worker, tmp_path / "a")
        assert str(TABLE[300]) in texts[0]
        assert (texts[0].count(" add("), texts[-1].count(" add(")) == (2, 1)
        assert str(TABLE[300]) in dumped(worker, tmp_path / "b")[-1]
        with pytest.raises(InputError, match="not empty"):
            cpu.compile(worker, DUMPED, "hlo-text", dump=tmp_path / "a")
        with pytest.raises(DumpLimit, match="--dump-limit"):
            cpu.compile(worker, DUMPED, "hlo-text", dump=tmp_path / "c", dump_limit=1000)
        assert cpu.compile(worker, DUMPED, "hlo-text").hlo.count(" add(") == 1
    assert list((tmp_path / "c").iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("spec", ["jax==0.4.30", "jax==0.4.35", "jax==0.6.2", "jax==0.10.2"])
def test_older_releases_dump_in_full_too(spec: str, tmp_path: Path) -> None:
    if spec not in {toolchain.spec for toolchain in installed()}:
        pytest.skip(f"{spec} is not installed (assay toolchain add {spec})")
    with Worker(resolve(spec)) as worker:
        texts = dumped(worker, tmp_path)
    assert str(TABLE[300]) in texts[0]
    assert (texts[0].count(" add("), texts[-1].count(" add(")) == (2, 1)
