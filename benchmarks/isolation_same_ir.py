"""Does XLA:CPU make the same machine code of a piece alone as it made of it in its graph?

    python benchmarks/isolation_same_ir.py model.hlo ... [--toolchain jax==0.10.2] [--plain]

Each program (an HLO module before optimization) is compiled whole and cut, and every distinct piece compiled alone; the
functions in the object files are compared. `--plain`: without giving results the memory of operands where they have it
in the graph. Prints the share of the distinct pieces that have code at all, and of each other one the reason. Exits
with status 1 where the share over all programs is under 97 %.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

from assay.hlo.parse import parse_module
from assay.isolate.graph import cpu_memory
from assay.isolate.graph.cut import cut
from assay.isolate.graph.keys import dedupe
from assay.isolate.graph.same_ir import CODE_ALONE, read, same_ir
from assay.targets import cpu
from assay.targets.dumps import scratch
from assay.toolchain import Limits, Worker, resolve


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("programs", nargs="+", type=Path)
    parser.add_argument("--toolchain", default=None)
    parser.add_argument("--plain", action="store_true")
    options = parser.parse_args()
    total: Counter[bool | None] = Counter()
    with Worker(resolve(options.toolchain), limits=Limits(timeout_s=600)) as worker:
        for path in options.programs:
            total += of_program(worker, path, options.plain)
    known = total[True] + total[False]
    print(f"all: {total[True]} of {known} distinct pieces that have code are the same, {total[True] / known:.1%}")
    return 0 if total[True] >= 0.97 * known else 1


def of_program(worker: Worker, path: Path, plain: bool) -> Counter[bool | None]:
    start = time.monotonic()
    with scratch() as folder:
        compiled = cpu.compile(worker, path.read_text(), "hlo-text", CODE_ALONE, dump=folder / "whole")
        worker.release(compiled)
        whole = read(folder / "whole")
        graph = cut(parse_module(compiled.hlo))
        pieces = dedupe(graph if plain else cpu_memory.as_in_graph(graph, cpu_memory.read(folder / "whole")))
    found = {d.piece.name: same_ir(worker, whole, d.piece) for d in pieces}
    counts = Counter(same for same, _ in found.values())
    known = counts[True] + counts[False]
    seconds = time.monotonic() - start
    print(f"{path.name}: {len(graph.pieces)} pieces, {len(pieces)} distinct; {counts[True]} of {known} the same code;"
          f" {counts[None]} without code; {seconds:.0f} s", flush=True)  # fmt: skip
    for name, (same, why) in found.items():
        if same is False or (same is None and "library" not in why):
            print(f"    {name}: {why}", flush=True)
    return counts


if __name__ == "__main__":
    sys.exit(main())
