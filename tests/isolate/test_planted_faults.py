"""benchmarks/passes: every kind of fault is a wrong rewrite, and assay puts it down to the pass that made it."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "passes"
sys.path.insert(0, str(BENCHMARK))

from carry import edited, places, plant  # noqa: E402
from faults import FAULTS  # noqa: E402
from trials import Case  # noqa: E402
from trials import _inside as unfound  # noqa: E402

from assay.checking.bounds import Settings  # noqa: E402
from assay.hlo.module import Module  # noqa: E402
from assay.hlo.parse import parse_module  # noqa: E402
from assay.hlo.printer import print_module  # noqa: E402
from assay.hlo.types import check_module  # noqa: E402
from assay.isolate.judgement import Inputs  # noqa: E402
from assay.reference.evaluator import evaluate  # noqa: E402
from assay.reference.policies import for_target  # noqa: E402
from assay.reference.value import flatten  # noqa: E402

ADD = """add { a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT s = s32[] add(a, b)
}
"""
X4 = np.array([3, -1, 4, 100], np.int32)
X33 = np.arange(9, dtype=np.int32).reshape(3, 3)

# kind: (HLO text before ENTRY, the entry's lines, its argument, what it gives, what the wrong rewrite gives)
CASES: dict[str, tuple[str, str, np.ndarray, object, object]] = {
    "dropped narrowing convert": (
        "", "c = s8[4] convert(x)\nROOT r = s32[4] convert(c)", X4 * 3, [9, -3, 12, 44], [9, -3, 12, 300]),
    "index off by one": (
        "", "i = s32[] constant(1)\nROOT r = s32[2] dynamic-slice(x, i), dynamic_slice_sizes={2}", X4,
        [-1, 4], [4, 100]),
    "clamp off by one": (
        "", "a = s32[] constant(0)\nb = s32[] constant(9)\nROOT r = s32[4] clamp(a, x, b)", X4,
        [3, 0, 4, 9], [3, 0, 4, 8]),
    "wrong iota width": (
        "", "i = s32[130] iota(), iota_dimension=0\nj = s32[4] slice(i), slice={[126:130]}\nROOT r = s32[4] add(j, x)",
        X4 * 0, [126, 127, 128, 129], [126, 127, -128, -127]),
    "wrong pad value": (
        "", "z = s32[] constant(0)\nROOT r = s32[6] pad(x, z), padding=1_1", X4,
        [0, 3, -1, 4, 100, 0], [1, 3, -1, 4, 100, 1]),
    "swapped compare direction": (
        "", "c = s32[] constant(4)\nb = s32[4] broadcast(c), dimensions={}\n"
        "ROOT r = pred[4] compare(x, b), direction=LT",
        X4, [1, 1, 0, 0], [0, 0, 0, 1]),
    "wrong reduce init": (
        ADD, "z = s32[] constant(0)\nROOT r = s32[] reduce(x, z), dimensions={0}, to_apply=add", X4, 106, 107),
    "transposed operand": ("", "ROOT r = s32[3,3] subtract(x, x)", X33, np.zeros((3, 3)), X33.T - X33),
    "sign extension lost": (
        "", "c = s8[4] convert(x)\nROOT r = s32[4] convert(c)", X4, [3, -1, 4, 100], [3, 255, 4, 100]),
    "dilated pad folded": (
        "", "z = s32[] constant(0)\nROOT r = s32[7] pad(x, z), padding=0_0_1", X4,
        [3, 0, -1, 0, 4, 0, 100], [3, -1, 4, 100, 0, 0, 0]),
    "trip count off by one": (
        """less { p = (s32[], s32[4]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT
}
more { q = (s32[], s32[4]) parameter(0)
  j = s32[] get-tuple-element(q), index=0
  o = s32[] constant(1)
  k = s32[] add(j, o)
  v = s32[4] get-tuple-element(q), index=1
  w = s32[4] add(v, v)
  ROOT t = (s32[], s32[4]) tuple(k, w)
}
""",
        "z = s32[] constant(0)\nt = (s32[], s32[4]) tuple(z, x)\n"
        "w = (s32[], s32[4]) while(t), condition=less, body=more\nROOT r = s32[4] get-tuple-element(w), index=1",
        X4, X4 * 8, X4 * 4),
    "degenerate scatter index": (
        ADD, "i = s32[1,1] constant({{2}})\nu = s32[1] constant({7})\nROOT r = s32[4] scatter(x, i, u), to_apply=add, "
        "update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1",
        X4, [3, -1, 11, 100], [10, -1, 4, 100]),
    "swapped branches": (
        "", "c = pred[4] constant({1, 0, 1, 0})\ny = s32[4] negate(x)\nROOT r = s32[4] select(c, x, y)", X4,
        [3, 1, 4, -100], [-3, -1, -4, 100]),
    "swapped pieces": (
        "", "y = s32[4] negate(x)\nROOT r = s32[8] concatenate(x, y), dimensions={0}", X4,
        [3, -1, 4, 100, -3, 1, -4, -100], [-3, 1, -4, -100, 3, -1, 4, 100]),
    "reverse lost": ("", "ROOT r = s32[4] reverse(x), dimensions={0}", X4, X4[::-1], X4),
}  # fmt: skip


def module_of(kind: str) -> Module:
    before, lines, x, _, _ = CASES[kind]
    shape = f"s32[{','.join(map(str, x.shape))}]"
    return parse_module(f"HloModule m\n\n{before}\nENTRY main {{\nx = {shape} parameter(0)\n{lines}\n}}\n")


def value(module: Module, x: np.ndarray) -> np.ndarray:
    found = evaluate(module, [x], for_target("cpu", "0.12.0.1"))
    return flatten(found.value)[0].mid


def test_every_kind_has_a_case() -> None:
    assert set(CASES) == set(FAULTS)
    assert len(FAULTS) >= 12


@pytest.mark.parametrize("kind", CASES)
def test_a_fault_is_the_wrong_rewrite_that_it_is_called(kind: str) -> None:
    _, _, x, right, wrong = CASES[kind]
    module = module_of(kind)
    (place,) = places(module, FAULTS[kind])[:1]
    made = edited(module, FAULTS[kind], *place)
    assert made is not None
    check_module(made)
    again = parse_module(print_module(made))
    np.testing.assert_array_equal(value(module, x), right)
    np.testing.assert_array_equal(value(again, x), wrong)


def test_a_fault_is_carried_as_far_as_the_instruction_stands() -> None:
    first = module_of("reverse lost")
    other = parse_module(print_module(first).replace("reverse(", "negate(").replace(", dimensions={0}", ""))
    planted = plant([first, first, first, other, first], "reverse lost", np.random.default_rng(0))
    assert planted is not None
    assert planted.at in (1, 2, 4)
    assert len(planted.modules) == {1: 2, 2: 1, 4: 1}[planted.at]
    assert plant([first, other], "reverse lost", np.random.default_rng(0)) is None


@pytest.mark.slow
@pytest.mark.parametrize("where", [["--target", "cpu"], ["--inside"]], ids=["chain", "inside"])
def test_planted_faults_are_found_and_put_down_to_the_right_pass(tmp_path: Path, where: list[str]) -> None:
    if where == ["--inside"] and importlib.util.find_spec("jax.extend.xla") is None:
        pytest.skip("this jax has no register_hlo_module_transformation")
    command = [
        sys.executable,
        str(BENCHMARK),
        *where,
        "--no-example",
        "--trials",
        "12",
        "--out",
        str(tmp_path / "rows"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-2000:]
    figures = dict(line.rsplit(": ", 1) for line in done.stdout.splitlines() if ": " in line)
    assert "(100.0%)" in figures["found, or shown equivalent on the inputs tried"]
    assert "(100.0%)" in figures["right interval, of those found"]
    assert figures["dce, rename, layout, scheduling blamed wrongly"] == "0"


NEAR = """HloModule m

ENTRY main {
  x = f32[64,64] parameter(0)
  y = f32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = f32[] constant(OFF)
  b = f32[64,64] broadcast(c), dimensions={}
  ROOT r = f32[64,64] add(y, b)
}
"""


@pytest.mark.parametrize(("off", "outcome"), [("1e-9", "lost in rounding"), ("1e-3", "inside")])
def test_a_fault_is_lost_in_rounding_where_honest_runs_are_off_by_more(off: str, outcome: str) -> None:
    right, wrong = (parse_module(NEAR.replace("OFF", text)) for text in ("0", off))
    x = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    honest = [np.abs(x @ x - x.astype(np.float64) @ x), np.abs(x.T.copy().T @ x - x.astype(np.float64) @ x)]
    assert all((float(off) < np.sqrt(np.square(h).mean())) == (outcome == "lost in rounding") for h in honest)
    settings = Settings(for_target("cpu", "0.12.0.1"))
    case = Case("m", right, (), lambda _: "", (right,), (Inputs("given", (x,)),), settings)
    found = unfound(case, wrong, right)
    assert found["outcome"] == outcome
    assert found["off"] == pytest.approx(float(off) / np.abs(x.astype(np.float64) @ x).max(), rel=0.1, abs=6e-8)
