"""What a worker does with a program: to_hlo, compile, run; and the same under old and new toolchains."""

from __future__ import annotations

import subprocess
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

from assay.errors import InputError, WorkerError
from assay.hlo.literal import literal_array
from assay.hlo.parse import parse_module
from assay.toolchain import LoadedFile, RequestRefused, Worker, environments
from assay.toolchain.worker.wire import numpy_dtype

SHARED = Path(__file__).resolve().parents[3] / "shared"
ADD = "HloModule m\nENTRY e {\n p = f32[2] parameter(0)\n ROOT r = f32[2] add(p, p)\n}\n"


def write(folder: Path, text: str, name: str = "program.py") -> Path:
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return path


# ---- to_hlo and compile


def test_large_constants_are_printed_in_full(worker: Worker, tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """
        import numpy as np
        TABLE = np.arange(500, dtype=np.float32)
        def f(x):
            return x + TABLE
        def example_args():
            return TABLE
        """,
    )
    (case,) = worker.load(path, "f").cases
    assert "{...}" not in case.hlo
    assert "499" in case.hlo
    assert "{...}" not in worker.compile(case.stablehlo, "stablehlo").hlo
    assert "499" in worker.to_hlo(worker.to_hlo(case.hlo, "hlo-text"), "hlo-text")


def forms(worker: Worker, folder: Path) -> dict[str, bytes]:
    """One program in every form that a user may have, made with the worker's own jax."""
    pytest.importorskip("flatbuffers", reason="jax.export needs it")
    script = write(
        folder,
        """
        import jax, jax.export, io, sys
        import jax.numpy as jnp
        from jax._src.interpreters import mlir
        from jaxlib import _jax
        from jaxlib.mlir import ir
        out = sys.argv[1]
        def f(x):
            return x * 2 + 1
        lowered = jax.jit(f).lower(jnp.ones(3))
        module = lowered.compiler_ir("stablehlo")
        buffer = io.BytesIO()
        module.operation.write_bytecode(buffer)
        proto = lowered.compiler_ir("hlo").as_serialized_hlo_module_proto()
        def wrapped(inner):  # field 1 of a message that holds it
            size, out = len(inner), b"\\x0a"
            while size >= 128:
                out += bytes([size & 127 | 128]); size >>= 7
            return out + bytes([size]) + inner
        portable = _jax.mlir.serialize_portable_artifact(str(module), "1.0.0")
        for name, data in {
            "stablehlo-text": str(module).encode(), "stablehlo-bytecode": buffer.getvalue(),
            "stablehlo-portable": portable,
            "hlo-proto-module": proto, "hlo-proto-hlo": wrapped(proto), "hlo-proto-snapshot": wrapped(wrapped(proto)),
            "export-x": bytes(jax.export.export(jax.jit(f))(jnp.ones(3)).serialize()),
        }.items():
            open(out + "/" + name, "wb").write(data)
        """,
        "make.py",
    )
    subprocess.run([worker.toolchain.python, str(script), str(folder)], check=True, timeout=120)
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.suffix == ""}


def test_every_form_of_a_program_is_read_and_compiles(worker: Worker, tmp_path: Path) -> None:
    made = forms(worker, tmp_path)
    assert len(made) == 7
    for name, payload in made.items():
        kind = "hlo-proto" if name.startswith("hlo-proto") else name.partition("-")[0]
        assert "multiply" in worker.to_hlo(payload, kind), name  # type: ignore[arg-type]
        compiled = worker.compile(payload, kind)  # type: ignore[arg-type]
        assert [(p.dtype, p.shape) for p in compiled.parameters] == [("f32", (3,))], name
        np.testing.assert_array_equal(worker.run(compiled, [np.arange(3, dtype=np.float32)])[0], [1, 3, 5])


def test_an_export_with_symbolic_shapes_asks_for_concrete_ones(worker: Worker, tmp_path: Path) -> None:
    pytest.importorskip("flatbuffers", reason="jax.export needs it")
    script = write(
        tmp_path,
        """
        import jax, jax.export, sys
        shape = jax.export.symbolic_shape("n, 3")
        f = jax.export.export(jax.jit(lambda x: x + 1))(jax.ShapeDtypeStruct(shape, "float32"))
        open(sys.argv[1], "wb").write(f.serialize())
        """,
    )
    subprocess.run([worker.toolchain.python, str(script), str(tmp_path / "e.bin")], check=True, timeout=120)
    with pytest.raises(RequestRefused, match="concrete") as refused:
        worker.to_hlo((tmp_path / "e.bin").read_bytes(), "export")
    assert refused.value.type == "SymbolicShape"


