"""The process behind a Worker: a fork server of a toolchain, its current child, and one request at a time.

The idea: everything that can happen while a request is out (bytes come, the child writes to stderr, dies, outgrows its
memory, runs out of time) is an event in one loop without threads, so that no event can be missed or put down to another
request. A child has its own channel and its own log pipe; both are thrown away with it, so a half-written frame or a
late line of stderr never reaches the next one.

The invariant: when `ask` returns or raises, either the child is idle, or it is gone and reaped.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from assay.errors import ToolchainError
from assay.toolchain.outcomes import KILLED, WorkerDied, one_line
from assay.toolchain.worker.wire import frame

WORKER = Path(__file__).with_name("worker")
START_TIMEOUT_S = 180.0  # importing jax from a cold disk
POLL_S = 0.2  # how often resident memory is looked at
TAIL_BYTES = 64 << 10
TAIL_LINES = 100
# What the allocators of XLA, C++ and Python say when they give up: the machine's limit, not the compiler's fault.
EXHAUSTED = ("std::bad_alloc", "RESOURCE_EXHAUSTED", "Out of memory", "MemoryError", "out of memory")


@dataclass(frozen=True)
class Limits:
    """What one request may use: wall seconds, and bytes of resident memory of the child and its descendants."""

    timeout_s: float = 300.0
    rss_bytes: int = 8 << 30


@dataclass
class Log:
    """The last lines of a child's stdout and stderr. Reading never stops, keeping does: a flood is drained."""

    fd: int
    tail: bytearray = field(default_factory=bytearray)

    def drain(self) -> None:
        """Read what is there without waiting."""
        for _ in range(64):  # at most 4 MB a time, so that a flood does not keep the loop from its deadline
            try:
                chunk = os.read(self.fd, 1 << 16)
            except BlockingIOError:
                return
            if not chunk:
                return
            self.tail += chunk
            if len(self.tail) > 2 * TAIL_BYTES:
                del self.tail[:-TAIL_BYTES]

    def lines(self) -> tuple[str, ...]:
        text = bytes(self.tail[-TAIL_BYTES:]).decode(errors="replace")
        return tuple(line for line in text.splitlines() if line.strip())[-TAIL_LINES:]


@dataclass
class Child:
    pid: int
    channel: socket.socket
    log: Log
    served: int = 0
    status: int | None = None  # wait status, once it has ended

    def close(self) -> None:
        self.channel.close()
        with contextlib.suppress(OSError):
            os.close(self.log.fd)


