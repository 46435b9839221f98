"""A dump that was cut is told from a whole one, wherever it was cut."""

from __future__ import annotations

import importlib.util
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from assay.errors import AssayError, LloSyntaxError, Unsupported
from assay.llo.code import Code
from assay.llo.files import KernelFiles, Stage, read_dump
from assay.llo.listing import load
from assay.llo.lowering import lower
from assay.targets import tpu_aot
from assay.toolchain import Worker

_spec = importlib.util.spec_from_file_location("dumped", Path(__file__).with_name("dumped.py"))
assert _spec is not None
assert _spec.loader is not None
dumped = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(dumped)


def code(files: KernelFiles, stage: Stage) -> Code:
    loaded = load(files, stage)
    return lower(loaded.kernel, loaded.declared)


def cut_at(files: KernelFiles, stage: Stage, places: list[int], alone: bool = False) -> Iterator[tuple[int, str]]:
    """(place, what is said) of each cut; `same` where it is the same program still, `another` where it is not."""
    text, whole = stage.path.read_text(), code(files, stage)
    shorter = replace(stage, path=stage.path.with_suffix(".cut"))
    stages = (shorter,) if alone else tuple(shorter if s is stage else s for s in files.stages)
    for place in places:
        shorter.path.write_text(text[:place])
        try:
            left = code(KernelFiles(files.name, stages), shorter)
        except AssayError as error:
            yield place, str(error)
        else:
            yield place, "same" if left.records.tobytes() == whole.records.tobytes() else "another"
    shorter.path.unlink(missing_ok=True)


def ends(text: str) -> list[int]:
    """Of lines, but for the last."""
    return [place + 1 for place, letter in enumerate(text) if letter == "\n"][:-1]


@pytest.mark.parametrize("name", ["01-original", "13-post-decomposer", "63-post-delay-converter", "66-final_bundles"])
def test_a_cut_at_any_byte_is_told(tmp_path, name):
    """With the stages around it; the exit of a loop, which is empty, may be missing or not."""
    files = read_dump(dumped.write(tmp_path)).kernels["k"]
    stage = files.stage(str(int(name[:2])))
    text = stage.path.read_text()
    for place, said in cut_at(files, stage, list(range(len(text)))):
        assert said != "another", text[:place]
        assert "\n" not in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (dumped.LOOP.partition("  $region5")[0], "1 loop_header and 0 loop_footer"),
        (dumped.LOOP.partition("    _\n  loop:")[0], "nothing in region 1"),
        (dumped.REGIONS.partition("  %6 =")[0], "%v5 = vsub.f32 comes last, and nothing takes what it makes"),
        (dumped.REGIONS.partition("  %6 =")[0] + "  %6 = vrot.slane.xlu0 %v5, 1\n", "%6 = vrot.slane comes last"),
        (dumped.REGIONS.partition("  %v3 =")[0], "nothing but operands"),
        (dumped.REGIONS.replace("[%s2]", "[%s1]"), "nothing is done with the output %s2"),
        (dumped.REGIONS + "  %8 = vsyncpa [#allocation4], 1\n", "sync flag 4 + 0 is opened and not closed"),
        (dumped.REGIONS + "  %p8 = scmp.eq.s32.totalorder 0, 1\n  %9 = sbr.rel (%p8) target = $region7\n", "region 7"),
        (dumped.REGIONS + "  %8 = vnop /* why\n", "a remark has no end"),
        (dumped.REGIONS + "  $region8: #{k} parent=0\n", "nothing in region 8"),
    ],
)  # fmt: skip
def test_what_a_file_alone_says_of_its_end(tmp_path, text, said):
    files = read_dump(dumped.write(tmp_path, {"01-original": text})).kernels["k"]
    with pytest.raises(LloSyntaxError, match="the file is cut, dump it again") as told:
        load(files, files.stages[0])
    assert said in str(told.value)


def test_sync_flags_are_known_by_their_place(tmp_path):
    """Opened as an address, closed through a register."""
    flags = "  %s8 = scalar_lea.sflag [#allocation4], 1\n  %9 = vsyncpa %s8, 1\n"
    flags += "  %10 = vsyncpa [#allocation4 + $0x1], 1\n"
    files = read_dump(dumped.write(tmp_path, {"01-original": dumped.REGIONS + flags})).kernels["k"]
    assert load(files, files.stages[0]).kernel.instructions == 10


def test_what_a_pass_loses_is_no_cut(tmp_path):
    """It is missing from every later stage too."""
    store = "  %6 = vst [vmem:[%s2] sm:$0xff] /*vst_source=*/%v5\n"
    stages = {n: t if n < "13" else t.replace(store, "  %8 = vnop\n") for n, t in dumped.STAGES.items()}
    files = read_dump(dumped.write(tmp_path, stages)).kernels["k"]
    assert load(files, files.stage("63")).kernel.instructions == 7


def test_bundles_whose_memory_was_cut_away_are_told(tmp_path):
    stages = dict(dumped.STAGES)
    stages["63-post-delay-converter"] = "$region0: #{k}\n"
    stages["66-final_bundles"] = stages["66-final_bundles"].replace("[%s1_s1]", "[#allocation0]")
    files = read_dump(dumped.write(tmp_path, stages)).kernels["k"]
    with pytest.raises(LloSyntaxError, match=r"63-post-delay-converter.* the file is cut, dump it again"):
        load(files, files.stage("final"))


LOOPS = """HloModule loops

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

ENTRY e {
  x = f32[70,260] parameter(0)
  y = f32[260,130] parameter(1)
  zero = f32[] constant(0)
  t = f32[70,260] tanh(x)
  d = f32[70,130] dot(t, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  r = f32[70] reduce(d, zero), dimensions={1}, to_apply=add
  i = s32[4] iota(), iota_dimension=0
  ROOT out = (f32[70,130], f32[70], s32[4]) tuple(d, r, i)
}
"""


@pytest.mark.tpu
@pytest.mark.parametrize("generation", ["v5e", "v6e"])
def test_real_dumps_cut_at_every_line_and_at_random_bytes(tpu_worker: Worker, tmp_path: Path, generation: str) -> None:
    """All stages of the smallest kernel, and six of every other. A file alone is told but where it ends with a store,
    or has one output and nothing else, as the memory for another kernel has.
    """
    folder = tmp_path / "dump"
    tpu_aot.compile(tpu_worker, LOOPS, "hlo-text", generation, dump=folder, llo=True, llo_passes=".")
    rng = random.Random(0)
    cuts = 0
    kernels = sorted(read_dump(folder).kernels.values(), key=lambda files: files.stages[-1].path.stat().st_size)
    for files in kernels:
        stages = [s for s in files.stages if not s.label.startswith(("packed-bundles", "post-bundle-packing-no"))]
        keep = ("original", "post-GVN-3", "post-delay-converter", "final_bundles")
        some = [s for s in stages if s.label in keep] + rng.sample(stages, 2)
        for stage in stages if files is kernels[0] else some:
            try:
                code(files, stage)
            except Unsupported:
                continue
            text = stage.path.read_text()
            places = ends(text)
            places = places if len(places) < 200 else rng.sample(places, 100)
            for place, said in cut_at(files, stage, places + [rng.randrange(len(text)) for _ in range(20)]):
                assert said != "another", (stage.path.name, text[:place][-300:])
                cuts += 1
            if stage.form == "regions":
                for place, said in cut_at(files, stage, places[::5], alone=True):
                    last = text[:place].splitlines()[-1]
                    assert said != "another" or " vst" in last or "index: 0, kind: output" in last, text[:place][-300:]
    assert cuts > 2000
