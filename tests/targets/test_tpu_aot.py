"""XLA:TPU with no TPU."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from assay.errors import InputError, ToolchainError
from assay.hlo.parse import parse_module
from assay.targets import tpu_aot
from assay.targets.dumps import DumpLimit
from assay.targets.snapshots import read
from assay.toolchain import ArrayType, RequestRefused, Toolchain, Worker, WorkerDied, host

PROGRAM = """HloModule m
ENTRY main {
  x = f32[64,256] parameter(0)
  y = f32[256,128] parameter(1)
  d = f32[64,128] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = f32[64,128] tanh(d)
}
"""
STABLEHLO = """module @m {
  func.func public @main(%x: tensor<64x256xf32>, %y: tensor<256x128xf32>) -> tensor<64x128xf32> {
    %d = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<64x256xf32>, tensor<256x128xf32>) -> tensor<64x128xf32>
    %t = stablehlo.tanh %d : tensor<64x128xf32>
    return %t : tensor<64x128xf32>
  }
}
"""  # noqa: E501
FUNCTIONS = """
import jax
import jax.numpy as jnp

def solve(a):
    return jnp.linalg.cholesky(a), jax.lax.top_k(a, 3)[0]

def example_args():
    return (jax.ShapeDtypeStruct((8, 8), jnp.float32),)
"""
TABLE = np.random.default_rng(0).integers(0, 1 << 20, 600)  # large enough for XLA to leave it out of its dumps


def opcodes(hlo: str) -> list[str]:
    return sorted(i.opcode for c in parse_module(hlo).computations for i in c.instructions)


# ---- with libtpu


@pytest.mark.tpu
@pytest.mark.parametrize("generation", ["v5e", "v6e"])
def test_the_optimized_module_is_scheduled_and_tiled(tpu_worker: Worker, generation: str) -> None:
    made = tpu_aot.compile(tpu_worker, PROGRAM, "hlo-text", generation)
    module = parse_module(made.hlo)
    assert module.attributes["is_scheduled"] == "true"
    assert "T(8,128)" in made.hlo
    assert {"fusion", "convolution", "tanh"} <= set(opcodes(made.hlo))
    assert made.parameters == (ArrayType("f32", (64, 256)), ArrayType("f32", (256, 128)))
    assert made.results == (ArrayType("f32", (64, 128)),)
    assert made.seconds > 0
    assert made.dump is None


@pytest.mark.tpu
@pytest.mark.slow
@pytest.mark.parametrize("generation", tpu_aot.GENERATIONS)
def test_every_generation_compiles(tpu_worker: Worker, generation: str) -> None:
    assert "tanh" in opcodes(tpu_aot.compile(tpu_worker, PROGRAM, "hlo-text", generation).hlo)


@pytest.mark.tpu
def test_stablehlo_goes_in_as_well_as_hlo(tpu_worker: Worker) -> None:
    hlo, stablehlo = (
        tpu_aot.compile(tpu_worker, text, kind, "v5e").hlo  # type: ignore[arg-type]
        for text, kind in ((PROGRAM, "hlo-text"), (STABLEHLO, "stablehlo"))
    )
    assert opcodes(hlo) == opcodes(stablehlo)


@pytest.mark.tpu
def test_a_dump_has_every_snapshot_of_this_compilation_in_full(tpu_worker: Worker, tmp_path: Path) -> None:
    values = ",".join(map(str, TABLE))
    program = f"""HloModule table
