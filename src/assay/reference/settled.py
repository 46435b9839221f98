"""Values that no rounding reaches: a sampled run need not work them out again.

What a run of balls finds exact and decided is the same in every legal run. Threefry's rounds are such values, and sorts
of integers, whole loops that count: a program may spend most of its time on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from assay.hlo.module import Computation, Instruction
from assay.reference.value import Ball, Value

Known = Mapping[tuple[str, str], Value]
"""By computation and instruction, of those that run once."""

MEMORY = 256 << 20
WORTH = frozenset((
    "while", "call", "conditional", "fusion", "custom-call", "sort", "reduce", "reduce-window", "dot", "convolution",
    "gather", "scatter", "map", "fft", "topk", "rng-bit-generator", "select-and-scatter",
))  # fmt: skip
"""Opcodes that take longer than to look one up."""


@dataclass(slots=True)
class Settled:
    """`see` is a watcher of a run of balls (`on_value` of `evaluate`). memory: bytes that are kept at most."""

    memory: int = MEMORY
    values: dict[tuple[str, str], Value] = field(default_factory=dict)
    _seen: set[tuple[str, str]] = field(default_factory=set)

    def see(self, computation: Computation, instruction: Instruction, value: Value) -> None:
        if instruction.opcode not in WORTH:
            return
        key = (computation.name, instruction.name)
        if key in self._seen:  # in a loop, or in what is called twice: it has no one value
            if (kept := self.values.pop(key, None)) is not None:
                self.memory += _bytes(kept)
            return
        self._seen.add(key)
        if _exact(value) and (size := _bytes(value)) <= self.memory:
            self.memory -= size
            self.values[key] = value


def _exact(value: Value) -> bool:
    if isinstance(value, tuple):
        return all(map(_exact, value))
    return isinstance(value, Ball) and value.rad is None and (value.und is None or not value.und.any())


def _bytes(value: Value) -> int:
    if isinstance(value, tuple):
        return sum(map(_bytes, value))
    return int(value.mid.nbytes) if isinstance(value, Ball) else 0
