"""Worker: the typed requests to one process of a toolchain.

    with Worker(host()) as worker:
        case = worker.load("shift_rows.py").cases[0]
        compiled = worker.compile(case.stablehlo, "stablehlo")
        outputs = worker.run(compiled, [a.value for a in case.arguments])

Each request returns its value or raises one of outcomes' exceptions; whichever it was, the next request may follow.
A Worker belongs to one thread at a time.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import numpy as np

from assay.errors import InputError
from assay.toolchain.environments import Toolchain
from assay.toolchain.outcomes import (
    AheadOfTime,
    Argument,
    Array,
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
from assay.toolchain.process import Limits, Process, worker_environment
from assay.toolchain.worker.wire import get_array, put_array, xla_dtype

Kind = Literal["hlo-text", "hlo-proto", "stablehlo", "export", "hlo-optimized"]
"""hlo-optimized: text of an optimized module, which is compiled as it is."""

Platform = Literal["cpu", "tpu"]

NO_CASE = ""  # a pattern that no case's name matches: the file is executed, and nothing of it is lowered


class Worker:
    """A process of `toolchain`; a context manager.

    flags: XLA flags of the process (`--xla_cpu_...`), appended to XLA_FLAGS. env: variables on top of the host's.
    Raises ToolchainError where the toolchain does not start.
    """

    def __init__(
        self,
        toolchain: Toolchain,
        flags: Sequence[str] = (),
        limits: Limits | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.toolchain = toolchain
        self.limits = limits or Limits()
        self._env = worker_environment(flags, env)
        self._lock = threading.Lock()
        self._closed = False
        self._live = 0  # executables that the child holds
        self._loads: list[dict[str, Any]] = []  # of the files executed so far, without their cases
        self._libtpu: tuple[int, tuple[str, ...]] | None = None  # the child that loaded it, and with which arguments
        self._process = Process(toolchain.python, self._env, self.limits)

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the process; nothing is left behind. May be called twice."""
        self._closed = True
        self._process.close()

    def kill(self) -> None:
        """End the process from another thread: a request that is out there ends with WorkerDied."""
        self._closed = True
        self._process.kill_server()

    @property
    def served(self) -> int:
        """How many requests the present child has taken; 0 when the next one gets a fresh child."""
        return self._process.child.served if self._process.child is not None else 0

    def restart(self) -> None:
        """A fresh child for the next request; handles of the old one are stale."""
        self._process.end_child()
        self._live = 0

    def _ask(
        self,
        header: dict[str, Any],
        blobs: Sequence[Any] = (),
        timeout_s: float | None = None,
        watch: Callable[[], None] | None = None,
        compiled: Compiled | None = None,
    ) -> tuple[dict[str, Any], list[bytearray]]:
        """compiled: what the request is about. Raises StaleHandle where its child has ended."""
        if self._closed:
            raise RuntimeError("this Worker is closed")
        if not self._lock.acquire(blocking=False):
            raise RuntimeError("this Worker is in use by another thread")
        try:
            if not self._process.server_is_alive():
                self._process.close()
                self._process = Process(self.toolchain.python, self._env, self.limits)
                self._live = 0
            if self._process.notice() is None:  # it may have ended since the last request
                self._live = 0
            if compiled is not None and not self._is_child(compiled.child):
                raise StaleHandle("the process that compiled this program has ended since; compile it again")
            if self._live == 0 and self._process.resident_bytes() > self.limits.rss_bytes // 2:
                self.restart()  # what earlier programs left behind is not to be charged to this one
            if self._process.child is None:
                self._process.begin_child()
                for earlier in self._loads:  # what a user's file registered in the dead child is needed in this one
                    self._process.ask(earlier, (), timeout_s)
            reply, out = self._process.ask(header, blobs, timeout_s, watch)
        except StaleHandle:
            raise
        except BaseException:
            self._live = 0  # ask ended the child
            raise
        finally:
            self._lock.release()
        if reply["ok"]:
            return reply, out
        request, kind, message = str(header["op"]), str(reply["type"]), str(reply["message"])
        if reply["user"]:
            raise UserFileError(str(header["path"]), Problem(kind, message, str(reply["where"])))
        on_chip = request == "compile_for_tpu"  # then it is the chip's memory that the program does not fit into
        exhausted = message.startswith("RESOURCE_EXHAUSTED") and not on_chip
        if exhausted or kind == "MemoryError" or "std::bad_alloc" in message:
            child = self._process.child
            tail = child.log.lines() if child is not None else ()
            self.restart()
            raise WorkerDied("resource", request, None, None, tail, message)
        raise RequestRefused(request, kind, message)

    def describe(self) -> Description:
        """The versions and flags of the process."""
        reply, _ = self._ask({"op": "describe"})
        return Description(reply["versions"], reply["xla_flags"])

    def load(
        self,
        path: str | Path,
        function: str | None = None,
        arrays: Sequence[Array] | None = None,
        cases: Sequence[str] = (),
        timeout_s: float | None = None,
        platform: Platform = "cpu",
    ) -> LoadedFile:
        """Execute the user's Python file and lower its programs.

        function: one function of it (`name` or `Class.name`), with the arguments of the file's example_args(), or with
        `arrays` in place of their leaves. Otherwise the cases that its cases() yields, or those whose names match one
        of the patterns in `cases`. platform: what jax lowers for, there or not. A case that fails has its `error` set;
        UserFileError where the file itself raises.
        """
        blobs: list[Any] = []
        specs = None if arrays is None else [put_array(_checked(a, i), blobs) for i, a in enumerate(arrays)]
        where = str(Path(path).absolute())
        if not Path(path).is_file():
            raise UserFileError(str(path), Problem("FileNotFoundError", "no such file"))
        header = {"op": "load", "path": where, "function": function, "arrays": specs, "filter": list(cases)}
        header |= {"platform": platform}
        reply, out = self._ask(header, blobs, timeout_s)
        again = {**header, "function": None, "arrays": None, "filter": [NO_CASE]}
        if again not in self._loads:
            self._loads.append(again)
        loaded = tuple(_case(c, out) for c in reply["cases"])
        return LoadedFile(where, reply["x64"], reply["rtol"], loaded)

    def to_hlo(self, payload: str | bytes, kind: Kind) -> str:
        """The payload as text of an unoptimized HLO module, constants in full. RequestRefused if it is not one."""
        _, out = self._ask({"op": "to_hlo", "kind": kind}, [_bytes(payload)])
        return out[0].decode()

    def compile(
        self,
        payload: str | bytes,
        kind: Kind,
        options: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
        dump: Path | None = None,
        watch: Callable[[], None] | None = None,
    ) -> Compiled:
        """Compile for the CPU. options: XLA debug options by name, values as on a command line (`true`, `0`, `AVX2`).

        dump: a folder for a snapshot after every pass. watch: called a few times a second; what it raises ends the
        request.
        RequestRefused has type `UnknownOption` or `BadOption` where an option is at fault.
        """
        header = {"op": "compile", "kind": kind, "options": dict(options or {}), "dump": _path(dump)}
        reply, out = self._ask(header, [_bytes(payload)], timeout_s, watch)
        self._live += 1
        child = self._process.child
        assert child is not None
        types = [tuple(_type(t) for t in reply[name]) for name in ("parameters", "results")]
        return Compiled(out[0].decode(), types[0], types[1], reply["seconds"], reply["handle"], child.pid)

    def start_libtpu(self, topology: str, init_args: Sequence[str] = ()) -> tuple[int, int]:
        """Load the toolchain's libtpu; the version of its PJRT API. RequestRefused has type `NoLibtpu`,
        `LibtpuDoesNotLoad` or `UnknownTopology`.
        """
        reply, _ = self._ask_libtpu({"op": "start_libtpu", "topology": topology}, init_args)
        return reply["api"][0], reply["api"][1]

    def compile_for_tpu(
        self,
        payload: str | bytes,
        kind: Kind,
        topology: str,
        options: Mapping[str, str] | None = None,
        init_args: Sequence[str] = (),
        timeout_s: float | None = None,
        dump: Path | None = None,
        watch: Callable[[], None] | None = None,
    ) -> AheadOfTime:
        """Compile with the toolchain's libtpu for a TPU that is not there; see `assay.targets.tpu_aot`.

        init_args: flags of libtpu, which are the process's: other ones than before cost a fresh child, and handles are
        stale then. dump, watch: as for `compile`. RequestRefused has a type of `start_libtpu`, or `PjrtError`,
        `UnknownOption` or `BadOption`.
        """
        header = {
            "op": "compile_for_tpu", "kind": kind, "topology": topology, "options": dict(options or {}),
            "dump": _path(dump),
        }  # fmt: skip
        reply, out = self._ask_libtpu(header, init_args, [_bytes(payload)], timeout_s, watch)
        types = [tuple(_type(t) for t in reply[name]) for name in ("parameters", "results")]
        return AheadOfTime(out[0].decode(), types[0], types[1], reply["seconds"], dump)

    def _ask_libtpu(
        self,
        header: dict[str, Any],
        init_args: Sequence[str],
        blobs: Sequence[Any] = (),
        timeout_s: float | None = None,
        watch: Callable[[], None] | None = None,
    ) -> tuple[dict[str, Any], list[bytearray]]:
        """A request to a child that has loaded libtpu with `init_args` or will now."""
        child = self._process.child
        if child and self._libtpu and self._libtpu[0] == child.pid and self._libtpu[1] != tuple(init_args):
            self.restart()
        try:
            return self._ask({**header, "init_args": list(init_args)}, blobs, timeout_s, watch)
        finally:
            if self._process.child is not None:
                self._libtpu = (self._process.child.pid, tuple(init_args))

    def run(self, compiled: Compiled, arrays: Sequence[Array], timeout_s: float | None = None) -> list[Array]:
        """The flat results, in order; a token comes back as an empty pred array.

        `arrays`: one for each flat parameter, of its dtype and shape, else InputError. They are copied in for each run.
        Sub-byte integers are ml_dtypes' (int4, uint4, ...), one byte an element.
        """
        _check_arguments([p for p in compiled.parameters if p.dtype != "token"], arrays)
        blobs: list[Any] = []
        specs = [put_array(a, blobs) for a in arrays]
        header = {"op": "run", "handle": compiled.handle, "arrays": specs}
        reply, out = self._ask(header, blobs, timeout_s, compiled=compiled)
        return [_array(spec, out) for spec in reply["arrays"]]

    def holds(self, compiled: Compiled) -> bool:
        """Whether the process that compiled it is still there."""
        self._process.notice()
        return self._is_child(compiled.child)

    def _is_child(self, pid: int) -> bool:
        return self._process.child is not None and self._process.child.pid == pid

    def release(self, compiled: Compiled) -> None:
        """Forget an executable; no error if its process has ended."""
        if self.holds(compiled):
            with contextlib.suppress(StaleHandle):
                self._ask({"op": "release", "handle": compiled.handle}, compiled=compiled)
                self._live = max(0, self._live - 1)

    def fault(self, kind: str, timeout_s: float | None = None, **details: int) -> None:
        """For tests: end badly on purpose. Refused unless the worker's environment has ASSAY_WORKER_FAULTS=1."""
        self._ask({"op": "fault", "kind": kind, **details}, (), timeout_s)


