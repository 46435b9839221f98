"""How large an output is when nothing cancels: the scale by which its radius is to be judged.

A sum near zero has a radius larger than itself, and still says much: its terms are large, and one left out would show.
So the scale of an output is looked for at the last instruction where terms may cancel on the way to it, and is that of
its operands; instructions behind it (a division by n, a reshape) scale both alike.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from assay.hlo.attributes import computation as called_computation
from assay.hlo.module import Computation, Instruction, Module
from assay.oracle.evidence import typical_size
from assay.reference.value import Ball, Value

_CANCELS = {"add", "subtract", "reduce", "dot", "convolution", "reduce-window", "scatter"}
_KEEPS = {"bitcast", "broadcast", "convert", "copy", "negate", "reshape", "reverse", "slice", "transpose"}
_SCALES = {"divide", "multiply"}
_DEPTH = 12

Key = tuple[str, str]  # computation, instruction


@dataclass(slots=True)
class Scales:
    """Watches an evaluation (`see` is its on_value), then gives the scale of each output."""

    module: Module
    sizes: dict[Key, float] = field(default_factory=dict)
    _cancelling: list[tuple[Key, tuple[Key, ...]] | None] = field(default_factory=list)
    _watched: set[Key] = field(default_factory=set)

    def __post_init__(self) -> None:
        entry = self.module.entry
        outputs = entry.operands(entry.root) if entry.root.opcode == "tuple" else (entry.root,)
        for output in outputs:
            found = _last_cancelling(self.module, entry, output)
            self._cancelling.append(found)
            if found is not None:
                self._watched.update((found[0], *found[1]))

    def see(self, computation: Computation, instruction: Instruction, value: Value) -> None:
        key = (computation.name, instruction.name)
        if key in self._watched and isinstance(value, Ball) and (value.dtype.is_float or value.dtype.is_complex):
            self.sizes[key] = typical_size(value)

    def of(self, index: int, ball: Ball) -> float:
        """Of output `index`: its own typical size, or what it would be if nothing had cancelled."""
        own = typical_size(ball)
        found = self._cancelling[index] if index < len(self._cancelling) else None
        if found is None:
            return own
        key, operands = found
        before = max((self.sizes.get(operand, 0.0) for operand in operands), default=0.0)
        after = self.sizes.get(key, 0.0)
        if after == 0.0 or own == 0.0:
            return max(own, before)
        return own * max(1.0, before / after)


def _last_cancelling(
    module: Module, computation: Computation, instruction: Instruction
) -> tuple[Key, tuple[Key, ...]] | None:
    """The last instruction where terms may cancel, and its operands; None where there is none close by."""
    for _ in range(_DEPTH):
        if instruction.opcode in _CANCELS:
            key = (computation.name, instruction.name)
            return key, tuple((computation.name, name) for name in instruction.operands)
        if instruction.opcode in _KEEPS:
            instruction = computation.by_name[instruction.operands[0]]
        elif instruction.opcode in _SCALES:
            sides = [_last_cancelling(module, computation, other) for other in computation.operands(instruction)[:2]]
            return next((side for side in sides if side is not None), None)
        elif instruction.opcode == "call":
            computation = module.by_name[called_computation(instruction, "to_apply")]
            instruction = computation.root
        else:
            return None
    return None
