"""What is captured is what the instructions computed: against NumPy, trip by trip."""

from __future__ import annotations

import numpy as np
import pytest

from assay.hlo.parse import parse_module
from assay.hlo.shape import DTYPES
from assay.isolate.graph.cut import cut
from assay.isolate.graph.piece import Operand
from assay.isolate.graph.trace import Trace, as_stored, captured, every_value, wanted
from assay.reference.policies import for_target
from assay.reference.value import from_array

POLICY = for_target("cpu")
LOOP = parse_module("""HloModule loop
square { p = f32[4]{0} parameter(0)
 q = f32[4]{0} parameter(1)
 m = f32[4]{0} multiply(p, p)
 ROOT a = f32[4]{0} add(m, q) }
body { s = (s32[], f32[4]{0}, f32[4]{0}) parameter(0)
 i = s32[] get-tuple-element(s), index=0
 x = f32[4]{0} get-tuple-element(s), index=1
 c = f32[4]{0} get-tuple-element(s), index=2
 one = s32[] constant(1)
 j = s32[] add(i, one)
 y = f32[4]{0} fusion(x, c), kind=kLoop, calls=square
 ROOT t = (s32[], f32[4]{0}, f32[4]{0}) tuple(j, y, c) }
condition { s = (s32[], f32[4]{0}, f32[4]{0}) parameter(0)
 i = s32[] get-tuple-element(s), index=0
 n = s32[] constant(5)
 ROOT l = pred[] compare(i, n), direction=LT }
ENTRY e { p = f32[4]{0} parameter(0)
 q = f32[4]{0} parameter(1)
 zero = s32[] constant(0)
 s = (s32[], f32[4]{0}, f32[4]{0}) tuple(zero, p, q)
 w = (s32[], f32[4]{0}, f32[4]{0}) while(s), condition=condition, body=body
 x = f32[4]{0} get-tuple-element(w), index=1
 ROOT n = f32[4]{0} negate(x) }
""")
P = np.array([0.5, -0.25, 0.125, 1.0], np.float32)
Q = np.array([0.5, 0.25, -0.5, -0.75], np.float32)


def trips(count: int) -> list[np.ndarray]:
    found = [P]
    for _ in range(count):
        found.append(found[-1] * found[-1] + Q)
    return found


def piece(module, name):
    return next(p for p in cut(module).pieces if p.name == name)


@pytest.mark.parametrize("memory_limit", [1 << 20, 20, 0])
def test_a_piece_in_a_loop_gets_the_values_of_one_trip(memory_limit, tmp_path, monkeypatch) -> None:
    """Held in memory, in part on disk, or all on disk."""
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    found = cut(LOOP)
    with captured(LOOP, [P, Q], POLICY, wanted(found.pieces), memory_limit=memory_limit) as trace:
        assert trace.why == ""
        sets = trace.arguments(piece(LOOP, "y"))
        assert len(sets) == 3
        for arguments, x in zip(sets, trips(2), strict=True):
            np.testing.assert_array_equal(arguments[0], x)
            np.testing.assert_array_equal(arguments[1], Q)
            assert arguments[0].dtype == np.float32
        assert trace.seen[trace.source(("body", Operand("x")))] == 5
        ((last,),) = trace.arguments(piece(LOOP, "n"))
        np.testing.assert_array_equal(last, trips(5)[-1])
    assert not list((tmp_path).glob("**/*.bin"))


def test_so_many_trips_as_are_asked_for() -> None:
    trace = captured(LOOP, [P, Q], POLICY, wanted(cut(LOOP).pieces), trips=5)
    assert [s[0].tobytes() for s in trace.arguments(piece(LOOP, "y"))] == [x.tobytes() for x in trips(4)]


def test_a_set_that_comes_again_is_one() -> None:
    """A loop at its fixed point gives its piece one set of arguments."""
    zero = np.zeros(4, np.float32)
    trace = captured(LOOP, [zero, zero], POLICY, wanted(cut(LOOP).pieces))
    assert len(trace.arguments(piece(LOOP, "y"))) == 1


def test_what_the_reference_does_not_model_ends_the_trace_with_a_reason() -> None:
    module = parse_module("""HloModule m
ENTRY e { p = f32[4]{0} parameter(0)
 n = f32[4]{0} negate(p)
 c = f32[4]{0} custom-call(n), custom_call_target="nobody_knows_this"
 ROOT s = f32[4]{0} sine(c) }""")
    trace = captured(module, [P], POLICY, wanted(cut(module).pieces))
    assert "nobody_knows_this" in trace.why
    assert trace.arguments(piece(module, "s")) == []
    np.testing.assert_array_equal(trace.arguments(piece(module, "c"))[0][0], -P)


@pytest.mark.parametrize("dtype", ["bf16", "f16", "f8e4m3fn", "s4", "pred", "c64", "u8", "f64"])
def test_values_come_in_their_own_type(dtype) -> None:
    """And shape, be it that of a scalar; on disk as well."""
    for dims, layout, given in (("4", "{0}", P), ("", "", P[0]), ("2,2", "{0,1}", P.reshape(2, 2))):
        module = parse_module(f"""HloModule m
ENTRY e {{ p = f32[{dims}]{layout} parameter(0)
 n = f32[{dims}]{layout} multiply(p, p)
 c = {dtype}[{dims}]{layout} convert(n)
 ROOT s = {dtype}[{dims}]{layout} copy(c) }}""")
        for limit in (1 << 20, 0):
            with captured(module, [given], POLICY, {("e", Operand("c"))}, memory_limit=limit) as trace:
                (value,) = trace.of("e", "c")
            numpy = module.entry.by_name["c"].array.dtype.numpy
            assert (value.dtype, value.shape) == (numpy, given.shape)
            np.testing.assert_array_equal(value, (given * given).astype(numpy))


def test_a_value_that_nobody_made_is_not_there() -> None:
    assert Trace().of("e", "x") == []


def test_every_name_of_a_value_finds_it_and_it_is_kept_once() -> None:
    keys = every_value(LOOP, "e") | every_value(LOOP, "body")
    trace = captured(LOOP, [P, Q], POLICY, keys)
    for name, index in (("x", ()), ("w", (1,))):
        np.testing.assert_array_equal(trace.of("e", name, index)[0], trips(5)[-1])
    for name, index in (("y", ()), ("t", (1,))):
        np.testing.assert_array_equal(trace.of("body", name, index)[2], trips(3)[-1])
    assert len(keys) == len(set(map(trace.source, keys)))


@pytest.mark.parametrize("name", ["c64", "c128"])
def test_an_infinite_part_of_what_a_piece_is_given_leaves_the_other_alone(name: str) -> None:
    parts = (1.0, -0.0, np.inf, -np.inf, np.nan)
    given = np.array([complex(re, im) for re in parts for im in parts], DTYPES[name].numpy).reshape(5, 5)
    stored = as_stored(from_array(DTYPES[name], given))
    assert stored.dtype == given.dtype
    np.testing.assert_array_equal(stored.real, given.real)
    np.testing.assert_array_equal(stored.imag, given.imag)
    assert stored.shape == given.shape