ENTRY main {{
  i = s32[4] parameter(0)
  c = s32[600] constant({{{values}}})
  r = s32[600] reverse(c), dimensions={{0}}
  z = s32[] constant(7)
  p = s32[600] pad(i, z), padding=0_596
  ROOT a = s32[600] add(r, p)
}}"""
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        made = tpu_aot.compile(tpu_worker, program, "hlo-text", "v5e", dump=folder)
        assert made.dump == folder
        snapshots = read(folder)
        assert len(snapshots) > 20
        texts = [snapshot.text() for snapshot in snapshots]
        assert all("{...}" not in text for text in texts)
        assert str(TABLE[300]) in texts[0]
        assert parse_module(texts[-1]).attributes["is_scheduled"] == "true"
    first, second = ({re.sub(r"\d+", "", path.name) for path in folder.iterdir()} for folder in folders)
    assert first == second


@pytest.mark.tpu
def test_a_scheduled_module_gives_the_same_kernels(tpu_worker: Worker, tmp_path: Path) -> None:
    """Layouts, memory spaces and windows go in as they came out: the final bundles are equal to the letter."""
    made = tpu_aot.compile(tpu_worker, PROGRAM, "hlo-text", "v5e", dump=tmp_path / "a", llo=True)
    again = tpu_aot.compile(tpu_worker, made.hlo, "hlo-text", "v5e", dump=tmp_path / "b", llo=True)
    bundles = [
        {re.sub(r"^\d+-", "", path.name): path.read_text() for path in (folder / "llo").glob("*-final_bundles.txt")}
        for folder in (tmp_path / "a", tmp_path / "b")
    ]
    assert any("fusion" in name for name in bundles[0])
    assert bundles[0] == bundles[1]
    assert opcodes(again.hlo) == opcodes(made.hlo)


@pytest.mark.tpu
def test_options_are_for_one_compilation(tpu_worker: Worker) -> None:
    plain = tpu_aot.compile(tpu_worker, PROGRAM, "hlo-text", "v5e").hlo
    without = tpu_aot.compile(tpu_worker, PROGRAM, "hlo-text", "v5e", {"xla_disable_hlo_passes": "tpu_fusion"}).hlo
    assert opcodes(plain).count("fusion") > 0
    assert opcodes(without) != opcodes(plain)
    assert tpu_aot.compile(tpu_worker, PROGRAM, "hlo-text", "v5e").hlo == plain
    for options, kind in (({"xla_nonsense": "1"}, "UnknownOption"), ({"xla_dump_hlo_as_text": "maybe"}, "BadOption")):
        with pytest.raises(RequestRefused) as refused:
            tpu_aot.compile(tpu_worker, PROGRAM, "hlo-text", "v5e", options)
        assert refused.value.type == kind


@pytest.mark.tpu
def test_a_function_is_lowered_for_the_tpu(tpu_worker: Worker, tmp_path: Path) -> None:
    """For the CPU a factorization is a call into LAPACK, for the TPU an operation of XLA's own."""
    (tmp_path / "f.py").write_text(FUNCTIONS)
    on_cpu, on_tpu = (
        tpu_worker.load(tmp_path / "f.py", "solve", platform=name).cases[0]  # type: ignore[arg-type]
        for name in ("cpu", "tpu")
    )
    assert "lapack" in on_cpu.hlo
    assert "lapack" not in on_tpu.hlo
    made = tpu_aot.compile(tpu_worker, on_tpu.stablehlo, "stablehlo", "v5e")
    assert [t.shape for t in made.results] == [(8, 8), (8, 3)]


@pytest.mark.tpu
def test_what_is_wrong_with_a_program_is_told_and_the_worker_lives(tpu_worker: Worker, tmp_path: Path) -> None:
    for text, kind, told in (
        (PROGRAM[:120], "hlo-text", "INVALID_ARGUMENT"),
        (STABLEHLO[:120], "stablehlo", "stablehlo|StableHLO|expected"),
        (PROGRAM.replace("64,", "640000,").replace(",128]", ",1280000]"), "hlo-text", "RESOURCE_EXHAUSTED"),
    ):
        with pytest.raises(RequestRefused, match=told):
            tpu_aot.compile(tpu_worker, text, kind, "v5e")  # type: ignore[arg-type]
    with pytest.raises(DumpLimit, match="--dump-limit"):
        tpu_aot.compile(tpu_worker, PROGRAM, "hlo-text", "v5e", dump=tmp_path, dump_limit=10_000)
    assert list(tmp_path.iterdir()) == []
    assert tpu_aot.compile(tpu_worker, PROGRAM, "hlo-text", "v5e").hlo


@pytest.mark.tpu
def test_what_is_wrong_with_the_toolchain_is_told(tpu_worker: Worker) -> None:
    with pytest.raises(ToolchainError, match=r"does not start with --xla_nonsense=1 .*Unknown command line flag"):
        tpu_aot.compile(tpu_worker, PROGRAM, "hlo-text", "v5e", flags=["--xla_nonsense=1"])
    with pytest.raises(RequestRefused, match="no topology v99:2x2") as refused:
        tpu_worker.start_libtpu("v99:2x2")
    assert refused.value.type == "UnknownTopology"
    assert tpu_aot.start(tpu_worker, "v5e") > (0, 50)


@pytest.mark.tpu
def test_a_hang_is_put_down_to_the_program(tpu_worker: Worker) -> None:
    tpu_aot.start(tpu_worker, "v5e")
    with pytest.raises(WorkerDied) as died:
        tpu_aot.compile(tpu_worker, PROGRAM.replace("main", "slow"), "hlo-text", "v5e", timeout_s=0.005)
    assert (died.value.kind, died.value.request) == ("hang", "compile")
    assert tpu_aot.compile(tpu_worker, PROGRAM, "hlo-text", "v5e").hlo


@pytest.mark.tpu
@pytest.mark.slow
def test_several_workers_at_once_each_have_their_own_dump(tpu_toolchain: Toolchain, tmp_path: Path) -> None:
    failed: list[BaseException] = []

    def work(number: int) -> None:
        name = f"program_{number}"
        try:
            with Worker(tpu_toolchain) as worker:
                for turn in range(3):
                    dump = tmp_path / name / str(turn)
                    text = PROGRAM.replace("HloModule m", f"HloModule {name}")
                    tpu_aot.compile(worker, text, "hlo-text", "v5e", dump=dump, llo=turn == 1)
                    assert all(f".{name}." in p.name for p in dump.iterdir() if p.is_file())
                    assert len(read(dump)) > 20
                    assert (dump / "llo").exists() == (turn == 1)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


