"""Where below HLO a program for a TPU goes wrong: the pass over LLO, or the making of LLO itself."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from assay.checking import api
from assay.checking.simulated import dumped
from assay.errors import AssayError
from assay.hlo.module import Module
from assay.inputs.arguments import save_arguments
from assay.kernels import ALL_PASSES, Dumped, diff
from assay.llo.kernel import LIMIT
from assay.programs.program import Array
from assay.reduce import Still
from assay.reduce.still import program_of
from assay.targets.dumps import scratch
from assay.toolchain import WorkerDied

STAGE_S = 60.0
EMITTER = "LLO emitter"
"""What makes LLO of a fusion: wrong where all stages after it give what it gives."""


def stage_of(module: Module, arguments: Sequence[Array], still: Still) -> str:
    """The label of the first LLO pass after which a kernel gives something else on what the program hands to it,
    EMITTER where none does; empty where it cannot be said.
    """
    generation = api.generation_of(still.request.target)
    assert generation is not None  # nothing else has LLO
    program = program_of(module, arguments, still.request)
    worker = still.workers.get()
    try:
        with scratch() as folder:
            options, flags = still.settings.options, still.request.flags
            _, dump = dumped(worker, program.payload, program.kind, generation, options, flags, folder, ALL_PASSES)
            inputs = folder / "inputs.npz"
            save_arguments(inputs, arguments)
            request = replace(still.request, inputs=inputs)
            end = time.monotonic() + STAGE_S
            found = diff(Dumped("program", dump), request, None, LIMIT, end, lambda _: None)
    except (AssayError, WorkerDied):
        return ""
    finally:
        still.workers.put(worker)
    label = next((kernel.difference.stage for kernel in found if kernel.difference is not None), None)
    if label is not None:
        return f"LLO pass {label.partition(' ')[2]}"
    return "" if any(kernel.verdict == "unverified" for kernel in found) else EMITTER
