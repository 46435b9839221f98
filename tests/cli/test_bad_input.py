"""Bad input: one clear line on standard error, exit code 2, no traceback, nothing left behind."""

from __future__ import annotations

import numpy as np
import pytest

HLO = """HloModule small
ENTRY main {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  ROOT r = f32[4] add(x, y)
}
"""


@pytest.fixture
def assay(monkeypatch, tmp_path, run_command):
    """Runs the command in an empty folder: (exit code, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)
    return run_command


def one_line(error):
    """The lines that are no progress."""
    lines = [line for line in error.splitlines() if line.strip() and not line.endswith(" ...")]
    assert len(lines) == 1, error
    assert "Traceback" not in error
    return lines[0]


def write(name, text):
    mode = "wb" if isinstance(text, bytes) else "w"
    with open(name, mode) as f:
        f.write(text)
    return name


def python(body, name="program.py"):
    return write(name, "import numpy as np\nimport jax.numpy as jnp\n" + body)


# what is given -> words that the line must have
HLO_FILES = {
    "truncated": (HLO[: HLO.index("add(")], ["bad.hlo:5:"]),
    "no entry": ("HloModule small\n", ["bad.hlo:2", "cut short"]),
    "elided constant": (HLO.replace("add(x, y)", "constant({...})"), ["bad.hlo:5:", "dump"]),
    "unknown opcode": (HLO.replace("add(", "frobnicate("), ["bad.hlo:5:", "frobnicate"]),
    "undefined operand": (HLO.replace("add(x, y)", "add(x, z)"), ["bad.hlo:5:", "z"]),
    "wrong shape": (HLO.replace("r = f32[4]", "r = f32[5]"), ["r"]),
    "empty": ("", ["bad.hlo", "empty"]),
    "not a program": ("hello\n", ["bad.hlo"]),
    "binary": (bytes(range(256)) * 8, ["bad.hlo"]),
}


@pytest.mark.parametrize("kind", HLO_FILES)
def test_hlo_that_is_no_program(assay, kind):
    text, words = HLO_FILES[kind]
    write("bad.hlo", text)
    code, out, err = assay("check", "bad.hlo")
    line = one_line(err)
    assert (code, out) == (2, "")
    for word in words:
        assert word in line


PYTHON_FILES = {
    "missing function": ("def step(x): return x\n", "program.py:stpe", ["stpe"]),
    "no list of cases": ("def cases(): return 5\n", "program.py", ["cases()", "int"]),
    "no cases": ("def step(x): return x\n", "program.py", ["cases"]),
    "no example arguments": ("def step(x): return x\n", "program.py:step", ["example_args"]),
    "does not import": ("import no_such_package\n", "program.py", ["no_such_package", "program.py:3"]),
    "syntax error": ("def step(:\n", "program.py", ["program.py:3"]),
    "kills the process": ("import os\nos.abort()\n", "program.py", ["SIGABRT"]),
}


@pytest.mark.parametrize("kind", PYTHON_FILES)
def test_python_that_is_no_program(assay, kind):
    body, source, words = PYTHON_FILES[kind]
    python(body)
    code, out, err = assay("check", source)
    line = one_line(err)
    assert (code, out) == (2, "")
    for word in words:
        assert word in line


def test_cases_that_end_in_an_exception_lose_nothing_that_came_before(assay):
    python("def f(x): return x\ndef cases():\n    yield 'one', f, (1,), None\n    raise ValueError('sorry')\n")
    code, out, err = assay("check", "program.py")
    assert code == 2
    assert "sorry" in out
    assert "program.py:6" in out
    assert "Traceback" not in out + err


def test_a_function_that_raises_is_told_and_its_neighbour_is_checked(assay):
    python(
        """
def good(x): return x + 1
def bad(x): raise RuntimeError("not today")
def cases():
    yield "bad", bad, (np.ones(3, np.float32),), None
    yield "good", good, (np.ones(3, np.float32),), None
