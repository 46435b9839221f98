"""A batch is judged as its programs are, one by one: a wrong result is its program's, and nobody else's."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay.campaign import kernels
from assay.campaign.batch import Member, lower
from assay.campaign.screen import Screen
from assay.campaign.settings import Members, Settings
from assay.checking import api, simulated
from assay.generate.plan import Node, Plan
from assay.generate.types import Type
from assay.inputs.generate import generate
from assay.oracle.verdict import Verdict
from assay.targets import cpu
from assay.toolchain import RequestRefused, Toolchain

WRONG = Path(__file__).parents[1] / "checking" / "wrong_compilers.py"
VERSION = tuple(int(part) for part in metadata.version("jax").split(".")[:3])
passes_can_be_registered = pytest.mark.skipif(VERSION < (0, 10, 2), reason="from jax 0.10.2 on")
F32 = Type("f32", (3, 5))


def of(number: int, text: str, *types: Type, result: Type = F32, inputs: tuple[str, ...] = ("normal",)) -> Member:
    """A program of one operation, `text`, on arguments of these types."""
    nodes = [Node(type_, "") for type_ in types]
    count = len(nodes)
    nodes.append(Node(result, "tried", tuple(range(count)), text))
    return Member(number, Plan(tuple(nodes), tuple(range(count)), (count,)), inputs)


@pytest.fixture(scope="module")
def screen() -> Iterator[Screen]:
    made = Screen.of(api.Request())
    yield made
    made.close()


def test_each_program_alone_gives_what_it_gives_in_the_batch(screen: Screen, tmp_path: Path) -> None:
    """Bit for bit where nothing is rounded; a results' order or number that is off by one would show."""
    members = [m for b in range(2) for m in Members(Settings(seed=1, target="cpu")).batch(b)]
    lowered = lower(members, False, screen.worker, tmp_path, "cpu")
    arguments = [generate(p.module, 0, "small-integers") for p in lowered.programs if p.module is not None]
    whole = cpu.compile(screen.worker, lowered.payload, "stablehlo", {})
    together = cpu.run(screen.worker, whole, [a for each in arguments for a in each])
    at = exact = 0
    for member, program, given in zip(members, lowered.programs, arguments, strict=True):
        own = together[at : at + len(member.plan.results)]
        at += len(own)
        try:
            compiled = cpu.compile(screen.worker, program.payload, program.kind, {})
        except RequestRefused:  # opcodes that StableHLO has and the way back from HLO has not
            continue
        alone = cpu.run(screen.worker, compiled, given)
        assert [(a.dtype, a.shape) for a in own] == [(a.dtype, a.shape) for a in alone]
        exact += all(np.array_equal(a, b) for a, b in zip(own, alone, strict=True) if a.dtype.kind in "biu")
    assert at == len(together)
    assert exact >= 0.9 * len(members)


def test_honest_programs_agree(screen: Screen) -> None:
    found = screen.judged(Members(Settings(seed=2, target="cpu")).batch(0), wide=False)
    assert [row.number for row in found.rows] == list(range(16))
    assert {row.verdict for row in found.rows} <= {Verdict.AGREE, Verdict.UNVERIFIED}
    assert not found.suspects
    assert found.reached


def test_a_program_that_does_not_trace_costs_the_others_nothing(screen: Screen) -> None:
    members = [
        of(0, "lax.add({0}, {0})", F32),
        of(1, "lax.no_such_operation({0})", F32),
        of(2, "lax.neg({0})", F32),
    ]
    rows = screen.judged(members, wide=False).rows
    assert [row.verdict for row in rows] == [Verdict.AGREE, Verdict.INVALID, Verdict.AGREE]
    assert "no_such_operation" in rows[1].why


def test_what_was_not_finite_or_all_one_value_is_counted(screen: Screen) -> None:
    members = [
        of(0, "lax.log(lax.mul({0}, lax.full_like({0}, 0.)) - lax.full_like({0}, 1.))", F32),
        of(1, "lax.mul({0}, lax.full_like({0}, 0.))", F32),
        of(2, "lax.neg({0})", F32),
    ]
    rows = screen.judged(members, wide=False).rows
    assert [row.finite for row in rows] == [False, True, True]
    assert [row.constant for row in rows] == [False, True, False]


