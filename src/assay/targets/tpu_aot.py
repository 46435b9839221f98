"""XLA:TPU with no TPU: libtpu compiles ahead of time in the worker's process; nothing is run.

Known: the worker calls libtpu's PJRT C API itself (`assay.toolchain.worker.pjrt`), so jax need not fit the libtpu, and
two forms of program go in. StableHLO goes in as jax gives it, and the same optimized HLO comes out. HLO is optimized
unless it is scheduled; a scheduled module goes straight to the backend with its tiled layouts, memory spaces and window
configs as they stand.

`options` are XLA debug options and libtpu's own (`xla_tpu_...`) for one compilation. Flags of LLO are libtpu's alone
and the process's, so a compilation with `llo` has a fresh child of the worker.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from assay.errors import InputError, ToolchainError
from assay.targets.dumps import LIMIT_BYTES, watched
from assay.toolchain.outcomes import AheadOfTime, RequestRefused, WorkerDied, one_line
from assay.toolchain.session import Kind, Worker

__all__ = ["GENERATIONS", "LLO_PASSES", "AheadOfTime", "compile", "start"]

# The smallest topology that libtpu describes for each; one device of it is compiled for.
GENERATIONS: Mapping[str, str] = MappingProxyType(
    {"v4": "v4:2x2x1", "v5e": "v5e:2x2", "v5p": "v5p:2x2x1", "v6e": "v6e:2x2", "tpu7x": "tpu7x:2x2x1"}
)
LLO_PASSES = "original|post-delay-converter|final_bundles|deduplication-map"
"""By label; of some 70 files a kernel these are left, and the dump is 15 times smaller."""
LLO_FOLDER = "llo"


def compile(
    worker: Worker,
    payload: str | bytes,
    kind: Kind,
    generation: str,
    options: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
    dump: Path | None = None,
    llo: bool = False,
    llo_passes: str = LLO_PASSES,
    flags: Sequence[str] = (),
    dump_limit: int = LIMIT_BYTES,
) -> AheadOfTime:
    """The optimized HLO, and in `dump`, which must be an empty folder or none yet, every snapshot on the way to it.

    llo: whether the LLO of every kernel is dumped too, into `dump/llo`, after the passes that the regular expression
    `llo_passes` matches. flags: of libtpu for the worker's process. Raises WorkerDied and RequestRefused, which are
    about the program; InputError for an unknown generation, DumpLimit where more than `dump_limit` bytes would be
    dumped, ToolchainError where the toolchain has no libtpu that works.
    """
    topology = _topology(generation)
    if dump is None:
        if llo:
            raise InputError("LLO is only dumped: name a folder for it")
        _start(worker, topology, flags)
        with _fitting(worker):
            return worker.compile_for_tpu(payload, kind, topology, options, flags, timeout_s)
    init_args = [*flags, *(_llo_flags(dump, llo_passes) if llo else ())]
    with watched(dump, dump_limit) as watch, _fitting(worker):
        _start(worker, topology, init_args)
        return worker.compile_for_tpu(payload, kind, topology, options, init_args, timeout_s, dump, watch)


def start(worker: Worker, generation: str, flags: Sequence[str] = ()) -> tuple[int, int]:
    """Loads libtpu before there is a program; the version of its PJRT API. Raises what `compile` does for its own
    reasons.
    """
    return _start(worker, _topology(generation), flags)


def _topology(generation: str) -> str:
    if generation not in GENERATIONS:
        raise InputError(f"no TPU generation {generation!r}; there is {', '.join(GENERATIONS)}")
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise ToolchainError(
            f"libtpu is for x86-64 Linux, this is {platform.system()} on {platform.machine()}: use another machine"
        )
    return GENERATIONS[generation]


def _llo_flags(dump: Path, passes: str) -> list[str]:
    folder = dump.absolute() / LLO_FOLDER
    if any(character.isspace() for character in str(folder)):
        raise InputError(f"{folder}: libtpu takes no folder with a space in its name for LLO; name another")
    return [
        f"--xla_jf_dump_to={folder}",
        "--xla_jf_dump_llo_text=true",
        f"--xla_jf_dump_llo_pass_label_regex={passes}",
    ]


def _start(worker: Worker, topology: str, flags: Sequence[str]) -> tuple[int, int]:
    """What is about the toolchain and not about a program, as a ToolchainError that says what to do."""
    spec = worker.toolchain.spec
    try:
        return worker.start_libtpu(topology, flags)
    except RequestRefused as refused:
        if refused.type == "NoLibtpu":
            named = "jax==VERSION" if spec == "host" else spec
            what = f"name a toolchain that has it (--toolchain {named},libtpu==VERSION)"
            what = f"pip install 'assay-xla[tpu]', or {what}" if spec == "host" else what
            raise ToolchainError(f"{spec} has no libtpu: {what}") from refused
        raise ToolchainError(f"{spec}: {one_line(refused.message, 300)}; try another libtpu") from refused
    except WorkerDied as death:
        said = one_line(death.stderr_tail[-1], 200) if death.stderr_tail else "it said nothing"
        given = f" with {' '.join(flags)}" if flags else ""
        raise ToolchainError(f"{spec}: libtpu does not start{given} ({death.detail}): {said}") from death


@contextmanager
def _fitting(worker: Worker) -> Iterator[None]:
    """A jaxlib and a libtpu that do not understand each other say nothing of the program."""
    try:
        yield
    except RequestRefused as refused:
        if refused.type != "LibtpuDoesNotFit":
            raise
        raise ToolchainError(
            f"{worker.toolchain.spec}: {one_line(refused.message, 300)}; take a jax and a libtpu of about one time"
        ) from refused
