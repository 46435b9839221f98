"""How small does `assay reduce` make known bugs that are hidden in larger programs?

    python benchmarks/reduction BUGS [--toolchain jax==0.10.2] [--target cpu] [--size 200] [--time 300] [--json OUT]

BUGS: a folder of Python files with cases(), each the reproducer that a person wrote for a bug. Every case that shows a
finding is put in the midst of a program of about `size` instructions (`padding.py`; the same for the same seed), so
that the bug still shows at an output, and reduced. A row each: instructions of the reproducer, of the program, of what
is left; their ratio; seconds; tries; and whether what is left, looked at in a fresh worker, shows the same verdict,
class and pass as the reproducer does; where chance decides, one of the verdicts that were seen of it.
Exits with status 1 where a bug was lost, one took longer than the time, or the median ratio is above 1.5.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from assay.checking import api
from assay.programs.load import load
from assay.programs.program import Program
from assay.reduce import Reduced, Shown, Still, reduce

SEEDS = 20
"""Surroundings that are tried until the bug shows through one."""

FILE = '''"""A known bug in the midst of a larger program."""
import importlib.util
import sys

sys.path.insert(0, {here!r})
from padding import surrounded

spec = importlib.util.spec_from_file_location("bug", {path!r})
bug = importlib.util.module_from_spec(spec)
spec.loader.exec_module(bug)
X64 = getattr(bug, "X64", False)


def cases():
    _, function, arguments, _ = list(bug.cases())[{case}]
    yield ("hidden", *surrounded(function, arguments, {seed}, {blocks}), None)
'''


@dataclass(frozen=True)
class Row:
    bug: str
    by_hand: int
    hidden: int
    left: int
    ratio: float
    seconds: float
    tries: int
    seed: int
    kept: bool
    shows: str
    reproducer_shows: str


def instructions(program: Program | Reduced) -> int:
    assert program.module is not None
    return sum(len(c.instructions) for c in program.module.computations)


def looked(still: Still, program: Program) -> Shown | None:
    assert program.module is not None
    still.wanted = None
    arguments = [a for a in program.arguments if a is not None]
    return still(program.module, arguments)


def hidden(still: Still, bug: Path, case: int, size: int, own: Shown, allowed: frozenset) -> tuple[Program, int] | None:
    """The first program of about `size` instructions around a case that shows the same, and its seed."""
    for seed in range(SEEDS):
        blocks = 1
        while (program := surrounded(still, bug, case, seed, blocks)) and instructions(program) < size:
            blocks += max(1, (size - instructions(program)) // 40)
        found = looked(still, program)
        if found is not None and found.pass_ == own.pass_ and still.allowed & allowed:
            return program, seed
        print(f"    seed {seed}: {found.words if found else 'nothing shows'}", file=sys.stderr)
    return None


def surrounded(still: Still, bug: Path, case: int, seed: int, blocks: int) -> Program:
    here = str(Path(__file__).parent.absolute())
    text = FILE.format(here=here, path=str(bug.absolute()), case=case, seed=seed, blocks=blocks)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"hidden_{bug.stem}_{case}_{seed}_{blocks}.py"
        path.write_text(text)
        (program,) = loaded(still, path)
    if program.problem is not None:
        raise SystemExit(f"{bug.stem}: {program.problem}")
    return program


def loaded(still: Still, path: Path) -> list[Program]:
    worker = still.workers.get()
    try:
        return load(str(path), worker)
    finally:
        still.workers.put(worker)


def rows(request: api.Request, bugs: Path, size: int, budget_s: float, jobs: int, only: str) -> list[Row]:
    found = []
    for bug in sorted(p for p in bugs.glob("*.py") if p.stem != "run" and only in p.stem):
        with Still.open(request, jobs) as still:
            for case, program in enumerate(loaded(still, bug)):
                own = None if program.problem else looked(still, program)
                if own is None:
                    print(f"{program.name}: nothing to see in this toolchain", file=sys.stderr)
                    continue
                row = one(request, still, bug, case, program, own, size, budget_s, jobs)
                if row is not None:
                    print(told(row), flush=True)
                    found.append(row)
    return found


def one(
    request: api.Request, still: Still, bug: Path, case: int, program: Program, own: Shown, size: int, budget: float,
    jobs: int,
) -> Row | None:  # fmt: skip
    allowed = still.allowed  # what is seen of the reproducer, more than one verdict where chance decides
    made = hidden(still, bug, case, size, own, allowed)
    if made is None:
        print(f"{program.name}: does not show in {SEEDS} surroundings", file=sys.stderr)
        return None
    larger, seed = made
    assert larger.module is not None
    still.wanted = None
    arguments = [a for a in larger.arguments if a is not None]
    small = reduce(larger.module, arguments, still, budget_s=budget, jobs=jobs)
    with Still.open(request, 1) as fresh:
        again = fresh(small.module, small.arguments)
    kept = again is not None and again.pass_ == own.pass_ and bool(fresh.allowed & allowed)
    kept = kept and (not own.opcodes or bool(again and own.opcodes & again.opcodes))
    by_hand, left = instructions(program), small.instructions
    return Row(
        program.name, by_hand, instructions(larger), left, left / by_hand, small.seconds, small.tries, seed, kept,
        again.words if again else "nothing", own.words,
    )  # fmt: skip


def told(row: Row) -> str:
    state = "kept" if row.kept else "LOST"
    return (
        f"{row.bug:<62} {row.by_hand:>4} {row.hidden:>5} {row.left:>5} {row.ratio:>6.2f} {row.seconds:>7.1f} s "
        f"{row.tries:>5}  {state}  {row.shows}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bugs", type=Path)
    parser.add_argument("--toolchain")
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--size", type=int, default=200)
    parser.add_argument("--time", type=float, default=300.0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    request = api.Request(target=given.target, toolchain=given.toolchain)
    print(f"{'bug':<62} hand  size  left  ratio      time  tries")
    found = rows(request, given.bugs, given.size, given.time, given.jobs, given.only)
    if given.json is not None:
        given.json.write_text(json.dumps([asdict(row) for row in found], indent=1) + "\n")
    if not found:
        print("no bug shows in this toolchain")
        return 2
    median, slowest = statistics.median(row.ratio for row in found), max(row.seconds for row in found)
    lost = sum(not row.kept for row in found)
    print(f"{len(found)} bugs: median ratio {median:.2f}, slowest {slowest:.0f} s, lost {lost}")
    return int(median > 1.5 or slowest > given.time + 10 or lost > 0)


if __name__ == "__main__":
    sys.exit(main())
