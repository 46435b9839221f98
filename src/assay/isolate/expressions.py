"""What an instruction computes, as a key that names, order, layouts and fusion do not enter.

Two instructions with equal keys have equal values. `walk` follows a computation with a number (a `Ref`) in place of
each value; calls and fusions are entered, tuples are taken apart, copies are what they copy, and what the root does
not need is left out. All else is given a number by the caller, who looks its key up in a table: that is value
numbering (Cocke and Schwartz, 1970), across modules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, NamedTuple

from assay.hlo import attributes
from assay.hlo.attribute_names import REFERENCES
from assay.hlo.graph import live
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.printer import print_shape
from assay.hlo.reader import referred
from assay.hlo.shape import ArrayShape, Shape, TupleShape

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


_ENTERED = frozenset(("tuple", "get-tuple-element", "call", "fusion"))
_COMMUTATIVE = frozenset(("add", "multiply", "and", "or", "xor"))

TOKEN: Key = ("token",)
"""The key of a token that enters a program."""


def walk(module: Module, computation: Computation, arguments: Sequence[Ref], number: Number) -> dict[str, Ref]:
    """The refs of all instructions of `computation` that its root needs, by name."""

    def enter(inner: Computation, operands: tuple[Ref, ...]) -> Ref:
        return walk(module, inner, operands, number)[inner.root_name]

    needed = live(computation)
    refs: dict[str, Ref] = {}
    for instruction in computation.instructions:
        if instruction.name not in needed:
            continue
        if instruction.parameter_number is not None:
            refs[instruction.name] = arguments[instruction.parameter_number]
        else:
            operands = tuple([refs[name] for name in instruction.operands])
            refs[instruction.name] = _ref(module, computation, instruction, operands, number, enter)
    return refs


def _ref(
    module: Module,
    computation: Computation,
    instruction: Instruction,
    operands: tuple[Ref, ...],
    number: Number,
    enter: Callable[[Computation, tuple[Ref, ...]], Ref],
) -> Ref:
    """The ref of an instruction that is no parameter; `enter` gives that of a computation's root."""
    match instruction.opcode:
        case "tuple":
            return operands
        case "get-tuple-element" if isinstance(operands[0], tuple):
            return operands[0][attributes.integer(instruction, "index")]
        case _ if backwards := attributes.output_reverse_dimensions(instruction):
            forwards = {key: value for key, value in instruction.attributes.items() if key != "backend_config"}
            plain = replace(instruction, attributes=forwards)
            found = _ref(module, computation, plain, operands, number, enter)
            # The reverse that libtpu has put into it.
            words = {"dimensions": "{" + ",".join(map(str, backwards)) + "}"}
            name = instruction.name
            return number(
                computation, Instruction(f"{name}.reverse", "reverse", instruction.shape, (name,), words), (found,)
            )
        case "call" | "fusion":
            return enter(module.by_name[attributes.called(instruction)[0]], operands)
        case opcode if opcode in SAME:
            return operands[0]
    return number(computation, instruction, operands)


def sorted_operands(instruction: Instruction, operands: tuple[Ref, ...]) -> tuple[Ref, ...]:
    """The operands, in one order where the result does not depend on it."""
    if instruction.opcode in _COMMUTATIVE and operands[0] > operands[1]:  # type: ignore[operator]
        return operands[1], operands[0]
    return operands


def flat(ref: Ref) -> list[int]:
    """The numbers of a possibly nested tuple, in order."""
    if not isinstance(ref, tuple):
        return [ref]
    found: list[int] = []
    for element in ref:
        if isinstance(element, tuple):
            found += flat(element)
        else:
            found.append(element)
    return found


class Made(NamedTuple):  # a hundred thousand are made: a dataclass takes four times as long
    """How a symbol is made: by an instruction, the first that computes it, of the symbols of its operands.

    words, called: the parts of its key without operands. sources: the symbols of its operands, flat. namesake: what the
    instruction of that name gave before.
    """

    module: Module
    computation: Computation
    instruction: Instruction
    operands: tuple[Ref, ...]
    words: int
    called: tuple[Ref, ...]
    sources: Sequence[int]
    namesake: Ref | None


@dataclass(frozen=True, slots=True)
class Element:
    """A symbol for an element of what an instruction with a tuple as result gives: that of the one source."""

    sources: tuple[int]
    place: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """A module's results in terms of its arguments. arguments: the symbols of the arrays that it takes, in order, and
    their shapes. instructions: how many of them make a value.
    """

    results: Ref
    arguments: tuple[tuple[int, ArrayShape], ...]
    instructions: int


