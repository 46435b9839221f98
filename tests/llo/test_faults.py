"""Of a planted fault that no result shows, whether it is one is found out: benchmarks/llo_faults counts by that."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from assay.checking.api import Request
from assay.kernels import handed, opened
from assay.llo.kernel import LIMIT
from assay.llo.operands import operands_of

_spec = importlib.util.spec_from_file_location("dumped", Path(__file__).with_name("dumped.py"))
assert _spec is not None
assert _spec.loader is not None
dumped = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(dumped)

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "llo_faults"
SUM = "%v5 = vsub.f32 %v3, %v4"

# Row 0 of the result is a first value that is taken in only where the branch is not taken.
BRANCH = """  $region1: #{k} parent=0 // pred_check
    %s20 = smov.u32 0
    %p12 = scmp.gt.s32.totalorder %s20, 0
  $region2: #{k} parent=0 // pred_check_branch
    %13 = sbr.rel (%p12) target = $region4
  $region3: #{k} parent=0 // pred_region
    %14 = vst [vmem:[%s2] sm:$0x3] /*vst_source=*/-1000.0
  $region4: #{k} parent=0 // pred_fallthru
    _
  %v15 = vld [vmem:[%s2] sm:$0x3]
"""


def tried(tmp_path: Path, monkeypatch: Any, text: str, kind: str, dst: str) -> Any:
    """What becomes of the first fault of this kind in the instruction that makes `dst`, in the second of two stages."""
    monkeypatch.syspath_prepend(str(BENCHMARK))
    for path in BENCHMARK.glob("*.py"):  # another benchmark's files have such names too
        monkeypatch.setitem(sys.modules, path.stem, None)
        del sys.modules[path.stem]
    subject, trials = importlib.import_module("subject"), importlib.import_module("trials")
    folder = dumped.write(tmp_path, {"01-original": text, "63-post-delay-converter": text + dumped.EXIT})
    request = Request(target="tpu:v5e")
    with opened(str(folder), request) as (_, (one,)):
        module, (files,) = one.module(), one.dump.kernels.values()
        given = handed(one, module, request, {"k"}, LIMIT, None, lambda _: None)[0].found["k"]
        kernel = subject.Kernel("p", one, files, operands_of(module, "k"), given, "v5e", files.stages[1:])
        fault = next(fault for fault in trials.sites(kernel, files.stages[1], kind) if fault.dst == dst)
        return trials.trial(kernel, files.stages[1], fault)


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        (SUM, "found"),
        ("%v8 = vand.u32 %v4, 0\n  %v5 = vadd.f32 %v3, %v8", "equivalent"),
        # It is the larger one on no inputs at hand, and might be on others.
        ("%v8 = vadd.f32 %v4, -3e+38\n  %v5 = vmax.f32 %v3, %v8", "missed"),
        # What differs is in the upper halves, which are shifted out.
        (
            "%v8 = vand.u32 %v4, 4294901760\n  %v9 = vand.u32 %v3, 65535\n  %v10 = vor.u32 %v8, %v9\n"
            "  %v5 = vshll.u32 %v10, 16",
            "equivalent",
        ),
    ],
    ids=["read", "cleared", "hidden by a maximum", "another half"],
)
def test_lanes(tmp_path, monkeypatch, end, outcome):
    found = tried(tmp_path, monkeypatch, dumped.REGIONS.replace(SUM, end), "dropped sublane", "v4")
    assert found.outcome == outcome, found.said


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        ("%v16 = vand.u32 %v15, 0\n  %v5 = vadd.f32 %v3, %v16", "equivalent"),
        ("%v5 = vmax.f32 %v3, %v15", "found"),
        ("%v16 = vand.u32 %v15, 2147483648\n  %v5 = vor.u32 %v16, %v3", "found"),
    ],
    ids=["cleared", "a maximum", "its sign"],
)
def test_a_store_that_a_branch_skips(tmp_path, monkeypatch, end, outcome):
    """Only a branch differs, and memory: no vector of the instruction that is at fault."""
    text = dumped.REGIONS.replace("  %v3 = vld", BRANCH + "  %v3 = vld", 1).replace(SUM, end)
    found = tried(tmp_path, monkeypatch, text, "wrong loop bound", "p12")
    assert found.outcome == outcome, found.said


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        ("%v8 = vsub.f32 %v3, %v4\n  %v5 = vmul.f32 %v8, %v8", "equivalent"),
        ("%v8 = vsub.f32 %v3, %v4\n  %v5 = vadd.f32 %v8, %v8", "found"),
        ("%v9 = vand.u32 %v3, 4\n  %v8 = vsub.s32 %v9, %v9\n  %v5 = vadd.f32 %v3, %v8", ""),
        # The sign shows where the product is less than what it is added to, on other inputs.
        ("%v9 = vand.u32 %v3, 1\n  %v8 = vsub.s32 %v9, 2\n  %v5 = vmax.f32 %v3, %v8", "found"),
        ("%v9 = vadd.f32 %v3, 3e+38\n  %v8 = vsub.f32 %v3, %v4\n  %v5 = vmax.f32 %v9, %v8", "missed"),
    ],
    ids=["squared", "doubled", "no place for a fault", "an integer", "hidden by a maximum"],
)
def test_swapped_operands(tmp_path, monkeypatch, end, outcome):
    if not outcome:
        with pytest.raises(StopIteration):
            tried(tmp_path, monkeypatch, dumped.REGIONS.replace(SUM, end), "swapped operands", "v8")
        return
    found = tried(tmp_path, monkeypatch, dumped.REGIONS.replace(SUM, end), "swapped operands", "v8")
    assert found.outcome == outcome, found.said


def test_a_row_that_is_put_back_where_it_was(tmp_path, monkeypatch):
    """The sublanes of a load and a store of the same rows are computed: 4 - 1, and 1 - 4."""
    end = (
        "%v5 = vsub.f32 %v3, %v4\n  %8 = vst [vmem:[%s2] sm:$0xff] /*vst_source=*/%v5\n  %s9 = ssub.s32 4, 1\n"
        "  %v10 = vld [vmem:[%s2] sm:%s9]"
    )
    text = dumped.REGIONS.replace(SUM, end).replace(
        "%6 = vst [vmem:[%s2] sm:$0xff] /*vst_source=*/%v5", "%6 = vst [vmem:[%s2] sm:%s9] /*vst_source=*/%v10"
    )
    assert tried(tmp_path, monkeypatch, text, "swapped operands", "s9").outcome == "equivalent"
