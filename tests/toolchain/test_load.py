"""A user's Python file: its cases, its function, its errors."""

from __future__ import annotations

import textwrap
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from assay.errors import ProgramError
from assay.toolchain import RequestRefused, UserFileError, Worker


def write(folder: Path, text: str, name: str = "program.py") -> Path:
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return path


def test_a_function_with_its_example_arguments(worker: Worker, tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """
        import jax, jax.numpy as jnp, numpy as np
        def step(params, x, scale, unused):
            y = x @ params["w"] + params["b"]
            return {"y": y * scale, "sum": y.sum()}
        def example_args():
            return ({"w": jax.ShapeDtypeStruct((3, 2), jnp.bfloat16), "b": jnp.ones(2, jnp.bfloat16)},
                    np.ones((4, 3), ml_dtypes_bfloat16()), 2.0, np.arange(3))
        def ml_dtypes_bfloat16():
            return jnp.bfloat16
        """,
    )
    loaded = worker.load(path, "step")
    assert (loaded.x64, loaded.rtol) == (False, None)
    (case,) = loaded.cases
    assert case.error is None
    assert case.name == "step"
    assert [a.type.path for a in case.arguments] == ["[0]['b']", "[0]['w']", "[1]", "[2]", "[3]"]
    assert [(a.type.dtype, a.type.shape) for a in case.arguments] == [
        ("bf16", (2,)), ("bf16", (3, 2)), ("bf16", (4, 3)), ("f32", ()), ("s32", (3,)),
    ]  # fmt: skip
    assert [a.value is None for a in case.arguments] == [False, True, False, False, False]
    assert [a.weak for a in case.arguments] == [False, False, False, True, False]
    assert [(r.path, r.dtype, r.shape) for r in case.results] == [("['sum']", "bf16", ()), ("['y']", "bf16", (4, 2))]
    assert "parameter(4)" in case.hlo
    assert case.expected is None
    compiled = worker.compile(case.stablehlo, "stablehlo")
    assert [p.dtype for p in compiled.parameters] == ["bf16", "bf16", "bf16", "f32", "s32"]
    arrays = [np.ones((3, 2), ml_dtypes.bfloat16) if a.value is None else a.value for a in case.arguments]
    total, y = worker.run(compiled, arrays)
    np.testing.assert_array_equal(y.astype(np.float32), np.full((4, 2), 8, np.float32))
    assert float(total) == 32


def test_arrays_of_the_host_take_the_place_of_the_examples(worker: Worker, tmp_path: Path) -> None:
    path = write(tmp_path, "def f(x, y):\n    return x['a'] + y\ndef example_args():\n    return {'a': 1.0}, 2.0\n")
    (case,) = worker.load(path, "f", arrays=[np.ones(3, np.float32), np.zeros(3, np.float32)]).cases
    assert [a.type.shape for a in case.arguments] == [(3,), (3,)]
    with pytest.raises(UserFileError, match="2 arrays, 1 were given"):
        worker.load(path, "f", arrays=[np.ones(3, np.float32)])
    bare = write(tmp_path, "def f(x):\n    return x + 1\n", "bare.py")
    (case,) = worker.load(bare, "f", arrays=[np.ones(3, np.float32)]).cases
    assert case.error is None
    with pytest.raises(UserFileError, match="define example_args"):
        worker.load(bare, "f")


def test_a_function_that_is_already_jitted_with_static_arguments(worker: Worker, tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """
        import functools, jax, jax.numpy as jnp, numpy as np
        @functools.partial(jax.jit, static_argnums=(0, 2), donate_argnums=(1,))
        def f(mode, x, n):
            return jnp.tile(x, n) if mode == "tile" else x
        def example_args():
            return "tile", np.ones(2, np.float32), 3
        """,
    )
    (case,) = worker.load(path, "f").cases
    assert case.error is None
    assert [a.type.shape for a in case.arguments] == [(2,)]
    assert case.results[0].shape == (6,)
    compiled = worker.compile(case.stablehlo, "stablehlo")
    x = np.array([1, 2], np.float32)
    for _ in range(2):
        np.testing.assert_array_equal(worker.run(compiled, [x])[0], np.tile([1, 2], 3))
    np.testing.assert_array_equal(x, [1, 2])


def test_a_typed_prng_key_is_its_bits(worker: Worker, tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """
        import jax
        def f(key):
            return jax.random.uniform(key, (2,))
        def example_args():
            return jax.random.key(0)
        """,
    )
    (case,) = worker.load(path, "f").cases
    assert case.error is None, case.error
    assert (case.arguments[0].type.dtype, case.arguments[0].type.shape) == ("u32", (2,))
    worker.run(worker.compile(case.hlo, "hlo-text"), [case.arguments[0].value])


CASES = """
import numpy as np
RTOL = 1e-3
def f(x):
    return x + 1
def bad(x):
    raise KeyError("while tracing")
def cases():
    yield "good", f, (np.ones(2, np.float32),), np.full(2, 2, np.float32)
    yield "shape", f, (np.ones(2, np.float32),), np.ones(3)
    yield "count", lambda x: (x, x), (np.ones(2, np.float32),), np.ones(2)
    yield "raises", bad, (np.ones(2, np.float32),), np.ones(2)
    yield "no expectation", f, (1,)
    yield "tree", lambda x: {"a": x, "b": (x, 2 * x)}, (1.5,), {"a": 1.5, "b": (1.5, 3)}
    raise RuntimeError("late")
"""


