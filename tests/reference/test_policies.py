"""Policies: each field changes what is allowed, each target has one, and what a multiplier really loses is inside."""

from __future__ import annotations

from dataclasses import fields, replace

import ml_dtypes
import numpy as np
import pytest
from elements import apply, ball
from xla_cpu import reference

from assay.errors import AssayError, InputError, Unsupported
from assay.hlo.shape import DTYPES
from assay.reference.policies import NAMES, TARGETS, for_target, named, strict
from assay.reference.policy import Policy
from assay.reference.policy_cpu import XLA_CPU, XLA_CPU_OLDER
from assay.reference.policy_gpu import GPU, LIBDEVICE
from assay.reference.policy_tpu import TPU_V5E, TPU_V6E

EXACT = Policy("exact", excess_precision=False, flush_subnormals=False, default_ulps=0.0)
RNG = np.random.default_rng(5)


def radius(ball_):
    return np.zeros(ball_.mid.shape) if ball_.rad is None else ball_.rad


def dot(policy, a, b, dtype="f32", more=""):
    text = f"""HloModule m
ENTRY e {{
  a = {dtype}[{a.shape[0]},{a.shape[1]}] parameter(0)
  b = {dtype}[{b.shape[0]},{b.shape[1]}] parameter(1)
  ROOT r = {dtype}[{a.shape[0]},{b.shape[1]}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}{more}
}}"""
    return reference(text, [a, b], policy)[0]


def precision(name):
    return f", operand_precision={{{name},{name}}}"


# ---------------------------------------------------------------- each field

X = np.array([1 + 2.0**-9])
SMALL = np.array([1e-39, 2e-39])
MANY = RNG.normal(size=(1, 900)).astype(np.float32)


def narrowed(policy):
    return radius(apply("convert", ball("f32", X), out="bf16", policy=policy))


def product(policy):
    return radius(dot(policy, MANY, MANY.T))


FIELDS = {
    "excess_precision": (EXACT, True, narrowed),
    "flush_subnormals": (EXACT, True, lambda p: radius(apply("add", ball("f32", SMALL), ball("f32", SMALL), policy=p))),
    "accumulate": (
        EXACT,
        {"bf16": "f32"},
        lambda p: radius(dot(p, MANY.astype(ml_dtypes.bfloat16), MANY.T.astype(ml_dtypes.bfloat16), "bf16")),
    ),
    "products": (EXACT, GPU.products, product),
    "ulps": (EXACT, {"exponential": {"f32": 9.0}}, lambda p: radius(apply("exponential", ball("f32", X), policy=p))),
    "near_overflow": (
        XLA_CPU,
        {"exponential": {"f32": 9.0}},
        lambda p: radius(apply("exponential", ball("f32", [88.0]), policy=p)),
    ),
    "per_octave": (XLA_CPU, {}, lambda p: radius(apply("cbrt", ball("f32", [2.0**100]), policy=p))),
    "absolute": (XLA_CPU, {"log": {"f32": 3.0}}, lambda p: radius(apply("log", ball("f32", X), policy=p))),
    "merges_exponentials": (
        XLA_CPU,
        True,
        lambda p: radius(
            reference(
                "HloModule m\nENTRY e {\n  x = f32[2] parameter(0)\n  a = f32[2] exponential(x)\n"
                "  y = f32[2] negate(x)\n  b = f32[2] exponential(y)\n  ROOT r = f32[2] multiply(a, b)\n}\n",
                [np.array([20.3, 31.7], np.float32)],
                p,
            )[0]
        ),
    ),
    "flushes_reciprocals": (
        EXACT,
        True,
        lambda p: apply("divide", ball("f32", [1.0]), ball("f32", [2.0**127]), policy=p).und is None,
    ),
    "default_ulps": (EXACT, 4.0, lambda p: radius(apply("exponential", ball("f32", X), policy=p))),
    "nan_minmax": (
        XLA_CPU,
        "either",
        lambda p: apply("maximum", ball("f32", [np.nan]), ball("f32", [1.0]), policy=p).und is None,
    ),
    "confidence": (XLA_CPU, np.inf, product),
}


def test_every_field_is_tested():
    assert FIELDS.keys() == {f.name for f in fields(Policy)} - {"name", "unknown"}


@pytest.mark.parametrize("name", FIELDS)
def test_each_field_changes_what_is_allowed(name):
    policy, value, measure = FIELDS[name]
    assert getattr(policy, name) != value
    before, after = measure(policy), measure(replace(policy, **{name: value}))
    assert not np.array_equal(before, after), name


