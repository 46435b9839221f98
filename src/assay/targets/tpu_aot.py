"""XLA:TPU with no TPU: libtpu compiles ahead of time in the worker's process; nothing is run.

Known: the worker calls libtpu's PJRT C API itself (`assay.toolchain.worker.pjrt`), so jax need not fit the libtpu, and
two forms of program go in. StableHLO is what jax gives it. HLO is optimized unless it is scheduled; a scheduled module
goes straight to the backend with its tiled layouts, memory spaces and window configs as they stand.

`options` are XLA debug options and libtpu's own (`xla_tpu_...`) for one compilation. Flags of LLO are libtpu's alone
and the process's, so a compilation with `llo` has a fresh child of the worker.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from assay.errors import InputError, ToolchainError
from assay.toolchain.outcomes import AheadOfTime, RequestRefused
from assay.toolchain.session import Kind, Worker

__all__ = ["GENERATIONS", "AheadOfTime", "compile"]

# The smallest topology that libtpu describes for each; one device of it is compiled for.
GENERATIONS: Mapping[str, str] = MappingProxyType(
    {"v4": "v4:2x2x1", "v5e": "v5e:2x2", "v5p": "v5p:2x2x1", "v6e": "v6e:2x2", "tpu7x": "tpu7x:2x2x1"}
)


def compile(
    worker: Worker,
    payload: str | bytes,
    kind: Kind,
    generation: str,
    options: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
    dump: Path | None = None,
    llo: bool = False,
) -> AheadOfTime:
    """The optimized HLO, and in `dump`, which must be an empty folder or none yet, every snapshot on the way to it.

    llo: whether the LLO of every kernel is dumped too, into `dump/llo`. Raises WorkerDied and RequestRefused, which are
    about the program; InputError for an unknown generation; ToolchainError where the toolchain has no libtpu that
    loads.
    """
    if generation not in GENERATIONS:
        raise InputError(f"no TPU generation {generation!r}; there is {', '.join(GENERATIONS)}")
    init_args: list[str] = []
    if dump is not None:
        dump.mkdir(parents=True, exist_ok=True)
        if any(dump.iterdir()):
            raise InputError(f"{dump}: not empty; a dump goes into a folder of its own")
    if llo:
        if dump is None:
            raise InputError("LLO is only dumped: name a folder for it")
        init_args = [f"--xla_jf_dump_to={dump / 'llo'}", "--xla_jf_dump_llo_text=true"]
    try:
        return worker.compile_for_tpu(payload, kind, GENERATIONS[generation], options, init_args, dump, timeout_s)
    except RequestRefused as refused:
        if refused.type == "NoLibtpu":
            raise ToolchainError(
                f"{worker.toolchain.spec} has no libtpu: pip install 'assay-xla[tpu]', or name a toolchain with one "
                "(jax==VERSION,libtpu==VERSION)"
            ) from refused
        if refused.type == "LibtpuDoesNotLoad":
            raise ToolchainError(f"{worker.toolchain.spec}: {refused.message}") from refused
        raise
