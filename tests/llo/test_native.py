"""The C engine is built once, and does without a compiler."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from assay.llo import interpret, native
from assay.llo.code import Code
from assay.llo.machine import Machine, Outcome, Trap
from assay.llo.semantics.table import BY_NUMBER, OPS


def counting() -> Code:
    """S[0] becomes 3 in three records and a halt."""
    add, halt = OPS["sadd.s32"].number, OPS["halt"].number
    records = np.array([[add, 0, 0, 1, 0, 0, 0, 0]] * 3 + [[halt, 0, 0, 0, 0, 0, 0, 0]], np.int32)
    lines = np.arange(1, 5, dtype=np.int32)
    return Code("k", "k.txt", records, lines, 1, 1, 2, {}, {}, {0: 0, 1: 1}, (), ())


def compiler() -> str:
    if native.missing():
        pytest.skip(str(native.missing()))
    return native.compiler() or ""


def test_a_library_is_kept_under_what_it_was_made_of(tmp_path: Path) -> None:
    made = native.build(compiler(), tmp_path)
    stamp = made.stat().st_mtime_ns
    assert native.build(compiler(), tmp_path) == made
    assert made.stat().st_mtime_ns == stamp
    assert [p.name for p in tmp_path.iterdir()] == [made.name]


@pytest.mark.parametrize(
    ("name", "says"), [(None, "no C compiler"), ("/nowhere/cc", "/nowhere/cc --version"), ("false", "does not compile")]
)
def test_what_cannot_be_built_is_told_in_a_line(name: str | None, says: str, tmp_path: Path) -> None:
    with pytest.raises(native.NoCompiler, match=says) as caught:
        native.build(name, tmp_path)
    assert "\n" not in str(caught.value)


def test_a_cache_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(native.NoCompiler, match="file"):
        native.build(compiler(), tmp_path / "file")


def test_without_a_compiler_numpy_runs_and_one_line_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(native, "compiler", lambda: None)
    native._library.cache_clear()
    code = counting()
    machine = Machine(code, "v5e")
    with caplog.at_level(logging.WARNING, "assay"):
        first = native.run(code, machine, 10)
        native.run(code, Machine(code, "v5e"), 10)
    native._library.cache_clear()
    assert first.steps == 4
    assert int(machine.s[0]) == 3
    assert len(caplog.records) == 1
    assert "no C compiler" in caplog.records[0].getMessage()


def test_every_op_has_a_body_in_c() -> None:
    text = native.generated()
    for op in BY_NUMBER:
        if op.name not in ("jump", "halt"):
            assert f"/* {op.name} */ static int op_{op.number}(" in text


def endless() -> Code:
    """S[0] counts up for ever."""
    add, jump = OPS["sadd.s32"].number, OPS["jump"].number
    records = np.array([[add, 0, 0, 1, 0, 0, 0, 0], [jump, 0, 0, 0, 0, 0, 0, 0]], np.int32)
    return Code("k", "k.txt", records, np.array([1, 2], np.int32), 1, 1, 2, {}, {}, {0: 0, 1: 1}, (), ())


@pytest.mark.parametrize("error", [TimeoutError, KeyboardInterrupt])
@pytest.mark.parametrize("engine", [interpret.run, native.run])
def test_a_run_is_watched_and_ends_where_the_watch_says(engine: Callable[..., Outcome], error: type[Exception]) -> None:
    seen: list[tuple[str, int]] = []

    def watch(kernel: str, steps: int) -> None:
        seen.append((kernel, steps))
        if len(seen) == 3:
            raise error

    machine = Machine(endless(), "v5e")
    with pytest.raises(error):
        engine(endless(), machine, 1 << 40, watch=watch)
    slices = (interpret.SLICE,) if engine is interpret.run or native.missing() else (native.SLICE,)
    assert seen == [("k", k * slice_) for slice_ in slices for k in (1, 2, 3)]
    assert int(machine.s[0]) == seen[-1][1] // 2


@pytest.mark.parametrize("engine", [interpret.run, native.run])
@pytest.mark.parametrize("limit", [1, interpret.SLICE, native.SLICE - 1, native.SLICE, native.SLICE + 1])
def test_a_watch_does_not_move_the_limit(engine: Callable[..., Outcome], limit: int) -> None:
    outcome = engine(endless(), Machine(endless(), "v5e"), limit, watch=lambda kernel, steps: None)
    assert (outcome.steps, outcome.stop and outcome.stop.trap) == (limit, Trap.STEP_LIMIT)
