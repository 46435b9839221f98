"""XLA:CPU: compile in the worker, run in the worker, give the optimized HLO back.

Known: `options` are XLA debug options for one compilation; flags for the whole process are the Worker's. A program that
is already optimized (fusions, a schedule) goes through as it is only with `xla_disable_all_hlo_passes=true`, which the
caller has to give: XLA:CPU refuses scatter and fusions without backend_config then.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from assay.targets.dumps import LIMIT_BYTES, watched
from assay.toolchain.outcomes import Array, Compiled, RequestRefused
from assay.toolchain.session import Kind, Worker

LARGE_CONSTANTS = "xla_dump_large_constants"


@dataclass(frozen=True)
class Execution:
    """One program compiled and run.

    compiled: the executable with its optimized HLO (`compiled.hlo`). outputs: flat results in order.
    compile_s: wall seconds of XLA alone. run_s: wall seconds, moving the arrays to the worker and back included.
    """

    compiled: Compiled
    outputs: tuple[Array, ...]
    compile_s: float
    run_s: float


def compile(
    worker: Worker,
    payload: str | bytes,
    kind: Kind,
    options: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
    dump: Path | None = None,
    dump_limit: int = LIMIT_BYTES,
) -> Compiled:
    """The executable and its optimized HLO. Raises WorkerDied, RequestRefused.

    dump: an empty folder, or none yet, for a snapshot after every pass. A jaxlib that does not print large constants
    writes protos besides, which have them. DumpLimit where it would take more than `dump_limit` bytes.
    """
    if dump is None:
        return worker.compile(payload, kind, options, timeout_s)
    with watched(dump, dump_limit) as watch:
        try:
            return worker.compile(payload, kind, options, timeout_s, dump, watch)
        except RequestRefused as refused:
            if refused.type != "UnknownOption" or LARGE_CONSTANTS not in refused.message:
                raise
            wanted = {**(options or {}), LARGE_CONSTANTS: "", "xla_dump_hlo_as_proto": "true"}
            return worker.compile(payload, kind, wanted, timeout_s, dump, watch)


def run(worker: Worker, compiled: Compiled, arrays: Sequence[Array], timeout_s: float | None = None) -> list[Array]:
    """The flat results on `arrays`, one for each flat parameter, of its dtype and shape.

    Raises WorkerDied, RequestRefused, InputError, and StaleHandle where the worker's process is no longer the same.
    """
    return worker.run(compiled, arrays, timeout_s)


def execute(
    worker: Worker,
    payload: str | bytes,
    kind: Kind,
    arrays: Sequence[Array],
    options: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
) -> Execution:
    """Compile, run, forget. timeout_s: for the compilation and for the run, each."""
    compiled = compile(worker, payload, kind, options, timeout_s)
    start = time.monotonic()
    outputs = tuple(run(worker, compiled, arrays, timeout_s))
    run_s = time.monotonic() - start
    worker.release(compiled)
    return Execution(compiled, outputs, compiled.seconds, run_s)
