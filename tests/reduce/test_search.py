"""The search alone, with a question that needs no compiler: what is found, in which order, in how much time."""

from __future__ import annotations

import json
import threading
import time

import numpy as np
import pytest

from assay.errors import InputError
from assay.hlo.parse import parse_module
from assay.hlo.types import check_module
from assay.journal import Journal
from assay.oracle.verdict import Verdict
from assay.reduce import Candidate, Shown, reduce
from assay.reduce.still import tries_for

SHOWN = Shown(Verdict.MISMATCH, "MISCOMPILE", "algsimp", frozenset(("sine", "tanh")), outputs=(1,))


def program(length: int = 60):
    """A long chain; in the midst of it a tanh of a sine. Results are the end of the chain, and something beside it."""
    lines = ["%x = f32[8] parameter(0)", "%w = f32[8] parameter(1)", "%v0 = f32[8] add(%x, %w)"]
    for n in range(1, length):
        opcode = {length // 2: "sine", length // 2 + 1: "tanh"}.get(n, ("negate", "abs", "cosine")[n % 3])
        lines.append(f"%v{n} = f32[8] {opcode}(%v{n - 1})")
        if n % 7 == 0:
            lines.append(f"%s{n} = f32[8] multiply(%v{n}, %w)")
    lines += [f"%beside = f32[8] subtract(%s7, %s{7 * ((length - 1) // 7)})"]
    lines += [f"ROOT %r = (f32[8], f32[8]) tuple(%beside, %v{length - 1})"]
    body = "\n".join(f"  {line}" for line in lines)
    types = "x: f32[8], w: f32[8]"
    module = parse_module(f"HloModule chain\n\nENTRY %e ({types}) -> (f32[8], f32[8]) {{\n{body}\n}}\n")
    return module, [np.arange(8, dtype=np.float32), np.full(8, 0.5, np.float32)]


class Asked:
    """Whether a tanh of a sine reaches a result; counts what it is asked."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.count, self.seconds, self.lock = 0, seconds, threading.Lock()

    def __call__(self, module, arguments):
        check_module(module)
        assert len(arguments) == len(module.entry.parameters)
        with self.lock:
            self.count += 1
        time.sleep(self.seconds)
        entry = module.entry
        for instruction in entry.instructions:
            if instruction.opcode == "tanh" and entry.by_name[instruction.operands[0]].opcode == "sine":
                return SHOWN
        return None


def opcodes(module) -> list[str]:
    return [i.opcode for i in module.entry.instructions]


def test_all_but_what_counts_goes():
    module, arguments = program()
    asked = Asked()
    found = reduce(module, arguments, asked, budget_s=60)
    assert opcodes(found.module) == ["parameter", "sine", "tanh"]
    assert found.finished
    assert found.before == len(module.entry.instructions)
    assert found.instructions == 3
    assert found.still.pass_ == "algsimp"
    assert asked.count < 40  # of 70 instructions: by halves, and not one by one
    assert found.module.entry.instructions[0].array.dims == (1,)
    assert found.arguments[0].tolist() == [0.0]


def test_where_it_is_cut_the_references_value_is_given():
    """With elements that must keep their values: the question wants the sine of what the whole program has there."""
    module, arguments = program(20)
    x = arguments[0] + arguments[1]
    for n in range(1, 10):
        x = (np.negative, np.abs, np.cos)[n % 3](x)

    def asked(module, arguments):
        entry = module.entry
        sine = next((i for i in entry.instructions if i.opcode == "sine"), None)
        tanh = next((i for i in entry.instructions if i.opcode == "tanh"), None)
        if sine is None or tanh is None:
            return None
        source = entry.by_name[sine.operands[0]]
        if source.opcode == "parameter":
            given = arguments[source.parameter_number]
            if given.shape != x.shape or not np.allclose(given, x, rtol=1e-5):
                return None
        return SHOWN

    found = reduce(module, arguments, asked, budget_s=60)
    assert opcodes(found.module) == ["parameter", "sine", "tanh"]
    np.testing.assert_allclose(found.arguments[0], x, rtol=1e-5)


@pytest.mark.parametrize("jobs", [1, 3])
def test_the_same_whatever_the_number_of_workers(jobs):
    module, arguments = program()
    alone, together = (reduce(module, arguments, Asked(), budget_s=60, jobs=n) for n in (2, jobs))
    assert Candidate(alone.module, alone.arguments).key == Candidate(together.module, together.arguments).key


def test_another_bug_is_not_taken_for_it():
    """Where the candidate shows another pass, or other opcodes, or only what breaks the rules, it is not taken."""
    module, arguments = program()
    for other in (
        Shown(Verdict.MISMATCH, "MISCOMPILE", "dce", SHOWN.opcodes),
        Shown(Verdict.MISMATCH, "MISCOMPILE", "algsimp", frozenset(("cosine",))),
        Shown(Verdict.MISMATCH, "MISCOMPILE", "algsimp", SHOWN.opcodes, clear=False),
        Shown(Verdict.CRASH, "", "algsimp", SHOWN.opcodes),
    ):

        def asked(module, arguments, other=other):
            whole = {"sine", "tanh", "cosine"} <= set(opcodes(module))
            return SHOWN if whole else other

        found = reduce(module, arguments, asked, budget_s=60)
        assert {"sine", "tanh", "cosine"} <= set(opcodes(found.module))
        assert found.instructions <= 6


def test_opcodes_narrow_and_never_become_others():
    one = Shown(Verdict.MISMATCH, "MISCOMPILE", "algsimp", frozenset("ab"))
    two = one.with_(Shown(Verdict.MISMATCH, "MISCOMPILE", "algsimp", frozenset("bc")))
    assert two is not None
    assert two.opcodes == {"b"}
    assert two.with_(Shown(Verdict.MISMATCH, "MISCOMPILE", "algsimp", frozenset("ac"))) is None


def test_never_worse_than_given_when_there_is_no_time():
    module, arguments = program()
    asked = Asked()
    found = reduce(module, arguments, asked, budget_s=0.0)
    assert asked.count == 1
    assert not found.finished
    assert found.module is module


def test_the_time_bounds_it():
    module, arguments = program(300)
    start = time.monotonic()
    found = reduce(module, arguments, Asked(0.2), budget_s=2.0)
    assert time.monotonic() - start < 2.0 + 5.0
    assert not found.finished
    assert found.instructions < found.before
    assert {"sine", "tanh"} <= set(opcodes(found.module))


def test_nothing_to_keep():
    module, arguments = program()
    with pytest.raises(InputError, match="nothing is wrong"):
        reduce(module, arguments, lambda *_: None, budget_s=5)


class Killed(Exception):
    pass


def test_a_run_that_was_killed_goes_on_where_it_was(tmp_path):
    """Its answers are on disk: they are not asked for again, and the end is the same."""
    module, arguments = program()
    wanted = reduce(module, arguments, Asked(), budget_s=60, jobs=1)
    path = tmp_path / "j.jsonl"

    class Dies(Asked):
        def __call__(self, module, arguments):
            if self.count >= 9:
                raise Killed
            return super().__call__(module, arguments)

    with Journal(path, "q", "test") as journal:
        journal.begin([])
        with pytest.raises(Killed):
            reduce(module, arguments, Dies(), budget_s=60, jobs=1, journal=journal)
    kept = len(path.read_text().splitlines()) - 1
    assert kept >= 7
    with path.open("a") as file:
        file.write(json.dumps({"key": "cut sh"})[:-4])  # the line that was being written
    again = Asked()
    with Journal(path, "q", "test") as journal:
        journal.begin(journal.found)
        found = reduce(module, arguments, again, budget_s=60, jobs=1, journal=journal)
    assert Candidate(found.module, found.arguments).key == Candidate(wanted.module, wanted.arguments).key
    assert again.count <= wanted.tries - kept + 1


@pytest.mark.parametrize(("seen", "runs"), [(10, 10), (5, 10), (2, 10), (1, 10)])
def test_what_is_seen_now_and_then_is_looked_for_often_enough(seen, runs):
    """The chance that all tries miss it is at most a fiftieth, by Laplace's rule of succession."""
    tries, rate = tries_for(seen, runs), (seen + 1) / (runs + 2)
    assert (1 - rate) ** tries <= 0.02 or tries == 32
    assert tries == 1 or (1 - rate) ** (tries - 1) > 0.02
