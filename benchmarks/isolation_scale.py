"""How long do parsing, cutting, telling apart, dealing out and planning inputs take, of ever larger graphs?

    python benchmarks/isolation_scale.py [--sizes 1000,10000,100000] [--copies all|few|flat]

Each module repeats optimized programs (those of tests/isolate/graph/programs: XLA:CPU's and libtpu's, with loops, sorts
and chains), every copy under names of its own, until it has that many instructions. What a fusion computes is scaled by
a constant more than it was, which is its copy's own (`--copies all`), so that distinct pieces grow with the module, or
one of 8 (`few`). `flat`: one computation as it is before optimization, where every instruction is a piece. Each size
runs in a process of its own. Printed: seconds of CPU and of the wall, and the peak of resident memory. Exits with
status 1 where the largest takes 60 s or 3 GB (of CPU and in all), or a distinct piece of the largest takes 1.5 times
what one of the size before takes (all, flat).
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from assay.hlo.attributes import called
from assay.hlo.literal import Literal
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.parse import parse_module
from assay.hlo.printer import print_module, print_shape
from assay.hlo.shape import ArrayShape, Layout
from assay.inputs.ranges import domains
from assay.isolate.graph.cut import cut
from assay.isolate.graph.keys import dedupe
from assay.isolate.graph.shards import Shard, share

PROGRAMS = sorted((Path(__file__).parents[1] / "tests" / "isolate" / "graph" / "programs").glob("*.hlo"))
MOST_SECONDS, MOST_BYTES, MOST_GROWTH = 60, 3 << 30, 1.5
FEW = 8
STEPS = ("parse", "cut", "dedupe", "shard", "inputs")

_NAME = re.compile(r"%([\w.-]+)")
_ONE = re.compile(r"(%varied\.[^ ]+ = [^ ]+ constant\()1\)")


def module_text(size: int, copies: str) -> str:
    """A module of at least `size` instructions: each copy of a program is called once by the entry."""
    modules = [scaled(parse_module(path.read_text())) for path in PROGRAMS]
    programs = [(module, print_module(module).split("\n\n", 1)[1]) for module in modules]
    entries = [module.entry for module in modules]
    lines = [
        f"  %x.{kind}.{p.parameter_number} = {print_shape(p.shape)} parameter("
        for kind, entry in enumerate(entries)
        for p in entry.parameters
    ]
    lines = [f"{line}{number})" for number, line in enumerate(lines)]
    parts, results, count, copy = [], [], 0, 0
    while count < size:
        kind, variant = copy % len(programs), copy // len(programs)
        module, text = programs[kind]
        text = varied(text, variant if copies == "all" else variant % FEW)
        parts.append(_NAME.sub(rf"%\1.c{copy}", text).replace("\nENTRY ", "\n"))
        operands = ", ".join(f"%x.{kind}.{p.parameter_number}" for p in entries[kind].parameters)
        shape = print_shape(entries[kind].root.shape)
        results.append((f"%call.{copy}", shape))
        lines.append(f"  %call.{copy} = {shape} call({operands}), to_apply=%{entries[kind].name}.c{copy}")
        count += sum(len(c.instructions) for c in module.computations)
        copy += 1
    root = f"  ROOT %all = ({', '.join(s for _, s in results)}) tuple({', '.join(name for name, _ in results)})"
    return "\n".join(["HloModule repeated, is_scheduled=true\n", *parts, "ENTRY %whole {", *lines, root, "}", ""])


def flat_text(size: int) -> str:
    """A polynomial by Horner's rule: constants, broadcasts, products and sums in one computation."""
    lines = ["HloModule flat, is_scheduled=true\n", "ENTRY %e {", "  %x0 = f32[64]{0} parameter(0)"]
    for i in range(1, size // 4 + 1):
        lines += [
            f"  %c{i} = f32[] constant({i}.5)",
            f"  %b{i} = f32[64]{{0}} broadcast(%c{i}), dimensions={{}}",
            f"  %m{i} = f32[64]{{0}} multiply(%x{i - 1}, %x0)",
            f"  %x{i} = f32[64]{{0}} add(%m{i}, %b{i})",
        ]
    return "\n".join([*lines, "}", ""])


def scaled(module: Module) -> Module:
    """With a multiplication by 1 at the end of every fusion that gives one array of floats."""
    fused = {name for c in module.computations for i in c.instructions if i.opcode == "fusion" for name in called(i)}
    return replace(module, computations=tuple(_scaled(c) if c.name in fused else c for c in module.computations))


def _scaled(computation: Computation) -> Computation:
    root = computation.root
    if not isinstance(root.shape, ArrayShape) or not root.shape.dtype.is_float:
        return computation
    scalar = replace(root.shape, dims=(), layout=Layout(()), dynamic=())
    one = Instruction(f"varied.{computation.name}", "constant", scalar, literal=Literal("1"))
    ones = Instruction(f"{one.name}.s", "broadcast", root.shape, (one.name,), {"dimensions": "{}"})
    product = Instruction(f"{one.name}.m", "multiply", root.shape, (root.name, ones.name))
    return replace(computation, instructions=(*computation.instructions, one, ones, product), root_name=product.name)


def varied(text: str, variant: int) -> str:
    """The program with another constant in every fusion: 1 + variant / 128, which bf16 holds up to 128."""
    return _ONE.sub(rf"\g<1>{1 + variant / 128})", text) if variant else text


def measure(size: int, copies: str) -> dict[str, object]:
    text = flat_text(size) if copies == "flat" else module_text(size, copies)
    cpu: dict[str, float] = {}
    wall: dict[str, float] = {}

    @contextmanager
    def timed(name: str) -> Iterator[None]:
        start = time.process_time(), time.monotonic()
        yield
        cpu[name], wall[name] = time.process_time() - start[0], time.monotonic() - start[1]

    with timed("parse"):
        module = parse_module(text)
    with timed("cut"):
        found = cut(module)
    with timed("dedupe"):
        pieces = dedupe(found)
    with timed("shard"):
        mine = share(pieces, Shard(1, 16))
    with timed("inputs"):
        planned = sum(len(domains(d.piece.module)) for d in pieces)
    return {
        "instructions": sum(len(c.instructions) for c in module.computations),
        "pieces": len(found.pieces),
        "distinct": len(pieces),
        "shard": len(mine),
        "parameters": planned,
        "cpu": cpu,
        "wall": wall,
        "bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", default="1000,10000,100000")
    parser.add_argument("--copies", default="all", choices=("all", "few", "flat"))
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one, options.copies)))
        return 0
    print(f"{'instructions':>12} {'pieces':>8} {'distinct':>8}" + "".join(f"{s:>9}" for s in STEPS)
          + f"{'CPU s':>9}{'wall s':>9}{'MB':>7}{'ms/distinct':>13}")  # fmt: skip
    rows = []
    for size in map(int, options.sizes.split(",")):
        command = [sys.executable, __file__, "--one", str(size), "--copies", options.copies]
        row = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
        total, wall = sum(row["cpu"].values()), sum(row["wall"].values())
        row["total"], row["each"] = total, total / row["distinct"]
        print(f"{row['instructions']:>12} {row['pieces']:>8} {row['distinct']:>8}"
              + "".join(f"{row['cpu'][s]:>9.2f}" for s in STEPS)
              + f"{total:>9.1f}{wall:>9.1f}{row['bytes'] >> 20:>7}{1000 * row['each']:>13.2f}", flush=True)  # fmt: skip
        rows.append(row)
    last = rows[-1]
    bad = last["total"] >= MOST_SECONDS or last["bytes"] >= MOST_BYTES
    if len(rows) > 1 and options.copies != "few":
        growth = last["each"] / rows[-2]["each"]
        print(f"a distinct piece of the largest takes {growth:.2f} times what one of the size before takes")
        bad |= growth > MOST_GROWTH
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
