"""reduce-window and select-and-scatter against XLA:CPU and direct loops."""

from __future__ import annotations

import itertools
import time

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax
from xla_cpu import assert_agree, assert_hlo_agrees, hlo_text, outside, reference

from assay.errors import Unsupported
from assay.hlo.attributes import WindowDim
from assay.reference.ops.window import windowed
from assay.reference.policy import Policy

POLICY = Policy("xla-cpu", accumulate={"bf16": "f32", "f16": "f32"})
RNG = np.random.default_rng(4)

# window, strides, padding, base dilation, window dilation; of (6, 9)
CASES = [
    ((2, 3), (1, 1), ((0, 0), (0, 0)), (1, 1), (1, 1)),
    ((2, 3), (2, 1), ((1, 0), (2, 2)), (1, 1), (1, 1)),
    ((3, 2), (1, 2), ((-1, 2), (1, -3)), (1, 1), (1, 1)),
    ((2, 2), (1, 1), ((0, 1), (1, 0)), (2, 3), (1, 1)),
    ((2, 3), (1, 2), ((2, 0), (1, 1)), (1, 1), (3, 2)),
    ((3, 4), (2, 3), ((-2, 3), (4, -1)), (2, 2), (2, 3)),
    ((1, 9), (1, 1), ((0, 0), (8, 0)), (1, 1), (1, 1)),
    ((6, 9), (1, 1), ((0, 0), (0, 0)), (1, 1), (1, 1)),
    ((9, 1), (1, 1), ((0, 0), (0, 0)), (1, 1), (1, 1)),
]


def normal(*dims, dtype=np.float32, scale=1.0):
    return (RNG.normal(size=dims) * scale).astype(dtype)


def window(x, init, op, case):
    size, strides, padding, base, dilation = case
    return lax.reduce_window(x, np.asarray(init, x.dtype), op, size, strides, padding, base, dilation)


def test_windowed_is_its_definition():
    x = RNG.integers(-99, 99, 50)
    for size, stride, step in itertools.product(range(1, 12), (1, 2, 3), (1, 2)):
        w = WindowDim(size, stride, window_dilation=step)
        places = range(0, 50 - (size - 1) * step, stride)
        want = [x[p : p + (size - 1) * step + 1 : step] for p in places]
        for ufunc in (np.add, np.maximum, np.multiply):
            np.testing.assert_array_equal(windowed(ufunc, x, (w,)), [ufunc.reduce(t) for t in want])


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.int32, np.uint8])
def test_known_bodies_agree_with_xla(dtype):
    low, high = (-np.inf, np.inf) if np.dtype(dtype).kind != "i" and dtype != np.uint8 else (0, 100)
    ops = [(lax.add, 0), (lax.max, low), (lax.min, high), (lax.mul, 1)]

    def f(x):
        return [window(x, init, op, case) for op, init in ops for case in CASES]

    x = normal(6, 9, dtype=dtype) if low else RNG.integers(0, 9, (6, 9)).astype(dtype)
    assert_agree(f, x, policy=POLICY)


def test_an_initial_value_that_is_no_identity_pads():
    (ball,) = assert_agree(lambda x: window(x, 0.5, lax.max, CASES[1]), normal(6, 9))
    assert (ball.mid >= 0.5).all()


def test_any_body_agrees_with_xla():
    def logaddexp(a, b):
        m = lax.max(a, b)
        return m + lax.log(lax.exp(a - m) + lax.exp(b - m))

    assert_agree(lambda x: [window(x, -30, logaddexp, case) for case in CASES[:3]], normal(6, 9))


