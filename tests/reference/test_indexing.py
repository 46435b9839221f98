"""gather and scatter against a definition written element by element, and against XLA:CPU, over drawn dimension
numbers.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from jax import lax
from xla_cpu import POLICY, assert_agree, assert_hlo_agrees, hlo_text, outside, reference

from assay.hlo.parse import parse_module
from assay.hlo.shape import DTYPES
from assay.reference.context import Context
from assay.reference.registry import find
from assay.reference.value import Ball, from_array

INDEX_TYPES = {"s8": np.int8, "u8": np.uint8, "s16": np.int16, "s32": np.int32, "u32": np.uint32}
QUICK = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
EXHAUSTIVE = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


def braces(values) -> str:
    return "{" + ",".join(map(str, values)) + "}"


def shape_text(dtype: str, dims) -> str:
    return f"{dtype}[{','.join(map(str, dims))}]"


# ---------------------------------------------------------------- drawn dimension numbers


@dataclass
class Case:
    """One gather (or scatter: `window` sizes are the update windows, `absent` the inserted dimensions)."""

    operand: tuple[int, ...]
    absent: tuple[int, ...]  # collapsed or inserted
    batching: tuple[tuple[int, int], ...]  # operand dimension, indices dimension
    index_map: tuple[int, ...]
    vector_dim: int
    indices: tuple[int, ...]
    sizes: tuple[int, ...]
    offset_dims: tuple[int, ...]
    result: tuple[int, ...]  # the gather's result, the scatter's updates
    batch_axes: tuple[int, ...] = field(default=())  # indices dimensions without the vector dimension


@st.composite
def cases(draw) -> Case:
    rank = draw(st.integers(1, 4))
    operand = tuple(draw(st.lists(st.integers(1, 4), min_size=rank, max_size=rank)))
    roles = draw(st.lists(st.sampled_from(["window", "absent", "batching"]), min_size=rank, max_size=rank))
    batching_dims = [d for d in range(rank) if roles[d] == "batching"][:2]
    absent = tuple(d for d in range(rank) if roles[d] == "absent")
    window = [d for d in range(rank) if d not in absent and d not in batching_dims]
    sizes = tuple(
        draw(st.integers(0 if draw(st.integers(0, 9)) == 0 else 1, operand[d])) if d in window else 1
        for d in range(rank)
    )
    indexable = [d for d in range(rank) if d not in batching_dims]
    index_map = tuple(draw(st.permutations(indexable))[: draw(st.integers(0, len(indexable)))])
    extra = draw(st.lists(st.integers(0 if draw(st.integers(0, 9)) == 0 else 1, 3), max_size=2))
    batch: list[tuple[int, int | None]] = [(operand[d], d) for d in batching_dims] + [(n, None) for n in extra]
    batch = list(draw(st.permutations(batch)))
    implicit = len(index_map) == 1 and draw(st.booleans())
    vector_dim = len(batch) if implicit else draw(st.integers(0, len(batch)))
    indices = [n for n, _ in batch]
    if not implicit:
        indices.insert(vector_dim, len(index_map))
    batch_axes = tuple(i for i in range(len(indices)) if implicit or i != vector_dim)
    where = {d: axis for (_, d), axis in zip(batch, batch_axes, strict=True) if d is not None}
    batching = tuple((d, where[d]) for d in sorted(where))
    out_rank = len(batch) + len(window)
    offset_dims = tuple(sorted(draw(st.permutations(range(out_rank)))[: len(window)]))
    window_sizes, batch_sizes = iter(sizes[d] for d in window), iter(n for n, _ in batch)
    result = tuple(next(window_sizes) if i in offset_dims else next(batch_sizes) for i in range(out_rank))
    return Case(
        operand, absent, batching, index_map, vector_dim, tuple(indices), sizes, offset_dims, result, batch_axes
    )


def draw_indices(data, case: Case, dtype: str) -> np.ndarray:
    info = np.iinfo(INDEX_TYPES[dtype])
    some = st.one_of(st.integers(max(info.min, -2), 5), st.sampled_from([info.min, info.max]))
    count = int(np.prod(case.indices))
    values = data.draw(st.lists(some, min_size=count, max_size=count))
    return np.array(values, INDEX_TYPES[dtype]).reshape(case.indices)


def starts_of(case: Case, indices: np.ndarray, batch_at: tuple[int, ...]) -> list[int]:
    """Start per operand dimension, for one position of the batch, by the definition."""
    start = [0] * len(case.operand)
    at = dict(zip(case.batch_axes, batch_at, strict=True))
    for k, d in enumerate(case.index_map):
        full = [at.get(axis, k) for axis in range(indices.ndim)]
        start[d] = int(indices[tuple(full)])
    for d, axis in case.batching:
        start[d] = at[axis]
    return start


def plain_gather(case: Case, operand: np.ndarray, indices: np.ndarray) -> np.ndarray:
    result = np.empty(case.result, operand.dtype)
    for at in np.ndindex(*case.result):
        batch_at = tuple(at[i] for i in range(len(at)) if i not in case.offset_dims)
        offsets = iter(at[i] for i in case.offset_dims)
        start = starts_of(case, indices, batch_at)
        gone = {*case.absent, *(d for d, _ in case.batching)}
        place = [
            min(max(s, 0), n - size) + (0 if d in gone else next(offsets))
            for d, (s, n, size) in enumerate(zip(start, case.operand, case.sizes, strict=True))
        ]
        result[at] = operand[tuple(place)]
    return result


def plain_scatter(case: Case, operand: np.ndarray, indices: np.ndarray, updates: np.ndarray, combine) -> np.ndarray:
    result = operand.copy()
    for at in np.ndindex(*case.result):
        batch_at = tuple(at[i] for i in range(len(at)) if i not in case.offset_dims)
        offsets = iter(at[i] for i in case.offset_dims)
        start = starts_of(case, indices, batch_at)
        if not all(0 <= s <= n - size for s, n, size in zip(start, case.operand, case.sizes, strict=True)):
            continue
        gone = {*case.absent, *(d for d, _ in case.batching)}
        place = tuple(s + (0 if d in gone else next(offsets)) for d, s in enumerate(start))
        result[place] = combine(result[place], updates[at])
    return result


def gather_text(case: Case, index_type: str) -> str:
    return f"""HloModule m
