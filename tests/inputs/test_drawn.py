"""Inputs that are looked at: the cases in which drawing by local rules alone goes wrong."""

from __future__ import annotations

import time

import numpy as np
import pytest

from assay.errors import InputError
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.parse import parse_module
from assay.hlo.printer import print_module
from assay.inputs.classes import CLASSES, MEANT
from assay.inputs.drawn import Drawn, draw_inputs
from assay.inputs.generate import generate
from assay.inputs.survey import POLICY, survey
from assay.reference.evaluator import evaluate
from assay.reference.value import Array, Ball, Value

BODIES = """
sum { x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT r = f32[] add(x, y)
}
top { x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT r = f32[] maximum(x, y)
}
"""
DRAWING = [kind for kind in CLASSES if kind not in MEANT]


def module(*lines: str, dtype: str = "f32") -> Module:
    """`T` is an array of 64 elements, `M` one of 32 by 64."""
    body = "\n".join(
        "  " + line.replace(" T ", f" {dtype}[64]{{0}} ").replace(" M ", f" {dtype}[32,64]{{1,0}} ") for line in lines
    )
    return parse_module(f"HloModule m\n{BODIES.replace('f32', dtype)}\nENTRY e {{\n{body}\n}}\n")


def output(program: Module, arrays: list[Array]) -> Array:
    return survey(program, arrays).outputs[0]


def softmax(*before: str) -> list[str]:
    return [
        *before,
        "zero = f32[] constant(0)",
        "low = f32[] constant(-inf)",
        "m = f32[32]{0} reduce(x, low), dimensions={1}, to_apply=top",
        "b = M broadcast(m), dimensions={0}",
        "d = M subtract(x, b)",
        "e = M exponential(d)",
        "s = f32[32]{0} reduce(e, zero), dimensions={1}, to_apply=sum",
        "t = M broadcast(s), dimensions={0}",
        "ROOT r = M divide(e, t)",
    ]


@pytest.mark.parametrize("kind", DRAWING)
def test_half_of_an_f16_is_finite_and_small_magnitudes_occur(kind: str) -> None:
    program = module("p = T parameter(0)", "h0 = f16[] constant(0.5)", "h = T broadcast(h0), dimensions={}",
                     "ROOT r = T multiply(p, h)", dtype="f16")  # fmt: skip
    drawn = draw_inputs(program, 0, kind)
    assert drawn.outcome == "finite"
    assert np.isfinite(drawn.arrays[0].astype(np.float64)).all()
    if kind == "log-uniform":
        magnitudes = np.abs(drawn.arrays[0].astype(np.float64))
        assert (magnitudes < 0.03).mean() > 0.1
        assert (magnitudes > 10).mean() > 0.1


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f8e5m2", "f8e4m3fn"])
def test_products_of_log_uniform_numbers_stay_in_a_narrow_type(dtype: str) -> None:
    program = module("p = T parameter(0)", "q = T parameter(1)", "a = T multiply(p, q)", "b = T multiply(a, p)",
                     "c = T multiply(b, b)", "ROOT r = T add(c, c)", dtype=dtype)  # fmt: skip
    for seed in range(5):
        arrays = generate(program, seed, "log-uniform")
        assert survey(program, arrays).strange == 0
        assert np.unique(np.abs(arrays[0].astype(np.float64))).size > 4


@pytest.mark.parametrize("kind", DRAWING)
def test_x_minus_its_maximum_bends_nothing(kind: str) -> None:
    program = module(*softmax("x = M parameter(0)"))
    plain = module("x = M parameter(0)", "ROOT r = M copy(x)")
    drawn = draw_inputs(program, 3, kind)
    assert drawn.outcome == "finite"
    assert drawn.arrays[0].tobytes() == generate(plain, 3, kind)[0].tobytes()


@pytest.mark.parametrize("kind", DRAWING)
def test_a_masked_softmax_keeps_its_infinities_and_its_results_are_finite(kind: str) -> None:
    program = module(*softmax(
        "p = pred[32,64]{1,0} parameter(0)", "v = M parameter(1)", "inf = f32[] constant(-inf)",
        "w = M broadcast(inf), dimensions={}", "x = M select(p, v, w)",
    ))  # fmt: skip
    drawn = draw_inputs(program, 1, kind)
    assert drawn.outcome == "finite"
    assert not drawn.arrays[0].all()  # something is masked
    assert (output(program, drawn.arrays) == 0).any()


