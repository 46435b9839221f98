"""Opcode -> function. One short function an opcode, one file a family, found by the opcode's own name.

An operation is a function `(context, instruction, *operand values) -> value`; importing a family's file registers its
operations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from assay.errors import Unsupported
from assay.reference.refused import CUSTOM_CALLS, OPCODES
from assay.reference.value import Value

Operation = Callable[..., Value]

_OPERATIONS: dict[str, Operation] = {}
_CUSTOM_CALLS: dict[str, Operation] = {}


def operation(*opcodes: str) -> Callable[[Operation], Operation]:
    """Registers a function for HLO opcodes."""
    return _register(_OPERATIONS, opcodes)


def custom_call(*targets: str) -> Callable[[Operation], Operation]:
    """Registers a function for custom-call targets."""
    return _register(_CUSTOM_CALLS, targets)


def _register(table: dict[str, Operation], names: tuple[str, ...]) -> Callable[[Operation], Operation]:
    def add(function: Operation) -> Operation:
        for name in names:
            assert name not in table, f"{name} has two implementations"
            table[name] = function
        return function

    return add


def find(opcode: str) -> Operation:
    if opcode not in _OPERATIONS:
        raise Unsupported(opcode, OPCODES.get(opcode, ""))
    return _OPERATIONS[opcode]


def find_custom_call(target: str) -> Operation:
    if target not in _CUSTOM_CALLS:
        raise Unsupported(f"custom-call {target}", CUSTOM_CALLS.get(target, ""))
    return _CUSTOM_CALLS[target]


def supported() -> dict[str, Any]:
    """The opcodes and custom-call targets that the reference knows."""
    return {"opcodes": sorted(_OPERATIONS), "custom_calls": sorted(_CUSTOM_CALLS)}