ENTRY e {{
  p = {shape_text("s32", case.operand)} parameter(0)
  i = {shape_text(index_type, case.indices)} parameter(1)
  ROOT g = {shape_text("s32", case.result)} gather(p, i), offset_dims={braces(case.offset_dims)},
    collapsed_slice_dims={braces(case.absent)}, start_index_map={braces(case.index_map)},
    operand_batching_dims={braces(d for d, _ in case.batching)},
    start_indices_batching_dims={braces(i for _, i in case.batching)},
    index_vector_dim={case.vector_dim}, slice_sizes={braces(case.sizes)}
}}"""


def scatter_text(case: Case, index_type: str, opcode: str = "add", dtype: str = "s32") -> str:
    return f"""HloModule m
body {{
  a = {dtype}[] parameter(0)
  b = {dtype}[] parameter(1)
  ROOT r = {dtype}[] {opcode}(a, b)
}}
ENTRY e {{
  p = {shape_text(dtype, case.operand)} parameter(0)
  i = {shape_text(index_type, case.indices)} parameter(1)
  u = {shape_text(dtype, case.result)} parameter(2)
  ROOT s = {shape_text(dtype, case.operand)} scatter(p, i, u), update_window_dims={braces(case.offset_dims)},
    inserted_window_dims={braces(case.absent)}, scatter_dims_to_operand_dims={braces(case.index_map)},
    input_batching_dims={braces(d for d, _ in case.batching)},
    scatter_indices_batching_dims={braces(i for _, i in case.batching)},
    index_vector_dim={case.vector_dim}, to_apply=body
}}"""


# ---------------------------------------------------------------- gather


@EXHAUSTIVE
@given(st.data(), cases(), st.sampled_from(sorted(INDEX_TYPES)))
def test_gather_is_its_definition(data, case, index_type):
    operand = np.arange(np.prod(case.operand), dtype=np.int32).reshape(case.operand)
    indices = draw_indices(data, case, index_type)
    (ball,) = reference(gather_text(case, index_type), [operand, indices])
    np.testing.assert_array_equal(ball.mid, plain_gather(case, operand, indices))
    assert ball.exact


@QUICK
@given(st.data(), cases(), st.sampled_from(sorted(INDEX_TYPES)))
def test_gather_agrees_with_xla(data, case, index_type):
    operand = np.arange(np.prod(case.operand), dtype=np.int32).reshape(case.operand)
    assert_hlo_agrees(gather_text(case, index_type), operand, draw_indices(data, case, index_type))


# ---------------------------------------------------------------- scatter


@EXHAUSTIVE
@given(st.data(), cases(), st.sampled_from(sorted(INDEX_TYPES)))
def test_scatter_is_its_definition(data, case, index_type):
    operand = np.arange(np.prod(case.operand), dtype=np.int32).reshape(case.operand)
    updates = 1000 + 7 * np.arange(np.prod(case.result), dtype=np.int32).reshape(case.result)
    indices = draw_indices(data, case, index_type)
    (ball,) = reference(scatter_text(case, index_type), [operand, indices, updates])
    np.testing.assert_array_equal(ball.mid, plain_scatter(case, operand, indices, updates, np.add))
    assert ball.exact


@QUICK
@given(st.data(), cases(), st.sampled_from(sorted(INDEX_TYPES)), st.sampled_from(["add", "multiply", "maximum", "xor"]))
def test_scatter_agrees_with_xla(data, case, index_type, opcode):
    operand = np.arange(np.prod(case.operand), dtype=np.int32).reshape(case.operand)
    updates = 1000 + 7 * np.arange(np.prod(case.result), dtype=np.int32).reshape(case.result)
    text = scatter_text(case, index_type, opcode)
    assume(case.index_map or case.result != case.operand)  # else XLA is wrong: see the last test
    assert_hlo_agrees(text, operand, draw_indices(data, case, index_type), updates)


# ---------------------------------------------------------------- floats, duplicates, promises


def scatter_at(kind, x, index, update, **promises):
    """Scatter of scalars into a vector."""
    dims = lax.ScatterDimensionNumbers((), (0,), (0,))
    return kind(x, index[:, None], update, dims, mode=lax.GatherScatterMode.FILL_OR_DROP, **promises)


def any_order(x, index, update, combine, dtype, rng):
    """A scatter in `dtype`, updates in a random order."""
    result = x.astype(dtype).copy()
    for i in rng.permutation(len(index)):
        if 0 <= index[i] < len(x):
            result[index[i]] = combine(result[index[i]], dtype(update[i]))
    return result


@pytest.mark.parametrize("name", ["add", "mul", "min", "max"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float64"])
def test_duplicates_in_any_order(name, dtype):
    numpy_type = np.dtype(jax.numpy.dtype(dtype)).type
    rng = np.random.default_rng(len(name))
    x = rng.normal(size=9).astype(numpy_type)
    index = rng.integers(-1, 11, 80).astype(np.int32)
    update = (rng.normal(size=80) + (1 if name == "mul" else 0)).astype(numpy_type)
    kind = getattr(lax, f"scatter_{name}")
    with jax.enable_x64(True):
        (ball,) = assert_agree(lambda x, i, u: scatter_at(kind, x, i, u), x, index, update)
    combine = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}[name]
    for _ in range(20):
        assert not outside(ball, any_order(x, index, update, combine, numpy_type, rng)).any()
    if name in ("min", "max"):
        assert ball.exact
    if dtype == "float32":
        # One update of a thousandth more is seen.
        kept = int(np.flatnonzero((index >= 0) & (index < 9))[0])
        update[kept] *= 1.001 if name in ("add", "mul") else 1000
        wrong = any_order(x, index, update, combine, numpy_type, rng)
        assert name in ("min", "max") or outside(ball, wrong).any()


def test_long_sums_of_equal_and_of_vanishing_terms():
    n = 5000
    index = np.zeros(n, np.int32)
    for x, update in ((0.0, 0.1), (2.0**24, 1.0), (0.0, 1 / 3)):
        args = np.array([x], np.float32), index, np.full(n, update, np.float32)
        (ball,) = assert_agree(lambda x, i, u: scatter_at(lax.scatter_add, x, i, u), *args)
        total = np.float32(x)
        for value in args[2]:
            total += value
        assert not outside(ball, np.array([total])).any()


def test_integers_in_floats_are_exact():
    rng = np.random.default_rng(0)
    args = (
        np.zeros(5, np.float32),
        rng.integers(0, 5, 900).astype(np.int32),
        rng.integers(-9, 9, 900).astype(np.float32),
    )
    (ball,) = assert_agree(lambda x, i, u: scatter_at(lax.scatter_add, x, i, u), *args)
    assert ball.exact


def test_assignments_to_one_element():
    x, index = np.zeros(4, np.float32), np.array([1, 2, 2, 3, 3, 9], np.int32)
    update = np.array([5, 6, 7, 8, 8, 9], np.float32)
    (ball,) = assert_agree(lambda x, i, u: scatter_at(lax.scatter, x, i, u), x, index, update, decided=False)
    np.testing.assert_array_equal(ball.und, [False, False, True, False])
    np.testing.assert_array_equal(ball.mid[[0, 1, 3]], [0, 5, 8])


def test_broken_promises():
    x, update = np.zeros(5, np.int32), np.arange(1, 4, dtype=np.int32)

    def run(index, **promises):
        index = np.array(index, np.int32)
        text = hlo_text(lambda x, i, u: scatter_at(lax.scatter_add, x, i, u, **promises), x, index, update)
        return reference(text, [x, index, update])[0].und

    np.testing.assert_array_equal(run([1, 1, 3], unique_indices=True), [False, True, False, False, False])
    assert run([1, 2, 3], unique_indices=True, indices_are_sorted=True) is None
    np.testing.assert_array_equal(run([3, 1, 2], indices_are_sorted=True), [False, True, True, True, False])
    assert run([3, 1, 1]) is None


def test_slices_under_vmap_keep_their_promises():
    x = np.arange(60, dtype=np.float32).reshape(3, 20)
    starts = np.array([7, 2, 19], np.int32)
    assert_agree(lambda x, i: jax.vmap(lambda a, s: lax.dynamic_slice(a, (s,), (4,)))(x, i), x, starts)
    assert_agree(lambda x, i: jax.vmap(lambda s: lax.dynamic_slice(x[0], (s,), (4,)))(i), x, starts)
    assert_agree(lambda x, i: jax.vmap(lambda a, s: lax.dynamic_update_slice(a, a[:4] * 2, (s,)))(x, i), x, starts)
    assert_agree(lambda x, i: jax.vmap(lambda a, s: a.at[s].add(1))(x, i), x, starts)


def test_variadic_and_unknown_bodies():
    text = """HloModule m
