"""Dimensions: which go together, and that what comes out is a program that XLA takes and that means the same."""

from __future__ import annotations

import generated
import numpy as np
import pytest

from assay.errors import HloTypeError
from assay.hlo.parse import parse_module
from assay.hlo.printer import print_for_compiler
from assay.hlo.types import check_module
from assay.reduce.candidate import Candidate, flattened, tidied
from assay.reduce.dims import classes
from assay.reduce.shrink import _with_size
from assay.toolchain import Worker, host

SUM = """
%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = f32[] add(%a, %b)
}
"""

MANY = f"""HloModule many
{SUM}
%inner (v: f32[6,4]) -> f32[4,6] {{
  %v = f32[6,4] parameter(0)
  ROOT %t = f32[4,6] transpose(%v), dimensions={{1,0}}
}}

ENTRY %main (x: f32[6,4], w: f32[4,5], i: s32[7,1], u: f32[7,5], k: s32[]) -> (f32[5], f32[9,5], f32[7,5], f32[3,5], f32[4,6]) {{
  %x = f32[6,4] parameter(0)
  %w = f32[4,5] parameter(1)
  %i = s32[7,1] parameter(2)
  %u = f32[7,5] parameter(3)
  %k = s32[] parameter(4)
  %zero = f32[] constant(0)
  %d = f32[6,5] dot(%x, %w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  %b = f32[6,5] broadcast(%zero), dimensions={{}}
  %e = f32[6,5] maximum(%d, %b)
  %r = f32[5] reduce(%e, %zero), dimensions={{0}}, to_apply=%sum
  %c = f32[12,5] concatenate(%e, %d), dimensions={{0}}
  %p = f32[14,5] pad(%c, %zero), padding=1_1x0_0
  %m = f32[9,5] reduce-window(%p, %zero), window={{size=6x1}}, to_apply=%sum
  %g = f32[7,5] gather(%e, %i), offset_dims={{1}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,5}}
  %s = f32[6,5] scatter(%e, %i, %u), update_window_dims={{1}}, inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=%sum
  %l = f32[3,5] slice(%s), slice={{[1:6:2], [0:5]}}
  %q = s32[] constant(0)
  %y = f32[3,5] dynamic-slice(%l, %k, %q), dynamic_slice_sizes={{3,5}}
  %z = f32[7,5] add(%g, %u)
  %o = f32[4,6] call(%x), to_apply=%inner
  ROOT %all = (f32[5], f32[9,5], f32[7,5], f32[3,5], f32[4,6]) tuple(%r, %m, %z, %y, %o)
}}
"""  # noqa: E501


@pytest.fixture(scope="module")
def worker():
    with Worker(host()) as found:
        yield found


def many() -> Candidate:
    drawn = np.random.default_rng(0)
    arguments = [
        drawn.integers(-3, 4, (6, 4)).astype(np.float32),
        drawn.integers(-3, 4, (4, 5)).astype(np.float32),
        drawn.integers(0, 6, (7, 1)).astype(np.int32),
        drawn.integers(-3, 4, (7, 5)).astype(np.float32),
        np.int32(0),
    ]
    return tidied(parse_module(MANY), [np.asarray(a) for a in arguments])


def group(found, name: str, dim: int):
    return found.of["main", name, 0, dim]


def test_what_must_be_equal_is_one_class():
    found = classes(many().module)
    columns = [("w", 1), ("d", 1), ("e", 1), ("r", 0), ("c", 1), ("p", 1), ("m", 1), ("g", 1), ("u", 1), ("s", 1)]
    assert len({group(found, name, dim) for name, dim in [*columns, ("l", 1), ("y", 1), ("z", 1)]}) == 1
    assert group(found, "x", 1) == group(found, "w", 0) == group(found, "o", 0) == found.of["inner", "t", 0, 0]
    assert group(found, "i", 0) == group(found, "u", 0) == group(found, "g", 0)
    assert len({group(found, name, 0) for name in ("e", "c", "p", "m")}) == 4
    assert group(found, "i", 1) in found.frozen