@pytest.mark.parametrize("kind", ["hlo-text", "hlo-proto", "stablehlo", "export"])
@pytest.mark.parametrize(
    "payload", [b"", b"nonsense", b"\x0a\x05hello", b"ML\xefR garbage", bytes(range(256)), b"\xff" * 64]
)
def test_what_is_not_a_program_is_refused_in_one_line(worker: Worker, kind: str, payload: bytes) -> None:
    with pytest.raises(WorkerError) as refused:
        worker.to_hlo(payload, kind)  # type: ignore[arg-type]
    assert "\n" not in str(refused.value)


def test_xla_judges_the_syntax_of_hlo(worker: Worker) -> None:
    assert "f32[2]{0} add" in worker.to_hlo(ADD, "hlo-text")
    with pytest.raises(RequestRefused, match="expects opcode") as refused:
        worker.to_hlo(ADD.replace("add(p, p)", "frobnicate(p, p)"), "hlo-text")
    assert refused.value.status == "INVALID_ARGUMENT"


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"xla_backend_optimization_level": "0"}, None),
        ({"xla_allow_excess_precision": "false", "xla_cpu_enable_fast_math": "0"}, None),
        ({"xla_cpu_max_isa": "AVX2"}, None),
        ({"xla_disable_hlo_passes": "algsimp,cse"}, None),
        ({"xla_no_such_option": "1"}, "UnknownOption"),
        ({"xla_allow_excess_precision": "maybe"}, "BadOption"),
        ({"xla_backend_optimization_level": "x"}, "BadOption"),
    ],
)
def test_options_by_name_as_text(worker: Worker, options: dict[str, str], kind: str | None) -> None:
    if kind is None:
        worker.compile(ADD, "hlo-text", options)
        return
    with pytest.raises(RequestRefused) as refused:
        worker.compile(ADD, "hlo-text", options)
    assert refused.value.type == kind
    assert next(iter(options)) in str(refused.value)


def test_an_option_has_its_effect(worker: Worker) -> None:
    text = "HloModule m\nENTRY e {\n p = f32[4] parameter(0)\n a = f32[4] tanh(p)\n b = f32[4] tanh(p)\n"
    text += " ROOT r = f32[4] add(a, b)\n}\n"
    assert worker.compile(text, "hlo-text").hlo.count(" tanh(") == 1
    assert worker.compile(text, "hlo-text", {"xla_disable_all_hlo_passes": "true"}).hlo.count(" tanh(") == 2


def test_what_the_conversion_to_hlo_folds_is_still_there_for_the_reference(worker: Worker, tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """
        import jax, numpy as np
        def f(x):
            return x + 0.0, np.float32(2), jax.lax.optimization_barrier(x * np.arange(3, dtype=np.float32))
        def example_args():
            return np.ones(3, np.float32)
        """,
    )
    (case,) = worker.load(path, "f").cases
    assert " add(" in case.hlo
    assert "opt-barrier" in case.hlo  # the user's own
    assert case.hlo.count("opt-barrier(") == 1
    assert " add(" not in worker.compile(case.stablehlo, "stablehlo").hlo
    x = np.array([1, 2, 3], np.float32)
    for payload, kind in ((case.stablehlo, "stablehlo"), (case.hlo, "hlo-text")):
        outputs = worker.run(worker.compile(payload, kind), [x])  # type: ignore[arg-type]
        assert [o.tolist() for o in outputs] == [[1, 2, 3], 2, [0, 2, 6]]
    assert str(path) in case.hlo  # where each instruction comes from is kept


def test_a_negative_zero_is_none_of_the_positive_ones(worker: Worker, tmp_path: Path) -> None:
    """XLA prints it as `-0`, which its own parser takes for the integer."""
    path = write(
        tmp_path,
        """
        import jax, jax.numpy as jnp, numpy as np
        X64 = True
        MINUS = [np.array([-0.0, 0.0, 1.0, -10.0], t) for t in ("f2", jnp.bfloat16, "f4", "f8", jnp.float8_e5m2)]
        MINUS.append(np.array([complex(-0.0, 0.0), complex(0.0, -0.0)], "c8"))
        MINUS.append(np.float32(-0.0))
        def f(x):
            return [x] + [jnp.asarray(m) for m in MINUS]
        def example_args():
            return np.ones(3, np.float32)
        """,
    )
    (case,) = worker.load(path, "f").cases
    want = [worker.run(worker.compile(p, k), [np.ones(3, np.float32)]) for p, k in (  # type: ignore[arg-type]
        (case.stablehlo, "stablehlo"), (case.hlo, "hlo-text"), (worker.to_hlo(case.hlo, "hlo-text"), "hlo-text"),
    )]  # fmt: skip
    for outputs in want:
        signs = [np.signbit(o.real.astype(np.float64)).tolist() for o in outputs[1:]]
        assert signs == [[True, False, False, True]] * 5 + [[True, False], True]
        assert np.signbit(outputs[6].imag).tolist() == [False, True]
    module = parse_module(case.hlo)
    read = [literal_array(i.array, i.literal) for i in module.entry.instructions if i.literal is not None]
    assert sum(int(np.signbit(r.real.astype(np.float64)).sum()) for r in read) == 12