body {
  a = f32[] parameter(0)
  b = s32[] parameter(1)
  u = f32[] parameter(2)
  v = s32[] parameter(3)
  s = f32[] add(a, u)
  m = s32[] maximum(v, b)
  ROOT r = (f32[], s32[]) tuple(s, m)
}
ENTRY e {
  p = f32[4] parameter(0)
  q = s32[4] parameter(1)
  i = s32[5,1] parameter(2)
  u = f32[5] parameter(3)
  v = s32[5] parameter(4)
  ROOT s = (f32[4], s32[4]) scatter(p, q, i, u, v), update_window_dims={}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=body
}"""
    index = np.array([[0], [2], [2], [-1], [3]], np.int32)
    p, q = np.arange(4, dtype=np.float32), np.arange(4, dtype=np.int32)
    u, v = np.arange(5, dtype=np.float32), np.arange(-5, 5, 2, dtype=np.int32)
    assert_hlo_agrees(text, p, q, index, u, v)
    odd = text.replace("m = s32[] maximum(v, b)", "w = s32[] multiply(v, v)\n  m = s32[] subtract(b, w)")
    first, second = assert_hlo_agrees(odd, p, q, index, u, v, decided=False)
    np.testing.assert_array_equal(second.und, [False, False, True, False])
    np.testing.assert_array_equal(first.und, [False, False, True, False])
    assert second.mid[0] == 0 - 25


def test_subtracting_bodies():
    rng = np.random.default_rng(2)
    x, u = rng.normal(size=6).astype(np.float32), rng.normal(size=20).astype(np.float32)
    index = rng.integers(0, 6, 20).astype(np.int32)
    assert_agree(lambda x, i, u: scatter_at(lax.scatter_sub, x, i, u), x, index, u)


# ---------------------------------------------------------------- doubt and radius


def apply(text: str, *operands: Ball):
    module = parse_module(text)
    context = Context(module, POLICY, lambda name, arguments: arguments[0])
    return find(module.entry.root.opcode)(context, module.entry.root, *operands)


ROWS = """HloModule m
body {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}
ENTRY e {
  p = f32[4,3] parameter(0)
  i = s32[2,1] parameter(1)
  u = f32[2,3] parameter(2)
  ROOT s = f32[4,3] scatter(p, i, u), update_window_dims={1}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=body
}"""
TAKE = """HloModule m
ENTRY e {
  p = f32[4,3] parameter(0)
  i = s32[2,1] parameter(1)
  ROOT g = f32[2,SIZE] gather(p, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},
    index_vector_dim=1, slice_sizes={1,SIZE}
}"""


def indices(*rows: int, undecided=()) -> Ball:
    und = np.array([[i in undecided] for i in range(len(rows))])
    return Ball(DTYPES["s32"], np.array(rows, np.int32)[:, None], None, und if undecided else None)


def test_undecided_indices():
    a = from_array(DTYPES["f32"], np.arange(12.0).reshape(4, 3))
    taken = apply(TAKE.replace("SIZE", "2"), a, indices(1, 2, undecided=[1]))
    np.testing.assert_array_equal(taken.und, [[False] * 2, [True] * 2])
    update = from_array(DTYPES["f32"], np.ones((2, 3)))
    assert apply(ROWS, a, indices(1, 2, undecided=[1]), update).und.all()
    along = (
        ROWS.replace("s32[2,1]", "s32[2]")
        .replace("index_vector_dim=1", "index_vector_dim=0")
        .replace("scatter_dims_to_operand_dims={0}", "scatter_dims_to_operand_dims={0,1}")
        .replace("f32[2,3] parameter(2)", "f32[1] parameter(2)")
        .replace("update_window_dims={1}", "update_window_dims={0}")
    )
    point = Ball(DTYPES["s32"], np.array([1, 2], np.int32), None, np.array([True, False]))
    result = apply(along, a, point, from_array(DTYPES["f32"], np.ones(1)))
    np.testing.assert_array_equal(result.und.nonzero()[1], [2, 2, 2, 2])


def test_undecided_index_of_a_window_that_fills_its_dimension():
    text = (
        TAKE.replace("SIZE", "3").replace("slice_sizes={1,3}", "slice_sizes={1,3}").replace("{0}, index", "{0}, index")
    )
    fill = text.replace("start_index_map={0}", "start_index_map={1}").replace("p = f32[4,3]", "p = f32[1,3]")
    a = from_array(DTYPES["f32"], np.arange(3.0).reshape(1, 3))
    result = apply(fill, a, indices(0, 2, undecided=[0]))
    assert result.und is None or not result.und.any()


def test_radius_and_doubt_follow_their_elements():
    flat = np.arange(12.0).reshape(4, 3)
    a = Ball(DTYPES["f32"], flat, flat + 0.5, flat % 4 == 0)
    taken = apply(TAKE.replace("SIZE", "3"), a, indices(2, 9))
    np.testing.assert_array_equal(taken.rad, flat[[2, 3]] + 0.5)
    np.testing.assert_array_equal(taken.und, flat[[2, 3]] % 4 == 0)
    u = Ball(DTYPES["f32"], np.ones((2, 3)), np.full((2, 3), 0.25), np.eye(2, 3, dtype=bool))
    both = apply(ROWS, a, indices(1, 1), u)
    assert (both.rad[1] >= flat[1] + 1.0).all()
    assert (both.rad[1] < flat[1] + 1.001).all()
    np.testing.assert_array_equal(both.rad[[0, 2, 3]], flat[[0, 2, 3]] + 0.5)
    np.testing.assert_array_equal(both.und[1], [True, True, False])


def test_a_million_updates_in_a_second():
    rng = np.random.default_rng(0)
    n = 10**6
    args = (
        np.zeros(10**5, np.float32),
        rng.integers(0, 10**5, n).astype(np.int32),
        rng.normal(size=n).astype(np.float32),
    )
    text = hlo_text(lambda x, i, u: scatter_at(lax.scatter_add, x, i, u), *args)
    start = time.process_time()
    (ball,) = reference(text, args)
    assert time.process_time() - start < 3
    assert not outside(ball, np.bincount(args[1], args[2], 10**5).astype(np.float32)).any()


def test_undecided_index_of_one_element():
    text = """HloModule m