@passes_can_be_registered
@pytest.mark.parametrize("how", ["minus", "abort at minus"])
def test_a_wrong_compiler_is_charged_to_the_program_that_shows_it(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WRONG_PASS", how)
    screen = Screen.of(api.Request(preload=WRONG))
    members = [
        of(0, "lax.add({0}, {1})", F32, F32),
        of(1, "lax.sub({0}, {1})", F32, F32),
        of(2, "lax.mul({0}, {1})", F32, F32),
        of(3, "lax.neg({0})", F32),
    ]
    try:
        found = screen.judged(members, wide=False)
    finally:
        screen.close()
    wanted = {"minus": Verdict.MISMATCH, "abort at minus": Verdict.CRASH}[how]
    assert [row.verdict for row in found.rows] == [Verdict.AGREE, wanted, Verdict.AGREE, Verdict.AGREE]
    (suspect,) = found.suspects
    assert suspect.member.number == 1
    assert suspect.case.verdict == wanted


def test_a_worker_that_ends_between_two_requests_leaves_no_trace(
    screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a batch reached is what it reaches as a whole, not what its halves do."""
    members = Members(Settings(seed=1, target="cpu")).batch(0)[:4]
    whole = screen.judged(members, wide=False)
    run, killed = cpu.run, list[bool]()

    def once(worker: Any, compiled: Any, arguments: Any) -> Any:
        if not killed:
            killed.append(True)
            worker.restart()
        return run(worker, compiled, arguments)

    monkeypatch.setattr(cpu, "run", once)
    again = screen.judged(members, wide=False)
    assert killed
    assert again.rows == whole.rows
    assert again.reached == whole.reached


@pytest.mark.tpu
def test_the_passes_of_a_tpu_that_changed_something_are_seen(tpu_toolchain: Toolchain) -> None:
    """A batch consists of calls, which are inlined, and a TPU's arrays lie in tiles."""
    screen = Screen.of(api.Request(target="tpu:v5e", toolchain=tpu_toolchain.spec))
    members = [of(0, "lax.add({0}, {0})", F32), of(1, "lax.neg({0})", F32)]
    try:
        found = screen.judged(members, wide=False, snapshots=True)
        without = screen.judged(members, wide=False)
    finally:
        screen.close()
    assert [row.verdict for row in found.rows] == [Verdict.AGREE, Verdict.AGREE]
    assert {"call-inliner", "layout-assignment"} <= set(found.passes)
    assert not without.passes


@pytest.mark.tpu
def test_a_wrong_kernel_of_a_batch_is_its_programs(tpu_toolchain: Toolchain, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands in for the compiler's fault: bundles that add where they were to subtract."""
    right = simulated.dumped

    def wrong(*args: Any, **more: Any) -> Any:
        made, dump = right(*args, **more)
        for kernel in dump.kernels.values():
            for stage in kernel.stages:
                stage.path.write_text(stage.path.read_text().replace("vsub.f32", "vadd.f32"))
        return made, dump

    members = [
        of(0, "lax.add({0}, {1})", F32, F32),
        of(1, "lax.sub({0}, {1})", F32, F32),
        of(2, "lax.neg({0})", F32),
    ]
    screen = Screen.of(api.Request(target="tpu:v5e", toolchain=tpu_toolchain.spec, through="llo"))
    try:
        honest = screen.judged(members, wide=False)
        monkeypatch.setattr(simulated, "dumped", wrong)
        monkeypatch.setattr(kernels, "dumped", wrong)
        found = screen.judged(members, wide=False)
    finally:
        screen.close()
    assert [row.verdict for row in honest.rows] == [Verdict.AGREE] * 3
    assert honest.reached["llo vsub.f32"] == members[1].choices
    assert [row.verdict for row in found.rows] == [Verdict.AGREE, Verdict.MISMATCH, Verdict.AGREE]
    assert [suspect.member.number for suspect in found.suspects] == [1]
    assert any("the first that is wrong is" in note for note in found.suspects[0].case.notes)


@passes_can_be_registered
@pytest.mark.parametrize("at", [0, 1])
def test_every_class_of_inputs_is_judged_and_the_one_that_shows_it_is_the_suspects(
    at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1 + 0 is 1 - 0: what is subtracted is zero unless an argument is large."""
    monkeypatch.setenv("WRONG_PASS", "minus")
    screen = Screen.of(api.Request(preload=WRONG))
    small = "lax.lt({0}, lax.full_like({0}, 1e6))"
    text = f"lax.sub(lax.full_like({{0}}, 1), lax.select({small}, lax.full_like({{0}}, 0), {{0}}))"
    classes = ("normal", "log-uniform") if at else ("log-uniform", "normal")
    members = [of(0, "lax.neg({0})", F32), of(1, text, F32, inputs=classes), of(2, "lax.add({0}, {0})", F32)]
    try:
        found = screen.judged(members, wide=False)
    finally:
        screen.close()
    assert [row.verdict for row in found.rows] == [Verdict.AGREE, Verdict.MISMATCH, Verdict.AGREE]
    (suspect,) = found.suspects
    assert suspect.case.inputs == "log-uniform"
    assert suspect.arguments[0].max() > 1e6


def test_a_program_without_arguments_is_run_once(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    sets: list[int] = []
    whole = screen._run
    monkeypatch.setattr(Screen, "_run", lambda self, lowered, given: sets.append(len(given)) or whole(lowered, given))
    both = ("normal", "edges")
    nothing = of(0, "lax.full((3, 5), np.float32(2))", inputs=both)
    assert [row.verdict for row in screen.judged([nothing], wide=False).rows] == [Verdict.AGREE]
    assert sets == [1]
    rows = screen.judged([nothing, of(1, "lax.neg({0})", F32, inputs=both)], wide=False).rows
    assert [row.verdict for row in rows] == [Verdict.AGREE, Verdict.AGREE]
    assert sets == [1, 2]
