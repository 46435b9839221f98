"""What an instruction computes, as a key that names, order, layouts and fusion do not enter.

Two instructions with equal keys have equal values. `walk` follows a computation with a number (a `Ref`) in place of
each value; calls and fusions are entered, tuples are taken apart, copies are what they copy, and what the root does
not need is left out. All else is given a number by the caller, who looks its key up in a table: that is value
numbering (Cocke and Schwartz, 1970), across modules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from assay.hlo import attributes
from assay.hlo.attribute_names import REFERENCES
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.printer import print_shape
from assay.hlo.reader import referred
from assay.hlo.shape import Shape, TupleShape

Ref = int | tuple["Ref", ...]
"""The number of an array or a token; of a tuple those of its elements."""

Key = tuple[Any, ...]
Number = Callable[[Computation, Instruction, tuple[Ref, ...]], Ref]

SAME = frozenset(("copy", "opt-barrier", "optimization-barrier", "add-dependency"))
"""Opcodes whose value is their first operand's."""

_LONG = 256

# Attributes that say nothing about the value: where the text came from, how it is to be laid out, fused or scheduled.
_SILENT = frozenset(
    (
        *REFERENCES, "metadata", "origin", "statistics", "sharding", "frontend_attributes", "kind",
        "parameter_replication", "outer_dimension_partitions", "output_to_operand_aliasing", "schedule",
        "cross_program_prefetch_index", "is_cross_program_prefetch", "async_execution_thread", "async_group_id",
    )
)  # fmt: skip

# Opcodes whose value depends on how arrays lie in memory.
_BY_LAYOUT = frozenset(("bitcast", "custom-call"))


def walk(module: Module, computation: Computation, arguments: Sequence[Ref], number: Number) -> dict[str, Ref]:
    """The refs of all instructions of `computation` that its root needs, by name."""
    needed = live(computation)
    refs: dict[str, Ref] = {}
    for instruction in computation.instructions:
        if instruction.name in needed:
            refs[instruction.name] = _ref(module, computation, instruction, arguments, refs, number)
    return refs


def _ref(
    module: Module,
    computation: Computation,
    instruction: Instruction,
    arguments: Sequence[Ref],
    refs: dict[str, Ref],
    number: Number,
) -> Ref:
    if instruction.parameter_number is not None:
        return arguments[instruction.parameter_number]
    operands = tuple([refs[name] for name in instruction.operands])
    match instruction.opcode:
        case "tuple":
            return operands
        case "get-tuple-element" if isinstance(operands[0], tuple):
            return operands[0][attributes.integer(instruction, "index")]
        case "call" | "fusion":
            inner = module.by_name[attributes.called(instruction)[0]]
            found = walk(module, inner, operands, number)[inner.root_name]
            backwards = attributes.output_reverse_dimensions(instruction)
            return _reversed(inner, instruction, found, backwards, number) if backwards else found
        case opcode if opcode in SAME:
            return operands[0]
    return number(computation, instruction, operands)


def _reversed(inner: Computation, fusion: Instruction, found: Ref, dimensions: Sequence[int], number: Number) -> Ref:
    """What a fusion gives that writes its result backwards: the reverse that libtpu has put into it."""
    words = {"dimensions": "{" + ",".join(map(str, dimensions)) + "}"}
    reverse = Instruction(f"{fusion.name}.reverse", "reverse", fusion.shape, (inner.root_name,), words)
    return number(inner, reverse, (found,))


def live(computation: Computation) -> set[str]:
    """The names of the instructions that the root needs."""
    needed = {computation.root_name}
    for instruction in reversed(computation.instructions):
        if instruction.name in needed:
            needed.update(instruction.operands)
    return needed


def flat(ref: Ref) -> list[int]:
    """The numbers of a possibly nested tuple, in order."""
    return [leaf for element in ref for leaf in flat(element)] if isinstance(ref, tuple) else [ref]