ENTRY e {
  p = f32[4] parameter(0)
  i = s32[1] parameter(1)
  ROOT g = f32[] gather(p, i), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=0,
    slice_sizes={1}
}"""
    a, at = (
        from_array(DTYPES["f32"], np.arange(4.0)),
        Ball(DTYPES["s32"], np.array([2], np.int32), None, np.array([True])),
    )
    assert apply(text, a, at).und.shape == ()
    assert apply(text, a, at).und


def test_empty_index_vectors_all_point_to_one_place():
    """XLA:CPU to 0.12.0.1 takes such updates, where of the operand's shape, for one window; see openxla/xla#48716."""
    dims = lax.ScatterDimensionNumbers((1,), (0,), ())
    x, none, u = (
        np.zeros((2, 3), np.float32),
        np.zeros((2, 0), np.int32),
        np.array([[1, 2, 3], [10, 20, 30]], np.float32),
    )
    text = hlo_text(lambda x, i, u: lax.scatter_add(x, i, u, dims, mode="drop"), x, none, u)
    np.testing.assert_array_equal(reference(text, [x, none, u])[0].mid, [[11, 22, 33], [0, 0, 0]])


def test_an_infinite_part_of_a_sum_leaves_the_other_part_alone():
    """Several complex updates of one element: their imaginary parts overflow, their real parts do not."""
    text = """HloModule m
add {
  a = c64[] parameter(0)
  b = c64[] parameter(1)
  ROOT c = c64[] add(a, b)
}
ENTRY e {
  x = c64[2] parameter(0)
  i = s32[3,1] parameter(1)
  u = c64[3] parameter(2)
  ROOT s = c64[2] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0},\
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
}
"""
    x = np.array([1 + 1j, 2 - 1j], np.complex64)
    u = np.array([complex(0.5, np.inf), complex(0.25, np.inf), complex(3.0, 4.0)], np.complex64)
    (ball,) = reference(text, [x, np.array([[0], [0], [1]], np.int32), u])
    assert ball.mid.real.tolist() == [1.75, 5.0]
    assert ball.mid.imag.tolist() == [np.inf, 3.0]
