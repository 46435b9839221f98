"""Is what the generator makes valid? Each program of a campaign is traced, lowered, read back and asked what it leaves
open, and its results are looked at. Nothing is compiled.

    python benchmarks/validity.py [--target cpu] [--toolchain jax==0.10.2] [--programs 20000] [--seed 1] [--jobs 1]
    python benchmarks/validity.py --seed 1 --program 1207 [...]     # its text, and what is said of it

The programs are those of `assay fuzz` with this seed: pairs of the tour, templates, 64-bit types in one batch of six,
and changed choices, whose parents are the programs that lowered to opcodes, types or pairs of opcodes that none before
them had. Each is lowered in its batch of 16 (where that fails, in halves of it); its text of HLO is read by XLA's
parser and by ours; inputs are drawn, of the class `normal` and, one time in --special, of the class that the campaign
would take; the litmus test evaluates it. Valid: nothing of that fails, and the litmus test has nothing that may reach a
result: by the bounds of all legal executions or, where those leave something open, in each of --executions single ones
(roundings to the nearest, then drawn ones), which is counted apart. Sound: the reference's results of ordinary inputs
are finite, and not each one value throughout (results of one element or none say nothing).

What was found out is kept in --journal as it comes: a run that was killed goes on from there. Printed: counts by
reason, with numbers of programs. Exit code 1 where one program is not valid, or fewer than 99 % are sound.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from assay.campaign.batch import Member, NotLowered, lower
from assay.campaign.reach import reached
from assay.campaign.run import fault, request_of
from assay.campaign.settings import Members, Settings, is_wide
from assay.checking import api
from assay.checking.litmus import Litmus, State, litmus
from assay.errors import AssayError
from assay.generate.source import file
from assay.hlo.parse import parse_module
from assay.inputs.generate import generate
from assay.journal import Journal
from assay.programs.program import Program
from assay.reference.policy import Policy
from assay.reference.value import Ball
from assay.toolchain import Worker, WorkerDied
from assay.toolchain.outcomes import one_line

ORDINARY = "normal"
TIMEOUT_S = 120.0
SHOWN = 8
"""Numbers of programs beside a reason."""
GOOD = 0.99
Corpus = list[tuple[int, tuple[int, ...]]]


# ---- one batch


@dataclass(slots=True)
class Bench:
    """A worker of the toolchain, and a folder for its files."""

    settings: Settings
    worker: Worker
    policy: Policy
    folder: Path
    versions: str
    special: int
    executions: int
    _open: ExitStack = field(default_factory=ExitStack)

    @staticmethod
    def of(settings: Settings, special: int, executions: int) -> Bench:
        with ExitStack() as stack:
            request = request_of(settings)
            worker, versions = stack.enter_context(api.open_worker(request, lambda _: None))
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="assay-validity-")))
            policy = api.settings_for(request, versions).policy
            return Bench(settings, worker, policy, folder, api.words(versions), special, executions, stack.pop_all())

    def close(self) -> None:
        self._open.close()

    def batch(self, number: int, corpus: Corpus) -> dict[str, Any]:
        """A line of the journal. features: what each program lowered to, with the choices that make it again."""
        members, rows = [], []
        maker = Members(self.settings, corpus)
        size = self.settings.batch
        for at in range(number * size, (number + 1) * size):
            try:
                members.append(maker.member(at))
            except Exception as error:  # a fault of the generator, which is what is looked for
                rows.append({"number": at, "kind": "", "stage": "grows", "why": fault(error)})
        features: list[tuple[list[int], list[str]]] = []
        for member, program, why in self._lowered(members, is_wide(number)):
            row = {"number": member.number, "kind": kind(member), "stage": "lowers", "why": why}
            if program is not None:
                assert program.module is not None
                if not member.template:
                    features.append((list(member.choices), sorted(reached(program.module))))
                row |= self.judged(member, program)
            rows.append(row)
        return {"batch": number, "rows": rows, "features": features}

    def _lowered(self, members: Sequence[Member], wide: bool) -> Iterator[tuple[Member, Program | None, str]]:
        """Each with its program, or why there is none."""
        if not members:
            return
        try:
            programs = lower(members, wide, self.worker, self.folder, self.settings.target).programs
        except (NotLowered, AssayError, WorkerDied) as error:
            if len(members) == 1:
                yield members[0], None, f"{type(error).__name__}: {one_line(str(error))}"
                return
            middle = len(members) // 2
            yield from self._lowered(members[:middle], wide)
            yield from self._lowered(members[middle:], wide)
            return
        for member, program in zip(members, programs, strict=True):
            yield member, program, ""

    def judged(self, member: Member, program: Program) -> dict[str, Any]:
        """stage: the first that it does not pass, or "". ordinary, special: what litmus test and results say."""
        assert program.module is not None
        try:
            parse_module(self.worker.to_hlo(program.payload, "hlo-text"), source=program.name)
        except (AssayError, WorkerDied) as error:
            return {"stage": "is read back", "why": f"{type(error).__name__}: {one_line(str(error))}"}
        found: dict[str, Any] = {"stage": ""}
        for name in ("ordinary", "special"):
            inputs = ORDINARY if name == "ordinary" else member.inputs[-1]
            if name == "special" and (inputs == ORDINARY or member.number % self.special):
                continue
            try:
                found[name] = {"inputs": inputs, **self.tested(member, program, inputs)}
            except Exception as error:  # a fault of ours, which is what is looked for
                found[name] = {"inputs": inputs, "state": "fault", "words": [fault(error)]}
        return found

    def tested(self, member: Member, program: Program, inputs: str) -> dict[str, Any]:
        assert program.module is not None
        arguments = generate(program.module, member.number, inputs)

        def test(execution: int | None) -> Litmus:
            return litmus(program.module, arguments, self.policy, execution=execution, timeout_s=TIMEOUT_S)

        found = told(test(None))
        if found["state"] != State.KEPT:
            single = [told(test(number)) for number in range(self.executions)]
            found["single"] = next((one for one in single if one["state"] != State.KEPT), None)
        return found


def kind(member: Member) -> str:
    if member.template:
        return "template"
    return "tour" if member.choices[:2] == (0, member.number) else "changed"


def told(said: Litmus) -> dict[str, Any]:
    """state: kept, broken or undecided. words: what is not kept and may reach a result; harmless: that reaches none."""
    words = [f"{t.contract.name}: {t.state}: {t.opcode}: {t.why}" for t in said.tellings if t.reaches is not False]
    harmless = [f"{t.contract.name}: {t.state}" for t in said.tellings if t.reaches is False]
    if said.outputs is None:
        words.append("the reference has no results")
    state = State.UNDECIDED if said.outputs is None and said.state is State.KEPT else said.state
    return {"state": str(state), "words": words, "harmless": harmless, **results(said.outputs or ())}


def results(outputs: Sequence[Any]) -> dict[str, bool]:
    """finite: whether every element is. constant: whether there are results of several elements, each of one value."""
    balls = [ball for ball in outputs if isinstance(ball, Ball)]
    finite = all(bool(np.isfinite(ball.mid).all()) for ball in balls)
    several = [ball.mid for ball in balls if ball.mid.size > 1]
    return {"finite": finite, "constant": bool(several) and all(bool((a == a.flat[0]).all()) for a in several)}


# ---- the run

_bench: Bench | None = None


def one(settings: Settings, special: int, executions: int, number: int, corpus: Corpus) -> dict[str, Any]:
    """A batch, in a process that keeps its worker for the next."""
    global _bench
    if _bench is None:
        _bench = Bench.of(settings, special, executions)
    return _bench.batch(number, corpus)


@dataclass(slots=True)
class Kept:
    """The corpus, as `assay.campaign.run` keeps it, and the features that were seen."""

    size: int
    corpus: Corpus = field(default_factory=list)
    seen: set[str] = field(default_factory=set)

    def add(self, line: dict[str, Any]) -> None:
        for choices, features in line["features"]:
            if choices and not self.seen.issuperset(features):
                self.corpus.append((line["batch"] // self.size + 2, tuple(choices)))
            self.seen.update(features)


Batches = Callable[[Iterable[int], Corpus], Iterator[dict[str, Any]]]


def run(settings: Settings, count: int, known: dict[int, dict[str, Any]], batches: Batches) -> Iterator[dict[str, Any]]:
    """All lines in order. What a batch is depends on the epochs before its own, so an epoch ends before the next."""
    kept = Kept(settings.epoch)
    for first in range(0, count, settings.epoch):
        numbers = range(first, min(first + settings.epoch, count))
        fresh = batches([n for n in numbers if n not in known], list(kept.corpus))
        for number in numbers:
            line = known[number] if number in known else next(fresh)
            kept.add(line)
            yield line


def main() -> int:
    options = parsed()
    settings = Settings(options.seed, options.target, options.toolchain)
    count = -(-options.programs // settings.batch)
    if options.program is not None:
        count = options.program // settings.batch // settings.epoch * settings.epoch
    question = f"validity {settings.as_dict()} special {options.special} executions {options.executions}"
    with Journal(options.journal, question, "validity.py") as journal, ExitStack() as stack:
        if (other := journal.another()) is not None:
            print(f"{options.journal} answers another question: {other}", file=sys.stderr)
            return 2
        known = {line["batch"]: line for line in journal.found}
        journal.begin(journal.found)
        pool: ProcessPoolExecutor | None = None
        if options.jobs > 1:
            context = multiprocessing.get_context("spawn")
            pool = stack.enter_context(ProcessPoolExecutor(options.jobs, mp_context=context))
        start, fresh = time.monotonic(), 0

        def batches(numbers: Iterable[int], corpus: Corpus) -> Iterator[dict[str, Any]]:
            given = [(settings, options.special, options.executions, number, corpus) for number in numbers]
            found = pool.map(one, *zip(*given, strict=True)) if pool and given else (one(*each) for each in given)
            for line in found:
                journal.write(line)
                yield line

        lines = []
        for line in run(settings, count, known, batches):
            lines.append(line)
            fresh += line["batch"] not in known
            if line["batch"] not in known and fresh % 4 == 0:
                each = (time.monotonic() - start) / fresh / settings.batch
                done, bad = len(lines) * settings.batch, sum(not valid(row) for each in lines for row in each["rows"])
                print(f"{done} programs, {bad} not valid, {each * 1000:.0f} ms each", file=sys.stderr, flush=True)
        if _bench is not None:
            _bench.close()
    if options.program is not None:
        return show(settings, options, lines)
    return summary(settings, options, [row for line in lines for row in line["rows"]])


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--toolchain")
    parser.add_argument("--programs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--special", type=int, default=4, help="one program in so many on its campaign's inputs too")
    parser.add_argument("--executions", type=int, default=3, help="single ones, where bounds leave something open")
    parser.add_argument("--journal", type=Path, default=Path("validity.jsonl"))
    parser.add_argument("--program", type=int, help="the number of one program to show")
    return parser.parse_args()


# ---- what is printed


def valid(row: dict[str, Any]) -> bool:
    return not row["stage"] and passes(row["ordinary"])


def passes(said: dict[str, Any]) -> bool:
    """Whether nothing is broken or open: by bounds, or else in each of the single executions."""
    return said["state"] == State.KEPT or said.get("single", said) is None


def reasons(rows: Iterable[dict[str, Any]], of: Callable[[dict[str, Any]], list[str]]) -> list[str]:
    """Lines: how many programs, why, and the numbers of some."""
    found: dict[str, list[int]] = defaultdict(list)
    for row in rows:
        for why in dict.fromkeys(of(row)):
            found[why[:200]].append(row["number"])
    ranked = sorted(found.items(), key=lambda each: -len(each[1]))
    return [f"    {len(n):6}  {why}  [{', '.join(map(str, n[:SHOWN]))}]" for why, n in ranked]


def summary(settings: Settings, options: argparse.Namespace, rows: list[dict[str, Any]]) -> int:
    kinds = Counter(row["kind"] or "none" for row in rows)
    print(f"{settings.target}, {settings.toolchain or 'this jax'}, seed {settings.seed}: {len(rows)} programs ", end="")
    print(f"({', '.join(f'{count} {name}' for name, count in kinds.most_common())})")
    held = sum(map(valid, rows))
    print(f"valid: {held} ({held / len(rows):.2%}; bar 100 %)")
    for stage in ("grows", "lowers", "is read back"):
        lost = [row for row in rows if row["stage"] == stage]
        print(f"  {stage}: {len(rows) - len(lost)} of {len(rows)}", *reasons(lost, lambda r: [r["why"]]), sep="\n")
    reached_ = [row for row in rows if not row["stage"]]
    sound = share("ordinary inputs", [row["ordinary"] | {"number": row["number"]} for row in reached_], len(rows))
    special = [row["special"] | {"number": row["number"]} for row in reached_ if "special" in row]
    for name in sorted({row["inputs"] for row in special}):
        own = [row for row in special if row["inputs"] == name]
        share(f"inputs {name}", own, len(own))
    return 0 if held == len(rows) and sound >= GOOD else 1


def share(title: str, rows: list[dict[str, Any]], programs: int) -> float:
    """What is sound among so many programs."""
    bounded = [row for row in rows if row["state"] == State.KEPT]
    single = [row for row in rows if row["state"] != State.KEPT and passes(row)]
    lost = [row for row in rows if not passes(row)]
    print(f"{title}: litmus test {len(bounded) + len(single)} of {programs}")
    print(f"  by the bounds of all executions {len(bounded)}; open there, and kept in each single one {len(single)}:")
    for line in reasons(single, lambda row: row["words"]):
        print(line)
    if lost:
        print(f"  not kept {len(lost)}:")
    for line in reasons(lost, lambda row: row.get("single", row)["words"]):
        print(line)
    harmless = Counter(word for row in rows for word in set(row.get("harmless", ())))
    if harmless:
        print("  reaches no result:", ", ".join(f"{word} in {count}" for word, count in harmless.most_common()))
    whole = [row for row in rows if "finite" in row]
    endless = [row["number"] for row in whole if not row["finite"]]
    constant = [row["number"] for row in whole if row["finite"] and row["constant"]]
    sound = len(whole) - len(endless) - len(constant)
    if programs:
        print(f"  results finite and not all of one value: {sound} of {programs} ({sound / programs:.2%}; bar 99 %)")
    print(f"  not finite: {len(endless)} {endless[:SHOWN]}; of one value: {len(constant)} {constant[:SHOWN]}")
    return sound / programs if programs else 0.0


def show(settings: Settings, options: argparse.Namespace, lines: list[dict[str, Any]]) -> int:
    """The program's text, and what is said of it now."""
    kept = Kept(settings.epoch)
    for line in lines:
        kept.add(line)
    member = Members(settings, kept.corpus).member(options.program)
    wide = is_wide(member.number // settings.batch)
    print(file([(member.name, member.plan)], wide))
    bench = Bench.of(settings, 1, options.executions)
    for again, program, why in bench._lowered([member], wide):
        print(why if program is None else bench.judged(replace(again), program))
    bench.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
