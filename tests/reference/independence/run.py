"""A long campaign: draws programs, runs them everywhere, prints who disagrees and a table by opcode.

python tests/reference/independence/run.py --seconds 600 --seed 7 --only dot,convolution
python tests/reference/independence/run.py --again dot f32 '[0, 3, 1]'        one program again, made small
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import fnmatch
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    __package__ = "independence"

from independence.builder import Program
from independence.catalogue import NotDrawn, draw_any, draw_program, every_pair, weighted
from independence.choices import Choices, shrink
from independence.comparison import Judgement, judge
from independence.faults import known_fault, lacks
from independence.interpreter import Interpreter
from independence.rivals import LEVEL_0, OPTIMISED, Outcome, Refused, Xla

PARTIES: dict[str, Callable[[], Xla | Interpreter]] = {
    "optimised": lambda: Xla("optimised", OPTIMISED),
    "level 0": lambda: Xla("level 0", LEVEL_0),
    "interpreter": Interpreter,
}


SLOWEST = "level 0"
"""Takes a third of the programs of a campaign."""


class Campaign:
    """The parties, and what became of each program; a context manager."""

    def __init__(self, parties: Sequence[str] = tuple(PARTIES)) -> None:
        self._stack = contextlib.ExitStack()
        self.parties = {name: self._stack.enter_context(PARTIES[name]()) for name in parties}
        self.seconds: Counter[str] = Counter()

    def __enter__(self) -> Campaign:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def judge(self, programs: Sequence[Program], without: str = "") -> list[Judgement]:
        outcomes: list[dict[str, Outcome]] = [{} for _ in programs]
        for name, party in self.parties.items():
            if name == without:
                continue
            willing = [k for k, p in enumerate(programs) if not lacks(name, p)]
            start = time.monotonic()
            for k, outcome in zip(willing, party.run([programs[k] for k in willing]), strict=True):
                outcomes[k][name] = outcome
            self.seconds[name] += time.monotonic() - start
        start = time.monotonic()
        judged = [judge(p, o) for p, o in zip(programs, outcomes, strict=True)]
        self.seconds["reference"] += time.monotonic() - start
        return judged


class Table:
    """Counts by opcode."""

    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = defaultdict(Counter)
        self.refusals: dict[tuple[str, str, str], list[str]] = defaultdict(list)

    def add(self, j: Judgement) -> None:
        row = self.counts[j.program.opcode]
        row["drawn"] += 1
        row["undecided"] += j.undecided > 0.5
        row["failed"] += bool(j.failure)
        row["unsupported"] += bool(j.unsupported)
        for name in j.compared:
            row[name] += 1
        for name, refused in j.refusals.items():
            self.refusals[name, j.program.opcode, _gist(refused)].append(j.program.dtype)
        for d in j.disagreements:
            row["known" if known_fault(d) else "disagreements"] += 1

    def __str__(self) -> str:
        columns = ["drawn", *PARTIES, "undecided", "unsupported", "known", "failed", "disagreements"]
        lines = [f"{'opcode':26}" + "".join(f"{c:>14}" for c in columns)]
        total: Counter[str] = Counter()
        for opcode, row in sorted(self.counts.items()):
            total.update(row)
            lines.append(f"{opcode:26}" + "".join(f"{row[c]:>14}" for c in columns))
        lines.append(f"{'all':26}" + "".join(f"{total[c]:>14}" for c in columns))
        for (party, opcode, gist), dtypes in sorted(self.refusals.items()):
            lines.append(f"refused by {party}: {opcode} of {' '.join(sorted(set(dtypes)))}: {gist}")
        return "\n".join(lines)


def _gist(refused: Refused) -> str:
    return ("died " if refused.died else "") + " ".join(refused.message.split())[:160]


def campaign(seconds: float, seed: int, only: str, batch: int, parties: Sequence[str], depth: int) -> Table:
    """Draws until the time is over; prints what is found when it is found."""
    pairs = [(o, d) for o, d in every_pair() if any(fnmatch.fnmatch(o, w) for w in only.split(","))]
    pairs = weighted(pairs)
    table = Table()
    seen: Counter[str] = Counter()
    start = time.monotonic()
    with Campaign(parties) as field:
        for number in range(sys.maxsize):
            if time.monotonic() - start > seconds:
                break
            rng = np.random.default_rng([seed, number])
            programs = [draw_any(rng, pairs, depth) for _ in range(batch)]
            for j in field.judge(programs, "" if number % 3 == 0 else SLOWEST):
                table.add(j)
                tell(j, seen)
        print(", ".join(f"{name} {seconds:.0f} s" for name, seconds in field.seconds.items()))
    return table


def tell(j: Judgement, seen: Counter[str]) -> None:
    """Prints a failure or a disagreement, the first three of a kind."""
    again = f"--again {j.program.opcode} {j.program.dtype} '{list(j.program.record)}'"
    said = [f"FAILED {j.failure}\n{j.program.statement}"] if j.failure else []
    said += [f"DISAGREES {d}" for d in j.disagreements if not known_fault(d)]
    for text in said:
        kind = f"{j.program.opcode} {text[:24]}"
        seen[kind] += 1
        if seen[kind] <= 3:
            print(f"{text}\n  {again}\n", flush=True)


def again(opcode: str, dtype: str, record: Sequence[int], parties: Sequence[str], small: bool) -> None:
    """One program again; smaller, as long as the same party disagrees."""
    with Campaign(parties) as field:

        def blamed(candidate: Sequence[int]) -> set[str]:
            try:
                j = field.judge([draw_program(opcode, dtype, Choices(candidate))])[0]
            except NotDrawn:
                return set()
            return {"failed"} if j.failure else {d.party for d in j.disagreements if not known_fault(d)}

        first = blamed(record)
        best = shrink(record, lambda c: bool(blamed(c) & first)) if small and first else list(record)
        program = draw_program(opcode, dtype, Choices(best))
        print(program.text)
        for (name, _, value), k in zip(program.parameters, range(99), strict=False):
            print(f"{name.replace('~', '')} (argument {k}): {value!r}")
        j = field.judge([program])[0]
        print(j.failure or j.unsupported, *map(str, j.disagreements), *j.refusals.items(), sep="\n")
        print(f"--again {opcode} {dtype} '{list(program.record)}'")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="*", help="opcodes, with wildcards, and commas between")
    parser.add_argument("--batch", type=int, default=12)
    parser.add_argument("--depth", type=int, default=1, help="how many operations may stand before operands")
    parser.add_argument("--parties", default=",".join(PARTIES))
    parser.add_argument("--again", nargs=3, metavar=("OPCODE", "DTYPE", "RECORD"))
    parser.add_argument("--as-it-is", action="store_true", help="do not make it smaller")
    options = parser.parse_args()
    parties = options.parties.split(",")
    if options.again:
        opcode, dtype, record = options.again
        again(opcode, dtype, ast.literal_eval(record), parties, not options.as_it_is)
    else:
        print(campaign(options.seconds, options.seed, options.only, options.batch, parties, options.depth))


if __name__ == "__main__":
    main()
