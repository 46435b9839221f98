"""Whether every legal result lies in the reference's ball, and how much wider the ball is than it need be.

    python benchmarks/soundness [--quick] [--only OPERATION ...] [--dtype f32 bf16 f16] [--elements 1000000]

For each operation, type, kind of inputs and length: the reference is evaluated once, and beside it every evaluation
that a correct compiler may choose, made by XLA:CPU under several options and by our own small routines in NumPy (orders
of summation, adversarial ones among them, contraction, reciprocals, flushed subnormals, narrow and wide steps, a
routine as inaccurate as the policy lets it be). A row has how many results lay outside, which must be 0, and the median
over elements of radius / largest deviation, which must be at most 8 for elementwise operations and 200 for sums; the
same with XLA's own results alone stands beside it. Exit status 1 where a bar is missed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import accumulations
import elementwise
import kernels
from cases import figures
from measure import Figures

HEAD = (
    f"{'operation':22}{'type':6}{'inputs':10}{'length':>6}{'results':>9}{'elements':>10}{'undecided':>10}{'outside':>9}"
    f"{'ratio':>10}{'XLA alone':>11}{'worst':>7}{'limit':>7}"
)


def main() -> int:
    arguments = parsed()
    names = arguments.only or [*elementwise.OPERATIONS, *kernels.KERNELS, *accumulations.MAKERS]
    started = time.time()
    print(HEAD)
    rows: list[Figures] = []
    for found in results(names, arguments):
        for row in found:
            print(line(row), flush=True)
        rows += found
    missed = [row for row in rows if not row.met]
    print(
        f"{len(names)} operations and kernels, {len(rows)} cases, {sum(row.elements for row in rows):,} elements, "
        f"{sum(row.undecided for row in rows):,} undecided, {sum(sum(row.outside.values()) for row in rows)} outside; "
        f"{len(missed)} of {len(rows)} miss a bar; {time.time() - started:.0f} s"
    )
    for row in missed:
        print(line(row), *(f"{name}: {count}" for name, count in row.outside.items()))
    return 1 if missed else 0


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Soundness and tightness of the reference's bounds.")
    parser.add_argument("--quick", action="store_true", help="small arrays, one compilation, few lengths and types")
    parser.add_argument("--only", nargs="*", metavar="OPERATION")
    parser.add_argument("--dtype", nargs="*", choices=("f32", "bf16", "f16"))
    parser.add_argument("--elements", type=int, default=1_000_000, help="terms of a sum count as elements")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    return parser.parse_args()


def results(names: list[str], arguments: argparse.Namespace) -> Iterable[list[Figures]]:
    if arguments.quick or len(names) == 1 or arguments.jobs == 1:
        return (figures(name, arguments) for name in names)
    pool = ProcessPoolExecutor(arguments.jobs, mp_context=get_context("spawn"))
    return pool.map(figures, names, [arguments] * len(names))


def line(row: Figures) -> str:
    limit = "" if row.limit == float("inf") else f"{row.limit:.0f}"
    return (
        f"{row.operation:22}{row.dtype:6}{row.inputs:10}{row.length:6}{row.variants:9}{row.elements:10}"
        f"{row.undecided:10}{sum(row.outside.values()):9}{row.ratio:10.1f}{row.compiled:11.1f}{row.worst:7.2f}{limit:>7}"
        f"{'' if row.met else '  MISSED'}"
    )


if __name__ == "__main__":
    sys.exit(main())