def test_what_is_unknown_is_not_judged():
    policy = replace(XLA_CPU, unknown=frozenset({"f64"}))
    x = ball("f64", X)
    with pytest.raises(Unsupported, match="f64 under the policy xla-cpu: nothing is known of it"):
        apply("add", x, x, policy=policy)
    assert apply("maximum", x, x, policy=policy).mid[0] == X[0]  # moves and choices round nothing


# ---------------------------------------------------------------- strict


@pytest.mark.parametrize("name", ["bf16", "f16", "f32"])
@pytest.mark.parametrize("opcode", ["add", "multiply", "subtract"])
def test_under_strict_an_operation_on_exact_operands_has_one_result(name, opcode):
    """Against ml_dtypes and NumPy, which round every operation."""
    dtype = DTYPES[name].numpy
    a, b = (RNG.normal(size=500).astype(dtype) for _ in range(2))
    want = {"add": np.add, "multiply": np.multiply, "subtract": np.subtract}[opcode](a, b)
    got = apply(
        opcode,
        ball(name, a.astype(np.float64)),
        ball(name, b.astype(np.float64)),
        policy=strict(replace(XLA_CPU, flush_subnormals=False)),
    )
    assert got.exact
    assert np.array_equal(got.mid, want.astype(np.float64))


def test_strict_overflows_where_the_type_does():
    top = ball("bf16", [DTYPES["bf16"].max])
    assert apply("add", top, top, policy=strict(XLA_CPU)).mid[0] == np.inf


# ---------------------------------------------------------------- operands of less precision


def cut(x, bits):
    """x with so many bits after the point, the others cut off."""
    drop = 23 - bits
    return (x.astype(np.float32).view(np.uint32) >> drop << drop).view(np.float32)


def parts(x, count):
    """x as a sum of `count` parts of bf16's 8 bits."""
    rest, found = x.astype(np.float32), []
    for _ in range(count):
        found.append(cut(rest, 7))
        rest = rest - found[-1]
    return [part.astype(np.float64) for part in found]


def passes(a, b, count, kept):
    """The products of parts i, j with i + j < kept, of operands in `count` parts."""
    left, right = parts(a, count), parts(b, count)
    return sum(left[i] @ right[j] for i in range(count) for j in range(count) if i + j < kept)


A, B = RNG.normal(size=(6, 40)).astype(np.float32), RNG.normal(size=(40, 7)).astype(np.float32)


@pytest.mark.parametrize(
    ("policy", "name", "result"),
    [
        (TPU_V5E, "default", passes(A, B, 1, 1)),
        (TPU_V5E, "high", passes(A, B, 2, 2)),
        (TPU_V5E, "highest", passes(A, B, 3, 3)),
        (GPU, "default", cut(A, 10).astype(float) @ cut(B, 10)),
        (GPU, "high", cut(A, 10).astype(float) @ cut(B, 10)),
        (GPU, "highest", A.astype(float) @ B),
        (TPU_V5E, "default", A.astype(ml_dtypes.bfloat16).astype(float) @ B.astype(ml_dtypes.bfloat16).astype(float)),
    ],
)
def test_what_the_multiplier_keeps_is_inside(policy, name, result):
    got = dot(policy, A, B, more=precision(name))
    assert (np.abs(result - got.mid) <= got.rad).all()


def test_one_pass_is_not_allowed_where_more_are_asked_for():
    for policy, loose, name in ((TPU_V5E, "default", "high"), (TPU_V5E, "high", "highest"), (GPU, "high", "highest")):
        wide = dot(policy, A, B, more=precision(loose)).rad
        assert (dot(policy, A, B, more=precision(name)).rad < wide / 2).all()
    bf16_pass = passes(A, B, 1, 1)
    got = dot(TPU_V5E, A, B, more=precision("highest"))
    assert (np.abs(bf16_pass - got.mid) > got.rad).mean() > 0.9


def test_xla_cpu_keeps_whole_operands():
    assert np.array_equal(dot(XLA_CPU, A, B).rad, dot(XLA_CPU, A, B, more=precision("highest")).rad)


