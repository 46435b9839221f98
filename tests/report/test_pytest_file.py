"""A test file: short, hermetic, and one that fails where a result is wrong and passes where it is right."""

from __future__ import annotations

import ast

import jax
import numpy as np
import pytest

from assay.errors import InputError, Unsupported
from assay.hlo.parse import parse_module
from assay.hlo.shape import DTYPES
from assay.reference.evaluator import evaluate
from assay.reference.policies import for_target
from assay.reference.value import flatten
from assay.report.expected import Expected, expected_of
from assay.report.issue_text import issue_text
from assay.report.prove import prove
from assay.report.pytest_file import COLUMNS, LINES, pytest_file

ALLOWED = {"base64", "importlib", "os", "re", "subprocess", "sys", "zlib", "jax", "jaxlib", "numpy", "pytest"}
CPU = for_target("cpu", jax.__version__)

PRODUCT = """HloModule product

ENTRY e {
  a = f32[2,3] parameter(0)
  b = f32[3,4] parameter(1)
  c = f32[2,4] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT d = (f32[2,4], s32[2,4]) tuple(c, i)
}
""".replace("  ROOT", "  i = s32[2,4] iota(), iota_dimension=1\n  ROOT")

LOG = "HloModule log\n\nENTRY e {\n  z = TYPE[3] parameter(0)\n  ROOT y = TYPE[3] negate(z)\n}\n"


def expected(module, arguments, actual=None):
    return expected_of(module, flatten(evaluate(module, arguments, CPU).value), actual)


def hermetic(text: str) -> None:
    lines = text.splitlines()
    assert len(lines) <= LINES
    assert max(map(len, lines)) <= COLUMNS
    imported = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(str(node.module).split(".")[0])
    assert imported <= ALLOWED, imported


def shifted(e: Expected, by: float) -> Expected:
    return Expected(e.values + by, e.low + by, e.high + by, e.failing)


@pytest.mark.parametrize("form", ["lax", "hlo"])
def test_right_values_pass_and_wrong_ones_fail(form):
    module = parse_module(PRODUCT)
    arguments = [np.float32([[1, 2, 3], [0.1, 0.7, 0.3]]), np.arange(12, dtype=np.float32).reshape(3, 4)]
    right = expected(module, arguments)
    assert not right[0].exact
    assert right[1].exact
    text = pytest_file(module, arguments, right, title="A product", form=form)
    hermetic(text)
    assert prove(text, "host", runs=1).passes
    wrong = [shifted(right[0], 0.5), right[1]] if form == "lax" else [right[0], shifted(right[1], 1)]
    assert prove(pytest_file(module, arguments, wrong, title="A product", form=form), "host", runs=1).fails


KINDS = ("bf16", "c64", "f64", "s64", "f8e5m2", "s4", "u8", "f16")


@pytest.mark.parametrize("form", ["lax", "hlo"])
def test_every_kind_of_element(form):
    lines = [f"p.{k} = {name}[3] parameter({k})\n  n.{k} = {name}[3] negate(p.{k})" for k, name in enumerate(KINDS)]
    types, results = (", ".join(f"{t}[3]" for t in KINDS), ", ".join(f"n.{k}" for k in range(len(KINDS))))
    lines += ["b = pred[3] compare(p.7, p.7), direction=EQ", f"ROOT r = ({types}, pred[3]) tuple({results}, b)"]
    module = parse_module("HloModule m\n\nENTRY e {\n  " + "\n  ".join(lines) + "\n}\n")
    values = {"c64": [1 + 2j, np.nan, -0.5j], "bf16": [np.inf, 3, np.nan]}
    arguments = [np.array(values.get(name, [1, 3, 2])).astype(DTYPES[name].numpy) for name in KINDS]
    right = expected(module, arguments)
    text = pytest_file(module, arguments, right, title="negate", form=form)
    hermetic(text)
    proof = prove(text, "host", runs=1)
    assert proof.passes, proof.runs
    if form == "lax":
        place = KINDS.index("f8e5m2")
        right[place] = shifted(right[place], 1)
        assert prove(pytest_file(module, arguments, right, title="negate"), "host", runs=1).fails


