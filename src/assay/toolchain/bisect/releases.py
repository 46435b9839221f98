"""The row of releases: which there are, oldest first, and what each takes to install.

`jaxlib`: each release of jaxlib that has a jax of the same number and a wheel for a Python of this machine; the
toolchain is that jax. `libtpu`: each release of libtpu, with a jax that loads it. The package index is asked, by way of
pip, and its answer kept for a day; where it does not answer, an older answer is used, or what is installed already.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from assay.errors import InputError, ToolchainError
from assay.toolchain.environments import cache_folder, installed, parse_spec
from assay.toolchain.installer import fitting_versions
from assay.toolchain.interpreters import find_interpreters

FRESH_S = 24 * 3600.0
FINAL = re.compile(r"\d+(\.\d+)*")  # no pre-release

Number = tuple[int, ...]

# What loads together: (oldest libtpu, newest libtpu, jax), each end measured by compiling ahead of time for v5e. One
# jax over a long stretch is better than each release's own: what jax writes as HLO is then the same in all of them.
MEASURED_PAIRS = (
    ("0.0.11.1", "0.0.11.1", "0.5.3"),
    ("0.0.32",   "0.0.32",   "0.8.2"),
    ("0.0.41",   "0.0.41",   "0.10.1"),
    ("0.0.42.1", "0.0.52",   "0.10.2"),
)  # fmt: skip

# The libtpu that each jax's extra `tpu` asks for, from the Requires-Dist lines of its own metadata: the two were made
# in the same weeks.
JAX_OF_LIBTPU = {
    "0.0.10": "0.5.1",  "0.0.11": "0.5.3",  "0.0.13": "0.6.0",  "0.0.15": "0.6.1",  "0.0.17": "0.6.2",
    "0.0.19": "0.7.0",  "0.0.20": "0.7.1",  "0.0.23": "0.7.2",  "0.0.24": "0.8.0",  "0.0.30": "0.8.1",
    "0.0.32": "0.8.2",  "0.0.34": "0.9.0",  "0.0.35": "0.9.1",  "0.0.37": "0.9.2",  "0.0.40": "0.10.0",
    "0.0.41": "0.10.1", "0.0.42": "0.10.2", "0.0.44": "0.11.0", "0.0.46": "0.11.1", "0.0.48": "0.11.2",
    "0.0.50": "0.12.0.1",
}  # fmt: skip

OLDEST = {"jaxlib": "0.4.13", "libtpu": "0.0.10"}  # of what assay's worker runs under
AXES = tuple(OLDEST)


@dataclass(frozen=True)
class Release:
    """version: of the distribution that is bisected. spec: the toolchain that has it."""

    version: str
    spec: str


def row_of(axis: str, say: Callable[[str], None] = lambda _: None) -> tuple[Release, ...]:
    """All releases of `axis` that may be had here, oldest first. Raises ToolchainError where none can be named."""
    if axis not in AXES:
        raise InputError(f"--over {axis}: there is {', '.join(AXES)}")
    versions = {version for version in _published(axis, say) if number(version) >= number(OLDEST[axis])}
    found = {version: spec_of(axis, version) for version in versions} or _installed(axis)
    if not found:
        raise ToolchainError(f"the package index does not answer, and no toolchain with {axis} is installed here")
    return tuple(Release(version, found[version]) for version in sorted(found, key=number))


def spec_of(axis: str, version: str) -> str:
    """The toolchain that a release is run in."""
    return f"jax=={version}" if axis == "jaxlib" else f"jax=={jax_for(version)},libtpu=={version}"


def jax_for(libtpu: str) -> str:
    """A jax that loads this libtpu: measured, else the newest whose own libtpu is not newer."""
    for low, high, jax in MEASURED_PAIRS:
        if number(low) <= number(libtpu) <= number(high):
            return jax
    if number(libtpu) > number(MEASURED_PAIRS[-1][1]):
        return MEASURED_PAIRS[-1][2]
    not_newer = [own for own in JAX_OF_LIBTPU if number(own) <= number(libtpu)]
    return JAX_OF_LIBTPU[max(not_newer, key=number) if not_newer else min(JAX_OF_LIBTPU, key=number)]


def position(row: Sequence[Release], axis: str, version: str) -> int:
    """Where `version` (or a whole spec with it) stands; InputError with its neighbours if it is not in the row."""
    wanted = _version_in(axis, version)
    for i, release in enumerate(row):
        if release.version == wanted:
            return i
    if not FINAL.fullmatch(wanted):
        raise InputError(f"{version!r} is not a release of {axis}: write a version such as {row[-1].version}")
    before = [r.version for r in row if number(r.version) < number(wanted)][-1:]
    after = [r.version for r in row if number(r.version) > number(wanted)][:1]
    raise InputError(f"there is no {axis} {wanted} to be had here; nearest: {', '.join(before + after)}")


def number(version: str) -> Number:
    return tuple(int(n) for n in re.findall(r"\d+", version))


def _version_in(axis: str, text: str) -> str:
    if "==" not in text:
        return text.strip()
    parts = dict(part.split("==", 1) for part in text.replace(" ", "").split(",") if "==" in part)
    return parts.get(axis) or parts.get("jax" if axis == "jaxlib" else axis) or text


def _installed(axis: str) -> dict[str, str]:
    """Releases for which a toolchain is here already, with its spec: the row where the index does not answer."""
    found: dict[str, str] = {}
    for toolchain in installed():
        wanted = parse_spec(toolchain.spec)
        version = toolchain.version(axis) or ""
        if ("libtpu" in wanted) == (axis == "libtpu") and FINAL.fullmatch(version):
            found.setdefault(version, toolchain.spec)
    return {version: spec for version, spec in found.items() if number(version) >= number(OLDEST[axis])}


# ---- the index, by way of pip


def _published(axis: str, say: Callable[[str], None]) -> list[str]:
    pythons = find_interpreters()
    minors = [python.minor for python in pythons]
    kept, at = _kept(axis, minors)
    if kept and time.time() - at < FRESH_S:
        return kept
    say(f"asking the package index which releases of {axis} there are")
    found = set(fitting_versions(axis, minors, pythons))
    if axis == "jaxlib":
        found &= set(fitting_versions("jax", minors, pythons))
    if not found:
        return kept
    versions = sorted((v for v in found if FINAL.fullmatch(v)), key=number)
    _keep(axis, minors, versions)
    return versions


def _store() -> Path:
    return cache_folder().parent / "releases.json"


def _kept(axis: str, minors: Sequence[str]) -> tuple[list[str], float]:
    """An earlier answer and when it was given; none if it was for other Pythons."""
    try:
        entry = json.loads(_store().read_text())[axis]
        if entry["pythons"] == list(minors):
            return [str(v) for v in entry["versions"]], float(entry["time"])
    except (OSError, ValueError, KeyError, TypeError):
        return [], 0.0  # nothing kept that can be read: it is asked again
    return [], 0.0


def _keep(axis: str, minors: Sequence[str], versions: Sequence[str]) -> None:
    path = _store()
    try:
        known = json.loads(path.read_text())
        assert isinstance(known, dict)
    except (OSError, ValueError, AssertionError):
        known = {}
    known[axis] = {"time": time.time(), "pythons": list(minors), "versions": list(versions)}
    with contextlib.suppress(OSError):  # a folder that cannot be written costs a question each time, no more
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        beside.write_text(json.dumps(known))
        beside.replace(path)
