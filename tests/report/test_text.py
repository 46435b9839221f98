"""What a person reads: the verdict first, then where and how."""

from __future__ import annotations

import json

import pytest

from assay.oracle.verdict import MismatchClass, Verdict
from assay.report.json_form import to_json
from assay.report.result import CaseResult, OutputResult, Report
from assay.report.text import OF_LLO_DIFF, passes_command, render

WRONG = OutputResult(
    0,
    "['w']",
    (4, 6),
    "f32",
    24,
    3,
    2,
    1,
    12.0,
    float("inf"),
    "ball",
    ((1, 1), (2, 4)),
    (1, 3),
    "7.0",
    "5.0 ± 0.1",
    "tail",
)
RIGHT = OutputResult(0, "", (4, 6), "f32", 24, 0, 2, 0, 0.5, 0.25)


def report(*cases):
    return Report("step.py:step", "cpu", "jax 1, jaxlib 1, python 3", 7, cases, "assay check step.py:step")


def case(verdict, *outputs, why="", klass=None, name="step", notes=(), stderr=()):
    return CaseResult(name, "normal, seed 7", Verdict(verdict), why, klass, outputs, notes, stderr)


def test_a_mismatch_says_what_where_and_how():
    text = render(report(case("mismatch", WRONG, klass=MismatchClass.MISCOMPILE, notes=("a note",))))
    first = text.splitlines()[0]
    assert first.startswith(
        "MISMATCH MISCOMPILE  step.py:step  on cpu (jax 1, jaxlib 1, python 3): 3 of 24 elements of output 0"
    )
    assert "wrong in [1, 2:5]; worst at [1, 3]: 7.0, the reference has 5.0 ± 0.1; pattern: tail" in text
    assert "note: a note" in text


def test_a_mismatch_says_how_to_have_the_pass():
    def told(command, verdict="mismatch"):
        found = Report("step.py:step", "tpu:v5e", "jax 1", 7, (case(verdict, WRONG),), command)
        return [line for line in render(found).splitlines() if line.startswith("which ")]

    assert told("assay check f.py:g --target tpu:v5e") == ["which pass: assay passes f.py:g --target tpu:v5e"]
    taken = "assay check --json=a.json 'my step.py' --bounds ball --seed 3 --json b.json --bounds=auto --through llo"
    assert told(taken) == [
        "which pass: assay passes 'my step.py' --seed 3",
        "which LLO pass: assay llo diff 'my step.py' --seed 3",
    ]
    assert told("assay check step.py:step", "agree") == []
    assert told("") == []  # a function in the caller's own process has no command


def test_what_the_pass_command_keeps_is_known_to_it():
    """Every option of `assay check` that is kept is one of `assay passes`, or of `assay llo diff`."""
    from typer.main import get_command

    from assay.cli.app import app

    commands = get_command(app).commands
    checks, passes = (
        {option for parameter in commands[name].params for option in parameter.opts if option.startswith("--")}
        for name in ("check", "passes")
    )
    kept = {option for option in checks if option in passes_command(f"assay check f.hlo {option} 1").split()}
    assert kept == checks - {"--json", "--bounds", "--through"}
    assert kept <= passes
    diff = {option for parameter in commands["llo"].commands["diff"].params for option in parameter.opts}
    assert set(OF_LLO_DIFF) <= diff & checks


def test_agreement_counts_what_was_not_decided():
    text = render(report(case("agree", RIGHT)))
    assert text.startswith("AGREE")
    assert "22 elements of 1 output inside the bound, 2 undecided" in text.splitlines()[0]


def test_one_finding_among_cases_speaks_for_all_and_agreement_stays_short():
    cases = [
        case("agree", RIGHT, name="one"),
        case("mismatch", WRONG, name="two"),
        case("invalid", why="no", name="three"),
    ]
    text = render(report(*cases))
    assert "1 finding in 3 cases; two:" in text.splitlines()[0]
    assert "agree  one" not in text
    assert "invalid  three  [normal, seed 7]: no" in text


def test_a_crash_shows_the_failed_check_and_not_our_own_stack():
    stderr = (
        "F1129 10:00:00 1 ir_array.cc:598] Check failed: x",
        *["@ frame"] * 20,
        "Fatal Python error: Aborted",
        "File",
    )
    text = render(report(case("crash", why="SIGABRT during compile, twice", stderr=stderr)))
    assert "Check failed: x" in text
    assert "Fatal Python error" not in text
    assert "File" not in text


@pytest.mark.parametrize(("words", "code"), [(["agree"], 0), (["agree", "crash"], 1), (["agree", "unverified"], 2)])
def test_exit_codes(words, code):
    assert report(*(case(word) for word in words)).exit_code == code


def test_json_is_strict_and_its_top_level_is_the_worst_case():
    text = to_json(report(case("agree", RIGHT), case("mismatch", WRONG, klass=MismatchClass.MISCOMPILE)))
    data = json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    assert (data["verdict"], data["class"]) == ("mismatch", "MISCOMPILE")
    (output,) = data["outputs"]
    assert (output["worst_bound"], output["box"], output["peak"]) == ("inf", [[1, 1], [2, 4]], [1, 3])
    assert [c["verdict"] for c in data["cases"]] == ["agree", "mismatch"]
