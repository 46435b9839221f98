"""One program to check."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from assay.hlo.module import Module
from assay.hlo.parse import parse_module
from assay.toolchain.session import Kind

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Expectation:
    """What the program's author expects: their oracle, never assay's. `rtol` serves as relative and as absolute
    tolerance.
    """

    outputs: tuple[Array, ...]
    rtol: float = 0.0


@dataclass(frozen=True, slots=True)
class Program:
    """payload, kind: what the compiler is given (kinds of the worker: stablehlo, hlo-text, hlo-proto, export, and
    hlo-optimized, which it takes as it is).

    arguments: one entry a flat parameter, None where its value is to be drawn; empty where the program came with no
    word on them.
    output_names: where each flat output sits in the author's pytree; empty for a program without one.
    plain: what the reference evaluates in place of `module`: the same function, its Pallas kernels interpreted.
    problem: set where the program cannot be checked at all, with the reason; then nothing else but the name is.
    """

    name: str
    payload: bytes = field(default=b"", repr=False)
    kind: Kind = "hlo-text"
    module: Module | None = field(default=None, repr=False)
    arguments: tuple[Array | None, ...] = field(default=(), repr=False)
    output_names: tuple[str, ...] = ()
    expected: Expectation | None = field(default=None, repr=False)
    plain: Module | None = field(default=None, repr=False)
    notes: tuple[str, ...] = ()
    problem: str | None = None


def from_hlo(name: str, hlo: str, payload: bytes, kind: Kind, **more: Any) -> Program:
    """A program whose unoptimized HLO text is `hlo`. Raises HloSyntaxError where assay cannot read it."""
    return Program(name, payload, kind, parse_module(hlo, source=name), **more)
