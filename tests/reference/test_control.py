"""Control flow: loops, branches, calls, and what an open decision makes of them."""

from __future__ import annotations

import time

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from xla_cpu import POLICY, assert_agree, assert_hlo_agrees, hlo_text, reference

from assay.hlo.parse import parse_module
from assay.hlo.printer import print_module

RNG = np.random.default_rng(5)


def test_loops_agree_with_xla():
    def f(x):
        a = lax.fori_loop(0, 10, lambda i, s: s * 0.5 + i, x)
        b = lax.while_loop(lambda s: s[0] < 7, lambda s: (s[0] + 1, s[1] + x), (0, x))
        c, ys = lax.scan(lambda c, y: (c + y, c * y), jnp.float32(0), x)
        return a, b, c, ys

    assert_agree(f, RNG.normal(size=5).astype(np.float32))


def test_branches_agree_with_xla():
    def f(i, x):
        branches = [lambda y: y * 2, lambda y: y + 1, lambda y: -y]
        return lax.switch(i, branches, x), lax.cond(i > 1, lambda y: y, lambda y: y * y, x)

    for i in (-3, 0, 1, 2, 9):
        assert_agree(f, np.int32(i), RNG.normal(size=5).astype(np.float32))


CONDITIONAL = """HloModule m

t {
  x = f32[3] parameter(0)
  ROOT r = f32[3] add(x, x)
}

f {
  y = s32[2] parameter(0)
  c = f32[3] constant({1, 2, 3})
  ROOT r = f32[3] copy(c)
}

ENTRY e {
  p = INDEX parameter(0)
  x = f32[3] parameter(1)
  y = s32[2] parameter(2)
  ROOT r = f32[3] conditional(p, x, y), BRANCHES
}
"""


def test_both_forms_of_a_conditional():
    x, y = np.arange(3, dtype=np.float32), np.arange(2, dtype=np.int32)
    by_pred = CONDITIONAL.replace("INDEX", "pred[]").replace("BRANCHES", "true_computation=t, false_computation=f")
    by_index = CONDITIONAL.replace("INDEX", "s32[]").replace("BRANCHES", "branch_computations={t, f}")
    for value in (True, False):
        assert_hlo_agrees(by_pred, np.bool_(value), x, y)
    for index in (-1, 0, 1, 5):
        assert_hlo_agrees(by_index, np.int32(index), x, y)


def test_an_open_branch_gives_the_hull():
    def f(x):
        p = jnp.exp(x) > np.float32(np.exp(np.float32(1.0)))
        return lax.cond(
            p,
            lambda: (jnp.float32(1), jnp.int32(3), jnp.int32(4)),
            lambda: (jnp.float32(2), jnp.int32(3), jnp.int32(5)),
        )

    real, same, other = reference(hlo_text(f, np.float32(1)), [np.float32(1)])
    assert real.und is None
    assert abs(real.mid - 1.5) <= 0.5
    assert real.rad >= 0.5
    assert same.exact
    assert other.und.all()
    assert_agree(f, np.float32(1), decided=False)


def test_a_loop_with_an_open_end_covers_every_end():
    def f(x):
        return lax.while_loop(
            lambda s: s[0] > 1e-3, lambda s: (s[0] * np.float32(1) / 10, s[1] + 1), (jnp.exp(x) - 1, 0)
        )

    x = np.float32(np.log1p(1.0))
    value, trips = reference(hlo_text(f, x), [x])
    assert trips.und.any()
    assert value.mid - value.rad <= 1e-4 * 1.01
    assert_agree(f, x, decided=False)


def test_a_loop_that_never_decides_ends():
    def f(x):
        def body(s):
            return jnp.exp(jnp.log(s[0])), s[1] + 1, s[2]

        return lax.while_loop(lambda s: s[0] < 1, body, (jnp.exp(x), 0, x))

    x = np.float32(0)
    value, trips, same = reference(hlo_text(f, x), [x])
    assert value.und.all()
    assert trips.und.all()
    assert same.exact


def test_calls_maps_barriers():
    text = """HloModule m

s {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = f32[] multiply(a, b)
  ROOT r = f32[] add(c, a)
}

g {
  a = f32[4] parameter(0)
  t = (f32[4], f32[4]) tuple(a, a)
  u = (f32[4], f32[4]) opt-barrier(t)
  b = f32[4] get-tuple-element(u), index=1
  ROOT r = f32[4] map(a, b), dimensions={0}, to_apply=s
}

ENTRY e {
  x = f32[4] parameter(0)
  k = token[] after-all()
  y = f32[4] add-dependency(x, k)
  ROOT r = f32[4] call(y), to_apply=g
}
"""
    (ball,) = assert_hlo_agrees(text, np.arange(4, dtype=np.float32))
    np.testing.assert_array_equal(ball.mid, np.arange(4.0) ** 2 + np.arange(4.0))


ON_SPARSE_CORE = {
    "async": "calls=g",
    "call": 'async_execution_thread="sparsecore", to_apply=g',
    "custom-call": 'async_execution_thread="sparsecore", custom_call_target="TODO(b/522284627)", '
    "called_computations={g}",
}


@pytest.mark.parametrize("name", ON_SPARSE_CORE)
def test_an_update_may_bring_the_operands(name):
    """libtpu's offloads to the sparse core: the start has no operands, or some, and the update the others."""
    start = f"{name}-start(), {ON_SPARSE_CORE[name]}"
    text = f"""HloModule m
g {{
  a = f32[4] parameter(0)
  b = f32[4] parameter(1)
  ROOT r = f32[4] subtract(a, b)
}}
ENTRY e {{
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  s = ((), ()) {start}
  u = ((f32[4], f32[4]), f32[4]) {name}-update(s, x, y)
  ROOT d = f32[4] {name}-done(u)
}}
"""
    x, y = np.arange(4, dtype=np.float32), np.full(4, 2, np.float32)
    np.testing.assert_array_equal(reference(text, [x, y])[0].mid, x - y)
    module = parse_module(text)
    assert parse_module(print_module(module)) == module
    if name == "async":
        part = text.replace("s = ((), ()) async-start()", "s = ((f32[4]), ()) async-start(x)")
        part = part.replace("async-update(s, x, y)", "async-update(s, y)")
        np.testing.assert_array_equal(reference(part, [x, y])[0].mid, x - y)


def test_async_and_composite_calls():
    text = """HloModule m

g {
  a = f32[4] parameter(0)
  ROOT r = f32[4] add(a, a)
}

ENTRY e {
  x = f32[4] parameter(0)
  s = ((f32[4]), f32[4], s32[]) async-start(x), calls=g
  u = ((f32[4]), f32[4], s32[]) async-update(s)
  d = f32[4] async-done(u)
  ROOT r = f32[4] call(d), to_apply=g, is_composite=true, frontend_attributes={composite.name="a.b"}
}
"""
    (ball,) = reference(text, [np.arange(4, dtype=np.float32)])
    np.testing.assert_array_equal(ball.mid, 4 * np.arange(4.0))


def test_many_small_instructions_are_quick():
    def f(x):
        return lax.fori_loop(0, 1000, lambda i, s: (s * 2 - s,), (x,))

    text = hlo_text(lambda x: lax.fori_loop(0, 2000, lambda i, s: s * 0.5 + 1, x), np.float32(1))
    start = time.process_time()  # a busy machine is not slower by it
    reference(text, [np.float32(1)], POLICY)
    assert time.process_time() - start < 10
