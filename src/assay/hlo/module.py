"""Instruction, computation, module: flat frozen data that refers by name.

Invariant: within a computation every operand is the name of an instruction that stands earlier in `instructions`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from assay.hlo.literal import Literal
from assay.hlo.shape import ArrayShape, Shape, leaves


@dataclass(frozen=True, slots=True)
class Instruction:
    """One HLO instruction.

    `attributes` holds everything after the operands as XLA wrote it, by name and in the printed order, `metadata` and
    `backend_config` included; `assay.hlo.attributes` gives typed views. Attributes that name computations keep the name
    without its `%`. `literal` is set for `constant` alone, `parameter_number` for `parameter` alone.
    """

    name: str
    opcode: str
    shape: Shape
    operands: tuple[str, ...] = ()
    attributes: Mapping[str, str] = field(default_factory=dict, hash=False)
    literal: Literal | None = None
    parameter_number: int | None = None

    @property
    def array(self) -> ArrayShape:
        """The shape, which must be an array's."""
        assert isinstance(self.shape, ArrayShape), f"{self.name} ({self.opcode}) is not an array"
        return self.shape


@dataclass(frozen=True, slots=True)
class Computation:
    """A computation; `instructions` is an order with operands first (the schedule, where the module has one)."""

    name: str
    instructions: tuple[Instruction, ...]
    root_name: str
    attributes: Mapping[str, str] = field(default_factory=dict, hash=False)
    by_name: Mapping[str, Instruction] = field(init=False, compare=False, repr=False)
    parameters: tuple[Instruction, ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {i.name: i for i in self.instructions})
        parameters = [i for i in self.instructions if i.parameter_number is not None]
        object.__setattr__(self, "parameters", tuple(sorted(parameters, key=lambda i: i.parameter_number or 0)))

    @property
    def root(self) -> Instruction:
        return self.by_name[self.root_name]

    def operands(self, instruction: Instruction) -> tuple[Instruction, ...]:
        return tuple(self.by_name[name] for name in instruction.operands)


@dataclass(frozen=True, slots=True)
class Module:
    """A module. `attributes` is the rest of the header line; `tables` the stack-frame tables as XLA wrote them."""

    name: str
    computations: tuple[Computation, ...]
    entry_name: str
    attributes: Mapping[str, str] = field(default_factory=dict, hash=False)
    tables: str = ""
    by_name: Mapping[str, Computation] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {c.name: c for c in self.computations})

    @property
    def arrays(self) -> list[ArrayShape]:
        """The arrays among the entry's parameters, tuples flattened: what a run takes."""
        return [leaf for p in self.entry.parameters for leaf in leaves(p.shape) if isinstance(leaf, ArrayShape)]

    @property
    def results(self) -> list[ArrayShape]:
        """The arrays among the entry's results, tuples flattened: what a run gives."""
        return [leaf for leaf in leaves(self.entry.root.shape) if isinstance(leaf, ArrayShape)]

    @property
    def scheduled(self) -> bool:
        """Whether a compiler made it: the order of its instructions is a schedule."""
        return self.attributes.get("is_scheduled") == "true"

    @property
    def entry(self) -> Computation:
        return self.by_name[self.entry_name]
