"""A piece: what one computing instruction of a graph does, as a program of its own."""

from __future__ import annotations

from dataclasses import dataclass

from assay.hlo.module import Module


@dataclass(frozen=True, slots=True)
class Operand:
    """A value of the computation that a piece is given: an instruction and, of its tuple, the leaf at `index`."""

    name: str
    index: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Piece:
    """name, computation, opcode: of the instruction that computes, the `-done` of an asynchronous chain.

    module: the piece; its parameters are arrays and stand for the values `operands` of `computation`, each once, in
    order, and its root is the instruction. instructions: all instructions of `computation` that the piece has, operands
    first. brought: those of them that other pieces may have as well, constants and the like; the rest, a chain from its
    start to its end, is this piece's alone.
    """

    name: str
    computation: str
    opcode: str
    module: Module
    operands: tuple[Operand, ...]
    instructions: tuple[str, ...]
    brought: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Left:
    """An instruction that is no piece, and why: it only names or moves values, or what it calls was cut instead."""

    name: str
    computation: str
    opcode: str
    why: str


@dataclass(frozen=True, slots=True)
class Cut:
    """Every instruction of the computations that run is in a piece or among those that are left, in program order."""

    module: Module
    pieces: tuple[Piece, ...]
    left: tuple[Left, ...]