@dataclass(slots=True)
class Expressions:
    """Keys of instructions; `number_of` is the table of symbolic expressions, which stand for called computations.

    Computations of all modules that are given share it, so that equal functions have equal numbers.
    """

    number_of: dict[Key, int] = field(default_factory=dict)
    _functions: dict[str, Ref] = field(default_factory=dict)  # of the present module
    _attributes: dict[int, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    _said: dict[int, tuple[Instruction, Key]] = field(default_factory=dict)  # words of the module's instructions
    _said_before: dict[int, tuple[Instruction, Key]] = field(default_factory=dict)  # of the module before
    _module: Module | None = None

    def enter(self, module: Module) -> None:
        """Has to be called before keys of a module's instructions are asked for."""
        if module is not self._module:
            self._module = module
            self._functions.clear()
            self._attributes.clear()
            self._said, self._said_before = {}, self._said

    def key(self, computation: Computation, instruction: Instruction, operands: tuple[Ref, ...]) -> Key:
        """What `instruction` computes of `operands`."""
        called: tuple[Ref, ...] = ()
        if instruction.attributes and not REFERENCES.isdisjoint(instruction.attributes):
            called = tuple(self.function(name) for name in referred(instruction))
        return self._words(computation, instruction), called, operands

    def function(self, name: str) -> Ref:
        """The number of a computation of the present module: of its root in terms of its parameters."""
        assert self._module is not None
        found = self._functions.get(name)
        if found is None:
            computation = self._module.by_name[name]
            arguments = [
                self.parameter(number, parameter.shape) for number, parameter in enumerate(computation.parameters)
            ]
            found = walk(self._module, computation, arguments, self.symbol)[computation.root_name]
            self._functions[name] = found
        return found

    def parameter(self, number: int, shape: Shape, place: tuple[int, ...] = ()) -> Ref:
        """The symbol of a computation's parameter."""
        if isinstance(shape, TupleShape):
            return tuple(self.parameter(number, element, (*place, i)) for i, element in enumerate(shape.elements))
        return self._numbered(("parameter", number, place, print_shape(shape, layout=False)))

    def symbol(self, computation: Computation, instruction: Instruction, operands: tuple[Ref, ...]) -> Ref:
        """The symbol of what an instruction computes of symbols."""
        return self._spread(instruction.shape, self._numbered(self.key(computation, instruction, operands)), ())

    def _spread(self, shape: Shape, number: int, place: tuple[int, ...]) -> Ref:
        if isinstance(shape, TupleShape):
            return tuple(self._spread(element, number, (*place, i)) for i, element in enumerate(shape.elements))
        return number if not place else self._numbered(("element", number, place))

    def _numbered(self, key: Key) -> int:
        return self.number_of.setdefault(key, len(self.number_of))

    def _words(self, computation: Computation, instruction: Instruction) -> Key:
        """The part of the key that does not depend on operands; snapshots share instructions that did not change."""
        said = self._said.get(id(instruction)) or self._said_before.get(id(instruction))
        if said is None or said[0] is not instruction:
            said = instruction, self._new_words(computation, instruction)
        if instruction.opcode not in _BY_LAYOUT:
            self._said[id(instruction)] = said
        return said[1]

    def _new_words(self, computation: Computation, instruction: Instruction) -> Key:
        by_layout = instruction.opcode in _BY_LAYOUT
        words: tuple[Any, ...] = (
            instruction.opcode,
            print_shape(instruction.shape, layout=by_layout),
            self._attribute_words(instruction),
        )
        if by_layout:
            layouts = (print_shape(computation.by_name[name].shape) for name in instruction.operands)
            words = (*words, instruction.attributes.get("backend_config"), *layouts)
        if instruction.literal is not None:
            words = (*words, _short(instruction.literal.text))
        return words

    def _attribute_words(self, instruction: Instruction) -> tuple[tuple[str, str], ...]:
        given = instruction.attributes
        if not given:
            return ()
        found = self._attributes.get(id(given))  # one mapping serves all instructions with the same text
        if found is None:
            kept = [(k, v) for k, v in sorted(given.items()) if k not in _SILENT and k != "backend_config"]
            found = self._attributes[id(given)] = tuple(kept)
        return found


def _short(text: str) -> str:
    """The text, or a digest of it where it is long."""
    return text if len(text) <= _LONG else blake2b(text.encode(), digest_size=16).hexdigest()