def test_only_failing_elements_where_all_would_be_too_long():
    module = parse_module(
        "HloModule m\n\nENTRY e {\n  x = s32[64,64] parameter(0)\n  ROOT y = s32[64,64] negate(x)\n}\n"
    )
    x = np.random.default_rng(99).integers(-(2**31), 2**31, (64, 64)).astype(np.int32)
    actual = -x
    actual[3, 5] += 1
    actual[63, 63] -= 7
    found = expected(module, [x], [actual])
    assert found[0].failing == (63 * 64 + 63, 3 * 64 + 5)
    with pytest.raises(InputError, match="reduce the program and its inputs first"):
        pytest_file(module, [x], found, title="large")
    spelled = {0: "np.random.default_rng(99).integers(-(2**31), 2**31, (64, 64))"}
    text = pytest_file(module, [x], found, title="large", spelled=spelled)
    hermetic(text)
    assert "((63, 63), " in text
    assert prove(text, "host", runs=1).passes


def test_a_text_that_gives_another_argument_is_refused():
    module = parse_module(LOG.replace("TYPE", "f32"))
    x = np.float32([1, 2, 3])
    with pytest.raises(InputError, match=r"is not np\.ones"):
        pytest_file(module, [x], expected(module, [x]), title="a", spelled={0: "np.ones(3)"})


def test_arguments_are_no_constants():
    module = parse_module(LOG.replace("TYPE", "f32"))
    x = np.float32([1, 2, 3])
    text = pytest_file(module, [x], expected(module, [x]), title="a")
    assert "def program(z):" in text
    assert "jax.jit(program)(*arguments)" in text


def test_a_crash_is_looked_for_in_a_process_of_its_own():
    module = parse_module(LOG.replace("TYPE", "f32"))
    text = pytest_file(module, [np.float32([1, 2, 3])], None, title="a crash")
    hermetic(text)
    assert prove(text, "host", runs=1).passes
    run = "    jax.block_until_ready("
    assert text.count(run) == 1
    outcomes = {"    os.abort()": "failed", "    raise ValueError": "error"}
    for other, outcome in outcomes.items():
        ends = text.replace("import sys", "import os\nimport sys").replace(run, f"{other}\n{run}")
        assert prove(ends, "host", runs=1).runs[0].outcome == outcome


@pytest.mark.slow
@pytest.mark.parametrize("form", ["lax", "hlo"])
def test_options_and_flags_reach_the_compiler(form):
    """What XLA does not know is no assertion that fails."""
    module = parse_module(LOG.replace("TYPE", "f32"))
    x = np.float32([1, 2, 3])
    right = expected(module, [x])
    good = pytest_file(module, [x], right, title="a", form=form, options={"xla_cpu_enable_fast_math": "true"})
    assert prove(good, "host", runs=1).passes
    bad = pytest_file(module, [x], right, title="a", form=form, options={"xla_no_such_option": "1"})
    assert prove(bad, "host", runs=1).runs[0].outcome == "error"
    flagged = pytest_file(module, [x], right, title="a", form=form, flags=["--xla_no_such_flag=1"])
    assert prove(flagged, "host", runs=1).runs[0].outcome in ("error", "crashed")


def test_nothing_decided_is_no_test():
    module = parse_module(LOG.replace("TYPE", "f32"))
    x = np.float32([1, 2, 3])
    anything = [Expected(x, np.full(3, -np.inf), np.full(3, np.inf))]
    with pytest.raises(InputError, match="could not fail"):
        pytest_file(module, [x], anything, title="a")


