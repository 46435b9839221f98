"""Toolchains: versions on disk, the worker process that hosts one, and its protocol.

The idea: the compiler under test lives in another process, in another Python if need be. `Toolchain` names an installed
set of versions; `Worker` holds a process of it and answers typed requests (load, to_hlo, compile, run); the process may
abort, hang or eat the memory, and that is a fact about the program it was given, `WorkerDied`, not an error of ours.

The invariant: no module of this package imports jax, and after any request, however it ended, the same Worker takes
the next one.

    environments   which toolchains are installed; add, remove, resolve
    interpreters   which Pythons this machine has
    session        Worker: the typed requests
    process        the process behind it: frames, deadlines, memory, deaths
    pool           many programs over several workers
    outcomes       what comes back: programs, values, failures
    worker         what runs on the other side; the only place that knows jax
"""

from assay.toolchain.environments import Toolchain, host, resolve
from assay.toolchain.outcomes import (
    AheadOfTime,
    Argument,
    ArrayType,
    Compiled,
    Description,
    LoadedCase,
    LoadedFile,
    Problem,
    RequestRefused,
    StaleHandle,
    UserFileError,
    WorkerDied,
)
from assay.toolchain.pool import Outcome, run_many
from assay.toolchain.process import Limits
from assay.toolchain.session import Worker

__all__ = [
    "AheadOfTime",
    "Argument",
    "ArrayType",
    "Compiled",
    "Description",
    "Limits",
    "LoadedCase",
    "LoadedFile",
    "Outcome",
    "Problem",
    "RequestRefused",
    "StaleHandle",
    "Toolchain",
    "UserFileError",
    "Worker",
    "WorkerDied",
    "host",
    "resolve",
    "run_many",
]
