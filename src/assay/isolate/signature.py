"""What became of a program's parameters and results on the way down.

A pass may lay them out anew, or take tuples apart: flat, they are the same arrays. Whatever else it does to them is
told as Unsupported, for a guess would make a false alarm.
"""

from __future__ import annotations

from collections.abc import Sequence

from assay.errors import Unsupported
from assay.hlo.module import Module
from assay.hlo.shape import ArrayShape


def check_parameters(program: Module, snapshot: Module) -> None:
    """Raises Unsupported where the snapshot takes other arrays than the program does, tuples flattened."""
    _check("parameters", program.arrays, snapshot.arrays)


def check_results(program: Module, snapshot: Module) -> None:
    """Raises Unsupported where the snapshot gives other arrays than the program does, tuples flattened."""
    _check("results", program.results, snapshot.results)


def _check(what: str, wanted: Sequence[ArrayShape], found: Sequence[ArrayShape]) -> None:
    if len(wanted) != len(found):
        raise Unsupported(f"{what} that a pass changed", f"from {len(wanted)} arrays to {len(found)}")
    for index, (mine, other) in enumerate(zip(wanted, found, strict=True)):
        if (mine.dtype.name, mine.dims) != (other.dtype.name, other.dims):
            raise Unsupported(f"{what} that a pass changed", f"number {index} from {_spell(mine)} to {_spell(other)}")


def _spell(shape: ArrayShape) -> str:
    return f"{shape.dtype}[{','.join(map(str, shape.dims))}]"
