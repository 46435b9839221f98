"""Stages that differ are found, the first is named, and what cannot be compared is said."""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path

import numpy as np
import pytest

from assay.checking.api import Request
from assay.kernels import diff as diff_all
from assay.kernels import opened
from assay.llo.diff import KernelDiff
from assay.llo.kernel import LIMIT

_spec = importlib.util.spec_from_file_location("dumped", Path(__file__).with_name("dumped.py"))
assert _spec is not None
assert _spec.loader is not None
dumped = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(dumped)
STAGES, planted, write = dumped.STAGES, dumped.planted, dumped.write


def diffed(folder: Path, **options: object) -> KernelDiff:
    request = Request(target="tpu:v5e")
    with opened(str(folder), request) as (_, dumps):
        (one,) = dumps
        limit, step = options.get("limit", LIMIT), options.get("step", lambda _: None)
        (found,) = diff_all(one, request, None, limit, options.get("deadline"), step)  # type: ignore[arg-type]
    return found


def test_honest_stages_agree_and_what_was_left_out_is_said(tmp_path):
    found = diffed(write(tmp_path))
    assert (found.verdict, found.why) == ("agree", "")
    states = {f"{s.number:02d}": s.state for s in found.stages}
    assert states == {
        "01": "first", "02": "repeat", "13": "agrees", "42": "skipped", "44": "skipped", "63": "agrees", "66": "agrees",
    }  # fmt: skip
    assert next(s.why for s in found.stages if s.number == 44) == "unsupported: spseudo.reserve"
    assert found.compared == (8 + 2) * 8 * 128
    assert found.unwritten == 0


@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize(
    ("stage", "old", "new", "differ", "unwritten"),
    [
        ("02-post-GVN", "%v3, %v4\n  %6", "%v4, %v3\n  %6", 1024, 0),  # swapped operands
        ("13-post-decomposer", "[vmem:[%s1] sm:$0xff]", "[vmem:[%s1] sm:$0xef]", 128, 0),  # a sublane less is read
        ("66-final_bundles", "%v4_v1 = vld", "%v4_v7 = vld", 1024, 1024),  # into another register: one is never set
        ("66-final_bundles", "vsub.f32 %v3_v0, %v4_v1", "vsub.f32 %v4_v1, %v3_v0", 1024, 0),
    ],
)
def test_the_first_stage_whose_result_differs_is_named(tmp_path, stage, old, new, differ, unwritten, every):
    found = diffed(write(tmp_path, planted(stage, old, new, every)))
    difference = found.difference
    assert found.verdict == "mismatch"
    assert difference is not None
    assert difference.stage == stage.replace("-", " ", 1)
    (wrong,) = difference.outputs
    assert (wrong.differ, wrong.elements, wrong.unwritten) == (differ, 1024, unwritten)
    assert difference.changes > 0


def test_values_before_and_after_are_those_of_numpy(tmp_path):
    write(tmp_path, planted("63-post-delay-converter", "%v3, %v4\n  %6", "%v4, %v3\n  %6"))
    found = diffed(tmp_path).difference
    assert found is not None
    assert found.since == "13 post-decomposer"
    (wrong,) = found.outputs
    assert float(wrong.before) == -float(wrong.after) != 0.0
    assert found.first is not None
    assert found.first.name == "v5"
    assert found.first.after == "%v5 = vsub.f32 %v4, %v3"


def test_what_is_no_longer_written_depends_on_memory(tmp_path):
    found = diffed(
        write(tmp_path, planted("63-post-delay-converter", "[vmem:[%s2] sm:$0xff]", "[vmem:[%s2] sm:$0x7f]"))
    )
    assert found.difference is not None
    (wrong,) = found.difference.outputs
    assert (wrong.differ, wrong.unwritten) == (128, 128)
    assert wrong.place == (7, 0)


