"""Constants: kept as the text XLA wrote, turned into an array when one is asked for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Literal:
    """The value of a `constant` as XLA wrote it, without the enclosing parentheses: `1.5`, `{ {1, 2}, {3, 4} }`, `(1, {2, 3})`."""

    text: str