class Process:
    """A fork server and its child, which its owner begins and which `ask` sends a request to."""

    def __init__(self, python: str, env: Mapping[str, str], limits: Limits) -> None:
        self.limits = limits
        self.child: Child | None = None
        ours, theirs = socket.socketpair()
        read_end, write_end = os.pipe()
        os.set_blocking(read_end, False)
        self._server_log = Log(read_end)
        try:
            self._server = subprocess.Popen(
                [python, str(WORKER), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=write_end,
                stderr=write_end,
                env=dict(env),
                pass_fds=(theirs.fileno(),),
                start_new_session=True,  # a Ctrl-C in the terminal is for the host, which then ends the worker
            )
        except OSError as e:
            ours.close()
            os.close(read_end)
            raise ToolchainError(f"{python} does not start: {e.strerror}") from e
        finally:
            theirs.close()
            os.close(write_end)
        self._control = ours
        self._pending = b""
        self._server_reaper = weakref.finalize(self, _end_server, self._server, ours, read_end)
        ready = self._hear(START_TIMEOUT_S)
        if ready is None or "ready" not in ready:
            lines = self._server_log.lines()
            self.close()
            raise ToolchainError(f"{python} cannot host jax: {one_line(lines[-1]) if lines else 'no answer in time'}")

    # ---- the control socket

    def _hear(self, timeout_s: float) -> dict[str, Any] | None:
        """The server's next message; None after the time, or when the server is gone."""
        deadline = time.monotonic() + timeout_s
        while b"\n" not in self._pending:
            self._server_log.drain()
            self._control.settimeout(max(0.0, min(0.2, deadline - time.monotonic())) or 0.001)
            try:
                chunk = self._control.recv(4096)
            except TimeoutError:
                if time.monotonic() >= deadline:
                    return None
                continue
            except OSError:
                return None
            if not chunk:
                self._server_log.drain()
                return None
            self._pending += chunk
        line, _, self._pending = self._pending.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message

    def _note_exit(self, message: dict[str, Any]) -> None:
        if self.child is not None and message.get("exit") == self.child.pid:
            self.child.status = message["status"]

    def _fork(self) -> Child:
        ours, theirs = socket.socketpair()
        read_end, write_end = os.pipe()
        os.set_blocking(read_end, False)
        try:
            socket.send_fds(self._control, [b"fork\n"], [theirs.fileno(), write_end])
        except OSError as e:
            ours.close()
            os.close(read_end)
            raise self._server_lost() from e
        finally:
            theirs.close()
            os.close(write_end)
        while True:
            message = self._hear(30.0)
            if message is None:
                ours.close()
                os.close(read_end)
                raise self._server_lost()
            if "pid" in message:
                break
        ours.setblocking(False)
        return Child(message["pid"], ours, Log(read_end))

    def _server_lost(self) -> ToolchainError:
        lines = self._server_log.lines()
        return ToolchainError(f"the worker's fork server is gone{': ' + one_line(lines[-1]) if lines else ''}")

    # ---- children

    def notice(self) -> Child | None:
        """The child, unless there is none or it ended while it was idle."""
        if self.child is not None:
            self._control.settimeout(0.0)
            with contextlib.suppress(BlockingIOError):
                self._pending += self._control.recv(4096)
            while b"\n" in self._pending:
                line, _, self._pending = self._pending.partition(b"\n")
                self._note_exit(json.loads(line))
            if self.child.status is not None:
                self._drop()
        return self.child

    def begin_child(self) -> None:
        """A fresh child, where there is none."""
        assert self.child is None
        self.child = self._fork()

    def end_child(self) -> int | None:
        """Kill the child, wait until it is reaped; its wait status, or None if there was none."""
        child = self.child
        if child is None:
            return None
        with contextlib.suppress(OSError):
            self._control.sendall(b"kill\n")
        while child.status is None:
            message = self._hear(30.0)
            if message is None:
                break
            self._note_exit(message)
        self._drop()
        return child.status

    def _drop(self) -> None:
        if self.child is not None:
            self.child.close()
            self.child = None

    def resident_bytes(self) -> int:
        """Resident memory of the child and its descendants, in bytes; 0 if it is gone."""
        if self.child is None:
            return 0
        try:
            process = psutil.Process(self.child.pid)
            total = int(process.memory_info().rss)
            for descendant in process.children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):
                    total += int(descendant.memory_info().rss)
            return total
        except psutil.NoSuchProcess:
            return 0

    # ---- one request

    def ask(
        self,
        header: dict[str, Any],
        blobs: Sequence[Any],
        timeout_s: float | None = None,
        watch: Callable[[], None] | None = None,
    ) -> tuple[dict[str, Any], list[bytearray]]:
        """The answer (header, blobs) of the child that there is. Raises WorkerDied if it ended or had to be ended, also
        where it did so since it was noticed: what its owner had it do first would not be done in another.

        watch: called a few times a second while it works; what it raises ends the child and comes out of here.
        """
        child = self.child
        assert child is not None
        child.served += 1
        child.log.drain()
        child.log.tail.clear()  # what an earlier request printed is not this one's
        try:
            limit = self.limits.timeout_s if timeout_s is None else timeout_s
            return self._exchange(child, header, blobs, limit, watch or _nothing)
        except BaseException:
            # Also KeyboardInterrupt: the answer to an abandoned request must not be taken for the next one's.
            self.end_child()
            raise

    def _exchange(
        self,
        child: Child,
        header: dict[str, Any],
        blobs: Sequence[Any],
        timeout_s: float,
        watch: Callable[[], None],
    ) -> tuple[dict[str, Any], list[bytearray]]:
        request = str(header["op"])
        out = [memoryview(piece) for piece in frame(header, list(blobs)) if len(piece)]
        answer = _Incoming()
        start = time.monotonic()
        deadline, next_poll = start + timeout_s, start + POLL_S
        self._control.setblocking(False)
        with selectors.DefaultSelector() as selector:
            selector.register(child.channel, selectors.EVENT_READ | selectors.EVENT_WRITE)
            selector.register(child.log.fd, selectors.EVENT_READ)
            selector.register(self._control, selectors.EVENT_READ)
            while True:
                now = time.monotonic()
                if now >= deadline:
                    raise self._hung(child, request, timeout_s)
                if now >= next_poll:
                    next_poll = now + POLL_S
                    used = self.resident_bytes()
                    if used > self.limits.rss_bytes:
                        raise self._too_big(child, request, used)
                    watch()
                for key, mask in selector.select(max(0.0, min(deadline, next_poll) - now)):
                    if key.fd == child.log.fd:
                        child.log.drain()
                    elif key.fileobj is self._control:
                        self._read_control(child, request)
                    else:
                        if mask & selectors.EVENT_WRITE:
                            out = _send_some(child.channel, out)
                            if not out:
                                selector.modify(child.channel, selectors.EVENT_READ)
                        if mask & selectors.EVENT_READ:
                            done = answer.read_some(child.channel)
                            if done is not None:
                                child.log.drain()
                                return done
                            if answer.closed:  # its end is on its way over the control socket
                                selector.unregister(child.channel)
                if child.status is not None:
                    raise self._died(child, request)

    def _read_control(self, child: Child, request: str) -> None:
        with contextlib.suppress(BlockingIOError):
            chunk = self._control.recv(4096)
            if not chunk:
                child.log.drain()
                raise WorkerDied("resource", request, None, None, child.log.lines(), f"its fork server was {KILLED}")
            self._pending += chunk
        while b"\n" in self._pending:
            line, _, self._pending = self._pending.partition(b"\n")
            self._note_exit(json.loads(line))

    # ---- what an end means

    def _died(self, child: Child, request: str) -> WorkerDied:
        child.log.drain()
        lines, status = child.log.lines(), child.status or 0
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
        name = signal.Signals(number).name if number is not None else None
        if number == signal.SIGKILL:  # not by us: that is how the kernel's out-of-memory killer ends it
            return WorkerDied("resource", request, number, name, lines, KILLED)
        if any(word in line for line in lines for word in EXHAUSTED):
            return WorkerDied("resource", request, number, name, lines, f"out of memory, then {name or 'exit'}")
        unknown = [line for line in lines if "Unknown flag" in line]
        if unknown:  # XLA aborts where it reads XLA_FLAGS first: ours or the user's mistake, not the program's
            raise ToolchainError(f"XLA_FLAGS: {one_line(unknown[-1])}")
        detail = name if name is not None else f"exit code {os.WEXITSTATUS(status)}"
        return WorkerDied("crash", request, number, name, lines, detail)

    def _hung(self, child: Child, request: str, timeout_s: float) -> WorkerDied:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGUSR1)  # faulthandler writes where each thread is
        time.sleep(0.1)
        child.log.drain()
        return WorkerDied(
            "hang", request, signal.SIGKILL, "SIGKILL", child.log.lines(), f"no answer in {timeout_s:g} s"
        )

    def _too_big(self, child: Child, request: str, used: int) -> WorkerDied:
        child.log.drain()
        limit = self.limits.rss_bytes
        detail = f"{used / 2**30:.1f} GiB resident, the limit is {limit / 2**30:.1f} GiB"
        return WorkerDied("resource", request, signal.SIGKILL, "SIGKILL", child.log.lines(), detail)

    def server_is_alive(self) -> bool:
        return self._server.poll() is None

    def kill_server(self) -> None:
        """From any thread: end the server and with it its child (PR_SET_PDEATHSIG); `close` is still to be called."""
        self._server.kill()

    def close(self) -> None:
        """End the child and the server; nothing is left behind. May be called twice."""
        if self._server_reaper.alive:
            self.end_child()
            self._server_reaper()