def test_a_constant_that_is_the_root_stays_one_value(worker: Worker) -> None:
    text = "func.func @main() -> tensor<2xf32> {\n  %c = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>\n"
    text = worker.to_hlo("module @m {\n" + text + "  return %c : tensor<2xf32>\n}\n}", "stablehlo")
    assert "opt-barrier(" not in text
    assert [o.tolist() for o in worker.run(worker.compile(text, "hlo-text"), [])] == [[1, 2]]


# ---- run


def program(dtype: str, body: str = "add(p, p)", shape: str = "3") -> str:
    return f"HloModule m\nENTRY e {{\n p = {dtype}[{shape}] parameter(0)\n ROOT r = {dtype}[{shape}] {body}\n}}\n"


@pytest.mark.parametrize(
    "dtype", ["s8", "u16", "s64", "u64", "f16", "bf16", "f32", "f64", "c64", "c128", "f8e4m3fn", "f8e5m2"]
)
def test_values_of_a_dtype_come_back(worker: Worker, dtype: str) -> None:
    x = np.array([1, 2, 4]).astype(numpy_dtype(dtype))
    (y,) = worker.run(worker.compile(program(dtype), "hlo-text"), [x])
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(y.astype(complex), [2, 4, 8])


@pytest.mark.parametrize("dtype", ["s4", "u4"])
def test_values_below_a_byte_come_back(worker: Worker, dtype: str) -> None:
    x = np.array([-8, 3, 7, 1] if dtype == "s4" else [15, 3, 7, 1]).astype(numpy_dtype(dtype))
    (y,) = worker.run(worker.compile(program(dtype, "copy(p)", "4"), "hlo-text"), [x])
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(y.astype(int), x.astype(int))


def test_scalars_predicates_and_nothing(worker: Worker) -> None:
    (y,) = worker.run(worker.compile(program("f32", shape=""), "hlo-text"), [np.array(2, np.float32)])
    assert (y.shape, float(y)) == ((), 4)
    (y,) = worker.run(worker.compile(program("f32", shape="0,3"), "hlo-text"), [np.zeros((0, 3), np.float32)])
    assert y.shape == (0, 3)
    (y,) = worker.run(worker.compile(program("pred", "not(p)", "2"), "hlo-text"), [np.array([True, False])])
    np.testing.assert_array_equal(y, [False, True])
    assert worker.run(worker.compile("HloModule m\nENTRY e {\n ROOT r = () tuple()\n}\n", "hlo-text"), []) == []


def test_tuples_are_flat_and_a_token_is_an_empty_array(worker: Worker) -> None:
    text = """HloModule m
    ENTRY e {
      p = (f32[2], f32[2]) parameter(0)
      a = f32[2] get-tuple-element(p), index=0
      b = f32[2] get-tuple-element(p), index=1
      t = token[] after-all()
      n = (f32[2], f32[2]) tuple(b, a)
      ROOT r = (f32[2], (f32[2], f32[2]), token[]) tuple(a, n, t)
    }"""
    compiled = worker.compile(text, "hlo-text")
    assert [r.dtype for r in compiled.results] == ["f32", "f32", "f32", "token"]
    outputs = worker.run(compiled, [np.array([1, 2], np.float32), np.array([3, 4], np.float32)])
    assert [o.tolist() for o in outputs] == [[1, 2], [3, 4], [1, 2], []]


def test_a_token_parameter_is_refused(worker: Worker) -> None:
    text = (
        "HloModule m\nENTRY e {\n p = f32[2] parameter(0)\n t = token[] parameter(1)\n ROOT r = f32[2] add(p, p)\n}\n"
    )
    with pytest.raises(RequestRefused, match="token parameter"):
        worker.run(worker.compile(text, "hlo-text"), [np.ones(2, np.float32)])


