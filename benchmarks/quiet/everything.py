"""All programs, in the order of the tables. A library that is not installed is left out, and said to be."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable

from programs import Entry

LISTS = (
    "jnp_elementwise", "jnp_arrays", "lax_programs", "linear_algebra", "scipy_programs", "nn_programs",
    "random_programs", "transformed", "optax_programs",
)  # fmt: skip


def everything(tell: Callable[[str], None] = lambda _: None) -> list[Entry]:
    found: list[Entry] = []
    for name in LISTS:
        try:
            found += importlib.import_module(name).programs()
        except ModuleNotFoundError as missing:
            if missing.name in LISTS or missing.name == "programs":
                raise
            tell(f"skipped: {name} needs {missing.name}, which is not installed")
    titles = [entry.title for entry in found]
    assert len(set(titles)) == len(titles), "a program is listed twice"
    return found


def chosen(pattern: str, tell: Callable[[str], None] = lambda _: None) -> list[Entry]:
    """Those whose title contains a match of the regular expression."""
    return [entry for entry in everything(tell) if re.search(pattern, entry.title)]
