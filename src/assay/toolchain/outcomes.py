"""What a worker gives back: programs, values, and the ways in which a request ends badly.

Three ways, kept apart because they mean different things:
- `WorkerDied`: the process crashed, hung or outgrew its memory. A fact about the program; not an AssayError.
- `RequestRefused`: the compiler or jax raised: the program does not parse, an option is unknown, a type is unsupported.
- `UserFileError`: the user's own Python file raised, or lacks the function that was named.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from assay.errors import InputError, ProgramError, WorkerError

Array = np.ndarray[Any, np.dtype[Any]]
DeathKind = Literal["crash", "hang", "resource"]


@dataclass(frozen=True)
class ArrayType:
    """One flat parameter or result. `dtype` is XLA's name (`f32`, `bf16`, `s4`, `pred`, `token`, ...)."""

    dtype: str
    shape: tuple[int, ...]
    path: str = ""  # where it sits in the user's pytree: "[0]['w']"; empty for a single array


@dataclass(frozen=True)
class Argument:
    """One flat argument of a loaded case; `value` is None where the user gave only a shape."""

    type: ArrayType
    value: Array | None
    weak: bool  # a Python scalar, which jax types weakly


@dataclass(frozen=True)
class Problem:
    """An error on the user's side: exception type, message, and `file:line` in the user's file (or empty)."""

    type: str
    message: str
    where: str = ""

    def __str__(self) -> str:
        text = f"{self.type}: {one_line(self.message)}"
        return f"{self.where}: {text}" if self.where else text


@dataclass(frozen=True)
class LoadedCase:
    """One program of a user's file. Where `error` is set nothing else but the name is.

    stablehlo: bytecode exactly as jax lowers it; give it to `compile(..., "stablehlo")`.
    hlo: text of the unoptimized module, constants in full; parameters are the flat arguments in order.
    expected: the user's own expectation, one array for each result, or None where there is none or it does not fit the
    results (then `expected_error` says how).
    plain: of a program with Pallas kernels for a TPU, text of the module in which they are plain operations, as in
    Pallas' interpret mode; "" where there is none (`plain_error` says why).
    """

    name: str
    error: Problem | None = None
    stablehlo: bytes = b""
    hlo: str = ""
    plain: str = ""
    plain_error: str | None = None
    arguments: tuple[Argument, ...] = ()
    results: tuple[ArrayType, ...] = ()
    expected: tuple[Array, ...] | None = None
    expected_error: str | None = None


@dataclass(frozen=True)
class LoadedFile:
    """A user's file: its cases in order, whether jax's 64-bit mode was on, and the file's own RTOL or None."""

    path: str
    x64: bool
    rtol: float | None
    cases: tuple[LoadedCase, ...]


@dataclass(frozen=True)
class Compiled:
    """An executable in a worker: good until that worker's process ends.

    hlo: text of the optimized module, constants in full. parameters, results: tuples flattened, in order.
    seconds: wall time of the compilation alone.
    """

    hlo: str
    parameters: tuple[ArrayType, ...]
    results: tuple[ArrayType, ...]
    seconds: float
    handle: int = field(repr=False)
    child: int = field(repr=False)  # the process that holds it, by pid


@dataclass(frozen=True)
class AheadOfTime:
    """What a compiler made of a program for a device that is not there.

    hlo: text of the optimized, scheduled module, constants in full. parameters, results: tuples flattened, in order.
    seconds: wall time of the compilation alone. dump: the folder with what the compiler wrote during this compilation.
    """

    hlo: str
    parameters: tuple[ArrayType, ...]
    results: tuple[ArrayType, ...]
    seconds: float
    dump: Path | None = None


@dataclass(frozen=True)
class Description:
    """What a worker hosts: version by distribution (`python`, `jax`, `jaxlib`, `numpy`, ...; absent ones are None)."""

    versions: dict[str, str | None]
    xla_flags: str


def _told(request: str) -> str:
    """A request in a user's words: which of the ways to compile it was is said by the target."""
    return "compile" if request == "compile_for_tpu" else request


KILLED = "killed by the system, probably out of memory"
"""Of a process that neither its program nor its host ended."""


_PACKAGE = re.compile(r'File "[^"]*/((?:site-packages|assay)/[^"]*")')


class WorkerDied(Exception):
    """The worker's process ended, or was ended, during `request`. The Worker is usable again; its handles are not.

    kind: `crash` (a signal or an exit of its own), `hang` (the time limit), `resource` (the memory limit, or the
    allocator gave up). signal, signal_name: what ended it, None for an exit. stderr_tail: its last lines; where a
    package lies on this machine is left out, for they are made public.
    """

    def __init__(
        self,
        kind: DeathKind,
        request: str,
        signal: int | None,
        signal_name: str | None,
        stderr_tail: tuple[str, ...],
        detail: str,
    ) -> None:
        super().__init__(f"{kind} during {_told(request)}: {detail}")
        self.kind: DeathKind = kind
        self.request = _told(request)
        self.signal = signal
        self.signal_name = signal_name
        self.stderr_tail = tuple(_PACKAGE.sub(r'File "\1', line) for line in stderr_tail)
        self.detail = detail


class RequestRefused(WorkerError):
    """jax or XLA raised: `type` is the exception's name, `message` its whole text.

    `status` is XLA's code where the message opens with one (`INVALID_ARGUMENT`, `UNIMPLEMENTED`, `INTERNAL`, ...).
    """

    def __init__(self, request: str, type: str, message: str) -> None:
        super().__init__(f"{_told(request)}: {one_line(message)}")
        self.request = _told(request)
        self.type = type
        self.message = message
        found = re.match(r"([A-Z][A-Z_]+): ", message)
        self.status = found.group(1) if found else ""

    def words(self) -> str:
        """For a verdict on the program. Raises InputError where not the program is at fault, but an option."""
        if self.type in ("UnknownOption", "BadOption"):
            raise InputError(f"--option: {one_line(self.message)}") from self
        return f"the toolchain refuses to {self.request} it: {one_line(self.message)}"


class UserFileError(ProgramError):
    """The user's file raised, or lacks what was asked of it."""

    def __init__(self, path: str, problem: Problem) -> None:
        text = str(problem) if problem.where else f"{path}: {problem}"
        super().__init__(text)
        self.type = problem.type
        self.message = problem.message
        self.where = problem.where


class StaleHandle(WorkerError):
    """A `Compiled` used after the process that held it ended; compile again."""


def one_line(message: str, limit: int = 500) -> str:
    """The message without line breaks, cut at `limit` characters."""
    text = " ".join(message.split())
    return text if len(text) <= limit else text[: limit - 1] + "…"
