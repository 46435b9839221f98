"""Of a planted fault that no result shows, whether it is one is found out: benchmarks/llo_faults counts by that."""

from __future__ import annotations

import importlib
import importlib.util
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
    assert found.outcome == outcome


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
    assert found.outcome == outcome
