"""Whole programs through the LLO simulator: every kernel, and the program from its inputs to its outputs.

    python benchmarks/llo_models.py PROGRAM.hlo ... [--target tpu:v5e|tpu:v6e] [--toolchain jax==V,libtpu==W]
                                    [--out rows.jsonl] [--keep FOLDER] [--seconds S]

Each program, HLO text before optimization, is compiled ahead of time and run at the stages `original` and `final` on
drawn inputs. Every kernel that runs is judged by the reference's bounds of its own instruction, on the very operands
that it had; the outputs are judged by the bounds of the program. Rows go to --out, one a program; what is there is not
run again. On a v6e gathers and scatters are kept on the TensorCore: SparseCores are not modelled. Exit status 1 where
fewer than 98 % (v5e) or 90 % (v6e) of the kernels are simulated and inside, or an output is not.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "llo_conformance"))

import numpy as np
from compiling import Compiler, Made
from judging import STAGES, Judge, simulate, verdict_of

from assay.checking import api
from assay.checking.bounds import Bounds, Settings
from assay.errors import AssayError
from assay.hlo.attributes import called, word
from assay.hlo.graph import reachable
from assay.hlo.module import Computation, Instruction, Module
from assay.inputs.generate import generate
from assay.llo.module import Value, pairs
from assay.programs.program import from_hlo

BARS = {"tpu:v5e": 0.98, "tpu:v6e": 0.9}


@dataclass
class Watcher:
    """Judges each kernel the first time that it runs. outside, unjudged: name -> why."""

    module: Module
    settings: Settings
    inside: set[str] = field(default_factory=set)
    outside: dict[str, str] = field(default_factory=dict)
    unjudged: dict[str, str] = field(default_factory=dict)

    def __call__(
        self, computation: Computation, instruction: Instruction, operands: Sequence[Value], result: Value
    ) -> None:
        name = instruction.name
        if name in self.inside or name in self.outside or name in self.unjudged:
            return
        if instruction.opcode == "custom-call" and word(instruction, "custom_call_target") == "AllocateBuffer":
            self.inside.add(name)  # memory without a value yet
            return
        alone = piece(self.module, computation, instruction)
        given = dict(zip(instruction.operands, operands, strict=True))
        arguments = [pair.first for value in given.values() for pair in pairs(value)]
        bounds = Bounds(alone, arguments, self.settings, flushed=True)
        verdict, why, _ = verdict_of(bounds, [np.asarray(pair.first) for pair in pairs(result)])
        if verdict == "mismatch":
            self.outside[name] = why
        elif verdict == "unjudged":
            self.unjudged[name] = why
        else:
            self.inside.add(name)


def piece(module: Module, computation: Computation, instruction: Instruction) -> Module:
    """One instruction as a program of its own, whose parameters are its operands."""
    names = list(dict.fromkeys(instruction.operands))
    parameters = [
        Instruction(name, "parameter", computation.by_name[name].shape, parameter_number=number)
        for number, name in enumerate(names)
    ]
    entry = Computation("alone", (*parameters, instruction), instruction.name)
    inner = {c.name: c for name in called(instruction) for c in reachable(module, name)}
    return Module(instruction.name, (*inner.values(), entry), entry.name)


def run(path: Path, compiler: Compiler, target: str, seconds: float) -> dict[str, Any]:
    """The row of one program."""
    start = time.monotonic()
    text = path.read_text()
    program = from_hlo(path.name.split(".")[0], text, text.encode(), "hlo-text")
    made = compiler.compile(program)
    settings = api.settings_for(api.Request(target=target), compiler.versions)
    assert program.module is not None
    judge = Judge(program.module, made.module, generate(program.module, 0), settings)
    row: dict[str, Any] = {"name": program.name, "target": target, "libtpu": compiler.versions.get("libtpu")}
    row["compile_s"] = time.monotonic() - start
    for stage in STAGES:
        row[stage] = _stage(judge, made, compiler.generation, stage, seconds)
    compiler.forget(made)
    return row


def _stage(judge: Judge, made: Made, generation: str, stage: str, seconds: float) -> dict[str, Any]:
    watcher = Watcher(made.module, judge.settings)
    found = simulate(judge, made.dump, generation, stage, seconds, on_kernel=watcher)
    ran = found.runs
    bad = {k.name: f"{k.kind}: {k.why}" for k in ran if k.kind != "simulated"}
    return found.row() | {
        "run": len(ran),
        "simulated": sum(k.kind in ("simulated", "unwritten") for k in ran),
        "inside": len(watcher.inside - bad.keys()),
        "outside": watcher.outside,
        "unjudged": watcher.unjudged,
        "bad": bad,
        "idle": sorted(set(made.dump.kernels) - {files.name for k in ran if (files := made.dump.kernel(k.name))}),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="Whole programs through the LLO simulator.")
    parser.add_argument("programs", nargs="+", type=Path)
    parser.add_argument("--target", default="tpu:v5e", choices=tuple(BARS))
    parser.add_argument("--toolchain", default=None, metavar="jax==V,libtpu==W")
    parser.add_argument("--out", type=Path, default=Path("llo_models.jsonl"))
    parser.add_argument("--keep", type=Path, default=None, metavar="FOLDER", help="keep the dumps there")
    parser.add_argument("--seconds", type=float, default=1800.0, help="for one simulation")
    given = parser.parse_args()
    rows = {}
    if given.out.exists():
        rows = {row["name"]: row for row in map(json.loads, given.out.read_text().splitlines())}
    with (
        Compiler(given.toolchain, given.target.removeprefix("tpu:"), given.keep) as compiler,
        given.out.open("a") as out,
    ):
        for path in given.programs:
            name = path.name.split(".")[0]
            if name not in rows:
                try:
                    rows[name] = run(path, compiler, given.target, given.seconds)
                except AssayError as error:
                    print(f"{name}: {type(error).__name__}: {error}", flush=True)
                    continue
                out.write(json.dumps(rows[name]) + "\n")
                out.flush()
            tell(rows[name])
    return summary([rows[n] for n in (p.name.split(".")[0] for p in given.programs) if n in rows], given)


def tell(row: dict[str, Any]) -> None:
    for stage in STAGES:
        r = row[stage]
        print(
            f"{row['name']:<20}{stage:<10}{r['run']:>5} kernels, {r['simulated']} simulated, {r['inside']} inside, "
            f"{len(r['idle'])} never reached; {r['steps']:,} records in {r['seconds']:.1f} s; outputs: {r['verdict']} "
            f"{r['why']}",
            flush=True,
        )
        for kind in ("bad", "outside", "unjudged"):
            for name, why in r[kind].items():
                print(f"    {kind} {name}: {why[:300]}")


def summary(rows: list[dict[str, Any]], given: argparse.Namespace) -> int:
    good = len(rows) == len(given.programs)
    for stage in STAGES:
        run_ = sum(row[stage]["run"] for row in rows)
        simulated = sum(row[stage]["simulated"] for row in rows) / max(run_, 1)
        inside = sum(row[stage]["inside"] for row in rows) / max(run_, 1)
        agree = sum(row[stage]["verdict"] == "agree" for row in rows)
        print(
            f"{given.target} {stage}: {run_} kernels, {simulated:.1%} simulated, {inside:.1%} simulated and inside; "
            f"{agree} of {len(rows)} programs agree"
        )
        good &= inside >= BARS[given.target] and agree == len(rows)
    print("within the bars" if good else "NOT within the bars")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
