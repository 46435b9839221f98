"""What the generator is worth, beside NNSmith's in one run.

    python benchmarks/generation [--nnsmith PYTHON] [--seconds 30] [--reach 50000] [--skip-tests]

PYTHON has NNSmith 0.1.0 and TensorFlow in it:

    python3.11 -m venv nn
    nn/bin/pip install nnsmith==0.1.0 tensorflow-cpu==2.15.1 'numpy<2' 'protobuf<5' z3-solver==4.12.6.0

Forms of operations; programs sampled a second of the processor, at 5, 10 and 20 operations; tests a second from the
choice of the program to its verdict on XLA:CPU, reference and bounds included, in batches as `assay fuzz` has them,
with all operations and with those alone that NNSmith has too; both tools at our budget of elements an array. How many
dimensions lie at a TPU's tiles or one off; which pairs of operations meet, one giving an operand of the other, within
--reach programs. The two tools run by turns, so that other work on the machine weighs on both. The bars: 120 forms, 20
times NNSmith's sampling, 5 times its tests, 30 % of dimensions at tiles.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from assay.campaign.batch import Member
from assay.campaign.screen import Screen
from assay.checking import api
from assay.generate import Grammar, for_target, generated
from assay.generate.form import REGISTRY
from assay.generate.grammar import limited
from assay.generate.tour import pairs
from assay.oracle.verdict import FINDINGS, Verdict

SIZES = (5, 10, 20)
BATCH = 16
TILES = {t + d for t in (8, 16, 32, 64, 128, 256, 512) for d in (-1, 0, 1)}

ALIKE = (
    "neg", "abs", "sin", "cos", "tan", "asin", "acos", "atan", "sqrt", "log2", "exp2", "floor", "ceil", "relu",
    "gelu", "logistic", "max", "min", "add", "sub", "mul", "div", "and", "or", "xor", "not", "compare", "select",
    "clamp", "softmax", "reduce_add", "reduce_mul", "reduce_max", "reduce_min", "mean", "argmax", "convert", "pad",
    "slice", "reshape", "transpose", "expand_dims", "squeeze", "broadcast_in_dim", "concatenate", "triangle",
    "matmul", "conv_general_dilated", "reduce_window_max", "round even", "with a scalar", "average pool",
)  # fmt: skip
"""Operations that NNSmith has too."""
Peer = Callable[[str, int], dict[str, Any]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nnsmith", type=Path, help="the Python that NNSmith is installed in")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each tool in each row")
    parser.add_argument("--reach", type=int, default=50_000, help="programs in which pairs are looked for")
    parser.add_argument("--skip-tests", action="store_true", help="sample only")
    options = parser.parse_args()
    grammar = for_target("cpu")

    def peer(mode: str, nodes: int) -> dict[str, Any]:
        command = [
            options.nnsmith,
            Path(__file__).with_name("nnsmith_side.py"),
            mode,
            nodes,
            options.seconds,
            grammar.most,
        ]
        ran = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True)
        found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
        return found

    other = peer if options.nnsmith else None
    print(f"forms: {len(REGISTRY.forms)} (bar 120)")
    tiles()
    sampling(grammar, options.seconds, other)
    if not options.skip_tests:
        tests(grammar, options.seconds, other)
        print("with NNSmith's operations alone:")
        tests(limited(grammar, ALIKE, frozenset(REGISTRY.forms)), options.seconds, other)
    reach(grammar, options.reach)


def tiles() -> None:
    grammar = for_target("tpu:v5e")
    nodes = [n for i in range(2000) for n in generated(grammar, f"tiles/{i}", 10).plan.walk()]
    dims = [d for node in nodes for d in getattr(node.type, "dims", ())]
    share = sum(d in TILES for d in dims) / len(dims)
    print(f"tpu profile: {share:.1%} of {len(dims)} dimensions at a tile boundary or one off (bar 30 %)")


def sampling(grammar: Grammar, seconds: float, peer: Peer | None) -> None:
    pairs(grammar)  # made once a process
    for size in SIZES:
        begin, made = time.process_time(), 0
        while time.process_time() - begin < min(seconds, 5.0):
            generated(grammar, f"sampling/{made}", size)
            made += 1
        ours = made / (time.process_time() - begin)
        line = f"sampling, {size:2d} operations: {ours:.0f} programs a CPU-second"
        if peer is not None:
            theirs = peer("sample", size)
            rate = theirs["made"] / theirs["cpu"]
            line += (
                f"; NNSmith {rate:.1f} of {theirs['made']}, {theirs['failed']} failed: {ours / rate:.0f} times (bar 20)"
            )
        print(line, flush=True)


def tests(grammar: Grammar, seconds: float, peer: Peer | None) -> None:
    screen = Screen.of(api.Request(target="cpu"))
    try:
        for size in SIZES:
            screen.batch(members(grammar, size, -1), False)  # what a process does once
            begin, rows = time.perf_counter(), []
            while time.perf_counter() - begin < seconds:
                rows += screen.batch(members(grammar, size, len(rows) // BATCH), False)[0]
            ours = len(rows) / (time.perf_counter() - begin)
            judged = sum(row.verdict in (Verdict.AGREE, *FINDINGS) for row in rows)
            shown = sum(row.finite and not row.constant for row in rows)
            line = f"tests, {size:2d} operations: {ours:.2f} a second ({len(rows)}; {judged} judged, {shown} that show)"
            if peer is not None:
                theirs = peer("test", size)
                rate = theirs["made"] / theirs["seconds"]
                line += f"; NNSmith {rate:.2f} of {theirs['made']}: {ours / rate:.1f} times (bar 5)"
            print(line, flush=True)
    finally:
        screen.close()


def members(grammar: Grammar, size: int, batch: int) -> list[Member]:
    numbers = range(batch * BATCH, (batch + 1) * BATCH)
    made = [(n, generated(grammar, f"tests/{size}/{n}", size)) for n in numbers]
    return [Member(abs(n), program.plan, ("normal",), program.choices) for n, program in made]


def reach(grammar: Grammar, count: int) -> None:
    known, met, begin = set(pairs(grammar)), set[tuple[str, str]](), time.process_time()
    for number in range(count):
        met.update(generated(grammar, f"reach/{number}", 10, (0, number)).plan.edges())
        if number + 1 in (count // 10, count // 2, count):
            share = len(met & known) / len(known)
            print(f"pairs of forms met within {number + 1} programs: {share:.1%} of {len(known)}", flush=True)
    print(f"({time.process_time() - begin:.0f} CPU-seconds)")


if __name__ == "__main__":
    main()