"""
    )
    code, out, err = assay("check", "program.py")
    assert code == 2  # the bad one could not be judged
    assert "not today" in out
    assert "program.py:5" in out
    assert "agree" in out or "INVALID" in out
    assert "Traceback" not in out + err


ARGUMENTS = {
    "wrong count": ({"arr_0": np.ones(4, np.float32)}, ["2", "1"]),
    "wrong shape": ({"arr_0": np.ones(4, np.float32), "arr_1": np.ones(5, np.float32)}, ["[4]", "5"]),
    "wrong dtype": ({"arr_0": np.ones(4, np.float32), "arr_1": np.full(4, 0.1)}, ["f32", "[0]"]),
    "text": ({"arr_0": np.ones(4, np.float32), "arr_1": np.array(["a"] * 4)}, ["f32"]),
}


@pytest.mark.parametrize("kind", ARGUMENTS)
def test_arguments_that_do_not_fit(assay, kind):
    arrays, words = ARGUMENTS[kind]
    write("good.hlo", HLO)
    np.savez("args.npz", **arrays)
    code, out, err = assay("check", "good.hlo", "--inputs", "args.npz")
    line = one_line(err)
    assert (code, out) == (2, "")
    for word in words:
        assert word in line


def test_arguments_that_are_no_npz(assay):
    write("good.hlo", HLO)
    write("args.npz", "nonsense")
    code, _, err = assay("check", "good.hlo", "--inputs", "args.npz")
    assert code == 2
    assert "args.npz" in one_line(err)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing.hlo"], ["nothing.hlo", "no such file"]),
        (["."], ["before_optimizations", "--xla_dump_to"]),
        (["good.hlo", "--target", "npu"], ["npu", "cpu"]),
        (["good.hlo", "--option", "xla_backend_optimization_level"], ["NAME=VALUE"]),
        (["good.hlo", "--memory", "lots"], ["lots"]),
        (["good.hlo", "--input-class", "strange"], ["strange", "normal"]),
        (["good.hlo", "--json", "no/such/folder/out.json"], ["no/such/folder"]),
        (["good.hlo", "--inputs", "none.npz"], ["none.npz"]),
        (["good.hlo", "--toolchain", "torch==2"], ["torch==2", "jax=="]),
        (["good.hlo", "--flag", "--xla_no_such_flag=1"], ["xla_no_such_flag"]),
        (["good.hlo", "--seed", "one"], ["--seed", "integer", "assay check --help"]),
        (["good.hlo", "--timeout", "0"], ["--timeout", "0.1"]),
        (["good.hlo", "--sed", "1"], ["--sed", "--seed"]),
        ([], ["PROGRAM", "assay check --help"]),
        (["good.hlo", "--inputs", "a.npz", "--seed", "1"], ["--inputs", "--seed"]),
        (["good.hlo", "--inputs", "a.npz", "--input-class", "ties"], ["--inputs", "--input-class"]),
        (["good.hlo", "--case", "x"], ["good.hlo", "--case"]),
    ],
)
def test_options_that_make_no_sense(assay, arguments, words):
    write("good.hlo", HLO)
    code, out, err = assay("check", *arguments)
    line = one_line(err)
    assert (code, out) == (2, "")
    for word in words:
        assert word in line


def test_an_unknown_xla_option_is_named(assay):
    write("good.hlo", HLO)
    code, out, err = assay("check", "good.hlo", "--option", "xla_no_such_option=1")
    assert (code, out) == (2, "")
    assert "xla_no_such_option" in one_line(err)


def test_optimized_hlo_has_no_passes_and_is_checked_as_it_stands(assay):
    write("after.hlo", HLO.replace("HloModule small", "HloModule small, is_scheduled=true"))
    code, out, _ = assay("check", "after.hlo")
    assert (code, out.startswith("AGREE")) == (0, True)
    code, _, err = assay("passes", "after.hlo")
    assert code == 2
    assert "before" in one_line(err)


def test_a_folder_for_a_report_is_no_finding(assay, tmp_path):
    write("good.hlo", HLO)
    code, _, err = assay("check", "good.hlo", "--json", str(tmp_path))
    assert code == 2
    assert "a folder" in one_line(err)


def test_a_program_that_calls_back_is_unverified(assay):
    python(
        "import jax\ndef f(x):\n    jax.debug.print('{}', x)\n    return x\ndef example_args(): return (np.ones(2),)\n"
    )
    code, out, _ = assay("check", "program.py:f")
    assert code == 2
    assert out.startswith("UNVERIFIED")
    assert "jax.debug.print" in out


ODD_PROGRAMS = {
    "zero-size": ("def f(x): return x + 1\ndef example_args(): return (np.zeros((0, 3), np.float32),)\n", 0),
    "scalar": ("def f(x): return x * 2\ndef example_args(): return (np.float32(1.5),)\n", 0),
    "python scalar": ("def f(x): return x * 2\ndef example_args(): return (3,)\n", 0),
    "no arguments": ("def f(): return jnp.arange(5)\ndef example_args(): return ()\n", 0),
    "nan inputs": ("def f(x): return x + 1\ndef example_args(): return (np.full(4, np.nan, np.float32),)\n", 0),
    "nested results": ("def f(x): return {'a': x, 'b': [x + 1, (x,)]}\ndef example_args(): return (np.ones(2),)\n", 0),
    "unused argument": ("def f(x, y): return y\ndef example_args(): return (np.ones(2), np.ones(3))\n", 0),
}


@pytest.mark.parametrize("kind", ODD_PROGRAMS)
def test_odd_programs_get_a_verdict(assay, kind):
    body, expected = ODD_PROGRAMS[kind]
    python(body)
    code, out, err = assay("check", "program.py:f")
    assert code == expected, out + err
    assert out.startswith("AGREE")


@pytest.mark.parametrize(
    ("option", "name", "words"),
    [
        (
            "--policy",
            "strickt",
            "no policy 'strickt'; there is strict, xla-cpu, tpu-v5e, tpu-v6e, gpu; did you mean strict?",
        ),
        ("--accumulation", "sure", "accumulation 'sure': there is probable, certain"),
        ("--bounds", "sample", "bounds 'sample': there is auto, ball, sampled; did you mean sampled?"),
    ],
)
def test_names_of_settings_that_there_are_not(assay, option, name, words):
    write("good.hlo", HLO)
    code, out, err = assay("check", "good.hlo", option, name)
    assert (code, out) == (2, "")
    assert one_line(err) == f"assay: {words}"
