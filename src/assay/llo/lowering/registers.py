"""Registers of the bytecode: one for each value or physical register, and one for each constant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from assay.errors import Unsupported
from assay.llo.program import Address, Immediate, Operand, Value

File = Literal["V", "M", "S"]
FILE_OF: dict[str, File] = {"V": "V", "M": "M", "S": "S", "P": "S"}


@dataclass(slots=True)
class Registers:
    """physical: whether values live in registers that have names, so that these count and not the values' own."""

    physical: bool
    _numbers: dict[File, dict[str, int]] = field(default_factory=lambda: {"V": {}, "M": {}, "S": {}})
    constants: dict[File, dict[int, int]] = field(default_factory=lambda: {"V": {}, "M": {}, "S": {}})
    offsets: dict[tuple[str, int], int] = field(default_factory=dict)
    _counts: dict[File, int] = field(default_factory=lambda: {"V": 0, "M": 0, "S": 0})
    tokens: dict[str, int] = field(default_factory=dict)

    def count(self, file: File) -> int:
        """How many there are."""
        return self._counts[file]

    def fresh(self, file: File) -> int:
        """A register that nothing else uses."""
        number = self._counts[file]
        self._counts[file] = number + 1
        return number

    def block(self, size: int) -> int:
        """The first of `size` fresh scalar registers in a row."""
        first = self._counts["S"]
        self._counts["S"] += size
        return first

    def named(self, file: File, name: str) -> int:
        """The register that goes by a name."""
        numbers = self._numbers[file]
        if name not in numbers:
            numbers[name] = self.fresh(file)
        return numbers[name]

    def of(self, value: Value) -> tuple[File, int]:
        """Where a value that has a kind lives."""
        file = FILE_OF[value.kind]
        name = value.register if self.physical and value.register is not None else value.name
        return file, self.named(file, name)

    def constant(self, file: File, bits: int) -> int:
        """A register that holds `bits` in each lane, and is never written."""
        known = self.constants[file]
        if bits not in known:
            known[bits] = self.fresh(file)
        return known[bits]

    def address(self, address: Address) -> int:
        """The scalar register that holds a place in an allocation."""
        key = address.allocation, address.offset
        if key not in self.offsets:
            self.offsets[key] = self.fresh("S")
        return self.offsets[key]

    def token(self, name: str) -> int:
        """A token's number, from 1."""
        return self.tokens.setdefault(name, len(self.tokens) + 1)

    def scalar(self, operand: Operand) -> int:
        """The scalar register of an operand. Raises Unsupported for a vector."""
        if isinstance(operand, Immediate):
            return self.constant("S", operand.bits)
        if isinstance(operand, Address):
            return self.address(operand)
        if operand.kind == "P" and operand.name in ("0", "1"):
            return self.constant("S", int(operand.name))
        if operand.kind not in ("S", "P"):
            raise Unsupported(f"%{operand.name} as a scalar")
        return self.of(operand)[1]


def literal(operands: Sequence[Operand], place: int) -> int:
    """An operand that is part of the instruction. Raises Unsupported where it is a value."""
    operand = operands[place]
    if not isinstance(operand, Immediate):
        raise Unsupported(f"a computed operand {place}")
    return operand.bits
