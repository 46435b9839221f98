"""assay llo, from the command line: what is said, what is written, and one clear line where the input is at fault."""

from __future__ import annotations

import importlib.util
import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest

_spec = importlib.util.spec_from_file_location("dumped", Path(__file__).parents[1] / "llo" / "dumped.py")
assert _spec is not None
assert _spec.loader is not None
dumped = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(dumped)
STAMP = dumped.STAMP

RNG = np.random.default_rng(3)
X, Y = (RNG.standard_normal((8, 128)).astype(np.float32) for _ in range(2))


@pytest.fixture
def assay(monkeypatch, tmp_path, run_quietly):
    """Runs `assay llo` in a folder with a dump in `d`: (exit code, standard output, lines on standard error)."""
    monkeypatch.chdir(tmp_path)
    dumped.write(tmp_path / "d")
    np.savez("a.npz", X, Y)
    return partial(run_quietly, "llo")


@pytest.mark.parametrize("stage", [[], ["--stage", "final"], ["--stage", "13"], ["--stage", "post-GVN"]])
@pytest.mark.parametrize("source", ["d", f"d/{STAMP + 1}-k-01-original.txt"])
def test_run_computes_what_numpy_does(assay, source, stage):
    code, out, told = assay("run", source, "--inputs", "a.npz", "--out", "r.npz", "--json", "-", *stage)
    assert (code, told) == (0, [])
    np.testing.assert_array_equal(np.load("r.npz")["arr_0"], X - Y)
    said = json.loads(out)
    assert said["ended"] is True
    assert said["outputs"][0]["unwritten"] == 0
    assert said["outputs"][0]["first"][0] == f"{float((X - Y)[0, 0]):.6g}"


def test_run_draws_inputs_by_seed(assay):
    outs = []
    for seed in ("0", "0", "1"):
        assert assay("run", "d", "--seed", seed, "--out", "r.npz")[0] == 0
        outs.append(np.load("r.npz")["arr_0"])
    np.testing.assert_array_equal(outs[0], outs[1])
    assert not np.array_equal(outs[0], outs[2])


def test_run_names_the_file_that_was_given(assay):
    code, out, _ = assay("run", f"d/{STAMP + 1}-k-13-post-decomposer.txt", "--inputs", "a.npz")
    assert code == 0
    assert "ENDED  k, 13 post-decomposer  on tpu:v5e" in out


def test_run_writes_a_trace(assay):
    code, _, _ = assay("run", "d", "--stage", "13", "--trace", "t.html")
    page = Path("t.html").read_text()
    assert code == 0
    assert "vsub.f32" in page
    assert "loop_body: ran 5 times" in page


def test_a_kernel_that_stops_exits_with_1_and_says_where(assay):
    path = Path("d") / f"{STAMP + 1}-k-01-original.txt"
    path.write_text(path.read_text().replace("[vmem:[%s1] sm:$0xff]", "[vmem:[%s1 + $0x100000] sm:$0xff]"))
    for more in ([], ["--trace", "t.html"]):
        code, out, _ = assay("run", "d", *more)
        assert code == 1
        assert "line 7: reads vmem" in out


def test_diff_names_the_stage(assay):
    assert assay("diff", "d")[0] == 0
    dumped.write(Path("d"), dumped.planted("63-post-delay-converter", "%v3, %v4\n  %6", "%v4, %v3\n  %6"))
    code, out, told = assay("diff", "d")
    assert (code, told) == (1, [])
    assert out.startswith("MISMATCH  d  on tpu:v5e: k: 63 post-delay-converter changed it")
    assert "same:    13 post-decomposer" in out
    code, out, _ = assay("diff", "d", "--json", "-")
    said = json.loads(out)["programs"][0]["kernels"][0]["difference"]
    assert (said["stage"], said["outputs"][0]["differ"]) == ("63 post-delay-converter", 1024)


def test_diff_does_not_vouch_for_what_it_cannot_run(assay):
    dumped.write(Path("d"), dumped.planted("66-final_bundles", "vsub.f32", "vmystery.f32"))
    code, out, _ = assay("diff", "d")
    assert code == 2
    assert out.startswith("UNVERIFIED")
    assert "66 final_bundles: unsupported: vmystery.f32; 01 original to 63 post-delay-converter agree" in out


def test_stats_counts(assay):
    Path("d", f"{STAMP + 1}-k-42-packed-bundles-pre-ra.txt").unlink()
    code, out, _ = assay("stats", "d", "--json", "-")
    kernel = json.loads(out)["programs"][0]["kernels"][0]
    assert code == 0
    assert (kernel["static_cycles"], kernel["slots"]["V-load"]) == (5, {"issued": 2, "bundles": 1})
    code, out, _ = assay("stats", "d")
    assert "bundles are static cycles" in out


