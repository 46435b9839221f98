"""Stages in one spelling: what counts as the same text, and what one has that another has not."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from assay.errors import InputError, LloSyntaxError
from assay.llo.files import read_dump
from assay.llo.listing import changes, load, spelled
from assay.llo.text import parse

_spec = importlib.util.spec_from_file_location("dumped", Path(__file__).with_name("dumped.py"))
assert _spec is not None
assert _spec.loader is not None
dumped = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(dumped)

HEAD = "$region0: #{k}\n"


def loaded(folder: Path, text: str):
    end = "%999 = vnop\n"  # a whole dump ends with what has an effect
    files = read_dump(dumped.write(folder, {"01-original": text + end})).kernels["k"]
    return load(files, files.stage("original"))


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ("%v1 = vmov 2.0\n", "%v77 = vmov 2.0 /* why */\n", True),  # names and remarks
        ("%v1 = vmov 2.0\n", "%v1 = vmov 2.0\n%3 = xla_tuple %v1\n", True),  # where it comes from
        ("%v1 = vmov 2.0\n", "%v1 = vmov 3.0\n", False),
        ("%v1_v4 = vmov 2.0\n", "%v2_v4 = vmov 2.0\n", True),
        ("%v1_v4 = vmov 2.0\n", "%v1_v5 = vmov 2.0\n", False),  # registers count
        ("%v1 = vsub.f32 %v2, %v3\n", "%v1 = vsub.f32 %v3, %v2\n", True),  # alike but for names
        ("%v2 = vmov 1.0\n%v3 = vmov 2.0\n%v1 = vsub.f32 %v2, %v3\n",
         "%v2 = vmov 1.0\n%v3 = vmov 2.0\n%v1 = vsub.f32 %v3, %v2\n", False),
        ("%v1 = vld [vmem:[%s0] sm:$0xff]\n", "%v1 = vld [vmem:[%s0] sm:$0x7f]\n", False),
    ],
)  # fmt: skip
def test_what_a_fingerprint_tells_apart(tmp_path, a, b, same):
    one, other = loaded(tmp_path / "a", HEAD + a), loaded(tmp_path / "b", HEAD + b)
    assert (one.fingerprint() == other.fingerprint()) is same


@pytest.mark.parametrize(
    "line",
    [
        "%v5 = vsub.f32 %v3, %v4",
        "%6 = vst [vmem:[%s2] sm:$0x7f] /*vst_source=*/%v5",
        "%v5 = vld [vmem:[#allocation0 + $0x8] ss:$-1 sm:$0xff]",
        "%s9 = sadd.s32 (%p3), %s1, 4",
        "%s9 = smov.u32 (!%p3, %s1), 4",
        "%14 = sbr.rel (!%p2) target = $region2",
        "%v9 = vpop.f32.mrf.mxu2 %8",
    ],
)
def test_another_spelling_for_every_part_of_an_instruction(line):
    """Whatever is dropped from an instruction changes its line."""
    head = f"{HEAD}  $region2: #{{k}} parent=0\n"
    (whole,) = parse(f"{head}{line}\n", "k").walk()
    for old, new in (("%v3", "%v7"), ("%v5", "%v7"), ("0x7f", "0xff"), ("$-1", "$1"), ("%p3", "%p4"), ("!", ""),
                     (", 4", ", 5"), ("mxu2", "mxu1"), ("%8", "%7"), ("+ $0x8", "+ $0x9")):  # fmt: skip
        if old in line:
            (other,) = parse(f"{head}{line.replace(old, new, 1)}\n", "k").walk()
            assert spelled(other) != spelled(whole), (old, new)


def test_changes_are_what_one_side_alone_has():
    before = parse(f"{HEAD}%v1 = vmov 1.0\n%v2 = vmov 2.0\n%v3 = vadd.f32 %v1, %v2\n", "a")
    after = parse(f"{HEAD}%v2 = vmov 2.0\n%v1 = vmov 1.0\n%v3 = vsub.f32 %v1, %v2\n", "b")
    assert [(c.sign, c.line) for c in changes(before, after)] == [("-", 4), ("+", 4)]
    moved = parse(f"{HEAD}%v2 = vmov 2.0\n%v1 = vmov 1.0\n%v3 = vadd.f32 %v1, %v2\n", "c")
    assert {c.line for c in changes(before, moved)} >= {2, 3}  # the same instructions in another order
    assert changes(before, before) == []


def test_a_cut_file_and_one_that_is_not_there_are_told(tmp_path):
    files = read_dump(dumped.write(tmp_path / "a", {"01-original": f"{HEAD}%v1 = vmov 1.0"})).kernels["k"]
    with pytest.raises(LloSyntaxError, match="the last line has no end: the file is cut, dump it again"):
        load(files, files.stages[0])
    files = read_dump(dumped.write(tmp_path / "b")).kernels["k"]
    files.stage("original").path.unlink()
    with pytest.raises(InputError, match="No such file"):
        load(files, files.stages[0])
