"""Is the stand-alone cut of a TPU kernel the kernel? Final bundles, line by line, of every distinct fusion.

    python benchmarks/isolation_same_kernel.py PROGRAM.hlo ... [--target tpu:v5e] [--toolchain jax==V,libtpu==W]
                                               [--every] [--out rows.jsonl]

Each program, HLO text before optimization, is compiled ahead of time with its LLO. Every fusion that has a kernel, in
the entry and in bodies of loops, is then written as a program of its own (`assay.isolate.graph.tpu_form`), compiled,
and its final bundles are compared with those in the whole program, names and numbers of allocations renumbered. Others
than fusions are cut with --every. Those that differ are listed. Exit status 1 where fewer than 97 % are the same.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "llo_conformance"))

from compiling import Compiler, Made

from assay.errors import AssayError
from assay.hlo.printer import print_for_compiler
from assay.isolate.graph.kernels import Kernel, kernels
from assay.isolate.graph.same_kernel import difference
from assay.isolate.graph.tpu_form import FLAGS, tpu_form
from assay.programs.program import Program, from_hlo
from assay.toolchain import RequestRefused, WorkerDied

BAR = 0.97


def judged(made: Made, kernel: Kernel, alone: Compiler) -> tuple[str, str]:
    """(same, differs, refused or unsupported; why)"""
    try:
        text = print_for_compiler(tpu_form(kernel.alone))
        program = Program("alone", text.encode())
        found = alone.payload(program, text, "hlo-text")
    except (RequestRefused, WorkerDied) as why:
        return "refused", str(why)
    except AssayError as why:
        return "unsupported", str(why)
    files = found.dump.kernel(kernel.name)
    if files is None:
        return "refused", f"no kernel of that name: {', '.join(found.dump.kernels)}"
    differs = difference(kernel.files, files)
    return ("differs" if differs else "same"), differs


def main() -> int:
    parser = argparse.ArgumentParser(description="Is the stand-alone cut of a TPU kernel the kernel?")
    parser.add_argument("programs", nargs="+", type=Path)
    parser.add_argument("--target", default="tpu:v5e")
    parser.add_argument("--toolchain", default=None, metavar="jax==V,libtpu==W")
    parser.add_argument("--every", action="store_true", help="kernels of other opcodes too")
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--keep", type=Path, default=None, metavar="FOLDER", help="keep the dumps there")
    given = parser.parse_args()
    generation = given.target.removeprefix("tpu:")
    total: Counter[str] = Counter()
    rows = []
    keep = [None, None] if given.keep is None else [given.keep / "whole", given.keep / "alone"]
    with (
        Compiler(given.toolchain, generation, keep[0]) as whole,
        Compiler(given.toolchain, generation, keep[1], FLAGS) as alone,
    ):
        for path in given.programs:
            start = time.monotonic()
            text = path.read_text()
            made = whole.compile(from_hlo(path.name.split(".")[0], text, text.encode(), "hlo-text"))
            chosen = [k for k in kernels(made.module, made.dump) if given.every or k.instruction.opcode == "fusion"]
            count: Counter[str] = Counter()
            for kernel in chosen:
                kind, why = judged(made, kernel, alone)
                count[kind] += 1
                rows.append({"program": path.name, "kernel": kernel.name, "kind": kind, "why": why})
                if kind != "same":
                    inside = "" if kernel.computation == made.module.entry_name else f" in {kernel.computation}"
                    print(f"    {kernel.name}{inside}: {kind}: {why[:300]}", flush=True)
            bodies = sum(k.computation != made.module.entry_name for k in chosen)
            print(
                f"{path.name.split('.')[0]:<20}{len(chosen)} kernels, {bodies} in bodies: {dict(count)}, "
                f"{time.monotonic() - start:.0f} s",
                flush=True,
            )
            total += count
    share = total["same"] / max(total.total(), 1)
    print(f"{given.target}: {total.total()} distinct kernels, {share:.1%} the same alone; {dict(total)}")
    if given.out is not None:
        given.out.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return 0 if share >= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