def numpy_of(x, w, i, u, k):
    """The program's results, by hand."""
    d = x @ w
    e = np.maximum(d, 0)
    p = np.pad(np.concatenate([e, d]), ((1, 1), (0, 0)))
    m = np.stack([p[j : j + 6].sum(0) for j in range(len(p) - 5)])
    at = np.clip(i[:, 0], 0, len(e) - 1)
    s = e.copy()
    for place, row in zip(i[:, 0], u, strict=True):
        if 0 <= place < len(s):
            s[place] += row
    return [e.sum(0), m, e[at] + u, s[1::2][:3], x.T]


def test_smaller_programs_mean_what_they_say(worker):
    """Each class that is free, in several sizes: XLA takes the program, and NumPy gives the same numbers."""
    whole = many()
    found = classes(whole.module)
    made = 0
    for place in found.free():
        for size in range(1, found.sizes[place]):
            for last in (False, True):
                try:
                    smaller = _with_size(whole, found, place, size, last)
                    check_module(smaller.module)
                except HloTypeError:
                    continue  # a window or a slice that does not fit any more
                compiled = worker.compile(print_for_compiler(smaller.module), "hlo-text")
                outputs = worker.run(compiled, smaller.arguments)
                worker.release(compiled)
                wanted = numpy_of(*smaller.arguments)
                wanted[3] = wanted[3][: outputs[3].shape[0]]
                for one, other in zip(outputs, wanted, strict=True):
                    np.testing.assert_array_equal(one, other)
                assert smaller.size.elements < whole.size.elements
                made += 1
    assert made >= 20


def test_rows_and_what_follows_from_them():
    """Fewer rows of x: the concatenation, the pad and the window follow, and the strided slice, which would not fit,
    forbids it until it is gone.
    """
    whole = many()
    found = classes(whole.module)
    with pytest.raises(HloTypeError, match="slice"):
        check_module(_with_size(whole, found, group(found, "x", 0), 5, False).module)
    text = MANY.replace("[1:6:2], [0:5]", "[0:3], [0:5]")
    whole = tidied(parse_module(text), whole.arguments)
    found = classes(whole.module)
    smaller = _with_size(whole, found, group(found, "x", 0), 4, True)
    check_module(smaller.module)
    entry = smaller.module.entry.by_name
    assert [entry[n].array.dims for n in ("d", "c", "p", "m")] == [(4, 5), (8, 5), (10, 5), (5, 5)]
    np.testing.assert_array_equal(smaller.arguments[0], whole.arguments[0][2:])


@pytest.mark.parametrize("seed", range(8))
def test_loops_branches_and_calls_of_elements_alone_give_the_first_elements(worker, seed, monkeypatch):
    """Where every element is computed by itself, a smaller program gives what the larger one gives there."""
    kinds = ("negate", "subtract", "constant", "spread", "tuple", "element", "barrier", "call", "while", "conditional")
    monkeypatch.setattr(generated, "KINDS", kinds)
    module = parse_module(generated.module_text(seed))
    drawn = np.random.default_rng(seed)
    whole = tidied(flattened(module), [drawn.normal(size=4).astype(np.float32) for _ in module.entry.parameters])
    results = run(worker, whole)
    found = classes(whole.module)
    made = 0
    for place in found.free():
        smaller = _with_size(whole, found, place, 2, True)
        check_module(smaller.module)
        for one, other in zip(run(worker, smaller), results, strict=True):
            np.testing.assert_allclose(one, other[-len(one) :], rtol=1e-6)
            made += len(one) == 2
    assert made


def run(worker: Worker, candidate: Candidate) -> list[np.ndarray]:
    compiled = worker.compile(print_for_compiler(candidate.module), "hlo-text")
    found = worker.run(compiled, candidate.arguments)
    worker.release(compiled)
    return found
