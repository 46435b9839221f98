"""From a typed program to bytecode."""

from assay.llo.lowering.lower import lower, unknown_opcodes

__all__ = ["lower", "unknown_opcodes"]
