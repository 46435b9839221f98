"""Toolchains on disk: environments by version, made with uv or pip, cached.

The idea: an environment is built in a folder of another name and renamed when a program has been compiled and run in
it, so that what has a toolchain's name works. The lock of a name is inherited by the installer, so that one whose
parent was killed is waited for, not raced against.

    $ASSAY_CACHE or the user's cache folder/toolchains/
        jax-0.6.2/                  an environment, with toolchain.json: spec and versions
        .lock-jax-0.6.2             held while it is added or removed
        .building-jax-0.6.2-*       unfinished; removed by the next add
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from assay.errors import ToolchainError
from assay.toolchain.installer import FULL_LOG, Install, NoFit, pick_installer, published_pythons, published_versions
from assay.toolchain.interpreters import Interpreter, find_interpreters

Progress = Callable[[str], None]
DISTRIBUTIONS = ("jax", "jaxlib", "numpy", "scipy", "ml_dtypes", "libtpu")
CHECK_TIMEOUT_S = 300.0

# Proves that an environment works, and tells its versions. bfloat16 because that is where numpy, ml_dtypes and jaxlib
# of different years fall out with each other; jax.scipy because old jax names things that new scipy has dropped. A
# libtpu need only load: a machine without a TPU compiles with it, and runs nothing.
CHECK = f"""
DISTRIBUTIONS = {DISTRIBUTIONS!r}
import json, platform
from importlib import metadata
import jax, jax.numpy as jnp, jax.scipy.special, jax.scipy.linalg
assert float(jax.jit(lambda x: x + 1)(jnp.ones(3, jnp.bfloat16))[0]) == 2.0
versions = dict(python=platform.python_version())
for name in DISTRIBUTIONS:
    try:
        versions[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
        pass
if "libtpu" in versions:
    import ctypes, importlib.util, os
    folder = importlib.util.find_spec("libtpu").submodule_search_locations[0]
    ctypes.CDLL(os.path.join(folder, "libtpu.so")).GetPjrtApi
print("\\n" + json.dumps(versions))
"""


@dataclass(frozen=True)
class Toolchain:
    """spec: `host` or `jax==V[,libtpu==W]`. python: its interpreter. versions: (distribution, version) pairs."""

    spec: str
    python: str
    versions: tuple[tuple[str, str], ...] = ()

    def version(self, name: str) -> str | None:
        """Version of a distribution (or of `python`), None if it has none."""
        return dict(self.versions).get(name)


def host() -> Toolchain:
    """The jax that this Python has; jax itself is not imported. ToolchainError if there is none."""
    found = {"python": ".".join(map(str, sys.version_info[:3]))}
    for name in DISTRIBUTIONS:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    if "jaxlib" not in found or "jax" not in found:
        raise ToolchainError(f"{sys.executable} has no jax: install it there, or name a toolchain (jax==VERSION)")
    return Toolchain("host", sys.executable, tuple(found.items()))


def cache_folder() -> Path:
    """Where toolchains are kept; it need not exist."""
    if os.environ.get("ASSAY_CACHE"):
        return Path(os.environ["ASSAY_CACHE"]).absolute() / "toolchains"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "assay" / "toolchains"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "assay" / "toolchains"


def parse_spec(spec: str) -> dict[str, str]:
    """`jax==V[,libtpu==W]` as {"jax": V, ...}; ToolchainError for anything else."""
    wanted: dict[str, str] = {}
    for part in spec.replace(" ", "").split(","):
        found = re.fullmatch(r"(jax|libtpu)==(\d+(?:\.\d+)*(?:\.?(?:a|b|rc|dev|post)\d*)?)", part)
        if found is None or found.group(1) in wanted:
            raise ToolchainError(f"{spec!r} is not a toolchain: host, jax==VERSION or jax==VERSION,libtpu==VERSION")
        wanted[found.group(1)] = found.group(2)
    if "jax" not in wanted:
        raise ToolchainError(f"{spec!r} names no jax: jax==VERSION,libtpu==VERSION")
    return wanted


def requirements(wanted: dict[str, str]) -> list[str]:
    """What to install for parse_spec's result.

    The cpu extra names the jaxlib that belongs to a jax; the bound keeps releases whose extra is open from taking a
    newer one (jax 0.4.37 has no jaxlib of its own number). jaxlib before 0.4.26 was built against numpy 1. Old jax is
    given the numpy and scipy of its time, as those drop names that it uses.
    """
    version = wanted["jax"]
    needed = [f"jax[cpu]=={version}", f"jaxlib<={version}", "flatbuffers"]  # jax.export reads its artifacts with it
    number = tuple(int(n) for n in re.findall(r"\d+", version)[:3])
    if number < (0, 4, 26):
        needed += ["numpy<2", "scipy<1.13"]
    elif number < (0, 5):
        needed += ["numpy<2.3", "scipy<1.16"]
    return [*needed, *(f"libtpu=={wanted[name]}" for name in wanted if name == "libtpu")]


def installed() -> list[Toolchain]:
    """The toolchains in the cache, by spec."""
    folder = cache_folder()
    found = [_read(path) for path in folder.iterdir() if not path.name.startswith(".")] if folder.is_dir() else []
    return sorted((t for t in found if t is not None), key=lambda t: _sort_key(t.spec))


def resolve(spec: str | None = None, progress: Progress | None = None) -> Toolchain:
    """None or `host`: the host's own. Otherwise the installed toolchain of that spec, added first if it is missing."""
    if spec is None or spec == "host":
        return host()
    found = _read(cache_folder() / _name(parse_spec(spec)))
    return found if found is not None else add(spec, progress)


def add(spec: str, progress: Progress | None = None) -> Toolchain:
    """Install a toolchain, unless it is there. ToolchainError in one line where it cannot be had here."""
    wanted = parse_spec(spec)
    name, folder, say = _name(wanted), cache_folder(), progress or (lambda _: None)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise ToolchainError(f"{folder}: {e.strerror}; set ASSAY_CACHE to a folder that can be written") from e
    with _locked(folder, name, say) as lock:
        found = _read(folder / name)
        if found is not None:
            return found
        for left in (*_unfinished(folder, name), folder / name):
            shutil.rmtree(left, ignore_errors=True)
        building = Path(tempfile.mkdtemp(prefix=f".building-{name}-", dir=folder))
        try:
            versions = _build(wanted, building, lock, say)
            text = json.dumps({"spec": _spec(wanted), "versions": versions}, indent=1)
            (building / "toolchain.json").write_text(text)
            building.rename(folder / name)
        finally:
            shutil.rmtree(building, ignore_errors=True)
    made = _read(folder / name)
    if made is None:
        raise ToolchainError(f"{spec}: was installed and then removed by someone else")
    return made


def remove(spec: str) -> None:
    """Delete a toolchain; ToolchainError if it is not installed."""
    name, folder = _name(parse_spec(spec)), cache_folder()
    if not (folder / name).is_dir():
        raise ToolchainError(f"{spec} is not installed (assay toolchain list)")
    with _locked(folder, name, lambda _: None):
        doomed = folder / f".building-{name}-removed"  # a name that the next add cleans up, if this is cut short
        shutil.rmtree(doomed, ignore_errors=True)
        (folder / name).rename(doomed)
        shutil.rmtree(doomed)


def _unfinished(folder: Path, name: str) -> list[Path]:
    """What killed processes left of that name, and of no other: `jax-0.10.2` begins `jax-0.10.2-libtpu-0.0.52` too."""
    start = f".building-{name}-"
    return [path for path in folder.glob(f"{start}*") if "-" not in path.name.removeprefix(start)]


# ---- making one


def _build(wanted: dict[str, str], building: Path, lock: int, say: Progress) -> dict[str, str]:
    """Fill `building` with a working environment; its versions."""
    needed, spec = requirements(wanted), _spec(wanted)
    pythons = find_interpreters()
    install = pick_installer(pythons)
    say(f"{spec}: looking for a Python that it supports")
    broken = ""
    for interpreter in pythons:
        _empty(building)
        try:
            install(Install(interpreter, building, needed, lock, lambda line: say(f"{spec}: {line}")))
        except NoFit:
            unknown = _unknown_version(wanted, pythons) if interpreter is pythons[0] else None
            if unknown:
                raise ToolchainError(unknown) from None
            continue
        say(f"{spec}: compiling and running a program")
        found = _check(building / "bin" / "python")
        if isinstance(found, dict):
            return found
        broken = f"{spec} does not work on Python {interpreter.minor}: {found}"
    raise ToolchainError(broken or _why_none_fits(wanted, pythons))


def _why_none_fits(wanted: dict[str, str], pythons: Sequence[Interpreter]) -> str:
    here = ", ".join(p.minor for p in pythons) or "none"
    fits = published_pythons("jaxlib", wanted["jax"], pythons)
    needs = f"it needs Python {' or '.join(fits)}" if fits else "no release of its jaxlib is to be had for any Python"
    return f"{_spec(wanted)} cannot be installed here: {needs}; found here: {here}"


def _unknown_version(wanted: dict[str, str], pythons: Sequence[Interpreter]) -> str | None:
    """Why, if one of the versions was never published; None if all were, or that cannot be told."""
    for name, version in wanted.items():
        known = published_versions(name, pythons)
        if known and version not in known:
            before = [v for v in known if _order(v) < _order(version)]
            after = [v for v in known if _order(v) > _order(version)]
            near = [*([max(before, key=_order)] if before else []), *([min(after, key=_order)] if after else [])]
            return f"there is no {name} {version}; nearest: {', '.join(near)}"
    return None


def _check(python: Path) -> dict[str, str] | str:
    """The versions of an environment that works, else the last line of what it said."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "XLA_", "JAX_"))}
    env["JAX_PLATFORMS"] = "cpu"
    try:
        done = subprocess.run([python, "-c", CHECK], capture_output=True, text=True, timeout=CHECK_TIMEOUT_S, env=env)
    except subprocess.TimeoutExpired:
        return f"no answer in {CHECK_TIMEOUT_S:g} s"
    lines = [line for line in (done.stdout if done.returncode == 0 else done.stderr).splitlines() if line.strip()]
    if done.returncode != 0:
        return lines[-1] if lines else f"exit code {done.returncode}"
    versions: dict[str, str] = json.loads(lines[-1])
    return versions


def _empty(folder: Path) -> None:
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        elif entry.name != FULL_LOG:
            entry.unlink()


@contextlib.contextmanager
def _locked(folder: Path, name: str, say: Progress) -> Iterator[int]:
    """Hold the lock of a name; its descriptor, for the installer to inherit."""
    while True:
        path = folder / f".lock-{name}"
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say(f"{name}: waiting for another process that is at it")
                fcntl.flock(fd, fcntl.LOCK_EX)
            if path.exists() and os.path.samestat(os.fstat(fd), path.stat()):  # else `remove` has just deleted it
                try:
                    yield fd
                finally:
                    if not (folder / name).exists():
                        path.unlink()
                return
        finally:
            os.close(fd)


# ---- names


def _spec(wanted: dict[str, str]) -> str:
    return ",".join(f"{name}=={wanted[name]}" for name in ("jax", "libtpu") if name in wanted)


def _name(wanted: dict[str, str]) -> str:
    return "-".join(f"{name}-{wanted[name]}" for name in ("jax", "libtpu") if name in wanted)


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", version))


def _sort_key(spec: str) -> tuple[tuple[int, ...], str]:
    return _order(spec.partition("==")[2].partition(",")[0]), spec


def _read(path: Path) -> Toolchain | None:
    """The toolchain in a folder; None if it is not one, or its interpreter is no longer there."""
    try:
        known = json.loads((path / "toolchain.json").read_text())
    except (OSError, ValueError):
        return None
    python = path / "bin" / "python"
    if not os.access(python, os.X_OK):
        return None
    return Toolchain(known["spec"], str(python), tuple(known["versions"].items()))