def _bytes(payload: str | bytes) -> bytes:
    return payload.encode() if isinstance(payload, str) else payload


def _path(path: Path | None) -> str | None:
    return None if path is None else str(path.absolute())


def _type(spec: Mapping[str, Any]) -> ArrayType:
    return ArrayType(spec["dtype"], tuple(spec["shape"]), spec.get("path", ""))


def _array(spec: Mapping[str, Any], blobs: list[bytearray]) -> Array:
    array: Array = get_array(dict(spec), blobs)
    return array


def _case(spec: Mapping[str, Any], blobs: list[bytearray]) -> LoadedCase:
    if spec["error"]:
        return LoadedCase(spec["name"], error=Problem(**spec["error"]))
    arguments = tuple(
        Argument(_type(a), None if a["blob"] is None else _array(a, blobs), a["weak"]) for a in spec["arguments"]
    )
    expected = tuple(_array(e, blobs) for e in spec["expected"]) if "expected" in spec else None
    return LoadedCase(
        name=spec["name"],
        stablehlo=bytes(blobs[spec["stablehlo"]]),
        hlo=blobs[spec["hlo"]].decode(),
        plain=blobs[spec["plain"]].decode() if "plain" in spec else "",
        plain_error=spec.get("plain_error"),
        arguments=arguments,
        results=tuple(_type(r) for r in spec["results"]),
        expected=expected,
        expected_error=spec.get("expected_error"),
    )


def _checked(array: Array, position: int) -> Array:
    with contextlib.suppress(TypeError):
        xla_dtype(np.asarray(array).dtype)
        return np.asarray(array)
    raise InputError(f"argument {position} has dtype {np.asarray(array).dtype}, which XLA does not have")


def _check_arguments(parameters: Sequence[ArrayType], arrays: Sequence[Array]) -> None:
    if len(arrays) != len(parameters):
        raise InputError(f"the program takes {len(parameters)} arrays, {len(arrays)} were given")
    for i, (wanted, array) in enumerate(zip(parameters, arrays, strict=True)):
        got = ArrayType(xla_dtype(_checked(array, i).dtype), tuple(np.shape(array)))
        if (got.dtype, got.shape) != (wanted.dtype, wanted.shape):
            raise InputError(f"argument {i} is {_spell(got)}, the program takes {_spell(wanted)}")


def _spell(t: ArrayType) -> str:
    return f"{t.dtype}[{','.join(map(str, t.shape))}]"
