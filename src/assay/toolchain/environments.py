"""Toolchains on disk."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib import metadata


@dataclass(frozen=True)
class Toolchain:
    """spec: `host` or `jax==V[,libtpu==W]`. python: path of its interpreter. versions: of its distributions."""

    spec: str
    python: str
    versions: tuple[tuple[str, str], ...] = ()


def host() -> Toolchain:
    return Toolchain("host", sys.executable)


def resolve(spec: str | None = None) -> Toolchain:
    return host()
