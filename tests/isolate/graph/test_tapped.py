"""What XLA:CPU computed on the way, and that looking at it does not change it unseen."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

from assay.hlo.graph import called_order
from assay.hlo.parse import parse_module
from assay.hlo.printer import print_for_compiler
from assay.isolate.graph.alone import Closures
from assay.isolate.graph.piece import Operand
from assay.isolate.graph.tapped import AsIs, by_size, captured_on, size_of, with_outputs
from assay.isolate.graph.trace import captured, every_value
from assay.reference.policies import for_target
from assay.toolchain import Worker, host

from .test_trace import LOOP, P, Q, trips

VERSION = tuple(int(part) for part in metadata.version("jax").split(".")[:3])
pytestmark = pytest.mark.skipif(VERSION < (0, 10, 2), reason="passes can be registered from jax 0.10.2 on")
HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def worker():
    with Worker(host()) as found:
        yield found


def watched(worker, module, arguments, *computations, **more):
    keys = {key for name in computations for key in every_value(module, name)}
    on = AsIs(worker)
    try:
        return captured_on(module, arguments, keys, on, **more)
    finally:
        on.close()


def test_a_loop_is_watched_trip_by_trip(worker) -> None:
    text = """HloModule loop, is_scheduled=true
square { p = f32[4]{0} parameter(0)
 q = f32[4]{0} parameter(1)
 m = f32[4]{0} multiply(p, p)
 ROOT a = f32[4]{0} add(m, q) }
more { i = s32[] parameter(0)
 one = s32[] constant(1)
 ROOT j = s32[] add(i, one) }
less { i = s32[] parameter(0)
 n = s32[] constant(5)
 ROOT l = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[4]{0}, f32[4]{0}) parameter(0)
 i = s32[] get-tuple-element(s), index=0
 x = f32[4]{0} get-tuple-element(s), index=1
 c = f32[4]{0} get-tuple-element(s), index=2
 y = f32[4]{0} fusion(x, c), kind=kLoop, calls=square
 j = s32[] fusion(i), kind=kLoop, calls=more
 ROOT t = (s32[], f32[4]{0}, f32[4]{0}) tuple(j, y, c) }
condition { s = (s32[], f32[4]{0}, f32[4]{0}) parameter(0)
 i = s32[] get-tuple-element(s), index=0
 ROOT l = pred[] fusion(i), kind=kLoop, calls=less }
ENTRY e { p = f32[4]{0} parameter(0)
 q = f32[4]{0} parameter(1)
 zero = s32[] constant(0)
 z = s32[] copy(zero)
 pc = f32[4]{0} copy(p)
 qc = f32[4]{0} copy(q)
 s = (s32[], f32[4]{0}, f32[4]{0}) tuple(z, pc, qc)
 w = (s32[], f32[4]{0}, f32[4]{0}) while(s), condition=condition, body=body
 x = f32[4]{0} get-tuple-element(w), index=1
 ROOT r = f32[4]{0} copy(x) }
"""
    module = parse_module(text)
    for count in (3, 9):
        trace, tapping = watched(worker, module, [P, Q], "e", "body", "condition", trips=count)
        assert not tapping.disturbing
        assert trace.why == ""
        np.testing.assert_allclose(trace.of("e", "x")[0], trips(5)[-1], rtol=1e-5)
        ys = trace.of("body", "y")
        assert len(ys) == min(count, 5)
        for y, x, before in zip(ys, trace.of("body", "x"), [P, *ys], strict=False):
            np.testing.assert_array_equal(x, before)
            np.testing.assert_allclose(y, before * before + Q, rtol=1e-5, atol=1e-7)
        assert [int(i) for i in trace.of("body", "i")] == list(range(min(count, 5)))
        assert [bool(value) for value in trace.of("condition", "l")] == [True] * min(count, 5) + [False] * (count > 5)
    assert trace.of("e", "x")[0].tobytes() == ys[-1].tobytes()


BRANCHES = """HloModule branches, is_scheduled=true
twice {{ x = f32[4]{{0}} parameter(0)
 ROOT m = f32[4]{{0}} add(x, x) }}
square {{ x = f32[4]{{0}} parameter(0)
 ROOT m = f32[4]{{0}} multiply(x, x) }}
left {{ x = f32[4]{{0}} parameter(0)
 ROOT l = f32[4]{{0}} fusion(x), kind=kLoop, calls=twice }}
right {{ x = f32[4]{{0}} parameter(0)
 ROOT r = f32[4]{{0}} fusion(x), kind=kLoop, calls=square }}
ENTRY e {{ k = {selector}[] parameter(0)
 p = f32[4]{{0}} parameter(1)
 a = f32[4]{{0}} copy(p)
 b = f32[4]{{0}} copy(p)
 ROOT c = f32[4]{{0}} conditional(k, a, b), {branches} }}