class _Followed(NamedTuple):
    """What is known of an instruction: its ref in terms of `operands`, where `around` is as it was."""

    instruction: Instruction
    operands: tuple[Ref, ...]
    called: tuple[str, ...]
    around: tuple[Any, ...]
    ref: Ref
    instructions: int


@dataclass(slots=True)
class Expressions:
    """Keys of instructions; `number_of` is the table of symbolic expressions, in terms of a computation's parameters.

    Computations of all modules that are given share it, so that equal functions have equal numbers; and what stands
    in a module as it stood in another, the very same instruction or computation, is not followed again.
    """

    number_of: dict[Key, int] = field(default_factory=dict)
    made: dict[int, Made | Element] = field(default_factory=dict)  # symbols, but for parameters; operands come first
    _word_of: dict[Key, int] = field(default_factory=dict)
    _attributes: dict[int, tuple[Mapping[str, str], tuple[tuple[str, str], ...]]] = field(default_factory=dict)
    _said: dict[int, tuple[Instruction, int]] = field(default_factory=dict)  # words of instructions
    _followed: dict[int, _Followed] = field(default_factory=dict)
    _named: dict[str, Ref] = field(default_factory=dict)  # the last instructions of these names
    _identity_of: dict[Key, int] = field(default_factory=dict)  # of computations with all that they call
    _callees: dict[int, tuple[Computation, tuple[str, ...]]] = field(default_factory=dict)
    _entered: dict[tuple[int, tuple[Ref, ...]], tuple[Ref, int]] = field(default_factory=dict)
    _functions: dict[int, Ref] = field(default_factory=dict)
    _identities: dict[str, int] = field(default_factory=dict)  # of the present module's computations
    _module: Module | None = None
    _entry: tuple[Module, Entry] | None = None

    def enter(self, module: Module) -> None:
        """Has to be called before keys of a module's instructions are asked for."""
        if module is not self._module:
            self._module = module
            self._identities.clear()

    def entry(self, module: Module) -> Entry:
        """What the module computes. Parameters are numbered flat, for a pass may take tuples apart."""
        if self._entry is not None and module is self._entry[0]:
            return self._entry[1]
        self.enter(module)
        arrays: list[tuple[int, ArrayShape]] = []
        arguments = [self._argument(parameter.shape, arrays) for parameter in module.entry.parameters]
        results, instructions = self._follow(module.entry, arguments)
        found = Entry(results, tuple(arrays), instructions)
        self._entry = module, found
        return found

    def key(self, computation: Computation, instruction: Instruction, operands: tuple[Ref, ...]) -> Key:
        """What `instruction` computes of `operands`."""
        called: tuple[Ref, ...] = ()
        if instruction.attributes and not REFERENCES.isdisjoint(instruction.attributes):
            called = tuple([self.function(name) for name in referred(instruction)])
        return self._words(computation, instruction), called, sorted_operands(instruction, operands)

    def function(self, name: str) -> Ref:
        """The number of a computation of the present module: of its root in terms of its parameters."""
        assert self._module is not None
        identity = self._identity(name)
        found = self._functions.get(identity)
        if found is None:
            computation = self._module.by_name[name]
            arguments = [
                self.parameter(number, parameter.shape) for number, parameter in enumerate(computation.parameters)
            ]
            named, self._named = self._named, {}  # names are those of instructions that are evaluated
            found = self._functions[identity] = self._follow(computation, arguments)[0]
            self._named = named
        return found

    def parameter(self, number: int, shape: Shape, place: tuple[int, ...] = ()) -> Ref:
        """The symbol of a computation's parameter."""
        if isinstance(shape, TupleShape):
            return tuple([self.parameter(number, element, (*place, i)) for i, element in enumerate(shape.elements)])
        return self._numbered(("parameter", number, place, print_shape(shape, layout=False)))

    def symbol(self, computation: Computation, instruction: Instruction, operands: tuple[Ref, ...]) -> Ref:
        """The symbol of what an instruction computes of symbols."""
        assert self._module is not None
        words, called, _ = key = self.key(computation, instruction, operands)
        number = self._numbered(key)
        if number not in self.made:
            named, sources = self._named.get(instruction.name), flat(operands)
            self.made[number] = Made(self._module, computation, instruction, operands, words, called, sources, named)
        return self._spread(instruction.shape, number, ()) if isinstance(instruction.shape, TupleShape) else number

    # ---- modules

    def _argument(self, shape: Shape, arrays: list[tuple[int, ArrayShape]]) -> Ref:
        if isinstance(shape, TupleShape):
            return tuple([self._argument(element, arrays) for element in shape.elements])
        if not isinstance(shape, ArrayShape):
            return self._numbered(TOKEN)
        symbol = self._numbered(("argument", len(arrays), print_shape(shape, layout=False)))
        arrays.append((symbol, shape))
        return symbol

    def _follow(self, computation: Computation, arguments: Sequence[Ref]) -> tuple[Ref, int]:
        """The root's ref, and how many instructions that make a value were met."""
        refs: dict[str, Ref] = {}
        instructions = 0
        followed, named = self._followed, self._named
        for instruction in computation.instructions:
            number, name = instruction.parameter_number, instruction.name
            if number is not None:
                refs[name] = arguments[number]
                continue
            operands = tuple([refs[operand] for operand in instruction.operands])
            known = followed.get(id(instruction))
            if (
                known is None
                or known.operands != operands
                or (known.around and known.around != self._around(computation, instruction, known.called))
            ):
                known = self._followed_anew(computation, instruction, operands)
            refs[name] = named[name] = known.ref
            instructions += known.instructions
        return refs[computation.root_name], instructions

    def _followed_anew(
        self, computation: Computation, instruction: Instruction, operands: tuple[Ref, ...]
    ) -> _Followed:
        assert self._module is not None
        plain = instruction.opcode not in _ENTERED and instruction.opcode not in SAME
        if plain and not attributes.output_reverse_dimensions(instruction):
            ref = self.symbol(computation, instruction, operands)
            return self._remembered(computation, instruction, operands, ref, 1)
        instructions = 0

        def number(where: Computation, what: Instruction, of: tuple[Ref, ...]) -> Ref:
            nonlocal instructions
            instructions += 1
            return self.symbol(where, what, of)

        def enter(inner: Computation, of: tuple[Ref, ...]) -> Ref:
            nonlocal instructions
            key = self._identity(inner.name), of
            found = self._entered.get(key)
            if found is None:
                found = self._entered[key] = self._follow(inner, of)
            instructions += found[1]
            return found[0]

        ref = _ref(self._module, computation, instruction, operands, number, enter)
        return self._remembered(computation, instruction, operands, ref, instructions)

    def _remembered(
        self,
        computation: Computation,
        instruction: Instruction,
        operands: tuple[Ref, ...],
        ref: Ref,
        instructions: int,
    ) -> _Followed:
        called = referred(instruction) if instruction.attributes else ()
        around = self._around(computation, instruction, called)
        found = _Followed(instruction, operands, called, around, ref, instructions)
        self._followed[id(instruction)] = found
        return found

    def _around(self, computation: Computation, instruction: Instruction, called: tuple[str, ...]) -> tuple[Any, ...]:
        """What the value depends on beside the instruction itself and its operands' values: the computations that it
        calls, the layouts of its operands.
        """
        known = self._identities
        identities = tuple([known[name] if name in known else self._identity(name) for name in called])
        if instruction.opcode in _BY_LAYOUT:
            return *identities, *[computation.by_name[name].shape for name in instruction.operands]
        return identities

    def _identity(self, name: str) -> int:
        """Of a computation of the present module together with all that it calls."""
        found = self._identities.get(name)
        if found is None:
            assert self._module is not None
            computation = self._module.by_name[name]
            known = self._callees.get(id(computation))
            if known is None:
                names = {name: None for i in computation.instructions if i.attributes for name in referred(i)}
                known = self._callees[id(computation)] = computation, tuple(names)
            key = id(computation), *map(self._identity, known[1])
            found = self._identities[name] = self._identity_of.setdefault(key, len(self._identity_of))
        return found

    # ---- symbols

    def _spread(self, shape: Shape, number: int, place: tuple[int, ...]) -> Ref:
        if isinstance(shape, TupleShape):
            return tuple([self._spread(element, number, (*place, i)) for i, element in enumerate(shape.elements)])
        if not place:
            return number
        element = self._numbered(("element", number, place))
        self.made.setdefault(element, Element((number,), place))
        return element

    def _numbered(self, key: Key) -> int:
        return self.number_of.setdefault(key, len(self.number_of))

    def _words(self, computation: Computation, instruction: Instruction) -> int:
        """The part of the key that does not depend on operands; snapshots share instructions that did not change."""
        said = self._said.get(id(instruction))
        if said is None:
            words = self._new_words(computation, instruction)
            said = instruction, self._word_of.setdefault(words, len(self._word_of))
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
            found = self._attributes[id(given)] = given, tuple(kept)
        return found[1]


def _short(text: str) -> str:
    """The text, or a digest of it where it is long."""
    return text if len(text) <= _LONG else blake2b(text.encode(), digest_size=16).hexdigest()