def test_what_nobody_ever_wrote_is_not_compared(tmp_path):
    stages = {name: text.replace("_s2] sm:$0xff]", "_s2] sm:$0x7f]") for name, text in STAGES.items()}
    stages = {name: text.replace("[vmem:[%s2] sm:$0xff]", "[vmem:[%s2] sm:$0x7f]") for name, text in stages.items()}
    found = diffed(write(tmp_path, stages))
    assert found.verdict == "agree"
    assert (found.compared, found.unwritten) == (10 * 7 * 128, 10 * 128)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[vmem:[%s1] sm:$0xff]", "[vmem:[%s1 + $0x100000] sm:$0xff]", "which belongs to nothing"),
        ("%v5 = vsub.f32 %v3, %v4", "%v5 = vpop.erf %9", "which is empty"),
        ("%v5 = vsub.f32 %v3, %v4", "%9 = shalt.err\n  %v5 = vsub.f32 %v3, %v4", "bounds check failed"),
    ],
)
def test_a_stop_that_the_stage_before_has_not_is_a_difference(tmp_path, old, new, said):
    found = diffed(write(tmp_path, planted("63-post-delay-converter", old, new)))
    assert found.difference is not None
    assert found.difference.stage == "63 post-delay-converter"
    assert said in found.difference.trap


def test_a_loop_that_never_ends_is_a_difference(tmp_path):
    found = diffed(write(tmp_path, planted("13-post-decomposer", "%s11 = sadd.s32 1", "%s11 = sadd.s32 0")))
    assert found.difference is not None
    assert "still running" in found.difference.trap


def test_queues_that_are_no_longer_emptied_are_a_difference(tmp_path):
    stages = planted("63-post-delay-converter", "%v5 = vsub", "%9 = vtanh.f32 %v3\n  %v5 = vsub")
    found = diffed(write(tmp_path, stages))
    assert found.difference is not None
    assert (found.difference.left, found.difference.outputs) == (1, ())


@pytest.mark.parametrize("stage", ["01-original", "66-final_bundles"])
def test_where_an_end_cannot_be_run_nothing_is_vouched_for(tmp_path, stage):
    found = diffed(write(tmp_path, planted(stage, "vsub.f32", "vmystery.f32")))
    assert (found.verdict, found.difference) == ("unverified", None)
    assert "vmystery.f32" in found.why


def test_a_stage_in_between_that_cannot_be_run_is_passed_over(tmp_path):
    found = diffed(write(tmp_path, planted("13-post-decomposer", "vsub.f32", "vmystery.f32")))
    assert found.verdict == "agree"
    assert [s.why for s in found.stages if s.number == 13] == ["unsupported: vmystery.f32"]


def test_a_file_that_is_cut_is_no_difference(tmp_path):
    stages = dict(STAGES)
    cut = stages["63-post-delay-converter"]
    stages["63-post-delay-converter"] = cut[: cut.index("/*vst_source")]
    found = diffed(write(tmp_path, stages))
    assert found.verdict == "unverified" or all(s.state != "differs" for s in found.stages)
    assert "the file is cut, dump it again" in next(s.why for s in found.stages if s.number == 63)


TWICE = "  %v8 = vld [vmem:[%s0 + $0x4] sm:$0xf]\n  %8 = vst [vmem:[%s2 + $0x4] sm:$0xf] /*vst_source=*/%v8\n"


@pytest.mark.parametrize("names", [["01-original", "13", "66"], ["01-original", "66"]])
def test_a_first_stage_that_is_cut_behind_a_store_is_no_difference(tmp_path, names):
    """The text has all that a whole one has; but it does not write what all others write."""
    stages = {n: t for n, t in STAGES.items() if any(n.startswith(name) for name in names)}
    stages["01-original"] = STAGES["01-original"].replace("[vmem:[%s2] sm:$0xff]", "[vmem:[%s2] sm:$0xf]")
    found = diffed(write(tmp_path, stages))
    assert (found.verdict, found.difference) == ("unverified", None)
    assert "01 original does not write all of output 0" in found.why


def test_a_last_stage_that_is_cut_behind_a_store_is_no_difference(tmp_path):
    """Of the stages after it there is none to say whether a pass took the store out."""
    whole = STAGES["01-original"] + TWICE
    stages = {"01-original": whole, "02-post-GVN": whole.removesuffix(TWICE)}
    found = diffed(write(tmp_path, stages))
    assert (found.verdict, found.difference) == ("unverified", None)
    assert "%8, which 01 original has, is not there, and no later stage says" in found.why
    stages["12-post-decomposer"] = stages["02-post-GVN"].replace("%v5", "%v9")  # the pass took it out
    stages["66-final_bundles"] = STAGES["66-final_bundles"]
    found = diffed(write(tmp_path / "later", stages))
    assert found.difference is not None
    assert found.difference.stage == "02 post-GVN"


