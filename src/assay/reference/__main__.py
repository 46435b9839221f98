"""`python -m assay.reference`: which opcodes and custom calls the reference models, which it refuses, and why."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterable, Iterator
from textwrap import wrap

from assay.hlo.opcodes import ARITY
from assay.reference import evaluator, refused, registry

_WIDTH = 110


def lines() -> Iterator[str]:
    """The table, line by line."""
    assert evaluator.FAMILIES  # they register themselves
    known = registry.supported()
    modelled = [opcode for opcode in ARITY if opcode not in refused.OPCODES]
    yield f"opcodes modelled ({len(modelled)} of {len(ARITY)})"
    yield from _block(modelled)
    yield "modelled in part"
    for names, extent in refused.PARTLY.items():
        yield from wrap(f"{names}: {extent}", _WIDTH, initial_indent="  ", subsequent_indent="    ")
    yield "opcodes refused"
    yield from _reasons(refused.OPCODES)
    yield f"custom calls modelled ({len(known['custom_calls'])} names)"
    yield from _block(_families(known["custom_calls"]))
    yield "custom calls refused, besides all that are not named here"
    yield from _reasons(refused.CUSTOM_CALLS)


def _block(names: Iterable[str]) -> list[str]:
    return wrap(", ".join(names), _WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)


def _reasons(table: dict[str, str]) -> Iterator[str]:
    for reason in dict.fromkeys(table.values()):
        names = ", ".join(name for name, why in table.items() if why == reason)
        yield from wrap(f"{names}: {reason}", _WIDTH, initial_indent="  ", subsequent_indent="    ")


def _families(targets: Iterable[str]) -> list[str]:
    """`lapack_sgetrf`, `lapack_dgetrf`, .. as `lapack_[sdcz]getrf`."""
    families: dict[tuple[str, str], str] = {}
    for target in targets:
        match = re.fullmatch(r"(lapack_|blas_)([sdcz])(\w+)", target)
        if match is None:
            families[target, ""] = ""
        else:
            key = match[1], match[3]
            families[key] = families.get(key, "") + match[2]
    return [f"{first}[{kinds}]{rest}" if kinds else first for (first, rest), kinds in families.items()]


if __name__ == "__main__":
    argparse.ArgumentParser(prog="python -m assay.reference", description=__doc__.split("`: ")[1]).parse_args()
    try:
        print("\n".join(lines()), flush=True)
    except BrokenPipeError:  # the reader has seen enough; Python would complain once more as it closes stdout
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
