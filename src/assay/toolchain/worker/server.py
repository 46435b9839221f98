# mypy: ignore-errors
"""The fork server, and what a child is."""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import itertools
import json
import os
import resource
import select
import signal
import socket
import sys
import traceback
import warnings

from .requests import REQUESTS
from .user_file import UserFile
from .wire import Refused, frame, read_frame


def serve(channel: socket.socket) -> None:
    """Answer requests until the host hangs up."""
    state = {"executables": {}, "numbers": itertools.count(1), "callbacks": set()}
    while True:
        got = read_frame(channel)
        if got is None:
            return
        header, blobs = got
        try:
            reply, out = REQUESTS[header["op"]](state, header, blobs)
            reply = dict(reply, ok=True)
        except UserFile as e:
            reply, out = dict(e.problem, ok=False, user=True), []
        except Refused as e:
            reply, out = {"ok": False, "type": e.kind, "message": str(e), "where": "", "user": False}, []
        except Exception as e:
            reply, out = {"ok": False, "type": type(e).__name__, "message": str(e), "where": "", "user": False}, []
            traceback.print_exc()
        del blobs
        sys.stdout.flush()
        sys.stderr.flush()
        for piece in frame(reply, out):
            channel.sendall(piece)


def become_child(server: int, channel_fd: int, log_fd: int) -> None:
    """In the forked child: own process group, output to the log, dead when the server is."""
    os.setpgid(0, 0)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != server:
        os._exit(0)
    os.dup2(log_fd, 1)
    os.dup2(log_fd, 2)
    os.close(log_fd)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.enable(file=2, all_threads=True)
    faulthandler.register(signal.SIGUSR1, file=2, all_threads=True)  # the host asks where a hang is before it kills it
    status = 1
    try:
        serve(socket.socket(fileno=channel_fd))
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def server(control: socket.socket) -> None:
    """Fork a child when asked; report each child's end; when the host goes, take the child along and go too."""
    warnings.filterwarnings("ignore")
    import jax
    import jax.numpy

    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    os.set_blocking(write_end, False)
    signal.set_wakeup_fd(write_end)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    children = set()

    def say(message: dict) -> None:
        with contextlib.suppress(OSError):  # the host is gone: the next read of the control socket says so
            control.sendall(json.dumps(message).encode() + b"\n")

    say({"ready": jax.__version__})
    while True:
        ready, _, _ = select.select([control, read_end], [], [])
        if read_end in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(read_end, 4096)
            for pid in list(children):
                done, status = os.waitpid(pid, os.WNOHANG)
                if done:
                    children.remove(pid)
                    say({"exit": pid, "status": status})
        if control in ready:
            text, fds, _, _ = socket.recv_fds(control, 4096, 2)
            if not text:
                for pid in children:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(pid, signal.SIGKILL)
                return
            if text == b"kill\n":
                for pid in children:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(pid, signal.SIGKILL)
                continue
            me = os.getpid()
            pid = os.fork()
            if pid == 0:
                control.close()
                os.close(read_end)
                os.close(write_end)
                become_child(me, *fds)
            with contextlib.suppress(PermissionError):  # the child has set it itself already
                os.setpgid(pid, pid)
            children.add(pid)
            for fd in fds:
                os.close(fd)
            say({"pid": pid})
