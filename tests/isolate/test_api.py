"""A compiler that ends, hangs or refuses while it writes snapshots: what is told, and of which pass."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from assay.checking.api import Request
from assay.errors import InputError
from assay.isolate import api
from assay.isolate.dumps import Dump
from assay.oracle.verdict import Verdict
from assay.programs.program import Program
from assay.targets.snapshots import Snapshot, read
from assay.toolchain import RequestRefused, WorkerDied

from .chains import module, write

GOOD = "ENTRY e { p = f32[8] parameter(0)\n ROOT r = f32[8] tanh(p) }"
STEPS = [("", GOOD), ("dce", GOOD), ("cse", GOOD)]


def died(kind):
    return WorkerDied(kind, "compile", 6, "SIGABRT", ("Check failed: x", "F0000 1"), f"{kind} by SIGABRT")


@pytest.fixture
def passes(monkeypatch, tmp_path):
    """`passes` on one program whose compilations end as listed: an error, or a whole dump."""
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    (tmp_path / "p.hlo").write_text(f"HloModule m\n{GOOD}")

    @contextmanager
    def worker(request, step):
        yield None, {"jax": "1", "jaxlib": "1"}

    def run(*ends, **more):
        left = list(ends)
        folders = []

        def dump(worker, program, target, folder, options, flags, limit):
            folders.append(folder)
            folder.mkdir(exist_ok=True)
            assert not list(folder.iterdir()), "a second try begins with an empty folder"
            write(folder, STEPS)
            end = left.pop(0)
            if end is not None:
                (folder / "module_0000.m.0001.pipe.after_cse.before_pipeline-end.txt").unlink()
                raise end
            return Dump(read(folder), Snapshot.text, 0.1)

        monkeypatch.setattr(api, "dump", dump)
        monkeypatch.setattr(api.api, "open_worker", worker)
        programs = [Program("p.hlo", b"", "hlo-text", module(GOOD))]
        monkeypatch.setattr(api.api, "read_programs", lambda *_: programs)
        report = api.passes(str(tmp_path / "p.hlo"), Request(**more), api.Options())
        assert not left
        assert not any(folder.exists() for folder in folders), "dumps are pruned"
        return report

    return run


@pytest.mark.parametrize(("kind", "verdict"), [("crash", Verdict.CRASH), ("hang", Verdict.HANG)])
def test_seen_twice_it_is_the_compilers(passes, kind, verdict) -> None:
    report = passes(died(kind), died(kind))
    assert (report.verdict, report.exit_code) == (verdict, 1)
    assert report.worst.why == f"{kind} by SIGABRT during compile, twice"
    assert report.worst.stderr_tail[0] == "Check failed: x"
    assert report.worst.culprit is not None
    assert (report.worst.culprit.name, report.worst.culprit.pipeline) == ("cse", "pipe")
    assert report.worst.culprit.since == "0000.pipe.after_dce"


def test_after_all_passes_it_is_code_generation(tmp_path) -> None:
    write(tmp_path, STEPS)
    (tmp_path / "module_0000.m.cpu_after_optimizations.txt").write_text(f"HloModule m\n{GOOD}")
    culprit = api._last(tmp_path)
    assert culprit is not None
    assert (culprit.name, culprit.since) == ("code generation", "after_optimizations")


def test_seen_once_it_is_no_ones(passes) -> None:
    report = passes(died("crash"), None)
    assert report.verdict == Verdict.NONDETERMINISTIC
    assert report.worst.why == "crash by SIGABRT during compile in one of two runs"


def test_too_little_memory_is_no_finding(passes) -> None:
    report = passes(died("resource"))
    assert (report.verdict, report.exit_code) == (Verdict.UNVERIFIED, 2)
    assert "needs too much memory" in report.worst.why


def test_a_program_that_is_refused(passes) -> None:
    report = passes(RequestRefused("compile", "XlaRuntimeError", "UNIMPLEMENTED: no\nsuch thing"))
    assert (report.verdict, report.exit_code) == (Verdict.INVALID, 2)
    assert report.worst.why == "the toolchain refuses to compile it: UNIMPLEMENTED: no such thing"


@pytest.mark.parametrize("type_", ["UnknownOption", "BadOption"])
def test_an_option_that_is_none(passes, type_) -> None:
    with pytest.raises(InputError, match="--option: this XLA has no option x"):
        passes(RequestRefused("compile", type_, "this XLA has no option x"))


def test_all_is_well(passes) -> None:
    report = passes(None)
    assert (report.verdict, report.exit_code) == (Verdict.AGREE, 0)
    assert report.worst.snapshots == 3
    usual, more = ("normal, seed 0", "small-integers, seed 0"), ("normal, seed 1", "sparse-integers, seed 0")
    assert report.worst.inputs == (*usual, *more)


def test_what_the_reference_cannot_hold_is_not_compiled(passes) -> None:
    report = passes(memory_limit=100)
    assert (report.verdict, report.exit_code) == (Verdict.UNVERIFIED, 2)
    assert "raise it with --memory" in report.worst.why
