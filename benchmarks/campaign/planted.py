"""Wrong compilers, each with one planted fault: does a campaign find them, and after how many programs?

    python benchmarks/campaign/planted.py [--programs 2000] [--each 3] [--seed 0] [--out planted.jsonl]

XLA:CPU of the jax that is installed, with a last pass that makes something else of every instruction that a fault is
of (wrong_compiler.py): of every kind of the isolation benchmark the wide one, and --each that are narrower
(conditions.py). Programs, inputs and verdicts are those of `assay fuzz` at default settings. Found: a program is wrong
in its batch, and then alone in a fresh worker; its results are not the right compiler's, bit for bit; and the right
compiler makes nothing wrong of it. What is told is how many programs the campaign has screened with the batch in which
that is so.

To be cheap: the programs of a campaign do not depend on a fault, and those of a batch have nothing to do with each
other. So each batch is compiled and run once by the right compiler; and then again with several wrong ones at once, a
fault for each program that has a place for it. A program is judged there if its results are not the right compiler's,
bit for bit, since it has the same verdict otherwise; and alone by a compiler that has its one fault everywhere.
Programs change with what was reached before: what the right compiler reached counts.

Equivalent: the fault was made, and no result of any program is another bit. Never made: no program had a place for it,
which counts as missed. Refused: XLA:CPU compiled nothing that had it. The lines of --out are written as they come; a
run that was stopped goes on from there. Exit status 1 where fewer than 90 % are found of all that are not equivalent.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conditions import Fault, faults, places
from watched import Part, Watched

from assay.campaign.run import Progress, request_of
from assay.campaign.screen import Screen
from assay.campaign.settings import Members, Settings, is_wide
from assay.journal import Journal

BAR = 0.9


@dataclass(slots=True)
class Tries:
    """What a fault comes to in a batch. changed: programs whose results it changed. refused: those that XLA:CPU did not
    compile or run. said: verdicts on the changed ones.
    """

    fault: Fault
    batch: int
    changed: list[int] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)
    said: Counter[str] = field(default_factory=Counter)
    found: int | None = None
    klass: str = ""

    @property
    def line(self) -> dict[str, Any]:
        return {
            "fault": self.fault.name,
            "batch": self.batch,
            "class": self.klass,
            "found": self.found,
            "said": dict(self.said),
            "changed": self.changed,
            "refused": self.refused,
        }


@dataclass(slots=True)
class Bench:
    """lines: what is known of each fault, one a batch."""

    settings: Settings
    faults: list[Fault]
    journal: Journal
    screen: Watched
    progress: Progress = field(default_factory=Progress)
    lines: dict[str, dict[int, dict[str, Any]]] = field(default_factory=dict)

    def known(self, line: dict[str, Any]) -> None:
        if "fault" in line:
            self.lines.setdefault(line["fault"], {})[line["batch"]] = line
            return
        self.progress.done.add(line["batch"])
        reached = {feature: tuple(choices) for feature, choices in line["reached"].items()}
        self.progress.learn(line["batch"], reached, self.settings.epoch)

    def keep(self, line: dict[str, Any]) -> None:
        self.journal.write(line)
        self.known(line)

    def left(self) -> list[Fault]:
        """Those that were not found yet."""
        return [f for f in self.faults if all(r["found"] is None for r in self.lines.get(f.name, {}).values())]

    def batch(self, number: int) -> None:
        if number in self.progress.done:
            return
        start = time.monotonic()
        members = Members(self.settings, self.progress.corpus).batch(number)
        honest = self.screen.rightly(members, is_wide(number))
        took = time.monotonic() - start
        left, tries = self.left(), dict[Fault, Tries]()
        compiled = sum(self.part(part, number, left, tries) for part in self.screen.parts)
        for here in tries.values():
            if here.found is None:  # what was found was kept at once
                self.keep(here.line)
        reached = {feature: list(choices) for feature, choices in honest.reached.items()}
        self.keep({"batch": number, "reached": reached})
        more = time.monotonic() - start - took
        print(
            f"batch {number}: {took:.0f} s, places for {len(tries)} faults, {more:.0f} s with them in {compiled} "
            f"compilations; {len(self.left())} of {len(self.faults)} left",
            file=sys.stderr,
            flush=True,
        )

    def part(self, part: Part, batch: int, left: Sequence[Fault], tries: dict[Fault, Tries]) -> int:
        """Every fault in every program that has a place for it, until it is found; the number of compilations."""
        waiting: dict[Fault, list[int]] = {}
        for fault in left:
            numbers = {part.of[place] for place in places(part.module, fault) if place in part.of}
            if numbers and (fault not in tries or tries[fault].found is None):
                waiting[fault] = sorted(numbers)
                tries.setdefault(fault, Tries(fault, batch))
        count = 0
        while waiting:
            count += self.some(part, _turn(waiting), tries)
            waiting = {fault: rest for fault, rest in waiting.items() if rest and tries[fault].found is None}
        return count

    def some(self, part: Part, turn: dict[int, Fault], tries: dict[Fault, Tries]) -> int:
        outputs = self.screen.wrongly(part, {number: fault.name for number, fault in turn.items()})
        if outputs is None:
            if len(turn) == 1:
                ((number, fault),) = turn.items()
                tries[fault].refused.append(number)
                return 1
            both = list(turn.items())
            middle = len(both) // 2
            return 1 + self.some(part, dict(both[:middle]), tries) + self.some(part, dict(both[middle:]), tries)
        for number, fault in sorted(turn.items()):
            here = tries[fault]
            if here.found is not None:
                continue
            row = self.screen.verdict(part, number, fault.name, outputs[number])
            if self.screen.changed:
                here.changed.append(number)
                here.said[f"{row.verdict} {row.why}".strip()[:100]] += 1
            if (found := self.screen.found) is not None:
                here.found, here.klass = number, str(found.case.klass or found.case.verdict)
                self.keep(here.line)
        return 1


def _turn(waiting: dict[Fault, list[int]]) -> dict[int, Fault]:
    """A fault for each program, as far as there are any: first one program for each fault, then what is free; they are
    taken off the lists.
    """
    turn: dict[int, Fault] = {}
    for _ in range(max(map(len, waiting.values()))):
        for fault in sorted(waiting, key=lambda fault: len(waiting[fault])):
            number = next((n for n in waiting[fault] if n not in turn), None)
            if number is not None:
                turn[number] = fault
                waiting[fault].remove(number)
    return turn


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=2000)
    parser.add_argument("--each", type=int, default=3, help="narrower faults of each kind")
    parser.add_argument("--kinds", default="", help="a regular expression: only the kinds that it is found in")
    parser.add_argument("--seed", type=int, default=0, help="of the campaign, and of what is drawn for the faults")
    parser.add_argument("--out", type=Path, default=Path("planted.jsonl"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="assay-planted-") as folder:
        os.environ["ASSAY_PLANTED"] = folder
        (Path(folder) / "told").write_text("{}")
        preload = str(Path(__file__).with_name("wrong_compiler.py"))
        settings = Settings(seed=options.seed, target="cpu", preload=preload)
        wanted = [f for f in faults(options.seed, options.each) if re.search(options.kinds, f.kind)]
        screen = Screen.of(request_of(settings))
        question = f"planted faults {options.kinds}, seed {options.seed}, {len(wanted)} faults"
        with Journal(options.out, question, "run of this benchmark") as journal:
            bench = Bench(settings, wanted, journal, Watched.beside(screen, Path(folder)))
            for line in journal.found:
                bench.known(line)
            journal.begin(journal.found)
            try:
                for number in range(-(-options.programs // settings.batch)):
                    bench.batch(number)
            finally:
                screen.close()
        return summary(bench, options.programs)


def summary(bench: Bench, programs: int) -> int:
    outcomes = Counter[str]()
    print(f"{'fault':96} programs made  changed")
    for fault in bench.faults:
        word, count, lines = outcome(fault, bench, programs)
        outcomes[word] += 1
        changed = sum(len(line["changed"]) for line in lines)
        print(f"{fault.name:96} {count or word:>8} {len(lines):4} {changed:8}")
        if word in ("missed", "refused"):
            said = Counter[str]()
            for line in lines:
                said.update(line["said"])
            print(f"    {dict(said.most_common(6))}")
    total = len(bench.faults) - outcomes["equivalent"]
    share = outcomes["found"] / max(1, total)
    counts = sorted(count for f in bench.faults if (count := outcome(f, bench, programs)[1]))
    print(f"{len(bench.faults)} faults of {len({f.kind for f in bench.faults})} kinds: {dict(outcomes)}")
    if counts:
        print(f"programs screened when it was found: median {counts[len(counts) // 2]}, most {counts[-1]}")
    print(f"found within {programs} programs: {share:.1%} of {total} that are not equivalent (bar {BAR:.0%})")
    return 0 if share >= BAR else 1


def outcome(fault: Fault, bench: Bench, programs: int) -> tuple[str, int | None, list[dict[str, Any]]]:
    """A word, the number of programs that were screened when it was found, and the lines of the fault."""
    lines = list(bench.lines.get(fault.name, {}).values())
    size = bench.settings.batch
    found = [line["batch"] for line in lines if line["found"] is not None and line["batch"] * size < programs]
    if found:
        return "found", (min(found) + 1) * size, lines
    if not lines:
        return "never made", None, lines
    if any(line["changed"] for line in lines):
        return "missed", None, lines
    return "refused" if any(line["refused"] for line in lines) else "equivalent", None, lines


if __name__ == "__main__":
    sys.exit(main())
