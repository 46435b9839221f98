"""One case from its function to its row, in whatever process."""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from cases import all_cases
from compiling import Compiler
from judging import SIMULATED, STAGES, Judge, same_bits, simulate

from assay.checking import api
from assay.errors import AssayError
from assay.inputs.generate import generate
from assay.toolchain import RequestRefused, WorkerDied

COMPILERS: list[Compiler] = []
"""Of this process; one."""


def of(arguments: argparse.Namespace) -> list[Any]:
    """What a row is of, but for its case."""
    return [arguments.target, arguments.toolchain, arguments.input_class, arguments.seed]


def one(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """The row of one case."""
    generation = arguments.target.removeprefix("tpu:")
    if not COMPILERS:
        keep = None if arguments.keep is None else Path(arguments.keep)
        COMPILERS.append(Compiler(arguments.toolchain, generation, keep))
    (compiler,) = COMPILERS
    case = next(c for c in all_cases() if c.name == name)
    row: dict[str, Any] = {"name": name, "family": case.family, "of": of(arguments), "target": arguments.target}
    row["libtpu"] = compiler.versions.get("libtpu")
    start = time.monotonic()
    try:
        made = compiler.compile(compiler.function(case.function, case.arguments, name))
    except (RequestRefused, WorkerDied) as refused:
        return row | {"verdict": "refused", "why": str(refused)[:500]}
    except AssayError as error:
        return row | {"verdict": "uncompiled", "why": f"{type(error).__name__}: {error}"[:500]}
    row["compile_s"] = time.monotonic() - start
    request = api.Request(target=arguments.target, seed=arguments.seed)
    settings = api.settings_for(request, compiler.versions)
    assert made.program.module is not None
    inputs = generate(made.program.module, arguments.seed, arguments.input_class)
    judge = Judge(made.program.module, made.module, inputs, settings)
    stages = {stage: simulate(judge, made.dump, generation, stage) for stage in STAGES}
    row |= {stage: found.row() for stage, found in stages.items()}
    row["same_bits"] = same_bits(*stages.values()) if all(s.verdict in SIMULATED for s in stages.values()) else None
    row["seconds"] = time.monotonic() - start
    compiler.forget(made)
    return row