JAXS_OWN = """
import io, os, sys
os.environ.update(TPU_SKIP_MDS_QUERY="1", ALLOW_MULTIPLE_LIBTPU_LOAD="1", JAX_PLATFORMS="cpu")
import jax, jax.numpy as jnp
from jax.experimental import topologies
topology = topologies.get_topology_desc(platform="tpu", topology_name="v5e:2x2")
s = jax.sharding.SingleDeviceSharding(topology.devices[0])
def f(x, y):
    return jax.nn.softmax(x @ y, -1), jnp.cumsum(x, 1)
shapes = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((64, 128), (128, 256))]
lowered = jax.jit(f, in_shardings=s, out_shardings=s).trace(*shapes).lower(lowering_platforms=("tpu",))
lowered.compiler_ir("stablehlo").operation.write_bytecode(open(sys.argv[1], "wb"))
module = lowered.compile().runtime_executable().hlo_modules()[0]
open(sys.argv[2], "w").write(module.to_string())
"""


@pytest.mark.tpu
@pytest.mark.slow
def test_the_optimized_hlo_is_that_of_jaxs_own_path(tpu_toolchain: Toolchain, tmp_path: Path) -> None:
    """But for what jax says of shardings, and where it is in the source."""
    files = [str(tmp_path / "in.bc"), str(tmp_path / "out.hlo")]
    done = subprocess.run([tpu_toolchain.python, "-c", JAXS_OWN, *files], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr[-500:]
    with Worker(tpu_toolchain) as worker:
        ours = tpu_aot.compile(worker, Path(files[0]).read_bytes(), "stablehlo", "v5e").hlo

    def plain(text: str) -> list[str]:
        text = re.sub(r", allow_spmd_sharding_propagation_to_\w+=\{[a-z,]*\}", "", text)
        return re.sub(r", metadata=\{[^}]*\}", "", text).splitlines()

    assert plain(ours) == plain(Path(files[1]).read_text())


# ---- without


def test_an_unknown_generation_and_llo_without_a_folder_are_refused() -> None:
    worker = object()
    with pytest.raises(InputError, match="no TPU generation 'v9'; there is v4, v5e, v5p, v6e, tpu7x"):
        tpu_aot.compile(worker, PROGRAM, "hlo-text", "v9")  # type: ignore[arg-type]
    if (sys.platform, platform.machine()) == ("linux", "x86_64"):
        with pytest.raises(InputError, match="name a folder"):
            tpu_aot.compile(worker, PROGRAM, "hlo-text", "v5e", llo=True)  # type: ignore[arg-type]
        with pytest.raises(InputError, match="no folder with a space"):
            tpu_aot.compile(worker, PROGRAM, "hlo-text", "v5e", llo=True, dump=Path("a b"))  # type: ignore[arg-type]


def test_another_machine_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tpu_aot.platform, "machine", lambda: "arm64")
    with pytest.raises(ToolchainError, match=r"libtpu is for x86-64 Linux, this is .* on arm64"):
        tpu_aot.start(object(), "v5e")  # type: ignore[arg-type]


@pytest.mark.skipif((sys.platform, platform.machine()) != ("linux", "x86_64"), reason="libtpu is for x86-64 Linux")
@pytest.mark.parametrize(
    ("spec", "what"),
    [
        (
            "host",
            "pip install 'assay-xla[tpu]', or name a toolchain that has it (--toolchain jax==VERSION,libtpu==VERSION)",
        ),
        ("jax==0.10.2", "name a toolchain that has it (--toolchain jax==0.10.2,libtpu==VERSION)"),
    ],
)
def test_a_toolchain_without_libtpu_is_told_what_to_do(spec: str, what: str) -> None:
    class Bare:
        toolchain = Toolchain(spec, sys.executable)

        def start_libtpu(self, *_: object) -> None:
            raise RequestRefused("start_libtpu", "NoLibtpu", "this Python has no libtpu")

    with pytest.raises(ToolchainError) as told:
        tpu_aot.start(Bare(), "v5e")  # type: ignore[arg-type]
    assert str(told.value) == f"{spec} has no libtpu: {what}"


@pytest.mark.skipif((sys.platform, platform.machine()) != ("linux", "x86_64"), reason="libtpu is for x86-64 Linux")
def test_a_libtpu_that_is_not_there_or_does_not_load(tmp_path: Path) -> None:
    if host().version("libtpu") is None:
        with (
            Worker(host()) as worker,
            pytest.raises(ToolchainError, match=r"no libtpu: pip install 'assay-xla\[tpu\]'"),
        ):
            tpu_aot.compile(worker, PROGRAM, "hlo-text", "v5e")
    broken = tmp_path / "libtpu.so"
    broken.write_text("cut short")
    with Worker(host(), env={"TPU_LIBRARY_PATH": str(broken)}) as worker:
        with pytest.raises(ToolchainError, match=r"libtpu\.so does not load: .*; try another libtpu"):
            tpu_aot.start(worker, "v5e")
        assert worker.describe().versions["libtpu"] == f"at {broken}"
