"""gather and scatter against a definition written element by element, and against XLA:CPU, over drawn dimension numbers."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass, field

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jax import lax
from xla_cpu import POLICY, assert_agree, assert_hlo_agrees, hlo_text, outside, reference, undecided

from assay.hlo.parse import parse_module
from assay.hlo.shape import DTYPES
from assay.reference.context import Context
from assay.reference.evaluator import evaluate
from assay.reference.registry import find
from assay.reference.value import Ball, from_array

INDEX_TYPES = {"s8": np.int8, "u8": np.uint8, "s16": np.int16, "s32": np.int32, "u32": np.uint32}
QUICK = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
EXHAUSTIVE = settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


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
    roles = draw(st.lists(st.sampled_from("window absent batching".split()), min_size=rank, max_size=rank))
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
    assert_hlo_agrees(text, operand, draw_indices(data, case, index_type), updates)
