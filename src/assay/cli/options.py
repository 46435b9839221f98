"""Options that several commands share, and what their texts mean. Whatever reads one raises InputError in one line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from assay.checking.api import ACCUMULATIONS, DEFAULT_CLASSES
from assay.errors import InputError
from assay.inputs.classes import CLASSES
from assay.reference.policies import NAMES

_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}

Option = Annotated[
    list[str] | None, typer.Option(help="An XLA debug option, NAME=VALUE, for this compilation. Repeatable.")
]
Flag = Annotated[
    list[str] | None,
    typer.Option(help="A flag of the compiler's process, XLA's or, for a TPU, libtpu's. Repeatable."),
]
Case = Annotated[str | None, typer.Option(help="Only the cases whose name matches this glob, such as '*norm*'.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of drawn inputs.")]
Inputs = Annotated[Path | None, typer.Option(help="Arguments as an .npz file.")]
InputClass = Annotated[list[str] | None, typer.Option(help=f"Kinds of drawn inputs: {', '.join(CLASSES)}. Repeatable.")]
Json = Annotated[Path | None, typer.Option(help="Write the whole report here as JSON; - for standard output.")]
Memory = Annotated[str, typer.Option(help="Memory limit of the reference and of the worker, each.")]
DumpLimit = Annotated[str, typer.Option(help="What the compiler may dump; above it the dump is deleted.")]
Policy = Annotated[
    str | None,
    typer.Option(help=f"What the target may do with numbers, its own if not given: {', '.join(NAMES)}."),
]
Accumulation = Annotated[str, typer.Option(help=f"How sure bounds of sums are: {', '.join(ACCUMULATIONS)}.")]


def options_of(texts: Sequence[str] | None) -> dict[str, str]:
    """`--option NAME=VALUE`, each taken apart."""
    return dict(_pair(text) for text in texts or ())


def flags_of(texts: Sequence[str] | None) -> tuple[str, ...]:
    """`--flag`, each with the dashes that the compiler wants."""
    return tuple(text if text.startswith("--") else f"--{text}" for text in texts or ())


def classes_of(names: Sequence[str] | None) -> tuple[str, ...]:
    """`--input-class`, or the usual classes."""
    for name in names or ():
        if name not in CLASSES:
            raise InputError(f"--input-class {name}: there is {', '.join(CLASSES)}")
    return tuple(names) if names else DEFAULT_CLASSES


def bytes_of(text: str, option: str = "--memory") -> int:
    """`8G`, the value of `option`, -> 8589934592."""
    number, unit = text.strip().upper().removesuffix("B").removesuffix("I"), 1
    if number and number[-1] in _UNITS:
        number, unit = number[:-1], _UNITS[number[-1]]
    try:
        size = int(float(number) * unit)
    except (ValueError, OverflowError):
        size = 0
    if size <= 0:
        raise InputError(f"{option} {text}: write a size such as 8G or 500M")
    return size


def seconds_of(text: str, option: str = "--time") -> float:
    """`90`, `30s`, `5m`, `1h30m`, the value of `option`, in seconds."""
    parts = re.findall(r"(\d+(?:\.\d+)?)([smhd]?)", text.strip().lower())
    if not parts or "".join(map("".join, parts)) != text.strip().lower():
        raise InputError(f"{option} {text}: write a time such as 30s, 5m or 1h")
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.lstrip("-").partition("=")
    if not equals or not name:
        raise InputError(f"--option {text}: write NAME=VALUE, e.g. xla_backend_optimization_level=0")
    return name, value