def test_a_logarithm_of_x_and_one_of_minus_x_plus_y_leave_room() -> None:
    """By signs alone (x > 0, and x + y < 0 only where both are) nothing would be left."""
    lines = ["x = T parameter(0)", "y = T parameter(1)", "l = T log(x)", "s = T add(x, y)", "n = T negate(s)",
             "k = T log(n)", "ROOT r = T add(l, k)"]  # fmt: skip
    for kind in DRAWING:
        drawn = draw_inputs(module(*lines), 0, kind)
        assert drawn.outcome == "finite", kind
        assert (drawn.arrays[0] > 0).all()


def unsatisfiable(*lines: str) -> str:
    drawn = draw_inputs(module(*lines), 0)
    assert drawn.sensitivity == ()
    return drawn.outcome


def test_what_excludes_itself_is_told_with_the_instructions_that_do() -> None:
    assert unsatisfiable(
        "x = T parameter(0)", "y = T parameter(1)", "z = T parameter(2)", "first = T log(x)", "other = T sqrt(z)",
        "second = T log(y)", "s = T add(x, y)", "n = T negate(s)", "third = T log(n)", "a = T add(first, second)",
        "b = T add(third, other)", "ROOT r = T add(a, b)",
    ) == "invalid(unsatisfiable: first, second, third)"  # fmt: skip
    assert unsatisfiable(
        "x = T parameter(0)", "l = T log(x)", "n = T negate(x)", "k = T log(n)", "ROOT r = T add(l, k)"
    ) == "invalid(unsatisfiable: l, k)"  # fmt: skip
    assert unsatisfiable(
        "x = T parameter(0)", "t0 = f32[] constant(10)", "t = T broadcast(t0), dimensions={}", "s = T add(x, t)",
        "l = T asin(s)", "k = T sqrt(x)", "ROOT r = T add(l, k)",
    ) == "invalid(unsatisfiable: l, k)"  # fmt: skip
    assert unsatisfiable("x = T parameter(0)", "d = T subtract(x, x)", "ROOT r = T divide(x, d)") == (
        "invalid(unsatisfiable: r)"
    )


