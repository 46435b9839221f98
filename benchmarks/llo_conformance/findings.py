"""Mismatches that are explained: name of a case, stage or "*", targets -> what is known of it."""

from __future__ import annotations

EXPLAINED: dict[str, str] = {}
"""Name of the case -> why its result lies outside the bound though the simulator is not at fault."""
