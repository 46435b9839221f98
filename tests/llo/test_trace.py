"""A watched run: how often each instruction ran and what it made last, against NumPy; and the page that shows it."""

from __future__ import annotations

import importlib.util
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from assay.hlo.shape_text import parse_shape
from assay.llo.files import read_dump
from assay.llo.kernel import run, same
from assay.llo.listing import load
from assay.llo.trace import Trace, summary, trace_of

_spec = importlib.util.spec_from_file_location("dumped", Path(__file__).with_name("dumped.py"))
assert _spec is not None
assert _spec.loader is not None
dumped = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(dumped)

SHAPE = parse_shape("f32[8,128]{1,0:T(8,128)}")
RNG = np.random.default_rng(7)
X, Y = (RNG.standard_normal((8, 128)).astype(np.float32) for _ in range(2))


def watched(folder: Path, stage: str) -> Trace:
    files = read_dump(folder).kernels["k"]
    trace = trace_of(load(files, files.stage(stage)))
    inputs = [(SHAPE, same(X)), (SHAPE, same(Y))]
    result = run(trace.code, "v5e", inputs, [SHAPE], engine=trace.engine)  # type: ignore[list-item,arg-type]
    assert result.stop is None
    np.testing.assert_array_equal(result.outputs[0].first, X - Y)
    return trace


@pytest.mark.parametrize(("stage", "times"), [("original", 1), ("13", 5), ("final", 1)])
def test_times_and_last_values(tmp_path, stage, times):
    trace = watched(dumped.write(tmp_path), stage)
    did = {d.instruction.dst.name: d for d in trace.did if d.instruction.dst is not None}
    assert did["v5"].times == times
    np.testing.assert_array_equal(did["v5"].vector.view(np.float32), X - Y)
    store = next(d for d in trace.did if d.instruction.opcode == "vst")
    assert (store.times, store.vector) == (times, None)
    assert store.digest != 0


def test_scalars_and_predicates_of_a_loop(tmp_path):
    trace = watched(dumped.write(tmp_path), "13")
    did = {d.instruction.dst.name: d for d in trace.did if d.instruction.dst is not None}
    assert (did["s11"].times, did["s11"].scalar) == (5, 5)
    assert (did["p12"].times, did["p12"].scalar) == (6, 1)


def test_a_summary_is_numpys():
    words = np.where(np.arange(1024).reshape(8, 128) % 5 == 0, np.float32("inf"), X).astype(np.float32)
    found = summary(words.view(np.uint32), "vadd.f32")
    finite = words[np.isfinite(words)].astype(np.float64)
    assert (found.kind, found.finite) == ("f32", finite.size)
    np.testing.assert_allclose(
        (found.least, found.greatest, found.mean, found.std), (finite.min(), finite.max(), finite.mean(), finite.std())
    )
    assert summary(np.arange(1024, dtype=np.uint32).reshape(8, 128), "vlaneseq.b32").greatest == 1023
    assert summary(np.full((8, 128), 0xFFFFFFFF, np.uint32), "vld").least == -1.0


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.outside: list[str] = []
        self.rows = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.rows += tag == "tr"
        self.outside += [value for name, value in attrs if name in ("src", "href") and value]


def test_the_page_stands_alone_and_has_every_instruction(tmp_path):
    from assay.checking.api import Request
    from assay.kernels import execute, opened

    request = Request(target="tpu:v5e")
    with opened(str(dumped.write(tmp_path)), request) as (_, dumps):
        report, page = execute(dumps[0], request, None, "13", traced=True)
    assert report.exit_code == 0
    links = _Links()
    links.feed(page)
    assert links.outside == []
    assert "http" not in page
    assert links.rows > 12
    row = next(line for line in page.splitlines() if "vsub.f32" in line)
    cells = re.findall(r"<td[^>]*>(.*?)</td>", row)
    assert cells[2] == "5"
    outputs = report.outputs[0][1].first
    assert cells[4:7] == [f"{value:.6g}" for value in (outputs.min(), outputs.max(), outputs.astype(float).mean())]
    assert "region 4 loop_body: ran 5 times" in page