REFUSED = {
    "what is at most 1 rounds to at most 1": [
        "x = T parameter(0)", "t = T tanh(x)", "l = T log(t)", "ROOT r = T rsqrt(l)"],
    "a negative number to a power that is whole at an even number alone": [
        "x = T parameter(0)", "y = T parameter(1)", "h0 = f32[] constant(0.5)", "h = T broadcast(h0), dimensions={}",
        "l = T logistic(y)", "e = T multiply(l, h)", "a = T exponential(x)", "n = T negate(a)", "p = T power(n, e)",
        "q = T divide(n, p)", "i = T rsqrt(n)", "ROOT r = T log(q)"],
    "x + -x": ["x = T parameter(0)", "n = T negate(x)", "z = T add(x, n)", "ROOT r = T divide(x, z)"],
    "x / -x": ["x = T parameter(0)", "n = T negate(x)", "q = T divide(x, n)", "ROOT r = T rsqrt(q)"],
    "x * -x": ["x = T parameter(0)", "n = T negate(x)", "q = T multiply(x, n)", "ROOT r = T rsqrt(q)"],
    "min(x, y) - x": [
        "x = T parameter(0)", "y = T parameter(1)", "m = T minimum(y, x)", "d = T subtract(m, x)", "ROOT r = T log(d)"],
    "log(x) - |x|": [
        "x = T parameter(0)", "l = T log(x)", "a = T abs(x)", "d = T subtract(l, a)", "ROOT r = T rsqrt(d)"],
    "a - (a + b), of b that is not negative": [
        "x = T parameter(0)", "y = T parameter(1)", "b = T multiply(y, y)", "s = T add(x, b)",
        "d = T subtract(x, s)", "ROOT r = T log(d)"],
    "the same computed twice": [
        "x = T parameter(0)", "a = T tanh(x)", "b = T tanh(x)", "d = T subtract(a, b)", "ROOT r = T divide(x, d)"],
    "two factors, neither negative, whose product must be positive": [
        "x = T parameter(0)", "y = T parameter(1)", "q = T sqrt(x)", "m = T multiply(q, y)", "l = T log(m)",
        "n = T negate(y)", "k = T log(n)", "ROOT r = T add(l, k)"],
    "a base that is negative where the exponent is none or one alone": [  # log(s) ** s for 0 < s <= 1
        "x = T parameter(0)", "s = T sine(x)", "l = T log(s)", "p = T power(l, s)", "ROOT r = T log(p)"],
    "an exponent that is whole at no place that is left": [
        "x = T parameter(0)", "q = T sqrt(x)", "g = T logistic(x)", "s = T sine(g)", "n = T negate(s)",
        "p = T power(n, s)", "ROOT r = T add(p, q)"],
    "zero to a negative power": [
        "x = T parameter(0)", "a = T abs(x)", "z = T subtract(a, a)", "g = T logistic(a)", "n = T negate(g)",
        "ROOT r = T power(z, n)"],
    "zero to a power that is neither zero nor infinite": [
        "x = T parameter(0)", "y = T parameter(1)", "z = T subtract(x, x)", "p = T power(z, y)", "q = T divide(p, p)",
        "ROOT r = T divide(q, y)"],
    "the same to the same": [
        "x = T parameter(0)", "m = T minimum(x, x)", "q = T divide(x, m)", "t = T tanh(x)", "d = T subtract(t, q)",
        "ROOT r = T rsqrt(d)"],
    "x + 0 * 1": [
        "x = T parameter(0)", "n = T negate(x)", "z = T add(n, x)", "s = T add(x, z)", "q = T divide(n, s)",
        "ROOT r = T log(q)"],
    "min(x, -x)": ["x = T parameter(0)", "n = T negate(x)", "m = T minimum(n, x)", "ROOT r = T rsqrt(m)"],
    "|x| - x, of x that is not negative": [
        "x = T parameter(0)", "n = T negate(x)", "m = T maximum(n, x)", "q = T sqrt(n)", "d = T subtract(n, m)",
        "ROOT r = T divide(q, d)"],
    "tanh(s) * sin(-s)": [
        "x = T parameter(0)", "s = T sine(x)", "t = T tanh(s)", "n = T negate(s)", "w = T sine(n)",
        "m = T multiply(t, w)", "ROOT r = T rsqrt(m)"],
    "(-x / exp(y)) / x": [
        "x = T parameter(0)", "y = T parameter(1)", "n = T negate(x)", "e = T exponential(y)", "q = T divide(n, e)",
        "d = T divide(q, x)", "ROOT r = T log(d)"],
    "sin(x) + x, of x that is positive, is too": [  # so that tanh(y) to its power is at most 1
        "x = T parameter(0)", "y = T parameter(1)", "l = T log(x)", "n = T negate(x)", "s = T sine(x)",
        "d = T subtract(s, n)", "t = T tanh(y)", "p = T power(t, d)", "a = T abs(p)", "k = T log(a)",
        "i = T rsqrt(k)", "ROOT r = T add(i, l)"],
    "the sine of what lies between 0 and pi": [
        "x = T parameter(0)", "t = T tanh(x)", "a = T abs(t)", "b = T add(a, a)", "n = T negate(b)", "s = T sine(n)",
        "ROOT r = T rsqrt(s)"],
    "what is finite alone": [  # exp(x) ** y is infinite or not negative
        "x = T parameter(0)", "y = T parameter(1)", "e = T exponential(x)", "p = T power(e, y)", "n = T negate(p)",
        "ROOT r = T log(n)"],
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_what_no_inputs_allow_is_refused(kind: str) -> None:
    lines = REFUSED[kind]
    assert unsatisfiable(*lines).startswith("invalid(unsatisfiable: "), kind
    # Independently of any rule: of a hundred thousand inputs, none keeps every value finite.
    wide = parse_module(print_module(module(*lines)).replace("f32[64]", "f32[100000]"))
    arrays = [np.random.default_rng(k).choice(TRIED, 100_000).astype(np.float32) for k in range(len(wide.arrays))]
    assert fine(wide, arrays) == 0


def test_of_a_row_less_its_maximum_an_element_is_zero() -> None:
    body = "top {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT r = f32[] %s(a, b)\n}\n"
    text = """HloModule m
%sENTRY e {
  x = f32[4,8] parameter(0)
  y = f32[4,8] parameter(1)
  low = f32[] constant(%s)
  t = f32[4] reduce(x, low), dimensions={1}, to_apply=top
  b = f32[4,8] broadcast(t), dimensions={0}
  d = f32[4,8] subtract(%s)
  ROOT r = f32[4,8] log(d)
}
"""
    for kind, start, operands, refused in (
        ("maximum", "-inf", "b, x", True),
        ("minimum", "inf", "x, b", True),
        ("maximum", "5", "b, x", False),
        ("maximum", "-inf", "b, y", False),
    ):
        outcome = draw_inputs(parse_module(text % (body % kind, start, operands)), 0).outcome
        assert outcome == ("invalid(unsatisfiable: r)" if refused else "finite"), (kind, start, operands)


TRIED = np.concatenate(
    [np.arange(-9, 10), np.arange(-9, 10) / 8, np.ldexp(np.array([[1.0], [-1.0]]), np.arange(-126, 127, 9)).ravel()]
)


def fine(program: Module, arrays: list[Array]) -> int:
    """At how many places every value is finite."""
    good = np.ones(arrays[0].shape, bool)

    def look(computation: Computation, instruction: Instruction, value: Value) -> None:
        if isinstance(value, Ball) and value.mid.shape == good.shape:
            good[~np.isfinite(value.mid)] = False

    rng = np.random.default_rng(0)
    evaluate(program, arrays, POLICY, rng=rng, amplitude=0.0, alike=False, nearest=True, on_value=look)
    return int(np.count_nonzero(good))


def test_whole_numbers_are_found_where_nothing_else_will_do() -> None:
    """A negative base; a base that must be zero; a power that must be even."""
    for lines in (
        ["x = T parameter(0)", "y = T parameter(1)", "e = T exponential(y)", "n = T negate(e)", "p = T power(n, x)",
         "m = T negate(p)", "ROOT r = T log(m)"],
        ["x = T parameter(0)", "s = T sqrt(x)", "n = T negate(x)", "ROOT r = T sqrt(n)"],
        ["x = T parameter(0)", "a = T log(x)", "n = T negate(x)", "p = T power(n, x)", "ROOT r = T log(p)"],
    ):  # fmt: skip
        drawn = draw_inputs(module(*lines), 0)
        assert (drawn.outcome, drawn.strange) == ("finite", 0), lines


@pytest.mark.parametrize(
    "lines",
    [
        # Overflow of the exponent is no contradiction, nor is a base below zero with an exponent that may be whole.
        ["x = T parameter(0)", "e = T exponential(x)", "n = T negate(e)", "ROOT r = T power(n, x)"],
        # A negative number to a whole power is what it takes; what is at most 1 may be 1; a zero is no contradiction.
        ["x = T parameter(0)", "y = T parameter(1)", "p = T power(x, y)", "n = T negate(p)", "ROOT r = T log(n)"],
        ["x = T parameter(0)", "t = T tanh(x)", "l = T log(t)", "ROOT r = T sqrt(l)"],
        ["x = T parameter(0)", "y = T parameter(1)", "m = T minimum(y, x)", "d = T subtract(m, x)",
         "ROOT r = T sqrt(d)"],
        # sqrt(0) exists.
        ["x = T parameter(0)", "s = T multiply(x, x)", "n = T negate(s)", "ROOT r = T sqrt(n)"],
        # Each branch is only taken where it is finite.
        ["x = T parameter(0)", "z0 = f32[] constant(0)", "z = T broadcast(z0), dimensions={}",
         "p = pred[64]{0} compare(x, z), direction=GT", "l = T log(x)", "n = T negate(x)", "k = T log(n)",
         "ROOT r = T select(p, l, k)"],
    ],
)  # fmt: skip
def test_what_only_seems_to_exclude_itself_is_not_refused(lines: list[str]) -> None:
    assert not draw_inputs(module(*lines), 0).outcome.startswith("invalid")


def test_where_a_comparison_guards_a_logarithm_both_branches_are_drawn() -> None:
    lines = ["x = T parameter(0)", "z0 = f32[] constant(0)", "z = T broadcast(z0), dimensions={}",
             "p = pred[64]{0} compare(x, z), direction=GT", "l = T log(x)", "ROOT r = T select(p, l, z)"]  # fmt: skip
    drawn = draw_inputs(module(*lines), 0)
    assert drawn.outcome == "finite"
    assert (drawn.arrays[0] > 0).any()
    assert (drawn.arrays[0] < 0).any()


@pytest.mark.parametrize("kind", DRAWING)
def test_a_variance_as_a_difference_of_means_is_no_reason_to_bend(kind: str) -> None:
    program = module(
        "x = M parameter(0)", "zero = f32[] constant(0)", "n0 = f32[] constant(64)",
        "n = f32[32]{0} broadcast(n0), dimensions={}", "q = M multiply(x, x)",
        "sq = f32[32]{0} reduce(q, zero), dimensions={1}, to_apply=sum",
        "s = f32[32]{0} reduce(x, zero), dimensions={1}, to_apply=sum", "mq = f32[32]{0} divide(sq, n)",
        "m = f32[32]{0} divide(s, n)", "mm = f32[32]{0} multiply(m, m)", "v = f32[32]{0} subtract(mq, mm)",
        "e0 = f32[] constant(1e-5)", "e = f32[32]{0} broadcast(e0), dimensions={}", "w = f32[32]{0} add(v, e)",
        "i = f32[32]{0} rsqrt(w)", "b = M broadcast(i), dimensions={0}", "ROOT r = M multiply(x, b)",
    )  # fmt: skip
    drawn = draw_inputs(program, 2, kind)
    assert drawn.outcome == "finite"
    if kind in ("normal", "small-integers"):
        plain = module("x = M parameter(0)", "ROOT r = M copy(x)")
        assert drawn.arrays[0].tobytes() == generate(plain, 2, kind)[0].tobytes()


@pytest.mark.parametrize("kind", DRAWING)
def test_large_angles_of_a_rotary_embedding_stay_large(kind: str) -> None:
    program = module(
        "x = M parameter(0)", "f = f32[64]{0} parameter(1)", "p = M iota(), iota_dimension=0",
        "k0 = f32[] constant(4096)", "k = M broadcast(k0), dimensions={}", "q = M multiply(p, k)",
        "g = M broadcast(f), dimensions={1}", "a = M multiply(q, g)", "c = M cosine(a)", "s = M sine(a)",
        "y = M multiply(x, c)", "z = M multiply(x, s)", "ROOT r = M add(y, z)",
    )  # fmt: skip
    drawn = draw_inputs(program, 0, kind)
    assert drawn.outcome == "finite"
    if kind != "log-uniform":
        assert np.abs(drawn.arrays[1].astype(np.float64)).max() >= 1  # times 31 * 4096


def test_an_index_is_not_bent_by_what_clamps_it() -> None:
    program = module(
        "t = f32[10,4]{1,0} parameter(0)", "i = s32[8]{0} parameter(1)", "z0 = s32[] constant(0)",
        "n0 = s32[] constant(9)", "z = s32[8]{0} broadcast(z0), dimensions={}",
        "n = s32[8]{0} broadcast(n0), dimensions={}", "c = s32[8]{0} clamp(z, i, n)", "v = s32[8,1]{1,0} reshape(c)",
        "ROOT g = f32[8,4]{1,0} gather(t, v), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
        "index_vector_dim=1, slice_sizes={1,4}",
    )  # fmt: skip
    indices = generate(program, 0)[1]
    assert ((indices >= 0) & (indices <= 9)).all()
    assert np.unique(indices).size > 2


# ---- looking and mending


def test_what_matters_is_told_of_each_input() -> None:
    program = module("a = T parameter(0)", "b = T parameter(1)", "c = T parameter(2)", "z0 = f32[] constant(0)",
                     "z = T broadcast(z0), dimensions={}", "d = T multiply(b, z)", "s = T add(a, d)",
                     "e = T parameter(3)", "p = pred[64]{0} compare(e, z), direction=GT",
                     "ROOT r = T select(p, s, z)")  # fmt: skip
    drawn = draw_inputs(program, 0, sensitivity=True)
    a, b, c, e = drawn.sensitivity
    assert 0.2 < (a or 0) < 0.8  # where e lets it through
    assert b == c == 0
    assert 0.2 < (e or 0) < 0.8
    assert "input 1 has no effect" in drawn.notes


def test_saturated_outputs_are_brought_back_by_smaller_inputs() -> None:
    program = module("x = T parameter(0)", "k0 = f32[] constant(300)", "k = T broadcast(k0), dimensions={}",
                     "y = T multiply(x, x)", "z = T multiply(y, k)", "w = T add(z, k)", "h = T tanh(w)",
                     "one0 = f32[] constant(1)", "one = T broadcast(one0), dimensions={}",
                     "ROOT r = T subtract(h, one)")  # fmt: skip
    assert (
        "output 0 is nearly the same in every element" in draw_inputs(program, 0, sensitivity=True).notes
    )  # no way out
    program = module("x = T parameter(0)", "k0 = f32[] constant(300)", "k = T broadcast(k0), dimensions={}",
                     "y = T abs(x)", "t0 = f32[] constant(1)", "t = T broadcast(t0), dimensions={}",
                     "u = T multiply(y, k)", "w = T add(u, t)", "ROOT h = T tanh(w)")  # fmt: skip
    drawn = draw_inputs(program, 0, sensitivity=True)
    assert np.unique(output(program, drawn.arrays)).size > 8


def test_places_that_lead_to_infinities_are_filled_from_places_that_do_not() -> None:
    # sin(3 x) + sin(5 x) - sin(7 y): no interval of x and y where it is positive is found by intervals alone.
    program = module("x = T parameter(0)", "y = T parameter(1)", *(f"k{n} = f32[] constant({n})" for n in (3, 5, 7)),
                     *(f"b{n} = T broadcast(k{n}), dimensions={{}}" for n in (3, 5, 7)),
                     "x3 = T multiply(x, b3)", "x5 = T multiply(x, b5)", "y7 = T multiply(y, b7)",
                     "s3 = T sine(x3)", "s5 = T sine(x5)", "s7 = T sine(y7)", "a = T add(s3, s5)",
                     "d = T subtract(a, s7)", "l = T log(d)", "ROOT r = T sqrt(l)")  # fmt: skip
    for seed in range(10):
        drawn = draw_inputs(program, seed)
        assert drawn.outcome == "finite"
        assert np.unique(drawn.arrays[0]).size > 4


def test_the_same_seed_gives_the_same_inputs() -> None:
    program = module("x = T parameter(0)", "y = T parameter(1)", "s = T sine(x)", "d = T subtract(s, y)",
                     "ROOT l = T log(d)")  # fmt: skip
    one, other = (draw_inputs(program, 5, sensitivity=True) for _ in range(2))
    assert [a.tobytes() for a in one.arrays] == [a.tobytes() for a in other.arrays]
    assert (one.outcome, one.sensitivity, one.notes) == (other.outcome, other.sensitivity, other.notes)


def test_without_a_check_nothing_is_evaluated() -> None:
    program = module("x = T parameter(0)", 'ROOT r = T custom-call(x), custom_call_target="what"')
    assert draw_inputs(program, 0, check=False).outcome == "unchecked"
    assert draw_inputs(program, 0).outcome.startswith("unchecked(")


def test_a_class_that_there_is_not_is_refused() -> None:
    with pytest.raises(InputError, match="no input class"):
        draw_inputs(module("ROOT x = T parameter(0)"), 0, "ordinary")


def test_time_that_is_over_is_told() -> None:
    drawn: Drawn = draw_inputs(module("x = T parameter(0)", "ROOT l = T log(x)"), 0, seconds=-1.0)
    assert drawn.outcome == "unchecked(its time is over)"


@pytest.mark.parametrize("size", [1_000, 10_000])
def test_planning_is_linear(size: int) -> None:
    """Ten thousand instructions in two seconds of CPU time on an idle machine; this allows for a busy one."""
    lines = ["x0 = T parameter(0)", "y = T parameter(1)"]
    for k in range(size // 5):
        lines += [f"a{k} = T abs(x{k})", f"l{k} = T log-plus-one(a{k})", f"e{k} = T exponential(l{k})",
                  f"d{k} = T divide(e{k}, y)", f"x{k + 1} = T tanh(d{k})"]  # fmt: skip
    program = module(*lines, f"ROOT r = T copy(x{size // 5})")
    start = time.process_time()
    generate(program, 0)
    assert time.process_time() - start < 5 * size / 10_000 + 0.5
