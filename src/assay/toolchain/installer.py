"""Filling an environment: uv where it is on PATH, otherwise the stdlib's venv and pip.

Which Pythons a release supports is asked of the installer, not kept in a table: it reads the release's own metadata.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from assay.errors import ToolchainError
from assay.toolchain.interpreters import OLDEST, Interpreter
from assay.toolchain.outcomes import one_line

FULL_LOG = "install.log"
INSTALL_TIMEOUT_S = 3600.0
# Nothing with compiled code is ever built here. jax itself may be: up to 0.4.15 it is published as source only.
WHEELS_ONLY = ("--only-binary", "jaxlib,numpy,scipy,ml_dtypes,libtpu")
UV_WHEELS_ONLY = tuple(f"--only-binary={name}" for name in WHEELS_ONLY[1].split(","))
NO_FIT = (
    "No matching distribution found",
    "ResolutionImpossible",
    "requires a different Python",
    "No solution found",
    "no wheels with a matching",
)
NO_NETWORK = (
    "NewConnectionError",
    "NameResolutionError",
    "ConnectTimeoutError",
    "ReadTimeoutError",
    "ProxyError",
    "connection broken by",
    "dns error",
    "error sending request",
    "Network is unreachable",
    "network is disabled",
)


class NoFit(Exception):
    """This interpreter has no release that meets the requirements."""


class NotNow(ToolchainError):
    """Nothing was installed for a reason that has nothing to do with the release: no network, a full disk."""


@dataclass(frozen=True)
class Install:
    """Make an environment of `interpreter` in `folder` with `needed`; the installer inherits the descriptor `lock`."""

    interpreter: Interpreter
    folder: Path
    needed: Sequence[str]
    lock: int
    say: Callable[[str], None]


def pick_installer(pythons: Sequence[Interpreter]) -> Callable[[Install], None]:
    """uv's or pip's way, whichever this machine has. ToolchainError if there is neither."""
    uv = shutil.which("uv")
    if uv is not None:
        return lambda order: _with_uv(uv, order)
    pip = _pip_python(pythons)
    if pip is not None:
        return lambda order: _with_pip(pip, order)
    raise ToolchainError("no uv on PATH and no Python here with pip: install uv or python3-pip")


def _with_uv(uv: str, order: Install) -> None:
    python = order.folder / "bin" / "python"
    order.say(f"installing with uv for Python {order.interpreter.minor}")
    _call([uv, "venv", "--quiet", "--allow-existing", "--python", order.interpreter.python, str(order.folder)], order)
    _call(
        [uv, "pip", "install", "--compile-bytecode", *UV_WHEELS_ONLY, "--python", str(python), *order.needed],
        order,
    )


def _with_pip(pip: str, order: Install) -> None:
    python = order.folder / "bin" / "python"
    _call([order.interpreter.python, "-I", "-m", "venv", "--without-pip", str(order.folder)], order)
    order.say(f"installing for Python {order.interpreter.minor}")
    _call([*_pip(pip), "--python", str(python), "install", *WHEELS_ONLY, "--retries", "2", *order.needed], order)


def _pip(python: str) -> list[str]:
    return [python, "-m", "pip", "--disable-pip-version-check", "--no-input"]


def _pip_python(pythons: Sequence[Interpreter]) -> str | None:
    """An interpreter whose pip can install into another's environment (`--python`, from pip 22.3 on)."""
    import sys

    for python in (sys.executable, *(p.python for p in pythons)):
        try:
            done = subprocess.run([*_pip(python), "--version"], capture_output=True, text=True, timeout=60, env=_env())
        except (OSError, subprocess.TimeoutExpired):
            continue
        found = re.match(r"pip (\d+)\.(\d+)", done.stdout)
        if found is not None and (int(found.group(1)), int(found.group(2))) >= (22, 3):
            return python
    return None


def _env() -> dict[str, str]:
    dropped = ("PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE", "VIRTUAL_ENV", "PIP_REQUIRE_VIRTUALENV")
    return {k: v for k, v in os.environ.items() if k not in dropped}


def _call(command: Sequence[str], order: Install) -> None:
    """Run an installer's command; its failure as NoFit or as a ToolchainError of one line."""
    log_path = order.folder / FULL_LOG
    with open(log_path, "ab") as log:
        at = log.tell()
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=_env(), pass_fds=(order.lock,),
                timeout=INSTALL_TIMEOUT_S,
            )  # fmt: skip
        except subprocess.TimeoutExpired as e:
            raise ToolchainError(f"the installer was not done in {INSTALL_TIMEOUT_S:g} s") from e
    if done.returncode == 0:
        return
    text = log_path.read_bytes()[at:].decode(errors="replace")
    if any(word in text for word in NO_NETWORK):
        raise NotNow("no network, or the package index does not answer: nothing was installed")
    if "No space left on device" in text:
        raise NotNow(f"{order.folder.parent}: No space left on device: free some, or set ASSAY_CACHE to another folder")
    if any(word in text for word in NO_FIT):
        raise NoFit(_telling_line(text))
    raise ToolchainError(f"{os.path.basename(command[0])} failed: {_telling_line(text)}")


def _telling_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith("error")]
    return one_line((errors or lines or ["it said nothing"])[-1], 300)


# ---- what is published; asked to explain a failure, and for the row of releases that a bisection goes along


def published_versions(name: str, pythons: Sequence[Interpreter]) -> list[str]:
    """All versions of a distribution, whatever Python they need; [] if that cannot be told."""
    return _index(name, ["--ignore-requires-python", "--pre"], pythons)


def published_pythons(name: str, version: str, pythons: Sequence[Interpreter]) -> list[str]:
    """The Pythons (`3.11`) that have a wheel of this very version; [] if that cannot be told."""
    minors = [f"3.{minor}" for minor in range(OLDEST[1] - 1, 16)]
    options = ["--only-binary", ":all:", "--implementation", "cp", "--python-version"]
    return [minor for minor in minors if version in _index(name, [*options, minor], pythons)]


def fitting_versions(name: str, minors: Sequence[str], pythons: Sequence[Interpreter]) -> list[str]:
    """Versions of a distribution with a wheel for one of the Pythons `minors` (`3.11`); [] if that cannot be told."""
    options = ["--only-binary", ":all:", "--implementation", "cp", "--python-version"]
    return list(dict.fromkeys(version for minor in minors for version in _index(name, [*options, minor], pythons)))


def _index(name: str, options: Sequence[str], pythons: Sequence[Interpreter]) -> list[str]:
    pip = _pip_python(pythons)
    if pip is None:
        return []
    try:
        done = subprocess.run(
            [*_pip(pip), "index", "versions", *options, name], capture_output=True, text=True, timeout=60, env=_env()
        )
    except subprocess.TimeoutExpired:
        return []
    found = re.search(r"Available versions: (.*)", done.stdout)
    return found.group(1).split(", ") if found else []