@pytest.mark.parametrize("n", [100, 5000])
@pytest.mark.parametrize("kind", ["random", "constant", "steps", "integers"])
def test_cumulative_sums(n, kind):
    x = {
        "random": normal(n),
        "constant": np.full(n, 0.1, np.float32),
        "steps": np.repeat(np.array([0.1, 0.7], np.float32), n // 2),
        "integers": RNG.integers(-5, 6, n).astype(np.float32),
    }[kind]
    (ball,) = assert_agree(lambda x: lax.reduce_window(x, np.float32(0), lax.add, (n,), (1,), ((n - 1, 0),)), x)
    np.testing.assert_allclose(ball.mid, np.cumsum(x, dtype=np.float64), rtol=1e-12, atol=1e-12)
    assert not outside(ball, np.add.accumulate(x, dtype=np.float32)).any()
    if kind == "integers":
        assert ball.exact


def test_a_long_window_is_quick():
    x = normal(100_000)
    text = hlo_text(lambda x: lax.reduce_window(x, np.float32(0), lax.add, (10**5,), (1,), ((10**5 - 1, 0),)), x)
    start = time.perf_counter()
    (ball,) = reference(text, [x])
    assert time.perf_counter() - start < 5
    assert (ball.rad[:100] < 1e-2).all()
    assert (ball.rad < 20).all()


def test_cumulative_functions_of_jax():
    x = normal(8, 300, scale=0.5)
    assert_agree(lambda x: (jnp.cumsum(x, 1), lax.cummax(x, 1), lax.cummin(x, 1), lax.cumlogsumexp(x, 1)), x)
    assert_agree(lambda x: jnp.cumprod(x, 1), 1 + 0.01 * normal(8, 300))


def test_pooling_gradients_agree_with_xla():
    x = normal(2, 9, 8, 3)

    def pool(x, padding, size, strides):
        return lax.reduce_window(x, -np.inf, lax.max, (1, *size, 1), (1, *strides, 1), padding)

    def loss(x):
        return [
            (pool(x, padding, size, strides) ** 2).sum()
            for padding in ("VALID", "SAME")
            for size, strides in (((2, 2), (2, 2)), ((3, 3), (2, 2)), ((3, 2), (1, 1)))
        ]

    assert_agree(jax.jacrev(loss), x)
    assert_agree(
        lambda x: jax.grad(lambda x: lax.reduce_window(x, np.inf, lax.min, (1, 2, 2, 1), (1, 2, 2, 1), "SAME").sum())(
            x
        ),
        x,
    )


def test_ties_go_to_the_first():
    x = RNG.integers(0, 3, (1, 8, 8, 1)).astype(np.float32)
    (ball,) = assert_agree(
        jax.grad(lambda x: lax.reduce_window(x, -np.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME").sum()), x
    )
    assert ball.und is None


def test_rivals_get_all_or_nothing():
    x = np.array([1, 1 + 1e-7, 3, 2, 5, 5], np.float32)

    def f(x):
        return jax.vjp(lambda y: lax.reduce_window(y, -np.inf, lax.max, (2,), (2,), "VALID"), jnp.exp(x))[1](
            np.ones(3, np.float32)
        )[0]

    (ball,) = assert_agree(f, x)
    assert ball.und is None or not ball.und.any()
    open_ = [True, True, False, False, True, True]
    for wrong, seen in ((0.0, [True, False]), (1.0, [False, True]), (2.0, [True, True])):
        bad = outside(ball, np.full(6, wrong))
        assert bad.tolist() == [wrong == 2.0 if o else (seen[0] if i == 2 else seen[1]) for i, o in enumerate(open_)]


SELECT_AND_SCATTER = """HloModule m

select {{
  a = {x}[] parameter(0)
  b = {x}[] parameter(1)
  {select}
}}

scatter {{
  p = {y}[] parameter(0)
  q = {y}[] parameter(1)
  ROOT r = {y}[] {scatter}(p, q)
}}

ENTRY e {{
  x = {x}[5,6] parameter(0)
  s = {y}[4,3] parameter(1)
  i = {y}[] parameter(2)
  ROOT r = {y}[5,6] select-and-scatter(x, s, i), window={{size=2x3 stride=1x2 pad=0_0x1_0}},
    select=select, scatter=scatter
}}
"""
SELECTS = {
    "GE": ("ROOT k = pred[] compare(a, b), direction=GE", lambda a, b: a >= b),
    "LT": ("ROOT k = pred[] compare(a, b), direction=LT", lambda a, b: a < b),
    "reversed": ("ROOT k = pred[] compare(b, a), direction=LE", lambda a, b: b <= a),
    "of squares": (
        "c = {x}[] multiply(a, a)\n  d = {x}[] multiply(b, b)\n  ROOT k = pred[] compare(c, d), direction=GT",
        lambda a, b: a * a > b * b,
    ),
    "the first": ("ROOT k = pred[] constant(true)", lambda a, b: True),
}
SCATTERS = {"add": np.add, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum}


def selected_and_scattered(x, source, init, select, scatter):
    """hlo_evaluator.cc, element by element."""
    found = np.full(x.shape, init)
    for place in np.ndindex(4, 3):
        kept = None
        for offset in np.ndindex(2, 3):
            at = place[0] + offset[0], 2 * place[1] + offset[1] - 1
            if not 0 <= at[1] < 6:
                continue
            if kept is None or not select(x[kept], x[at]):
                kept = at
        found[kept] = scatter(source[place], found[kept])
    return found


@pytest.mark.parametrize("name", SELECTS)
@pytest.mark.parametrize("scatter", SCATTERS)
@pytest.mark.parametrize(
    ("x_type", "y_type"),
    [
        ("f32", "f32"),
        *(pytest.param(*p, marks=pytest.mark.slow) for p in (("s32", "s32"), ("u64", "f32"), ("f32", "c64"))),
    ],
)
def test_any_selection_and_any_scattering(name, scatter, x_type, y_type):
    if y_type == "c64" and scatter in ("maximum", "minimum"):
        return
    body, select = SELECTS[name]
    text = SELECT_AND_SCATTER.format(x=x_type, y=y_type, select=body.format(x=x_type), scatter=scatter)
    types = {"f32": np.float32, "s32": np.int32, "u64": np.uint64, "c64": np.complex64}
    low = 0 if x_type == "u64" else -15
    x = (RNG.permutation(30) + low).reshape(5, 6).astype(types[x_type])  # no ties, which padding leaves open
    source = RNG.integers(-3, 4, (4, 3)).astype(types[y_type])
    init = types[y_type](0 if scatter == "add" else 2)
    expected = selected_and_scattered(x, source, init, select, SCATTERS[scatter])
    (ball,) = reference(text, [x, source, init])
    assert not outside(ball, expected).any()
    assert ball.und is None or not ball.und.any()
    assert ball.rad is None or ball.rad.max() < 1e-3
    if not (x_type == "u64" or y_type == "c64"):
        assert_hlo_agrees(text, x, source, init)


def test_a_scattering_that_depends_on_order_is_refused():
    text = SELECT_AND_SCATTER.format(x="f32", y="f32", select=SELECTS["GE"][0], scatter="subtract")
    with pytest.raises(Unsupported, match="scatter computation"):
        reference(text, [normal(5, 6), normal(4, 3), np.float32(0)])


def test_an_undecided_selection_by_a_body():
    body = SELECTS["of squares"][0].format(x="f32")
    text = SELECT_AND_SCATTER.format(x="f32", y="f32", select=body, scatter="add").replace(
        "x = f32[5,6] parameter(0)", "w = f32[5,6] parameter(0)\n  x = f32[5,6] exponential(w)"
    )
    x = normal(5, 6)
    x[2, 2] = x[2, 1]
    source = np.abs(normal(4, 3)) + 1
    (ball,) = assert_hlo_agrees(text, x, source, np.float32(0))
    assert ball.rad is not None
    assert ball.rad.max() > 0.4


def test_a_wrong_window_is_outside():
    x = normal(64, 128)
    (ball,) = reference(
        hlo_text(lambda x: window(x, -np.inf, lax.max, ((2, 1), (2, 1), ((0, 0), (0, 0)), (1, 2), (1, 1))), x), [x]
    )
    wrong = np.repeat(np.maximum(x[::2], x[1::2]), 2, 1)[:, :-1]
    assert outside(ball, wrong)[:, 1::2].all()
    assert not outside(ball, wrong)[:, ::2].any()


@pytest.mark.parametrize("body", [lax.add, lax.max])
def test_padding_may_or_may_not_count_an_initial_value_that_is_not_neutral(body):
    """XLA:CPU takes padding out of a variadic window; the interpreter of StableHLO counts the initial value for it."""
    text = f"""HloModule m

%fold {{
  %a0 = f32[] parameter(0)
  %a1 = s32[] parameter(1)
  %a2 = f32[] parameter(2)
  %a3 = s32[] parameter(3)
  %r0 = f32[] {"add" if body is lax.add else "maximum"}(%a0, %a2)
  %r1 = s32[] add(%a1, %a3)
  ROOT %r = (f32[], s32[]) tuple(%r0, %r1)
}}

ENTRY %e {{
  %x = f32[4] parameter(0)
  %y = s32[4] parameter(1)
  %a = f32[] constant(3)
  %b = s32[] constant(3)
  ROOT %r = (f32[5], s32[5]) reduce-window(%x, %y, %a, %b), window={{size=2 pad=1_1}}, to_apply=%fold
}}
"""
    first, second = assert_hlo_agrees(text, np.arange(4, dtype=np.float32), np.arange(4, dtype=np.int32), decided=False)
    assert second.und.any()
    assert body is lax.add or first.und is None or not first.und.any()


@pytest.mark.parametrize("dtype", ["f32", "s32"])
def test_a_window_of_nothing_but_padding_scatters_nothing(dtype):
    text = f"""HloModule m

%ge {{
  %a = {dtype}[] parameter(0)
  %b = {dtype}[] parameter(1)
  ROOT %r = pred[] compare(%a, %b), direction=GE
}}

%add {{
  %a = {dtype}[] parameter(0)
  %b = {dtype}[] parameter(1)
  ROOT %r = {dtype}[] add(%a, %b)
}}

ENTRY %e {{
  %x = {dtype}[4] parameter(0)
  %s = {dtype}[6] parameter(1)
  %z = {dtype}[] constant(0)
  ROOT %r = {dtype}[4] select-and-scatter(%x, %s, %z), window={{size=2 stride=1 pad=3_0}}, select=%ge, scatter=%add
}}
"""
    numpy = np.float32 if dtype == "f32" else np.int32
    x, source = np.array([1, 2, 3, 4], numpy), np.array([100, 10, 1, 2, 3, 4], numpy)
    (ball,) = assert_hlo_agrees(text, x, source)
    np.testing.assert_array_equal(ball.mid, [1, 2, 3, 4])


@pytest.mark.parametrize("select", [lax.ge, lax.le])
def test_which_of_equal_elements_is_chosen_depends_on_padding(select):
    """XLA:CPU goes through a padded window column by column, StableHLO's interpreter row by row."""
    from jax._src.lax.windowed_reductions import _select_and_scatter

    x = np.float32([[0, 3], [3, 0]] if select is lax.ge else [[3, 0], [0, 3]])
    for padding, open_ in ((((0, 0), (1, 0)), [[False, True], [True, False]]), (((0, 0), (0, 0)), [[False] * 2] * 2)):
        source = np.ones((1, 1 + padding[1][0]), np.float32)

        def g(x, s, padding=padding):
            return _select_and_scatter(x, select, (2, 2), (1, 1), padding, s, np.float32(0), lax.add)

        (ball,) = assert_agree(g, x, source, decided=False)
        np.testing.assert_array_equal(np.zeros((2, 2), bool) if ball.rad is None else ball.rad > 0.5, open_)
    same = np.zeros((4, 5), np.float32)  # all equal: the first one in every order
    (ball,) = assert_agree(
        lambda x, s: _select_and_scatter(x, select, (2, 2), (2, 2), ((0, 0), (0, 1)), s, np.float32(0), lax.add),
        same,
        np.ones((2, 3), np.float32),
    )


def test_a_product_of_padding_may_vanish_in_the_integers():
    """4**4 is zero in 8 bits, and so is 4**5: that one initial value more changes nothing does not tell."""
    (ball,) = assert_agree(
        lambda x: lax.reduce_window(x, np.uint8(4), lax.mul, (3, 1), (1, 1), ((0, 0), (1, 1))),
        np.ones((3, 2), np.uint8),
        decided=False,
    )
    assert ball.und.tolist() == [[True, False, False, True]]