MISSING = "d/nothing.txt"
BAD = {
    "no such stage": (["run", "d", "--stage", "77"], "k has no stage '77': there is 01 original, 02 post-GVN"),
    "no such kernel": (["run", "d", "--kernel", "nope"], "d has no kernel nope: there is k"),
    "no such kernel, diff": (["diff", "d", "--kernel", "nope"], "d has no kernel nope: there is k"),
    "no such source": (["run", MISSING], "no such file"),
    "wrong shapes": (["run", "d", "--inputs", "w.npz"], "has shape [4, 128], the parameter is f32[8,128]"),
    "no meaning": (["run", "d", "--stage", "44"], "spseudo.reserve: the simulator has no meaning for it; d/"),
    "too few arrays": (["run", "d", "--inputs", "f.npz"], "f.npz has 1 arrays, k takes 2"),
    "no inputs file": (["run", "d", "--inputs", "no.npz"], "no.npz: no such file"),
    "runs for ever": (["run", "d", "--stage", "13", "--limit", "20"], None),
    "no TPU": (["run", "d", "--target", "cpu"], "only a TPU's compiler has LLO"),
    "no folder for the trace": (["run", "d", "--trace", "x/t.html"], "--trace x/t.html"),
    "seed and inputs": (["run", "d", "--inputs", "a.npz", "--seed", "3"], "leave out --seed"),
    "nothing in the folder": (["stats", "e"], "LLO in it; dump it with assay compile --emit llo"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_2(assay, case):
    arguments, words = BAD[case]
    np.savez("w.npz", X[:4], Y)
    np.savez("f.npz", X)
    Path("e").mkdir()
    code, out, told = assay(*arguments)
    assert code == 2, (out, told)
    if words is None:
        assert out.splitlines()[0].endswith("still running after 20 records; 20 records")
    else:
        assert len(told) == 1, told
        assert words in told[0]


@pytest.mark.parametrize("command", ["run", "diff"])
def test_without_hlo_it_says_what_is_needed(assay, command):
    hlo = Path("d", f"{STAMP}-TLP-hlo.txt")
    text = hlo.read_text()
    hlo.unlink()
    code, _, told = assay(command, "d")
    assert code == 2
    assert "name the optimized HLO with --hlo" in told[0]
    Path("m.hlo").write_text(text)
    assert assay(command, "d", "--hlo", "m.hlo")[0] == 0


def test_hlo_of_another_program_is_told(assay):
    Path("m.hlo").write_text(dumped.HLO.replace("%k =", "%other ="))
    code, _, told = assay("run", "d", "--hlo", "m.hlo")
    assert code == 2
    assert "has no instruction k" in told[0]


@pytest.mark.parametrize("keep", [0.2, 0.5, 0.9])
@pytest.mark.parametrize("label", ["01-original", "66-final_bundles"])
def test_a_file_cut_anywhere_in_a_line_is_one_line(assay, label, keep):
    path = Path("d", f"{STAMP + 1}-k-{label}.txt")
    text = path.read_text()
    cut = int(len(text) * keep)
    path.write_text(text[:cut].rstrip("\n"))
    code, _, told = assay("run", str(path), "--inputs", "a.npz")
    assert code == 2
    assert len(told) == 1


def test_bundles_alone_need_their_memory(assay):
    path = Path("d", f"{STAMP + 1}-k-66-final_bundles.txt")
    text = path.read_text().replace("vmem:[%s1_s1]", "vmem:[#allocation0]")
    Path("alone").mkdir()
    Path("alone", "x.txt").write_text(text)
    Path("alone", "opt.hlo").write_text(dumped.HLO)
    code, _, told = assay("run", "alone/x.txt", "--kernel", "k")
    assert code == 2
    assert "do not say how much memory" in told[0]


def test_a_renamed_file_runs_with_the_name_of_its_instruction(assay):
    Path("alone").mkdir()
    Path("alone", "z.txt").write_text(dumped.REGIONS)
    Path("alone", "opt.hlo").write_text(dumped.HLO)
    assert assay("run", "alone/z.txt", "--kernel", "k", "--inputs", "a.npz", "--out", "r.npz")[0] == 0
    np.testing.assert_array_equal(np.load("r.npz")["arr_0"], X - Y)
    code, _, told = assay("run", "alone/z.txt")
    assert code == 2
    assert "has no instruction z" in told[0]


@pytest.mark.tpu
def test_a_program_is_compiled_for_it(assay, tpu_toolchain):
    more = () if tpu_toolchain.spec == "host" else ("--toolchain", tpu_toolchain.spec)
    Path("small.hlo").write_text(
        "HloModule small\nENTRY main {\n  x = f32[60,200] parameter(0)\n  y = f32[60,200] parameter(1)\n"
        "  z = f32[60,200] subtract(x, y)\n  ROOT r = f32[60,200] multiply(z, z)\n}\n"
    )
    code, out, told = assay("diff", "small.hlo", *more, "--json", "-")
    assert (code, told) == (0, [])
    said = json.loads(out)
    assert f"libtpu {tpu_toolchain.version('libtpu')}" in said["toolchain"]
    (kernel,) = said["programs"][0]["kernels"]
    assert kernel["compared"] == (8 + 2) * 60 * 200
    assert len([s for s in kernel["stages"] if s["state"] in ("first", "agrees", "repeat")]) > 20
    x, y = (RNG.standard_normal((60, 200)).astype(np.float32) for _ in range(2))
    np.savez("b.npz", x, y)
    for stage in ("original", "final"):
        assert assay("run", "small.hlo", *more, "--inputs", "b.npz", "--stage", stage, "--out", "r.npz")[0] == 0
        np.testing.assert_array_equal(np.load("r.npz")["arr_0"], (x - y) * (x - y))
    assert assay("stats", "small.hlo", *more)[0] == 0


def test_a_folder_of_several_programs(assay):
    dumped.write(Path("many", "one", "llo"))
    dumped.write(Path("many", "two", "llo"), dumped.planted("66-final_bundles", "%v3_v0, %v4_v1", "%v4_v1, %v3_v0"))
    code, out, _ = assay("diff", "many", "--json", "-")
    said = {p["name"]: p["verdict"] for p in json.loads(out)["programs"]}
    assert (code, said) == (1, {"one": "agree", "two": "mismatch"})
    code, _, told = assay("run", "many")
    assert code == 2
    assert "2 programs: choose one" in told[0]


def test_bundles_alone_are_counted(assay):
    dumped.write(Path("o", "bundles"), {"66-final_bundles": dumped.BUNDLES}, hlo=None)
    code, out, _ = assay("stats", "o", "--json", "-")
    assert code == 0
    assert json.loads(out)["programs"][0]["kernels"][0]["static_cycles"] == 5


def test_inputs_of_diff_are_the_programs(assay):
    dumped.write(Path("d"), dumped.planted("63-post-delay-converter", "%v3, %v4\n  %6", "%v4, %v3\n  %6"))
    np.savez("same.npz", X, X)  # x - x either way: +0.0
    assert assay("diff", "d", "--inputs", "same.npz")[0] == 0
    assert assay("diff", "d", "--inputs", "a.npz")[0] == 1
    np.savez("w.npz", X[:4], Y)
    code, _, told = assay("diff", "d", "--inputs", "w.npz")
    assert code == 2
    assert "has shape [4, 128]" in told[0]


def test_diff_of_bundles_alone_says_which_stages_it_needs(assay):
    for path in Path("d").glob("*-k-*.txt"):
        if "bundles" not in path.name:
            path.unlink()
    code, out, told = assay("diff", "d")
    assert (code, out, len(told)) == (2, "", 1)
    assert (
        "no original, from which stages are compared: dump all with assay compile --emit llo --llo-passes ." in told[0]
    )


@pytest.mark.parametrize(
    ("command", "words"), [("run", "--limit allows more records"), ("diff", "--limit allows more")]
)
def test_a_kernel_that_is_stopped_by_the_limit_says_how_to_go_on(assay, command, words):
    code, out, _ = assay(command, "d", "--limit", "3")
    assert code == 2
    assert "still running after 3 records" in out
    assert words in out


def test_a_dump_of_another_tpu_is_one_line(assay):
    dumped.write(Path("d"), dumped.planted("01-original", "  %v3 =", "  %8 = vmatprep.subr.bf16.mxu0 0\n  %v3 ="))
    for command in ("run", "diff"):
        code, out, told = assay(command, "d")
        assert (code, out, len(told)) == (2, "", 1)
        assert "this is no LLO of tpu:v5e; name the TPU that it was compiled for with --target" in told[0]


@pytest.mark.parametrize("command", ["run", "diff"])
def test_a_file_that_is_cut_at_the_end_of_a_line_is_told(assay, command):
    path = Path("d", f"{STAMP + 1}-k-01-original.txt")
    path.write_text(path.read_text().partition("  %6 = vst")[0])
    code, out, told = assay(command, "d")
    assert code == 2
    assert "the file is cut, dump it again" in (told[0] if command == "run" else out)