def test_what_time_does_not_reach_is_unverified(tmp_path):
    found = diffed(write(tmp_path), deadline=time.monotonic() - 1.0)
    assert found.verdict == "unverified"
    assert "out of time" in found.why


def test_time_ends_within_a_kernel_and_progress_says_where_it_is(tmp_path):
    """A loop that never ends, and a limit that is far."""
    stages = {**STAGES, "01-original": dumped.LOOP.replace("%s11 = sadd.s32 1", "%s11 = sadd.s32 0")}
    said: list[str] = []
    start = time.monotonic()
    found = diffed(write(tmp_path, stages), deadline=start + 4.0, limit=1 << 60, step=said.append)
    assert time.monotonic() - start < 60
    assert (found.verdict, found.difference) == ("unverified", None)
    assert "out of time" in found.why
    assert any("k" in text and text.endswith(" instructions") for text in said)


def test_nothing_to_compare_is_no_agreement(tmp_path):
    stages = {name: text.replace("sm:$0xff] /*vst", "sm:$0x0] /*vst") for name, text in STAGES.items()}
    found = diffed(write(tmp_path, stages))
    assert found.verdict == "unverified"
    assert "nothing to compare" in found.why


def test_one_stage_alone_is_no_agreement(tmp_path):
    found = diffed(write(tmp_path, {"01-original": STAGES["01-original"]}))
    assert found.verdict == "unverified"
    assert "only one stage" in found.why


def test_an_end_that_was_not_dumped_is_no_agreement(tmp_path):
    """Two stages that agree, and no final bundles."""
    found = diffed(write(tmp_path, {name: STAGES[name] for name in ("01-original", "63-post-delay-converter")}))
    assert found.verdict == "unverified"
    assert "no final_bundles in the dump" in found.why


def test_a_kernel_that_gets_what_nobody_wrote_has_nothing_to_say(tmp_path):
    """As the copy of a buffer that a loop is to fill: no pass can spoil it, so it is not held against the program."""
    hlo = dumped.HLO.replace("subtract(%x, %y)", "subtract(%n, %n)").replace(
        "  ROOT", '  %n = f32[8,128]{1,0:T(8,128)} custom-call(), custom_call_target="AllocateBuffer"\n  ROOT'
    )
    found = diffed(write(tmp_path, hlo=hlo))
    assert (found.verdict, found.compared) == ("agree", 0)
    assert found.unwritten > 0


SWAPPED = planted("63-post-delay-converter", "%v3, %v4\n  %6", "%v4, %v3\n  %6")
ALIKE = dumped.HLO.replace("subtract(%x, %y)", "subtract(%n, %y)").replace(
    "  ROOT", "  %n = f32[8,128]{1,0:T(8,128)} bitcast(%y)\n  ROOT"
)
"""A parameter goes through another instruction first: the kernel's inputs are not the program's, y - y both ways."""


def test_inputs_are_those_that_the_program_hands_on(tmp_path):
    """Integers may be indices of a promised range: none but the program's are used."""
    stages = {name: text.replace("f32", "s32") for name, text in SWAPPED.items()}
    found = diffed(write(tmp_path, stages, ALIKE.replace("f32", "s32")))
    assert (found.verdict, found.compared) == ("agree", 8 * 8 * 128)


def test_floats_that_no_program_hands_on_are_drawn_as_well(tmp_path):
    """A pass that breaks a kernel is found though the program at hand would not show it."""
    found = diffed(write(tmp_path, SWAPPED, ALIKE))
    assert found.difference is not None
    assert found.difference.stage == "63 post-delay-converter"
    assert found.difference.inputs == "drawn for the kernel alone: normal, seed 0"


def test_nan_is_nan_and_minus_zero_is_not_zero():
    from assay.hlo.shape_text import parse_shape
    from assay.llo.diff import compared
    from assay.llo.kernel import Pair

    quiet, other = np.array([0x7FC00000, 0x80000000], np.uint32), np.array([0xFFC00001, 0], np.uint32)
    a, b = (x.view(np.float32) for x in (quiet, other))
    found = compared(parse_shape("f32[2]{0}"), Pair(a, a), Pair(b, b))  # type: ignore[arg-type]
    assert found.tolist() == [False, True]
