"""What a user may set of the judgement: the policy, how sure sums are bounded, and the kind of bounds."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import assay
from assay.checking.api import ACCUMULATIONS, Request, refuse_unknown_names, settings_for
from assay.checking.bounds import KINDS, Bounds, Settings
from assay.checking.judge import judge
from assay.checking.target import Executed
from assay.errors import InputError
from assay.oracle.verdict import MismatchClass, Verdict
from assay.programs.program import from_hlo
from assay.reference.policies import NAMES, for_target, named
from assay.reference.policy_cpu import XLA_CPU
from assay.reference.policy_table import markdown, rows
from assay.report.json_form import as_dict
from assay.toolchain import ArrayType

BF16 = ml_dtypes.bfloat16
CHAIN = """HloModule chain
ENTRY main {
  x = bf16[4] parameter(0)
  y = bf16[4] multiply(x, x)
  ROOT r = bf16[4] subtract(y, x)
}
"""
DOT = """HloModule dot
ENTRY main {
  a = f32[4,64] parameter(0)
  b = f32[64,4] parameter(1)
  ROOT r = f32[4,4] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""
RNG = np.random.default_rng(3)
X = np.array([1.1, 1.3, -0.7, 2.9]).astype(BF16)
ROUNDED = (X * X) - X  # ml_dtypes rounds each operation
KEPT = (X.astype(np.float32) * X.astype(np.float32) - X.astype(np.float32)).astype(BF16)


class Compiler:
    """Computes what a test says it does, whatever it is given."""

    def __init__(self, answer):
        self.answer = answer

    def compile(self, payload, kind, options=None, timeout_s=None):
        return SimpleNamespace(results=(ArrayType("", self.answer.shape),), parameters=(), seconds=0.0)

    def run(self, compiled, arrays, timeout_s=None):
        return [self.answer]

    def holds(self, compiled):
        return True


def verdict(answer, settings, hlo=CHAIN, arguments=(X,)):
    program = from_hlo("p", hlo, hlo.encode(), "hlo-text")
    return judge(program, arguments, "test", Executed(Compiler(answer), program), settings)


def settings(policy=None, target="cpu", **more):
    return settings_for(Request(target=target, policy=policy, **more), {"jaxlib": "0.12.0"})


# ---------------------------------------------------------------- policies


def test_the_two_ways_to_compute_differ():
    assert not np.array_equal(ROUNDED, KEPT)


def test_a_rounding_skipped_agrees_under_xla_and_is_excess_precision_under_strict():
    assert verdict(KEPT, settings()).verdict == Verdict.AGREE
    assert verdict(ROUNDED, settings()).verdict == Verdict.AGREE
    assert verdict(ROUNDED, settings("strict")).verdict == Verdict.AGREE
    result = verdict(KEPT, settings("strict"))
    assert (result.verdict, result.klass) == (Verdict.MISMATCH, MismatchClass.EXCESS_PRECISION)
    assert "inside the bounds of xla-cpu, the target's own policy" in result.notes


def test_a_wrong_result_is_a_miscompile_under_strict_too():
    result = verdict((ROUNDED.astype(np.float32) * 1.2).astype(BF16), settings("strict"))
    assert (result.verdict, result.klass) == (Verdict.MISMATCH, MismatchClass.MISCOMPILE)
    assert not any("own policy" in note for note in result.notes)


def test_one_bf16_pass_is_legal_on_a_tpu_and_not_on_a_cpu():
    a, b = (RNG.normal(size=shape).astype(np.float32) for shape in ((4, 64), (64, 4)))
    one_pass = (a.astype(BF16).astype(np.float32) @ b.astype(BF16).astype(np.float32)).astype(np.float32)
    assert verdict(one_pass, settings("tpu-v5e"), DOT, (a, b)).verdict == Verdict.AGREE
    for name in (None, "xla-cpu", "strict"):
        assert verdict(one_pass, settings(name), DOT, (a, b)).verdict == Verdict.MISMATCH, name


def test_another_targets_policy_says_so_where_the_targets_own_allows_it():
    """A flushed subnormal: legal on XLA:CPU, not on a GPU."""
    hlo = CHAIN.replace("bf16", "f32")
    x = np.full(4, 1e-39, np.float32)
    result = verdict(np.zeros(4, np.float32), settings("gpu"), hlo, (x,))
    assert (result.verdict, result.klass) == (Verdict.MISMATCH, MismatchClass.FLUSHED_SUBNORMAL)
    assert "inside the bounds of xla-cpu, the target's own policy" in result.notes


def test_the_targets_own_policy_is_no_other():
    assert settings().own is None
    assert settings("xla-cpu").own is None
    assert settings("strict").own is XLA_CPU


# ---------------------------------------------------------------- accumulation


def test_certain_sums_are_bounded_by_n_u_and_probable_ones_by_its_root():
    """Against both formulas: 4,096 f32 products, S the sum of their sizes."""
    a, b = (RNG.normal(size=shape).astype(np.float32) for shape in ((1, 4096), (4096, 1)))
    hlo = re.sub("4,64", "1,4096", re.sub("64,4", "4096,1", DOT)).replace("f32[4,4]", "f32[1,1]")
    size, u = float((np.abs(a) @ np.abs(b))[0, 0]), 2.0**-24
    found = {}
    for name in ACCUMULATIONS:
        module = from_hlo("p", hlo, hlo.encode(), "hlo-text").module
        (ball,) = Bounds(module, [a, b], settings(accumulation=name)).plain()
        found[name] = float(ball.rad[0, 0]) / (u * size)
    assert found["probable"] <= 8 * 64 + 2
    assert found["certain"] == pytest.approx(4096, rel=0.01)


def test_accumulation_is_confidence():
    assert settings(accumulation="certain").policy.confidence == math.inf
    assert settings(accumulation="certain").own is None
    assert settings("strict", accumulation="certain").own == replace(XLA_CPU, confidence=math.inf)
    assert 2 * math.exp(-(for_target("cpu").confidence ** 2) / 2) < 3e-14


# ---------------------------------------------------------------- kinds of bounds

DEEP = "HloModule deep\nENTRY main {\n  x = f32[8,8] parameter(0)\n"
for _i in range(12):
    _from, _root = "x" if _i == 0 else f"t{_i - 1}", "ROOT " if _i == 11 else ""
    DEEP += f"  d{_i} = f32[8,8] dot({_from}, x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n"
    DEEP += f"  {_root}t{_i} = f32[8,8] tanh(d{_i})\n"
DEEP += "}\n"
ORTHOGONAL = np.linalg.qr(RNG.normal(size=(8, 8)))[0].astype(np.float32)


def bounds(kind, hlo, *arguments):
    module = from_hlo("p", hlo, hlo.encode(), "hlo-text").module
    found = Bounds(module, arguments, Settings(XLA_CPU, kind=kind))
    return (*found.sharp(), found)


def test_ball_takes_no_samples_and_what_says_nothing_is_undecided():
    (auto,), sampled, _ = bounds("auto", DEEP.replace("f32", "bf16"), ORTHOGONAL.astype(BF16))
    (ball,), none, found = bounds("ball", DEEP.replace("f32", "bf16"), ORTHOGONAL.astype(BF16))
    assert (sampled, none) == ([True], [False])
    assert ball.und is not None
    assert ball.und.mean() > 0.9
    assert "sampling" not in found.seconds
    assert auto.und is None or auto.und.mean() < 0.1


def test_sampled_takes_samples_even_where_radii_say_enough():
    (auto,), sampled, _ = bounds("auto", CHAIN, X)
    (drawn,), all_, found = bounds("sampled", CHAIN, X)
    assert (sampled, all_) == ([False], [True])
    assert found.seconds["sampling"] > 0
    assert not np.array_equal(auto.rad, drawn.rad)
    for way in (ROUNDED, KEPT):
        assert (np.abs(way.astype(float) - drawn.mid) <= drawn.rad).all()


def test_what_is_exact_stays_exact_under_every_kind():
    hlo = "HloModule m\nENTRY main {\n  x = f32[4] parameter(0)\n  ROOT r = f32[4] add(x, x)\n}\n"
    for kind in KINDS:
        (ball,), sampled, _ = bounds(kind, hlo, np.arange(4, dtype=np.float32))
        assert ball.exact, kind
        assert sampled == [False]


def test_a_wrong_result_is_found_under_every_kind():
    for kind in KINDS:
        result = verdict((ROUNDED.astype(np.float32) * 1.5).astype(BF16), Settings(XLA_CPU, kind=kind))
        assert result.verdict == Verdict.MISMATCH, kind
        assert result.outputs[0].bound == ("sampled" if kind == "sampled" else "ball")


def test_a_right_result_agrees_under_every_kind():
    for kind in KINDS:
        for way in (ROUNDED, KEPT):
            assert verdict(way, Settings(XLA_CPU, kind=kind)).verdict == Verdict.AGREE, kind


# ---------------------------------------------------------------- in Python


def test_check_takes_them_and_the_report_names_them():
    report = assay.check(
        lambda x: jnp.sum(x * x), np.ones(8, np.float32), policy="strict", accumulation="certain", bounds="ball"
    )
    assert report.ok
    assert "by policy strict, certain accumulation, ball bounds" in str(report)
    data = json.loads(json.dumps(as_dict(report)))
    assert (data["policy"], data["accumulation"], data["bounds"]) == ("strict", "certain", "ball")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"policy": "strickt"},
            "no policy 'strickt'; there is strict, xla-cpu, tpu-v5e, tpu-v6e, gpu; did you mean strict?",
        ),
        ({"accumulation": "prob"}, "accumulation 'prob': there is probable, certain; did you mean probable?"),
        ({"bounds": "balls"}, "bounds 'balls': there is auto, ball, sampled; did you mean ball?"),
    ],
)
def test_a_wrong_name_is_told_before_anything_starts(options, words):
    with pytest.raises(InputError, match=re.escape(words)):
        refuse_unknown_names(Request(**options))
    with pytest.raises(InputError, match=re.escape(words)):
        assay.check(lambda x: x, np.ones(2), **options)


# ---------------------------------------------------------------- the table


def test_the_table_in_the_documentation_is_the_datas():
    page = Path(__file__).parents[2] / "docs" / "reference.md"
    assert markdown([named(name, "cpu") for name in NAMES]) in page.read_text()


def test_the_table_says_what_differs():
    table = {name: dict(zip(NAMES, said, strict=True)) for name, *said in rows([named(n, "cpu") for n in NAMES])}
    assert table["excess precision"]["strict"] != table["excess precision"]["xla-cpu"]
    assert table["subnormals"]["gpu"] == "kept"
    assert table["f32 operands of dots"]["tpu-v5e"].startswith("default: 2^-6")
    assert table["not judged"]["tpu-v5e"] == "c128, f64"
    assert table["applies to"]["tpu-v5e"].startswith("tpu, tpu:v5e, tpu:v4")