"""


@pytest.mark.parametrize("value", [0, 1, 2, -1])
def test_the_branch_that_is_taken(worker, value) -> None:
    module = parse_module(BRANCHES.format(selector="s32", branches="branch_computations={left, right}"))
    trace, _ = watched(worker, module, [np.int32(value), P], "left", "right")
    left, right = trace.of("left", "l"), trace.of("right", "r")
    if value == 0:
        np.testing.assert_array_equal(left[0], P + P)
        assert right == []
    else:
        np.testing.assert_array_equal(right[0], P * P)
        assert left == []


@pytest.mark.parametrize("value", [False, True])
def test_a_branch_by_a_predicate(worker, value) -> None:
    chosen = "true_computation=left, false_computation=right"
    module = parse_module(BRANCHES.format(selector="pred", branches=chosen))
    trace, _ = watched(worker, module, [np.bool_(value), P], "left", "right")
    assert (len(trace.of("left", "l")), len(trace.of("right", "r"))) == (value, not value)


# As XLA:CPU writes the branches of a jax.lax.cond.
ONE = (
    BRANCHES.replace("ROOT l =", "l =").replace("ROOT r =", "r =").replace("ROOT c = f32[4]{{0}}", "c = (f32[4]{{0}})")
)
ONE = ONE.replace("calls=twice }}", "calls=twice\n ROOT t = (f32[4]{{0}}) tuple(l) }}")
ONE = ONE.replace("calls=square }}", "calls=square\n ROOT t = (f32[4]{{0}}) tuple(r) }}")
ONE = ONE.replace("{branches} }}", "{branches}\n ROOT g = f32[4]{{0}} get-tuple-element(c), index=0 }}")


@pytest.mark.parametrize("value", [False, True])
def test_a_branch_that_gives_a_tuple_of_one(worker, value) -> None:
    chosen = "true_computation=left, false_computation=right"
    module = parse_module(ONE.format(selector="pred", branches=chosen))
    trace, _ = watched(worker, module, [np.bool_(value), P], "left", "right")
    (found,) = trace.of("left", "l") if value else trace.of("right", "r")
    np.testing.assert_array_equal(found, P + P if value else P * P)


DOUBLED = "".join(
    f"{name} {{ x = f32[4]{{0}} parameter(0)\n ROOT s = f32[4]{{0}} add(x, x) }}\n" for name in ("g", "h", "i", "j")
)
WATCHED = (
    f"""HloModule m, is_scheduled=true
f {{ x = f32[4]{{0}} parameter(0)
 ROOT s = f32[4]{{0}} sine(x) }}
{DOUBLED}"""
    """ENTRY e { p = f32[4]{0} parameter(0)
 a = f32[4]{0} fusion(p), kind=kLoop, calls=g
 sine = f32[4]{0} fusion(a), kind=kLoop, calls=f
 b = f32[4]{0} fusion(sine), kind=kLoop, calls=h
 c = f32[4]{0} fusion(b), kind=kLoop, calls=i
 ROOT d = f32[4]{0} fusion(c), kind=kLoop, calls=j }"""
)


def test_a_fault_that_goes_away_when_it_is_looked_at_is_told() -> None:
    """Of five values the one is named that cannot be watched; the others are those of the wrong compiler."""
    module = parse_module(WATCHED)
    with Worker(host()) as worker:
        worker.load(HERE / "wrong_unwatched.py")  # registers the pass
        trace, tapping = watched(worker, module, [P], "e")
    assert tapping.disturbing == {("e", Operand("sine"))}
    assert trace.of("e", "sine") == []
    np.testing.assert_array_equal(trace.of("e", "a")[0], P + P)
    np.testing.assert_allclose(trace.of("e", "b")[0], 2 * np.cos(P + P), rtol=1e-6)
    np.testing.assert_allclose(trace.of("e", "c")[0], 4 * np.cos(P + P), rtol=1e-6)


def test_a_right_compiler_is_watched_whole(worker) -> None:
    trace, tapping = watched(worker, parse_module(WATCHED), [P], "e")
    assert not tapping.disturbing
    np.testing.assert_allclose(trace.of("e", "sine")[0], np.sin(P + P), rtol=1e-6)


def test_values_of_a_tuple_and_in_a_layout(worker) -> None:
    module = parse_module("""HloModule m, is_scheduled=true
f { x = f32[2,3]{0,1} parameter(0)
 a = f32[2,3]{0,1} add(x, x)
 n = f32[2,3]{0,1} negate(x)
 ROOT t = (f32[2,3]{0,1}, f32[2,3]{0,1}) tuple(a, n) }