def test_aliased_inputs_do_not_corrupt_later_runs(worker: Worker) -> None:
    text = program("f32").replace("HloModule m", "HloModule m, input_output_alias={ {}: (0, {}, may-alias) }")
    compiled, x = worker.compile(text, "hlo-text"), np.array([1, 2, 4], np.float32)
    for _ in range(3):
        np.testing.assert_array_equal(worker.run(compiled, [x])[0], [2, 4, 8])
    np.testing.assert_array_equal(x, [1, 2, 4])


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ([], "takes 1 arrays, 0 were given"),
        ([np.ones(3, np.float32)], r"argument 0 is f32\[3\], the program takes f32\[2\]"),
        ([np.ones(2)], r"argument 0 is f64\[2\], the program takes f32\[2\]"),
        ([np.array(["a", "b"])], "argument 0 has dtype <U1"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_before_they_are_sent(
    worker: Worker, arrays: list[np.ndarray], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        worker.run(worker.compile(ADD, "hlo-text"), arrays)


def test_an_array_of_100_mb_goes_there_and_back_quickly(worker: Worker) -> None:
    n = 25_000_000
    compiled = worker.compile(program("f32", shape=str(n)), "hlo-text")
    x = np.ones(n, np.float32)
    start = time.monotonic()
    (y,) = worker.run(compiled, [x])
    seconds = time.monotonic() - start
    assert y[0] == y[-1] == 2
    assert seconds < 5  # 0.3 s measured on two idle cores
    worker.release(compiled)


# ---- the same under old and new toolchains


@pytest.mark.parametrize("spec", ["jax==0.4.13", "jax==0.4.30", "jax==0.6.2", "jax==0.10.2", "jax==0.12.0.1"])
def test_the_worker_runs_unchanged_under(spec: str, tmp_path: Path) -> None:
    found = [t for t in environments.installed() if t.spec == spec]
    if not found:
        pytest.skip(f"{spec} is not installed in {environments.cache_folder()} (assay toolchain add {spec})")
    path = write(
        tmp_path,
        """
        import jax, jax.numpy as jnp, numpy as np
        X64 = True
        def f(tree, k):
            return {"y": jnp.sin(tree["x"]) * k, "n": tree["n"].astype(jnp.int8)}
        def cases():
            x = np.linspace(0, 1, 5)
            n = np.array([1, 2], np.int8)
            yield "sin", f, ({"x": x, "n": jnp.array([1, 2], jnp.int4)}, 2.0), {"y": 2 * np.sin(x), "n": n}
            yield "raises", lambda x: x.no_such_attribute, (x,), x
        """,
    )
    with Worker(found[0]) as worker:
        assert worker.describe().versions["jax"] == spec.partition("==")[2]
        loaded: LoadedFile = worker.load(path)
        case, broken = loaded.cases
        assert case.error is None, case.error
        assert broken.error is not None
        assert broken.error.where == f"{path}:10"
        assert [(a.type.dtype, a.type.path) for a in case.arguments] == [
            ("s4", "[0]['n']"),
            ("f64", "[0]['x']"),
            ("f64", "[1]"),
        ]
        values = [a.value for a in case.arguments]
        assert case.expected is not None
        for payload, kind in ((case.stablehlo, "stablehlo"), (case.hlo, "hlo-text")):
            compiled = worker.compile(payload, kind, {"xla_backend_optimization_level": "1"})  # type: ignore[arg-type]
            for got, want in zip(worker.run(compiled, values), case.expected, strict=True):  # type: ignore[arg-type]
                np.testing.assert_allclose(got, want, rtol=1e-12)
        with pytest.raises(RequestRefused) as refused:
            worker.compile(case.hlo, "hlo-text", {"xla_no_such_option": "1"})
        assert refused.value.type == "UnknownOption"


@pytest.mark.skipif(not (SHARED / "bugs").is_dir(), reason="no ../shared/bugs here")
def test_bug_files_give_what_plain_jax_gives(worker: Worker) -> None:
    names = ("jax17672_int4_widen", "paper1_complex_tan", "paper4_cumsum_convert", "xla49176_inplace_update_slice")
    files = [str(SHARED / "bugs" / f"{name}.py") for name in names]
    run = [worker.toolchain.python, str(SHARED / "bugs" / "run.py"), *files]
    plain = subprocess.run(run, capture_output=True, text=True, timeout=120)
    truth = [line.rpartition(" jax ")[0] for line in plain.stdout.splitlines()]
    ours = []
    for file in files:
        loaded = worker.load(file)
        for case in loaded.cases:
            assert case.error is None, case.error
            assert case.expected is not None, case.expected_error
            values = [a.value for a in case.arguments if a.value is not None]
            outputs = worker.run(worker.compile(case.stablehlo, "stablehlo"), values)
            tolerance = loaded.rtol or 0.0
            same = all(
                np.allclose(o, e, rtol=tolerance, atol=tolerance, equal_nan=True)
                for o, e in zip(outputs, case.expected, strict=True)
            )
            ours.append(f"{'PASS' if same else 'FAIL'} {Path(file).stem} {case.name}")
    assert ours == truth