def _nothing() -> None:
    """What is done while nobody watches."""


class _Incoming:
    """A frame as it comes in, in pieces of any size."""

    def __init__(self) -> None:
        self.closed = False
        self._prefix = bytearray(8)
        self._text: bytearray | None = None
        self._header: dict[str, Any] = {}
        self._blobs: list[bytearray] = []
        self._at = 0

    def read_some(self, channel: socket.socket) -> tuple[dict[str, Any], list[bytearray]] | None:
        """Take what is there; the frame once it is whole."""
        while True:
            if self._text is None:
                target = self._prefix
            elif not self._header:
                target = self._text
            else:
                target = next((b for b in self._blobs[self._at :] if len(b)), bytearray())
            if self._header and not target:
                return self._header, self._blobs
            if not self._fill(channel, target):
                return None
            if self._text is None:
                self._text = bytearray(int.from_bytes(self._prefix, "little"))
            elif not self._header:
                self._header = json.loads(bytes(self._text))
                self._blobs = [bytearray(size) for size in self._header["blobs"]]
            else:
                self._at += 1 + next(i for i, b in enumerate(self._blobs[self._at :]) if len(b))

    _got = 0

    def _fill(self, channel: socket.socket, target: bytearray) -> bool:
        view = memoryview(target)
        while self._got < len(target):
            try:
                n = channel.recv_into(view[self._got :], min(len(target) - self._got, 1 << 26))
            except BlockingIOError:
                return False
            except ConnectionError:
                n = 0
            if n == 0:
                self.closed = True
                return False
            self._got += n
        self._got = 0
        return True