@pytest.mark.skipif(
    tuple(int(n) for n in jax.__version__.split(".")[:2]) < (0, 12), reason="XLA:CPU has no acosh before jax 0.12"
)
def test_where_jax_has_no_form_the_program_is_hlo():
    module = parse_module("HloModule m\n\nENTRY e {\n  x = f32[3] parameter(0)\n  ROOT y = f32[3] acosh(x)\n}\n")
    x = np.float32([1, 2, 3])
    with pytest.raises(Unsupported):
        pytest_file(module, [x], expected(module, [x]), title="a", form="lax")
    text = pytest_file(module, [x], expected(module, [x]), title="a")
    assert "acosh(%x)" in text
    assert prove(text, "host", runs=1).passes


def test_titles_are_safe():
    module = parse_module(LOG.replace("TYPE", "f32"))
    x = np.float32([1, 2, 3])
    title = '1 / 0 """ \\ is "wrong"'
    text = pytest_file(module, [x], expected(module, [x]), title=title, toolchain="jax 0.10.2", note="See #1. " * 40)
    hermetic(text)
    assert prove(text, "host", runs=1).passes


TPU = """HloModule m

ENTRY e {
  x = f32[8,128] parameter(0)
  c = f32[8,128] TAN
  ROOT y = f32[128,8] transpose(c), dimensions={1,0}
}
""".replace("TAN", "tanh(x)")


@pytest.mark.tpu
def test_for_a_tpu_that_is_not_there(tpu_toolchain):
    module = parse_module(TPU)
    x = np.linspace(-2, 2, 1024, dtype=np.float32).reshape(8, 128)
    right = expected_of(module, flatten(evaluate(module, [x], for_target("tpu:v5e", None)).value))
    text = pytest_file(module, [x], right, title="tanh", target="tpu:v5e", spelled={0: SPELLED})
    hermetic(text)
    proof = prove(text, tpu_toolchain, runs=1)
    assert proof.passes, proof.runs
    wrong = pytest_file(module, [x], [shifted(right[0], 0.25)], title="tanh", target="tpu:v5e", spelled={0: SPELLED})
    assert prove(wrong, tpu_toolchain, runs=1).fails


SPELLED = "np.linspace(-2, 2, 1024, dtype=np.float32).reshape(8, 128)"


def test_without_libtpu_a_test_for_a_tpu_is_skipped():
    from assay.toolchain import host

    if host().version("libtpu"):
        pytest.skip("this Python has libtpu")
    module = parse_module(TPU)
    x = np.zeros((8, 128), np.float32)
    right = expected_of(module, flatten(evaluate(module, [x], for_target("tpu:v5e", None)).value))
    text = pytest_file(module, [x], right, title="tanh", target="tpu:v5e")
    assert prove(text, "host", runs=1).runs[0].outcome == "skipped"


def test_issue_text_has_what_is_asked_for():
    module = parse_module(PRODUCT)
    arguments = [np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)]
    actual = [np.full((2, 4), 7, np.float32), np.tile(np.arange(4, dtype=np.int32), (2, 1))]
    found = expected(module, arguments, actual)
    text = issue_text(
        module,
        found,
        actual,
        title="A product is 7",
        target="cpu",
        versions={"jax": "0.10.2", "jaxlib": "0.10.2", "libtpu": None},
        test="def test_product(): ...",
        culprit="pass algsimp",
        wrong=["jaxlib 0.10.2"],
        right=["jaxlib 0.12.0.1"],
        avoided_by="XLA_FLAGS=--xla_disable_hlo_passes=algsimp",
    )
    for part in (
        "# A product is 7\n",
        "XLA:CPU of jaxlib 0.10.2 gives wrong results",
        "| 0 | [0, 0] | ",
        " | 7 |",
        "| 0 | 2 more | | |",
        "- jaxlib 0.10.2",
        "right in: jaxlib 0.12.0.1",
        "def test_product(): ...",
        "--xla_disable_hlo_passes=algsimp",
        "%c = f32[2,4]",
    ):
        assert part in text, part
    assert "libtpu" not in text
    assert "| 1 |" not in text
