"""Which Pythons this machine has. None is ever downloaded.

A name on PATH proves nothing (a pyenv shim may stand for no interpreter at all), so each candidate is run and asked.
"""

from __future__ import annotations

import glob
import json
import os
import subprocess
import sys
from dataclasses import dataclass

OLDEST = (3, 9)  # worker.py needs socket.send_fds
ASK = """
import json, sys, sysconfig
base = getattr(sys, "_base_executable", None) or sys.executable
print(json.dumps([list(sys.version_info[:3]), base, sys.implementation.name == "cpython"
                  and sys.version_info.releaselevel == "final" and not sysconfig.get_config_var("Py_GIL_DISABLED")]))
"""


@dataclass(frozen=True)
class Interpreter:
    """A CPython that runs: its version (major, minor, micro) and the path of its own executable, not a venv's."""

    version: tuple[int, int, int]
    python: str

    @property
    def minor(self) -> str:
        return f"{self.version[0]}.{self.version[1]}"


def find_interpreters() -> list[Interpreter]:
    """One for each minor version from 3.9 on, newest first; the host's own where it is one of them."""
    found: dict[tuple[int, int], Interpreter] = {}
    seen: set[str] = set()
    for path in _candidates():
        real = os.path.realpath(path)
        if real in seen and path != sys.executable:
            continue
        seen.add(real)
        interpreter = ask(path)
        if interpreter is not None and interpreter.version[:2] >= OLDEST:
            found.setdefault(interpreter.version[:2], interpreter)
    return [found[minor] for minor in sorted(found, reverse=True)]


def ask(path: str) -> Interpreter | None:
    """What `path` is, by running it; None if it does not run, or is not a released CPython."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    try:
        done = subprocess.run(
            [path, "-I", "-c", ASK], capture_output=True, text=True, timeout=20, env=env, stdin=subprocess.DEVNULL
        )
        version, base, usable = json.loads(done.stdout)
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return None
    return Interpreter((version[0], version[1], version[2]), base) if usable else None


def _candidates() -> list[str]:
    names = [f"python3.{minor}" for minor in range(20, OLDEST[1] - 1, -1)] + ["python3"]
    home = os.path.expanduser("~")
    folders = [f for f in os.environ.get("PATH", "").split(os.pathsep) if f]
    for pattern in (
        os.path.join(os.environ.get("PYENV_ROOT", os.path.join(home, ".pyenv")), "versions", "*", "bin"),
        os.path.join(home, ".local", "share", "uv", "python", "*", "bin"),
    ):
        folders += sorted(glob.glob(pattern), reverse=True)
    paths = [os.path.join(folder, name) for folder in folders for name in names]
    return [sys.executable, *(p for p in paths if os.access(p, os.X_OK) and not os.path.isdir(p))]