ENTRY e { p = f32[2,3]{1,0} parameter(0)
 c = f32[2,3]{0,1} copy(p)
 t = (f32[2,3]{0,1}, f32[2,3]{0,1}) fusion(c), kind=kLoop, calls=f
 a = f32[2,3]{0,1} get-tuple-element(t), index=0
 b = f32[3,2]{1,0} bitcast(a)
 ROOT r = f32[3,2]{1,0} copy(b) }""")
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    trace, tapping = watched(worker, module, [x], "e")
    assert not tapping.disturbing
    np.testing.assert_array_equal(trace.of("e", "t", (1,))[0], -x)
    np.testing.assert_array_equal(trace.of("e", "a")[0], x + x)
    np.testing.assert_array_equal(trace.of("e", "b")[0], (x + x).T)


def test_windows_hold_every_value_once_and_no_more_than_they_may() -> None:
    home = LOOP.by_name["e"]
    operands = [operand for _, operand in every_value(LOOP, "e")]
    for limit in (1, 16, 32, 1 << 20):
        windows = list(by_size(home, operands, limit))
        assert sorted(map(str, (o for w in windows for o in w))) == sorted(map(str, operands))
        assert all(len(w) == 1 or sum(size_of(home, o) for o in w) <= limit for w in windows)


IN_PLACE = """HloModule m
sum { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT c = f32[] add(a, b) }
ENTRY e { x = f32[64]{0} parameter(0)
 i = s32[4,1]{1,0} parameter(1)
 u = f32[4]{0} parameter(2)
 v = f32[64]{0} add(x, x)
 w = f32[64]{0} scatter(v, i, u), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0},
  index_vector_dim=1, to_apply=sum
 ROOT s = f32[64]{0} sine(w) }"""


def test_a_value_is_copied_before_it_is_written_over(worker, monkeypatch) -> None:
    """A pass that changes something else leaves the order to the scheduler, and the scatter writes where its operand
    lies.
    """
    module = parse_module(worker.compile(IN_PLACE, "hlo-text").hlo)
    x = np.linspace(0, 1, 64, dtype=np.float32)
    arguments = [x, np.array([[3], [9], [9], [50]], np.int32), np.full(4, 7, np.float32)]
    right = captured(module, arguments, for_target("cpu"), every_value(module, module.entry_name))
    monkeypatch.setenv("WRONG_SINE", "everywhere")
    with Worker(host()) as other:
        other.load(HERE / "wrong_sine.py")
        trace, tapping = watched(other, module, arguments, module.entry_name)
    assert not tapping.disturbing
    root = module.entry.root
    for instruction in module.entry.instructions:
        (found,), (wanted,) = (
            trace.of(module.entry_name, instruction.name),
            right.of(module.entry_name, instruction.name),
        )
        if instruction is root:
            scattered = 2 * x
            np.add.at(scattered, arguments[1][:, 0], arguments[2])
            wanted = np.cos(scattered)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_whatever_the_scheduler_does_a_copy_comes_first(monkeypatch) -> None:
    """Of every value, in the order of the executable, before anything else that reads it."""
    monkeypatch.setenv("WRONG_SINE", "everywhere")
    names = [f"v{n}" for n in range(12)]
    array = {n: f"f32[{64 * n + 64}]{{0}}" for n in range(12)}
    fused = "".join(
        f"{kind}{n} {{ x = {a} parameter(0)\n ROOT s = {a} {opcode}(x) }}\n"
        for n, a in array.items()
        for kind, opcode in (("f", "sine"), ("g", "negate"))
    )
    lines = [f"x{n} = {a} parameter({n})\n v{n} = {a} fusion(x{n}), kind=kLoop, calls=g{n}" for n, a in array.items()]
    lines += [f"w{n} = {a} fusion(v{n}), kind=kLoop, calls=f{n}" for n, a in array.items()]
    shapes = ", ".join(array.values())
    root = f"ROOT t = ({shapes}) tuple({', '.join(f'w{n}' for n in range(12))})"
    text = f"HloModule m, is_scheduled=true\n{fused}ENTRY e {{ " + "\n ".join([*lines, root]) + " }"
    module = parse_module(text)
    order = {c.name: at for at, c in enumerate(called_order(module))}
    tapped = with_outputs(module, module.entry, [Operand(name) for name in names], Closures(module, order))
    with Worker(host()) as other:
        other.load(HERE / "wrong_sine.py")
        made = parse_module(other.compile(print_for_compiler(tapped), "hlo-optimized").hlo)
    places = {i.name: at for at, i in enumerate(made.entry.instructions)}
    for name in names:
        readers = [i for i in made.entry.instructions if name in i.operands]
        copies = [places[i.name] for i in readers if i.name.startswith("tap")]
        assert len(copies) == 1
        assert copies[0] == min(places[i.name] for i in readers)
