"""A fault made by a pass inside XLA:CPU's own pipeline, which every later pass takes as it takes any other.

jax.extend.xla.register_hlo_module_transformation (in jax 0.10.2 and 0.12.0.1) runs a pass of one's own at two places of
XLA:CPU's pipeline, before the scheduler and after it; the dump calls it `apply-xla-transforms-` and a number.
It is registered in a process of its own, this file:

    python inside.py FOLDER SEED KIND...        compiles generated program SEED once for each kind, into FOLDER/0, ...
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from assay.errors import ToolchainError

PLACE = "apply-xla-transforms-"
DUMP = {
    "xla_dump_hlo_as_text": True, "xla_dump_hlo_pass_re": ".*", "xla_dump_large_constants": True,
}  # fmt: skip
TIMEOUT_S = 600.0


def compiled(folder: Path, seed: int, kinds: Sequence[str]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """For each kind that has a place in the program, the dump and what was planted."""
    command = [sys.executable, str(Path(__file__)), str(folder), str(seed), *kinds]
    env = {**os.environ, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, env=env)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise ToolchainError(f"program {seed} with a pass of its own does not compile: {last}")
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            row = json.loads(line)
            yield folder / str(row["folder"]), row


def main() -> None:
    import jax
    from faults import FAULTS
    from generated import program
    from jax.extend import xla

    folder, seed, kinds = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    function, arguments = program(seed)
    lowered = jax.jit(function, keep_unused=True).lower(*arguments)
    for number, kind in enumerate(kinds):
        rng = np.random.default_rng([seed, list(FAULTS).index(kind)])
        stage = list(xla.PipelineStage)[int(rng.integers(2))]
        planted: dict[str, Any] = {}

        def callback(
            proto: bytes, kind: str = kind, rng: np.random.Generator = rng, into: Any = planted
        ) -> bytes | None:
            return _faulty(proto, kind, rng, into)

        name = f"{PLACE}{number}"
        xla.register_hlo_module_transformation(callback, name=name, stage=stage, platforms="cpu")
        try:
            options = {**DUMP, "xla_dump_to": str(folder / str(number))}
            with contextlib.suppress(jax.errors.JaxRuntimeError):  # what the backend refuses is no trial
                lowered.compile(options)
                if planted:
                    print(json.dumps({"folder": number, "kind": kind, "stage": stage.value, **planted}), flush=True)
        finally:
            xla.clear_hlo_module_transformation(name, stage=stage, platforms="cpu")


def _faulty(proto: bytes, kind: str, rng: np.random.Generator, into: dict[str, Any]) -> bytes | None:
    """The module with the fault at a random place; None where it has none."""
    from carry import edited, places
    from faults import FAULTS
    from jaxlib import _hlo

    from assay.hlo.parse import parse_module
    from assay.hlo.printer import print_for_compiler

    options = _hlo.HloPrintOptions()
    options.print_large_constants = True
    module = parse_module(_hlo.HloModule.from_serialized_hlo_module_proto(proto).to_string(options))
    found = places(module, FAULTS[kind])
    if not found:
        return None
    computation, instruction = found[int(rng.integers(len(found)))]
    made = edited(module, FAULTS[kind], computation, instruction)
    assert made is not None
    into.update(instruction=instruction, opcode=module.by_name[computation].by_name[instruction].opcode)
    serialized: bytes = _hlo.hlo_module_from_text(print_for_compiler(made)).as_serialized_hlo_module_proto()
    return serialized


if __name__ == "__main__":
    main()