def test_operands_that_fit_lose_nothing():
    """Small integers have the same exact products in bf16, in tf32 and in f32, so a wrong index cannot hide."""
    a, b = (RNG.integers(-128, 128, shape).astype(np.float32) for shape in ((4, 9), (9, 3)))
    for policy in (TPU_V5E, GPU):
        got = dot(policy, a, b)
        assert got.exact
        assert np.array_equal(got.mid, a.astype(float) @ b)
    assert dot(TPU_V5E, a * 257, b).rad is not None  # nine bits


def test_convolutions_lose_as_much():
    text = """HloModule m
ENTRY e {
  a = f32[1,8,1] parameter(0)
  b = f32[3,1,1] parameter(1)
  ROOT r = f32[1,6,1] convolution(a, b), window={size=3}, dim_labels=b0f_0io->b0f
}"""
    a, b = RNG.normal(size=(1, 8, 1)).astype(np.float32), RNG.normal(size=(3, 1, 1)).astype(np.float32)
    loose, tight = (reference(text, [a, b], policy)[0] for policy in (TPU_V5E, XLA_CPU))
    want = np.correlate(cut(a, 7).ravel().astype(float), cut(b, 7).ravel().astype(float), "valid")
    assert (np.abs(want - loose.mid.ravel()) <= loose.rad.ravel()).all()
    assert (tight.rad < loose.rad / 100).all()


def test_an_algorithm_of_the_programs_own_comes_first():
    got = dot(TPU_V5E, A, B, more=", algorithm=dot_f32_f32_f32")
    assert (got.rad < dot(TPU_V5E, A, B).rad / 100).all()


# ---------------------------------------------------------------- functions and divisions


@pytest.mark.parametrize("opcode", LIBDEVICE)
def test_gpu_allows_what_nvidia_states_and_what_xlas_own_polynomials_need(opcode):
    for dtype, ulps in LIBDEVICE[opcode].items():
        assert GPU.ulps[opcode][dtype] >= ulps
        assert GPU.ulps[opcode][dtype] >= XLA_CPU_OLDER.ulps[opcode].get(dtype, 0.0)


def test_divisions_round_correctly_only_where_nothing_else_is_said():
    a, b = ball("f32", [1.0]), ball("f32", [3.0])
    off = {p.name: float(apply("divide", a, b, policy=p).rad[0]) * 2**25 * 3 for p in (XLA_CPU, GPU, TPU_V5E, TPU_V6E)}
    assert off["xla-cpu"] < 3  # a reciprocal and a product, at worst
    assert off["xla-cpu"] < off["gpu"] < off["tpu-v5e"] < off["tpu-v6e"]


def test_subnormals_stay_on_the_gpu_and_go_on_the_tpu():
    x = ball("f32", [1e-40])
    assert apply("add", x, x, policy=GPU).rad[0] < 1e-44
    assert apply("add", x, x, policy=TPU_V5E).rad[0] > 1e-40


def test_f64_on_a_tpu_is_not_judged():
    with pytest.raises(Unsupported, match="f64 under the policy tpu-v5e"):
        apply("add", ball("f64", X), ball("f64", X), policy=TPU_V5E)


# ---------------------------------------------------------------- names and targets


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_known_for_every_target(target, name):
    assert named(name, target, "0.12.0").name.startswith(name)


def test_a_target_has_its_own():
    assert for_target("cpu", "0.12.0.1") is XLA_CPU
    assert for_target("cpu") is XLA_CPU_OLDER
    assert for_target("gpu") is GPU
    assert for_target("tpu") is for_target("tpu:v5e") is for_target("tpu:v5p") is TPU_V5E
    assert for_target("tpu:v6e") is for_target("tpu:tpu7x") is TPU_V6E
    with pytest.raises(AssayError, match="no numerics policy for the target 'abacus'; there is one for cpu, gpu"):
        for_target("abacus")


def test_strict_is_the_targets_own_without_excess_precision():
    for target in TARGETS:
        own, got = for_target(target, "0.12.0"), named("strict", target, "0.12.0")
        assert got == replace(own, name="strict", excess_precision=False)


@pytest.mark.parametrize(("name", "guess"), [("strickt", "strict"), ("tpu", "tpu-v5e"), ("xlacpu", "xla-cpu")])
def test_a_wrong_name_is_told_with_the_nearest(name, guess):
    with pytest.raises(InputError, match=f"no policy '{name}'; there is strict, .*; did you mean {guess}"):
        named(name, "cpu")


def test_a_name_like_no_other_gets_no_guess():
    with pytest.raises(InputError, match=r"gpu$"):
        named("zzz", "cpu")