def _send_some(channel: socket.socket, out: list[memoryview]) -> list[memoryview]:
    """Write what the channel takes; what is left. A child that is gone takes everything: its end is told elsewhere."""
    try:
        while out:
            n = channel.send(out[0][: 1 << 26])
            out = [out[0][n:], *out[1:]] if n < len(out[0]) else out[1:]
    except BlockingIOError:
        pass  # full: the rest goes when it is writable again
    except ConnectionError:
        return []
    return out


def _end_server(server: subprocess.Popen[bytes], control: socket.socket, log_fd: int) -> None:
    """Hang up, which makes the server end its children and itself, and reap it."""
    control.close()
    try:
        server.wait(5.0)
    except subprocess.TimeoutExpired:  # still importing, or stuck
        server.kill()
        server.wait()
    os.close(log_fd)


def worker_environment(flags: Sequence[str], extra: Mapping[str, str] | None) -> dict[str, str]:
    """The environment of a worker: the host's, on CPU, with `flags` appended to XLA_FLAGS."""
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONHOME", "PYTHONSTARTUP", "PYTHONINSPECT")}
    if env.get("VIRTUAL_ENV") and not sys.prefix.startswith(env["VIRTUAL_ENV"]):
        env.pop("VIRTUAL_ENV")
    env["JAX_PLATFORMS"] = "cpu"
    env.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    # One thread each while importing: a process with threads must not fork. XLA's own pools start after the fork.
    env.setdefault("OPENBLAS_NUM_THREADS", "1")
    env.setdefault("OMP_NUM_THREADS", "1")
    env.update(extra or {})
    if flags:
        env["XLA_FLAGS"] = " ".join([env.get("XLA_FLAGS", ""), *flags]).strip()
    return env
