"""Where a command's result goes: to a person, or as JSON to a file or standard output."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from assay.errors import InputError

WIDTH = 140  # of what is written to a file or a pipe


def console(width: int = WIDTH, stderr: bool = False) -> Console:
    """As wide as the terminal, or `width` where there is none."""
    found = Console(highlight=False, stderr=stderr)
    return found if found.is_terminal else Console(highlight=False, stderr=stderr, width=width)


def refuse_json(json: Path | None) -> None:
    """Raises InputError where a report cannot be written there, before anything is done."""
    if json is not None and str(json) != "-":
        refuse_unwritable(json, "--json")


def refuse_unwritable(path: Path, option: str, folder: bool = False) -> None:
    """Raises InputError where no file, or no folder, can be written there, before anything is done."""
    if path.is_dir() and not folder:
        raise InputError(f"{option} {path}: a folder; name a file in it")
    parent = path.absolute().parent
    if not parent.is_dir():
        raise InputError(f"{option} {path}: no such folder {parent}")
    if not os.access(path if path.exists() else parent, os.W_OK):
        raise InputError(f"{option} {path}: may not be written; name another place")


def deliver(json: Path | None, text: Callable[[], str], show: Callable[[Console], None], width: int = WIDTH) -> None:
    """Write the JSON `text` to the file `json`, if there is one, and show the report; `-` has the JSON in its place."""
    if json is not None and str(json) == "-":
        print(text(), end="")
        return
    if json is not None:
        json.write_text(text())
    show(console(width))
