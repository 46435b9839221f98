"""Opcode -> who draws it, and the element types it takes. A drawer is a function (builder, opcode, dtype)."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from assay.hlo.shape import DTYPES, DType

from .builder import Builder, Program
from .choices import Choices

Draw = Callable[[Builder, str, DType], None]

LETTERS = {"p": "pred", "s": "signed", "u": "unsigned", "f": "float", "c": "complex"}


NO_OTHER_PARTY = {
    "s1": "jaxlib hands it on as pred: MLIR's i1",
    "u1": "neither StableHLO nor MLIR's import of HLO has it",
}


@dataclass(frozen=True)
class Entry:
    """dtypes: the element types that the operation takes, by its own specification."""

    draw: Draw
    dtypes: tuple[str, ...]


CATALOGUE: dict[str, Entry] = {}


def of_kinds(letters: str) -> tuple[str, ...]:
    """The element types of the kinds p, s, u, f, c, but those that nobody else has."""
    kinds = {LETTERS[letter] for letter in letters}
    return tuple(name for name, dtype in DTYPES.items() if dtype.kind in kinds and name not in NO_OTHER_PARTY)


def draws(takes: str, *opcodes: str) -> Callable[[Draw], Draw]:
    """Registers a drawer. takes: letters of kinds, or names of element types with spaces between."""
    dtypes = tuple(takes.split()) if any(ch.isdigit() for ch in takes) else of_kinds(takes)

    def add(function: Draw) -> Draw:
        for opcode in opcodes:
            assert opcode not in CATALOGUE, f"{opcode} is drawn twice"
            CATALOGUE[opcode] = Entry(function, dtypes)
        return function

    return add


class NotDrawn(Exception):
    """These choices make no program."""


def draw_program(opcode: str, dtype: str, choices: Choices, depth: int = 1) -> Program:
    """One program about one opcode and one element type. Raises NotDrawn where the choices contradict each other."""
    builder = Builder(choices, depth)
    CATALOGUE[opcode].draw(builder, opcode, DTYPES[dtype])
    return builder.program(opcode, dtype)


def every_pair() -> list[tuple[str, str]]:
    return [(opcode, dtype) for opcode, entry in sorted(CATALOGUE.items()) for dtype in entry.dtypes]


MANY_FORMS = {
    "batch-norm-grad", "clamp", "compare", "concatenate", "convert", "convolution", "divide", "dot", "dynamic-slice",
    "dynamic-update-slice", "fft", "gather", "map", "pad", "power", "reduce", "reduce-precision", "reduce-window",
    "remainder", "rng-bit-generator", "scatter", "select-and-scatter", "sort", "topk", "triangular-solve", "while",
}  # fmt: skip
"""Opcodes that are drawn four times as often, for they have many attributes or many ways to go wrong."""


def weighted(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [pair for pair in pairs for _ in range(4 if pair[0] in MANY_FORMS else 1)]


def draw_any(rng: np.random.Generator, pairs: list[tuple[str, str]], depth: int = 1) -> Program:
    """A program of a pair picked at random."""
    while True:
        opcode, dtype = pairs[int(rng.integers(len(pairs)))]
        try:
            return draw_program(opcode, dtype, Choices(rng), depth)
        except NotDrawn:
            continue


for _file in ("elementwise", "movement", "indexing", "folding", "contraction", "control"):
    importlib.import_module(f"{__package__}.{_file}")