def test_cases_with_their_expectations_and_failures(worker: Worker, tmp_path: Path) -> None:
    path = write(tmp_path, CASES)
    loaded = worker.load(path)
    cases = {c.name: c for c in loaded.cases}
    assert list(cases) == ["good", "shape", "count", "raises", "no expectation", "tree", "cases()"]
    assert loaded.rtol == 1e-3
    assert cases["good"].expected is not None
    np.testing.assert_array_equal(cases["good"].expected[0], [2, 2])
    assert (cases["shape"].expected, cases["shape"].error) == (None, None)
    assert "(3,)" in str(cases["shape"].expected_error)
    assert "1 arrays, the function returns 2" in str(cases["count"].expected_error)
    failed = cases["raises"].error
    assert failed is not None
    assert (failed.type, failed.where) == ("KeyError", f"{path}:7")
    assert cases["no expectation"].arguments[0].type.dtype == "s32"
    assert cases["no expectation"].expected_error is None
    assert [r.path for r in cases["tree"].results] == ["['a']", "['b'][0]", "['b'][1]"]
    assert cases["tree"].expected is not None
    late = cases["cases()"].error
    assert late is not None
    assert (late.type, late.where) == ("RuntimeError", f"{path}:15")
    only = worker.load(path, cases=["goo*", "tree"])
    assert [c.name for c in only.cases] == ["good", "tree", "cases()"]


@pytest.mark.parametrize(
    ("text", "function", "kind", "said", "line"),
    [
        ("x = (\n", "f", "SyntaxError", "", 1),
        ("\nimport no_such_module\n", "f", "ModuleNotFoundError", "no_such_module", 2),
        ("def g(x):\n    return x\n", "f", "MissingFunction", "it has: g", None),
        ("f = 3\n", "f", "MissingFunction", "is a int", None),
        ("def f(x):\n    return x\n", None, "MissingFunction", r"no cases\(\)", None),
        ("def cases():\n    yield 1\n", None, "BadCase", "case 0", None),
        ("import sys\nsys.exit(3)\n", "f", "SystemExit", "3", 2),
        ("raise MemoryError('mine')\n", "f", "MemoryError", "mine", 1),
        ("def f(x):\n    return x\ndef example_args():\n    1 / 0\n", "f", "ZeroDivisionError", "", 4),
    ],
)
def test_an_error_of_the_users_file_has_its_line(
    worker: Worker, tmp_path: Path, text: str, function: str | None, kind: str, said: str, line: int | None
) -> None:
    path = write(tmp_path, text)
    with pytest.raises(UserFileError, match=said) as failed:
        worker.load(path, function)
    assert isinstance(failed.value, ProgramError)
    assert failed.value.type == kind
    assert failed.value.where == ("" if line is None else f"{path}:{line}")
    assert "\n" not in str(failed.value)


def test_files_that_are_not_there_or_not_python(worker: Worker, tmp_path: Path) -> None:
    with pytest.raises(UserFileError, match="no such file"):
        worker.load(tmp_path / "nothing.py")
    with pytest.raises(UserFileError, match="not a Python file"):
        worker.load(write(tmp_path, "", "program.txt"))
    (tmp_path / "binary.py").write_bytes(bytes(range(256)))
    with pytest.raises(UserFileError):
        worker.load(tmp_path / "binary.py")


def test_a_file_leaves_nothing_behind_for_the_next(worker: Worker, tmp_path: Path) -> None:
    for name, value in (("one", 1), ("two", 2)):
        folder = tmp_path / name
        folder.mkdir()
        write(folder, f"VALUE = {value}.0\n", "sibling.py")
        write(
            folder,
            f"""
            import os, jax, sibling
            X64 = {value == 1}
            jax.config.update("jax_default_matmul_precision", "highest")
            os.chdir("/")
            def f(x):
                return x + sibling.VALUE
            def example_args():
                return 1.0
            """,
        )
    first = worker.load(tmp_path / "one" / "program.py", "f")
    second = worker.load(tmp_path / "two" / "program.py", "f")
    assert (first.x64, second.x64) == (True, False)
    assert [x.cases[0].results[0].dtype for x in (first, second)] == ["f64", "f32"]
    assert "constant(2)" in second.cases[0].hlo
    plain = write(
        tmp_path,
        "def f(x):\n    return x @ x\ndef example_args():\n    import numpy as np\n    return np.ones((2, 2))\n",
    )
    assert "highest" not in worker.load(plain, "f").cases[0].hlo


def test_a_program_that_calls_back_into_python_runs_only_where_it_was_traced(worker: Worker, tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """
        import jax, numpy as np
        def f(x):
            return jax.pure_callback(lambda v: v + 1, jax.ShapeDtypeStruct((2,), np.float32), x)
        def example_args():
            return np.ones(2, np.float32)
        """,
    )
    (case,) = worker.load(path, "f").cases
    worker.restart()
    with pytest.raises(RequestRefused, match="calls back into Python"):
        worker.compile(case.stablehlo, "stablehlo")
