"""What a check's exit code says, and what is heard of it."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from assay.errors import InputError
from assay.toolchain.bisect import trial as module
from assay.toolchain.bisect.search import Verdict
from assay.toolchain.bisect.trial import Check, parse_check, try_it
from assay.toolchain.environments import Toolchain

TOOLCHAIN = Toolchain("jax==0.6.2", sys.executable)


def script(folder: Path, text: str) -> str:
    path = folder / "check.sh"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("text", "verdict", "said"),
    [
        ("exit 0",                         Verdict.PRESENT, ""),
        ("echo wrong by 3; exit 0",        Verdict.PRESENT, "wrong by 3"),
        ("echo right; exit 1",             Verdict.ABSENT,  "right"),
        ("echo no libtpu; exit 125",       Verdict.SKIPPED, "no libtpu"),
        ("exit 2",                         Verdict.SKIPPED, "the check ended with exit code 2"),
        ("no-such-command",                Verdict.SKIPPED, "not found"),
        ("kill -SEGV $$",                  Verdict.SKIPPED, "signal SIGSEGV"),
        ('test "$ASSAY_TOOLCHAIN" = jax==0.6.2', Verdict.PRESENT, ""),
        ('test -x "$ASSAY_PYTHON"',        Verdict.PRESENT, ""),
    ],
)  # fmt: skip
def test_a_script_follows_c_reduce(tmp_path: Path, text: str, verdict: Verdict, said: str) -> None:
    found, words = try_it(parse_check(script(tmp_path, text), None), TOOLCHAIN)
    assert found is verdict
    assert said in words


@pytest.mark.parametrize(("code", "verdict"), [(0, Verdict.ABSENT), (1, Verdict.PRESENT), (2, Verdict.SKIPPED)])
def test_assays_own_commands_have_their_own_codes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, verdict: Verdict
) -> None:
    monkeypatch.setattr(module, "ASSAY", (script(tmp_path, f'echo "$@"; exit {code}'),))
    for command in ("assay check f.py:fn --target cpu", "assay passes f.py:fn --target cpu"):
        found, said = try_it(parse_check(command, None), TOOLCHAIN)
        assert found is verdict
        assert said == f"{command.removeprefix('assay ')} --toolchain jax==0.6.2"


def test_the_verdict_line_is_kept_without_what_is_the_same_everywhere(tmp_path: Path) -> None:
    line = "MISMATCH MISCOMPILE  a b.py:f  on tpu:v5e (jax 0.10.2, libtpu 0.0.42.1): 2 of 4 elements are wrong"
    _, said = try_it(parse_check(script(tmp_path, f"echo '{line}'"), None), TOOLCHAIN)
    assert said == "MISMATCH MISCOMPILE: 2 of 4 elements are wrong"


def test_placeholders(tmp_path: Path) -> None:
    check = parse_check(
        '{python} -c \'import sys; sys.exit(sys.argv[1:] != ["jax==0.6.2", "f.py"])\' {toolchain} {program}', "f.py"
    )
    assert try_it(check, TOOLCHAIN)[0] is Verdict.PRESENT


def test_a_check_that_takes_too_long_is_ended_with_all_it_started(tmp_path: Path) -> None:
    check = parse_check(script(tmp_path, f"sleep 60 & echo $! > {tmp_path}/pid; wait"), None, timeout_s=1.0)
    started = time.monotonic()
    verdict, said = try_it(check, TOOLCHAIN)
    assert (verdict, said) == (Verdict.SKIPPED, "the check was not done in 1 s")
    assert time.monotonic() - started < 20
    pid = int((tmp_path / "pid").read_text())
    for _ in range(100):
        state = Path(f"/proc/{pid}/stat")
        if not state.exists() or state.read_text().rsplit(")", 1)[1].split()[0] == "Z":
            return
        time.sleep(0.05)
    os.kill(pid, 9)
    pytest.fail("the check's own child was left")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("", "empty"),
        ("'", "No closing quotation"),
        ("no-such-command", "no-such-command is not a command"),
        ("assay doctor", "check and passes"),
        ("assay check f.py --toolchain jax==0.6.2", "leave it out"),
        ("true {program}", "no PROGRAM"),
    ],
)
def test_what_is_no_check_is_one_line(command: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        parse_check(command, None)


def test_a_script_that_is_not_executable_is_told(tmp_path: Path) -> None:
    (tmp_path / "x.sh").write_text("exit 0")
    with pytest.raises(InputError, match=r"chmod \+x"):
        parse_check(str(tmp_path / "x.sh"), None)


def test_a_pipe_is_not_taken_for_a_command_of_assay() -> None:
    assert parse_check("sh -c 'assay check f.py | grep -q MISMATCH'", None).ours is False
    assert isinstance(parse_check("assay check f.py", None), Check)
