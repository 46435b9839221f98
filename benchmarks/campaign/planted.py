"""Wrong compilers, each with one planted fault: does a campaign find them, and after how many programs?

    python benchmarks/campaign/planted.py [--programs 2000] [--each 3] [--seed 0] [--out planted.jsonl]

XLA:CPU of the jax that is installed, with a last pass that makes something else of every instruction that a fault is
of (wrong_compiler.py): of every kind of the isolation benchmark the wide one, and --each that are narrower
(conditions.py). Programs, inputs and verdicts are those of `assay fuzz` at default settings. Found: the first program
that is wrong in its batch, and then alone in a fresh worker; whose results are not the right compiler's, bit for bit;
and of which the right compiler makes nothing wrong.

The programs of a campaign do not depend on a fault. So each batch is compiled and run once by the right compiler, and
by a wrong one only if the module has a place for its fault; and a program is judged there only if its results are not
the right compiler's, bit for bit, since it has the same verdict otherwise. Programs change with what was reached
before: what the right compiler reached counts.

Equivalent: the fault was made, and no result of any program is another bit. Never made: no program had a place for it,
which counts as missed. Refused: XLA:CPU compiled nothing that had it. The lines of --out are written as they come; a
run that was stopped goes on from there. Exit status 1 where fewer than 90 % are found of all that are not equivalent.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conditions import Fault, faults, places

from assay.campaign.batch import Lowered, Member
from assay.campaign.row import Row
from assay.campaign.run import Progress, request_of
from assay.campaign.screen import Batch, Given, Screen, Suspect, judged_alone
from assay.campaign.settings import Members, Settings, is_wide
from assay.checking.target import Outputs
from assay.errors import AssayError
from assay.hlo.parse import parse_module
from assay.journal import Journal
from assay.oracle.verdict import FINDINGS, Verdict
from assay.programs.program import Array, Program
from assay.toolchain import RequestRefused, WorkerDied

SILENT = (Verdict.MISMATCH, Verdict.NONDETERMINISTIC)
BAR = 0.9


@dataclass(slots=True)
class Watched(Screen):
    """Screening with a right compiler that is remembered, and then with wrong ones.

    right: the results of each program of the batch, as bytes; none of a program that the right compiler does nothing
    with. whole: the batch as it was lowered, and what each program is given, where all of them ran together. changed:
    programs to whose results a fault does something.
    """

    right: dict[tuple[int, str], list[bytes]] = field(default_factory=dict)
    whole: tuple[Lowered, Sequence[Sequence[Array]]] | None = None
    given: dict[int, Sequence[Given]] = field(default_factory=dict)
    changed: list[int] = field(default_factory=list)
    honest: bool = True
    found: Suspect | None = None

    @staticmethod
    def beside(screen: Screen) -> Watched:
        return Watched(screen.request, screen.worker, screen.settings, screen.folder, screen._open)

    def rightly(self, members: Sequence[Member], wide: bool) -> Batch:
        self.honest, self.right, self.whole = True, {}, None
        batch = self.judged(members, wide)
        if self.whole is not None and len(self.whole[0].programs) < len(members):
            self.whole = None  # of a part
        return batch

    def wrongly(self, members: Sequence[Member], wide: bool) -> list[Row]:
        """A row for each, by a compiler that has a fault now. What the right one did is not done again."""
        self.honest, self.changed, self.found = False, [], None
        if self.whole is None:
            return self.judged(members, wide).rows
        lowered, sets = self.whole
        try:
            ran = self._run(lowered, sets)
        except (RequestRefused, WorkerDied, AssayError):
            return self.judged(members, wide).rows
        rows, at = [], 0
        for member, program in zip(members, lowered.programs, strict=True):
            own = slice(at, at := at + len(member.plan.results))
            outputs = [(first[own], second[own]) for first, second in ran]
            rows.append(self._each(member, program, self.given[member.number], outputs)[0])
        return rows

    def _run(self, lowered: Lowered, sets: Sequence[Sequence[Array]]) -> list[Outputs]:
        found = super(Watched, self)._run(lowered, sets)
        if self.honest:
            self.whole = lowered, sets
        return found

    def _each(
        self, member: Member, program: Program, given: Sequence[Given], outputs: Sequence[Outputs]
    ) -> tuple[Row, list[Suspect]]:
        self.given[member.number] = given
        return super(Watched, self)._each(member, program, given, outputs)

    def _screened(self, member: Member, program: Program, given: Given, outputs: Outputs) -> Row | None:
        results, key = [array.tobytes() for run in outputs for array in run], (member.number, given[0])
        if self.honest:
            self.right[key] = results
            return Row(member.number, Verdict.AGREE)
        if key not in self.right or results == self.right[key] or self.found is not None:
            return Row(member.number, Verdict.AGREE)
        self.changed.append(member.number)
        return super(Watched, self)._screened(member, program, given, outputs)

    def _alone(
        self, member: Member, program: Program, given: Sequence[Given], suspected: bool = False
    ) -> tuple[list[Row], list[Suspect]]:
        if not suspected:  # it does not compile alone either, by which compiler ever
            return [Row(member.number, Verdict.UNVERIFIED, "not compiled, or not run")], []
        rows, suspects = super(Watched, self)._alone(member, program, given, suspected)
        if suspects and suspects[0].case.verdict in SILENT:
            self.found = suspects[0]
        return rows, suspects


@dataclass(slots=True)
class Bench:
    """planted: the folder that the wrong compiler looks at. lines: what is known of each fault, a batch each."""

    settings: Settings
    planted: Path
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

    def tell(self, fault: Fault | None) -> None:
        (self.planted / "fault").write_text(fault.name if fault else "")

    def batch(self, number: int) -> None:
        if number in self.progress.done:
            return
        start = time.monotonic()
        screen, wide = self.screen, is_wide(number)
        members = Members(self.settings, self.progress.corpus).batch(number)
        seen = self.planted / "seen"
        seen.mkdir()
        self.tell(None)
        honest = screen.rightly(members, wide)
        modules = [parse_module(path.read_text()) for path in seen.iterdir()]
        shutil.rmtree(seen)
        here = [fault for fault in self.left() if any(places(module, fault) for module in modules)]
        took = time.monotonic() - start
        for fault in here:
            if number not in self.lines.get(fault.name, {}):
                self.wrong(fault, number, members, wide)
        reached = {feature: list(choices) for feature, choices in honest.reached.items()}
        self.keep({"batch": number, "reached": reached})
        print(
            f"batch {number}: {took:.0f} s, {len(screen.right)} programs, places for {len(here)} faults, "
            f"{time.monotonic() - start - took:.0f} s with them; {len(self.left())} of {len(self.faults)} left",
            file=sys.stderr,
            flush=True,
        )

    def wrong(self, fault: Fault, number: int, members: Sequence[Member], wide: bool) -> None:
        screen = self.screen
        self.tell(fault)
        rows = screen.wrongly(members, wide)
        self.tell(None)
        found = screen.found
        if found is not None and self.wrong_anyway(found):
            found = None
        changed = set(screen.changed)
        said = Counter(f"{row.verdict} {row.why}".strip()[:100] for row in rows if row.number in changed)
        refused = [row.why[:160] for row in rows if row.number not in changed and row.verdict is not Verdict.AGREE]
        self.keep(
            {
                "fault": fault.name,
                "batch": number,
                "changed": sorted(changed),
                "refused": refused,
                "said": dict(said),
                "found": None if found is None else found.member.number,
                "class": "" if found is None else str(found.case.klass or found.case.verdict),
            }
        )

    def wrong_anyway(self, suspect: Suspect) -> bool:
        """Whether the right compiler is wrong of it as well: a finding, and not this fault's."""
        case = judged_alone(suspect.program, suspect.arguments, suspect.case.inputs, self.screen.request)
        return case.verdict in FINDINGS


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=2000)
    parser.add_argument("--each", type=int, default=3, help="narrower faults of each kind")
    parser.add_argument("--seed", type=int, default=0, help="of the campaign, and of what is drawn for the faults")
    parser.add_argument("--out", type=Path, default=Path("planted.jsonl"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="assay-planted-") as folder:
        os.environ["ASSAY_PLANTED"] = folder
        (Path(folder) / "fault").write_text("")
        preload = str(Path(__file__).with_name("wrong_compiler.py"))
        settings = Settings(seed=options.seed, target="cpu", preload=preload)
        wanted = list(faults(options.seed, options.each))
        screen = Screen.of(request_of(settings))
        question = f"planted faults, seed {options.seed}, {len(wanted)} faults"
        with Journal(options.out, question, "run of this benchmark") as journal:
            bench = Bench(settings, Path(folder), wanted, journal, Watched.beside(screen))
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
        print(f"programs to the first find: median {counts[len(counts) // 2]}, most {counts[-1]}")
    print(f"found within {programs} programs: {share:.1%} of {total} that are not equivalent (bar {BAR:.0%})")
    return 0 if share >= BAR else 1


def outcome(fault: Fault, bench: Bench, programs: int) -> tuple[str, int | None, list[dict[str, Any]]]:
    """A word, the number of programs to the find, and the lines of the fault."""
    lines = list(bench.lines.get(fault.name, {}).values())
    found = [line["found"] for line in lines if line["found"] is not None and line["found"] < programs]
    if found:
        return "found", min(found) + 1, lines
    if not lines:
        return "never made", None, lines
    if any(line["changed"] for line in lines):
        return "missed", None, lines
    return "refused" if any(line["refused"] for line in lines) else "equivalent", None, lines


if __name__ == "__main__":
    sys.exit(main())
