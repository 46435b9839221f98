"""The state of reading one text: the text, what was read of it, and the small pieces that every part is made of."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from assay.hlo.attribute_names import INSTRUCTION_ATTRIBUTES, REFERENCES
from assay.hlo.module import Computation, Instruction
from assay.hlo.scan import NAME, SPACE, VALUE, Fault, without_comments
from assay.hlo.shape import Shape
from assay.hlo.shape_text import shape_or_none

_PAIR = re.compile(rf", ([a-z][\w-]*+)=({VALUE})")
_KEY = re.compile(r",\s*+([A-Za-z][\w.-]*+)\s*+=")
_VALUE = re.compile(VALUE)
# The beginning of another instruction: a value that runs into it has a bracket too few.
_NEXT_LINE = re.compile(rf"\n\s*+(?:ROOT )?+%?+{NAME} = [a-z(]")
NAMES = re.compile(NAME)


@dataclass(frozen=True, slots=True)
class KnownLine:
    """An instruction that follows from its line. operands: the names that it needs before it, but for elements of
    tuples: those in the short form (`pair#1`) and the names of their instructions.
    """

    instruction: Instruction
    is_root: bool
    operands: tuple[str, ...]
    elements: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class KnownBlock:
    """A computation that follows from its text. called: the computations that it names. elements: whether it has
    instructions for elements in the short form.
    """

    computation: Computation
    is_entry: bool
    called: tuple[str, ...]
    elements: bool


@dataclass(slots=True)
class Memory:
    """What was read of earlier texts: the lines of computations by name, whole computations, shapes, attributes. Texts
    that are nearly equal, such as snapshots, then share instructions; in one module no two are one object, for no two
    computations have one name.
    """

    lines: dict[str, dict[str, KnownLine]] = field(default_factory=dict)
    blocks: dict[str | bytes, KnownBlock] = field(default_factory=dict)
    shapes: dict[str, Shape | None] = field(default_factory=dict)
    lists: dict[str, Mapping[str, str] | None] = field(default_factory=dict)


@dataclass(slots=True)
class Reader:
    text: str
    shapes: dict[str, Shape | None] = field(default_factory=dict)
    lists: dict[str, Mapping[str, str] | None] = field(default_factory=dict)
    computations: list[Computation] = field(default_factory=list)
    starts: dict[str, int] = field(default_factory=dict)  # computation -> where it begins
    memory: Memory | None = None
    called: dict[str, tuple[str, ...]] = field(default_factory=dict)  # by computations, where that is known
    blocks: dict[str | bytes, tuple[Computation, bool, bool]] = field(default_factory=dict)  # new ones, for the memory
    elements: bool = field(init=False)  # whether some name might be one that we give to an element of a tuple
    nameless: bool = False  # whether some computation has no name, as in the fingerprint style
    given: set[str] = field(default_factory=set)  # names of our own for instructions

    def __post_init__(self) -> None:
        self.elements = ".element." in self.text

    def skip(self, offset: int) -> int:
        """The offset of the next character that is no space and no comment."""
        match = SPACE.match(self.text, offset)
        return match.end() if match else offset

    def shape(self, text: str) -> Shape | None:
        """The shape that `text` spells, None where it is not understood."""
        self.shapes[text] = found = shape_or_none(text)
        return found

    def attribute_list(self, text: str) -> Mapping[str, str] | None:
        """`, a=1, b={2}` as XLA prints it on one line; None where it needs exact reading."""
        found: dict[str, str] = {}
        length = 0
        for key, value in _PAIR.findall(text):
            length += len(key) + len(value) + 3
            if key not in INSTRUCTION_ATTRIBUTES or key in found or not value or "\n" in value:
                return None
            found[key] = reference_names(value) if key in REFERENCES else value
        result = found if length == len(text) else None
        self.lists[text] = result
        return result

    def key(self, offset: int, known: frozenset[str]) -> tuple[str, int, int] | None:
        """The attribute name after a comma at `offset`, where it and its value begin; None where there is no comma."""
        offset = self.skip(offset)
        if not self.text.startswith(",", offset):
            return None
        match = _KEY.match(self.text, offset)
        if match is None:
            raise Fault(self.skip(offset + 1), "expected an attribute, `name=value`, after the comma")
        if match.group(1) not in known:
            raise Fault(match.start(1), f"unknown attribute `{match.group(1)}`")
        return match.group(1), match.start(1), self.skip(match.end())

    def value(self, key: str, offset: int) -> tuple[str, int]:
        """The text of the value that begins at `offset` and where it ends."""
        match = _VALUE.match(self.text, offset)
        if match is None or _NEXT_LINE.search(match.group()):
            raise Fault(offset, f"the value of `{key}` is missing, or its brackets or quotes do not match")
        value = match.group()
        return (reference_names(value) if key in REFERENCES else value).rstrip(), match.end()

    def attributes(self, offset: int, known: frozenset[str], at_most: int = 1000) -> tuple[dict[str, str], int]:
        """The list of attributes at `offset`, which may be over several lines, and where it ends."""
        found: dict[str, str] = {}
        while len(found) < at_most and (next_key := self.key(offset, known)):
            key, at, offset = next_key
            if key in found:
                raise Fault(at, f"a second attribute `{key}`")
            found[key], offset = self.value(key, offset)
        return found, offset

    def new_name(self, wanted: str) -> str:
        """A name for a computation that has none in the text."""
        name, number = wanted, 0
        while name in self.starts:
            number += 1
            name = f"{wanted}.{number}"
        return name

    def new_instruction(self, wanted: str) -> str:
        """A name for an element of a tuple, `PAIR.element.1`: one that stands nowhere in the text."""
        name, number = wanted, 0
        if not self.elements:
            return name
        while name in self.given or name in self.text:
            number += 1
            name = f"{wanted}.{number}"
        self.given.add(name)
        return name

    def add(self, computation: Computation, offset: int) -> None:
        if computation.name in self.starts:
            raise Fault(offset, f"a second computation named `{computation.name}`")
        self.starts[computation.name] = offset
        self.computations.append(computation)


def reference_names(value: str) -> str:
    """`%a` -> `a`, `{%a, /*index=5*/%b}` -> `{a, b}`."""
    return without_comments(value).replace("%", "").strip()


def referred(instruction: Instruction) -> tuple[str, ...]:
    """The names of the computations that an instruction calls, in the order of its attributes."""
    found: list[str] = []
    if REFERENCES.isdisjoint(instruction.attributes):
        return ()
    for key, value in instruction.attributes.items():
        if key not in REFERENCES or key == "control-predecessors":
            continue
        if value.startswith("{"):
            found += NAMES.findall(value)
        else:
            found.append(value)
    return tuple(found)
