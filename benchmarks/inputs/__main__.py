"""What inputs come to: how often a program stays finite with those that are drawn for it.

    python benchmarks/inputs [--programs 1000] [--seeds 1] [MODULE.hlo ...]

Printed, with the baseline beside it:

- random graphs of 20 operations, of which a third, half or two thirds are log, sqrt, rsqrt, divide, power or exp: in
  how many programs any value is not finite, on the way or at the end, with inputs that are random, drawn by the
  upstream tool's rules, or planned. Then what `draw_inputs` comes to, of all programs: every value finite; proved to
  have no inputs (log(-exp(x))), which is then the right answer; neither. A search by brute force over 200,000 points,
  which shares nothing with assay, looks for inputs of the last two: it may refute a proof, and tells how many of the
  third kind have inputs at one point in a thousand or more, at fewer (accidents, such as an exponent that happens to
  be a whole number), or at none. The bar: neither in at most 2 % of all programs, no proof refuted, 5 ms of CPU time.
- narrow types: f16, bf16 and 8-bit graphs of sums and products.
- pieces of the modules on the command line, cut by `assay isolate`: the share of output elements that are finite. The
  bar: 99.9 %. What a constant makes infinite (a mask) is meant and not counted.
- how long planning takes for modules of 1,000 to 100,000 instructions.

Exit code 1 where a bar is missed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from graphs import graph, narrow, repeated
from search import share_of_points
from upstream import draw as upstream_draw

from assay.errors import AssayError
from assay.hlo.module import Module
from assay.hlo.parse import parse_module
from assay.hlo.shape import ArrayShape, leaves
from assay.inputs.classes import CLASSES
from assay.inputs.drawn import draw_inputs
from assay.inputs.generate import generate
from assay.inputs.ranges import plan
from assay.inputs.survey import Survey, survey
from assay.isolate.graph.cut import cut
from assay.reference.evaluator import estimate_bytes

Array = np.ndarray[Any, np.dtype[Any]]
RISKS = (1 / 3, 1 / 2, 2 / 3)
CHANCE = 1e-3
LARGEST = 256 << 20
"""Bytes of the reference up to which a piece is evaluated here."""


def main() -> int:
    options = _options()
    fine = True
    for risk in RISKS if options.programs else ():
        fine = _random_graphs(options.programs, risk) and fine
    if options.programs:
        fine = _narrow_types(max(10, options.programs // 10)) and fine
    for path in options.modules:
        fine = _pieces(path, options.seeds) and fine
    if options.modules:
        print()
    fine = _speed() and fine
    print("every bar is met" if fine else "a bar is missed")
    return 0 if fine else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("modules", nargs="*", type=Path, help="optimized modules to cut into pieces")
    parser.add_argument("--programs", type=int, default=1000, help="random graphs of each kind")
    parser.add_argument("--seeds", type=int, default=1, help="sets of inputs of each class for each piece")
    return parser.parse_args()


# ---- random graphs


def _random_graphs(programs: int, risk: float) -> bool:
    counts: Counter[str] = Counter()
    plan_time = draw_time = good_time = 0.0
    print(f"{programs} random graphs of 20 operations, {risk:.0%} of them log, sqrt, rsqrt, divide, power, exp")
    for seed in range(programs):
        module = graph(seed, risk)
        counts["random"] += bool(survey(module, _normal(module, seed)).strange)
        counts["upstream"] += bool(survey(module, upstream_draw(module, seed)).strange)
        start = time.process_time()
        planned = generate(module, seed)
        plan_time += time.process_time() - start
        counts["planned"] += bool(survey(module, planned).strange)
        start = time.process_time()
        drawn = draw_inputs(module, seed)
        spent = time.process_time() - start
        draw_time += spent
        share = share_of_points(module, seed) if drawn.strange != 0 else 1.0
        if drawn.outcome.startswith("invalid"):
            counts["proved"] += 1
            counts["refuted"] += share > 0
        elif drawn.strange == 0:
            counts["finite"] += 1
            good_time += spent
        else:
            counts["neither"] += 1
            counts["missed"] += share >= CHANCE
            counts["by accident"] += 0 < share < CHANCE
    finite, proved, neither = (counts[kind] / programs for kind in ("finite", "proved", "neither"))
    none = counts["neither"] - counts["missed"] - counts["by accident"]
    milliseconds = draw_time / programs * 1e3
    print(f"  any value not finite, of all:  random {counts['random'] / programs:.1%}, upstream's rules "
          f"{counts['upstream'] / programs:.1%}, planned {counts['planned'] / programs:.1%}")  # fmt: skip
    print(f"  planned and mended, of all:    finite {finite:.1%}, proved unsatisfiable {proved:.1%} "
          f"({counts['refuted']} proofs refuted by the search), neither {neither:.1%} (bar 2.0%)")  # fmt: skip
    print(f"  of the {counts['neither']} that are neither, the search knows inputs for {counts['missed']}, by accident "
          f"for {counts['by accident']}, for {none} of none")  # fmt: skip
    good = good_time / max(1, counts["finite"]) * 1e3
    print(
        f"  CPU time a program: planned {plan_time / programs * 1e3:.1f} ms, planned and mended {milliseconds:.1f} ms "
        f"(bar 5.0), {good:.1f} ms where all came out finite\n"
    )
    return neither <= 0.02 and not counts["refuted"] and milliseconds <= 5


def _normal(module: Module, seed: int) -> list[Array]:
    rng = np.random.default_rng(seed)
    found = []
    for parameter in module.entry.parameters:
        for leaf in leaves(parameter.shape):
            assert isinstance(leaf, ArrayShape)
            assert leaf.dtype.numpy is not None
            found.append(rng.standard_normal(leaf.dims).astype(leaf.dtype.numpy))
    return found


def _narrow_types(programs: int) -> bool:
    """Sums and products in narrow types: the share of output elements that are finite."""
    fine = True
    for dtype in ("f16", "bf16", "f8e5m2", "f8e4m3fn"):
        ours, theirs, plain = Survey(), Survey(), Survey()
        for seed in range(programs):
            module = narrow(seed, dtype)
            for kind in ("normal", "log-uniform"):
                _add(ours, survey(module, draw_inputs(module, seed, kind).arrays))
            _add(theirs, survey(module, upstream_draw(module, seed)))
            _add(plain, survey(module, _normal(module, seed)))
        print(f"{dtype:9} sums and products, outputs finite: {_share(ours)} (bar 99.9%), upstream's rules "
              f"{_share(theirs)}, random {_share(plain)}")  # fmt: skip
        fine = fine and ours.lost <= 1e-3 * ours.elements
    print()
    return fine


# ---- pieces


def _pieces(path: Path, seeds: int) -> bool:
    pieces = cut(parse_module(path.read_text())).pieces
    counts: Counter[str] = Counter()
    ours = {kind: Survey() for kind in CLASSES}
    checked, theirs = Survey(), Survey()
    start = time.monotonic()
    for piece in pieces:
        if estimate_bytes(piece.module) > LARGEST:
            counts["too large"] += 1
            continue
        try:
            for seed in range(seeds):
                for kind, total in ours.items():
                    _add(total, survey(piece.module, generate(piece.module, seed, kind)))
                _add(theirs, survey(piece.module, upstream_draw(piece.module, seed)))
                drawn = draw_inputs(piece.module, seed)
                counts[drawn.outcome.split("(")[0]] += 1
                _add(checked, survey(piece.module, drawn.arrays))
        except AssayError:
            counts["not evaluated"] += 1
    shares = ", ".join(f"{kind} {_share(total)}" for kind, total in ours.items())
    print(f"{path.name}: {len(pieces)} pieces in {time.monotonic() - start:.0f} s, {dict(counts)}")
    print(f"  outputs finite: checked {_share(checked)} (bar 99.9%), upstream's rules {_share(theirs)}; by class, "
          f"unchecked: {shares}")  # fmt: skip
    return checked.lost <= 1e-3 * checked.elements


def _add(total: Survey, more: Survey) -> None:
    total.elements += more.elements
    total.lost += more.lost


def _share(total: Survey) -> str:
    return f"{1 - total.lost / max(1, total.elements):.3%}"


# ---- speed


def _speed() -> bool:
    times = {}
    for size in (1_000, 10_000, 100_000):
        module = repeated(size)
        start = time.process_time()
        plan(module)
        times[size] = time.process_time() - start
    told = ", ".join(f"{size:,} instructions {seconds:.2f} s" for size, seconds in times.items())
    growth = times[100_000] / times[10_000]
    print(f"planning, CPU time: {told}; ten times the size takes {growth:.1f} times as long (bar: 10,000 in 2 s)")
    return times[10_000] <= 2


if __name__ == "__main__":
    sys.exit(main())
