"""HLO text -> Module, in every style that XLA prints.

XLA prints one instruction on a line, so one regular expression takes a line apart, and what repeats (shapes, lists of
attributes) is looked up by its text. What that expression does not take (an instruction over several lines,
computations printed inside an instruction, tuple literals, shapes with brackets in the operands) goes to
`assay.hlo.parse_exact`, which also finds the line and the column of an error.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b

from assay.errors import HloSyntaxError
from assay.hlo import parse_exact
from assay.hlo.attribute_names import COMPUTATION_ATTRIBUTES, HEADER_ATTRIBUTES
from assay.hlo.literal import Literal
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.opcodes import ARITY
from assay.hlo.reader import KnownBlock, KnownLine, Memory, Reader
from assay.hlo.scan import NAME, PARENS, Fault, without_comments
from assay.hlo.shape import Shape, compatible
from assay.hlo.shape_text import shape_at
from assay.hlo.tuple_elements import named_element

_SHAPE = rf"[a-z]\w*+\[[^\]\n]*+\](?:\{{[^{{}}\n]*+\}})?+|{PARENS}"

# `  ROOT %name = f32[2]{0} add(%a, %b), metadata={...}`: ROOT, name, shape, opcode, operands, attributes.
_LINE = re.compile(
    rf"\s*+(ROOT )?+%?+({NAME}) = "
    rf"({_SHAPE}) ([a-z][a-z0-9-]*+)\(((?:[^()\n]++|{PARENS})*+)\)([^\n]*+)(?:\n|\Z)"
)
_CLOSE = re.compile(r"\s*+\}")
_MODULE = re.compile(rf"HloModule[ \t]++(?:(?=,)|({NAME}))")
_HEAD = re.compile(rf"(ENTRY\s++)?+%?+({NAME})?+\s*+(?:({PARENS})\s*+->\s*+)?+")
_TABLES = re.compile(r"\s*+(?:(?:FileNames|FunctionNames|FileLocations|StackFrames)\s*?\n(?:\d++ [^\n]*+\n)*+\n*+)++")
_NO_ATTRIBUTES: Mapping[str, str] = {}
_LONG = 1 << 12  # characters from which on a text is known by a digest


def parse_module(text: str, source: str = "HLO text", memory: Memory | None = None) -> Module:
    """The module that `text` spells; `source` is what error messages call the text, such as a file's name. memory: of
    texts read before, which is added to.

    Texts that are read with one memory share the instructions and the computations whose text is the same.

    A computation without ROOT has its last instruction as root, as in XLA. Computations that XLA prints inside an
    instruction get names of their own, and the short forms of asynchronous instructions (`slice-start`) are written
    out. Raises HloSyntaxError with the line and the column that are not understood.
    """
    try:
        with _collector_paused():
            if memory is None:
                return _module(Reader(text))
            return _module(Reader(text, memory.shapes, memory.lists, memory=memory))
    except Fault as fault:
        offset = min(fault.offset, len(text))
        line = text.count("\n", 0, offset) + 1
        column = offset - text.rfind("\n", 0, offset)
        message = fault.message
        if "\n" not in text[offset:].rstrip() and "cut short" not in message:
            message += "; the text ends on this line, so the file may be cut short"
        raise HloSyntaxError(message, line, column, source) from None


@contextmanager
def _collector_paused() -> Iterator[None]:
    # A module is a hundred thousand objects and no cycle: to walk them again and again costs a third of the time.
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _module(reader: Reader) -> Module:
    text = reader.text
    for mark in ("\0", "\ufffd"):
        if (offset := text.find(mark)) >= 0:
            raise Fault(offset, "this looks like a binary file, not HLO text")
    offset = reader.skip(0)
    match = _MODULE.match(text, offset)
    if match is None:
        found = text[offset : offset + 40].split("\n")[0]
        there = f"there is `{found}`" if found else "the text is empty"
        raise Fault(offset, f"expected `HloModule name`, the first line of a module; {there}")
    name = match.group(1) or ""
    attributes, offset = reader.attributes(match.end(), HEADER_ATTRIBUTES)
    tables = ""
    if match := _TABLES.match(text, offset):
        tables, offset = match.group().strip("\n"), match.end()
    entry: str | None = None
    while (offset := reader.skip(offset)) < len(text):
        is_entry, computation, end = _computation(reader, offset)
        if is_entry and entry is not None:
            raise Fault(offset, "a second ENTRY computation; a module has one")
        if is_entry:
            entry = computation.name
        offset = end
    if not reader.computations:
        raise Fault(len(text), "the text ends before any computation: the file is cut short")
    if entry is None and not reader.nameless:
        raise Fault(len(text), "no computation is marked ENTRY: the file is cut short, or the mark is missing")
    parse_exact.check_references(reader)
    if reader.memory is not None:
        for key, (computation, is_entry, elements) in reader.blocks.items():
            called = reader.called[computation.name]
            reader.memory.blocks[key] = KnownBlock(computation, is_entry, called, elements)
    return Module(name, tuple(reader.computations), entry or reader.computations[-1].name, attributes, tables)


def _computation(reader: Reader, offset: int) -> tuple[bool, Computation, int]:
    """The computation at `offset`, which joins the reader's, whether it is ENTRY, and where it ends."""
    if reader.memory is None:
        return _new_computation(reader, offset)
    block = _block(reader.text, offset)
    known = reader.memory.blocks.get(block.key)
    if known is not None and not (known.elements and reader.elements):
        reader.add(known.computation, offset)
        reader.called[known.computation.name] = known.called
        return known.is_entry, known.computation, block.end
    before = len(reader.computations)
    is_entry, computation, end = _new_computation(reader, offset)
    if end == block.end and len(reader.computations) == before + 1:  # nothing of it depends on what is around it
        elements = reader.text.find("#", offset, end) >= 0
        if not (elements and reader.elements):
            reader.blocks[block.key] = computation, is_entry, elements
    return is_entry, computation, end


@dataclass(frozen=True, slots=True)
class _Block:
    """The text of one computation, as a key, and where it ends."""

    key: str | bytes
    end: int


def _block(text: str, offset: int) -> _Block:
    """What lies from `offset` to the end of the next line that begins with a closing brace."""
    end = text.find("\n}", offset)
    end = len(text) if end < 0 else text.find("\n", end + 1)
    end = len(text) if end < 0 else end
    block = text[offset:end]
    return _Block(block if len(block) < _LONG else blake2b(block.encode()).digest(), end)


def _new_computation(reader: Reader, offset: int) -> tuple[bool, Computation, int]:
    """As `_computation`, read from the text."""
    text = reader.text
    head = _HEAD.match(text, offset)
    assert head is not None  # every part of it is optional
    is_entry, name, parameters = head.groups()
    declared: Shape | None = None
    body = reader.skip(head.end())
    if parameters is not None:
        declared, body = shape_at(text, body)
        body = reader.skip(body)
    if not text.startswith("{", body):
        found = text[body : body + 40].split("\n")[0]
        raise Fault(body, f"expected a computation, `name (parameters) -> shape {{`; there is `{found}`")
    if name is None:
        reader.nameless = True
        name = reader.new_name("computation")
    lines = None if reader.memory is None else reader.memory.lines.setdefault(name, {})
    instructions, root, end = _body(reader, body + 1, lines)
    attributes, end = reader.attributes(end, COMPUTATION_ATTRIBUTES)
    computation = Computation(name, instructions, root, attributes)
    if declared is not None and not compatible(declared, computation.root.shape):
        raise Fault(head.end(), f"the result shape of computation `{name}` is not that of its root `{root}`")
    reader.add(computation, offset)
    return is_entry is not None, computation, end


def _body(
    reader: Reader, offset: int, lines: dict[str, KnownLine] | None = None
) -> tuple[tuple[Instruction, ...], str, int]:
    """The instructions from `offset` to the closing brace, the root's name, and the offset after the brace. lines: of
    the computation of this name in earlier texts, which are added to.
    """
    text, start = reader.text, offset
    names: dict[str, Instruction] = {}
    root: str | None = None
    match_line, find = _LINE.match, text.find
    while True:
        instruction = match = None
        if lines:
            end = find("\n", offset) + 1
            known = lines.get(text[offset:end])
            if known is not None and _follows(reader, known, names):
                instruction, is_root, offset = known.instruction, known.is_root, end
        if instruction is None and (match := match_line(text, offset)) is not None:
            instruction = _from_line(reader, match, names)
            if instruction is not None:
                is_root = match.group(1) is not None
                if lines is not None:
                    _remember(reader, match, instruction, is_root, lines)
                offset = match.end()
        if instruction is None and match is None and (close := _CLOSE.match(text, reader.skip(offset))):
            break
        if instruction is None:
            instruction, is_root, offset = parse_exact.instruction(reader, offset, names, _body)
        if is_root:
            if root is not None:
                raise Fault(reader.text.rfind("ROOT", 0, offset), "a second ROOT; a computation has one")
            root = instruction.name
        names[instruction.name] = instruction
    if not names:
        raise Fault(start, "a computation without instructions")
    instructions = tuple(names.values())
    return instructions, root or instructions[-1].name, close.end()


def _follows(reader: Reader, known: KnownLine, names: dict[str, Instruction]) -> bool:
    """Whether a line of an earlier text says the same here, where there are instructions of these names before it."""
    if known.instruction.name in names or (known.elements and reader.elements):
        return False
    for operand in known.operands:
        if operand not in names:
            return False
    for short, name in known.elements:
        element = named_element(reader, short, names)
        if element is None or element.name != name:
            return False
    return True


def _remember(
    reader: Reader, match: re.Match[str], instruction: Instruction, is_root: bool, lines: dict[str, KnownLine]
) -> None:
    """For the next text, where the instruction follows from its line alone."""
    line, inner = match.group(), match.group(5)
    if not line.endswith("\n") or line.count("\n") != 1 or _SHAPED.match(inner):
        return
    operands = instruction.operands
    elements: tuple[tuple[str, str], ...] = ()
    if "#" in inner and operands:
        if reader.elements:
            return
        listed = without_comments(inner).replace("%", "").split(", ")
        elements = tuple([(o, n) for o, n in zip(listed, operands, strict=True) if "#" in o])
        operands = tuple([o for o in listed if "#" not in o])
    lines.setdefault(line, KnownLine(instruction, is_root, operands, elements))


def _from_line(reader: Reader, match: re.Match[str], names: dict[str, Instruction]) -> Instruction | None:
    """The instruction that the line spells; None where it has to be read exactly."""
    _, name, shape_text, opcode, inner, rest = match.groups()
    shape = reader.shapes.get(shape_text) or reader.shape(shape_text)
    attributes: Mapping[str, str] | None = _NO_ATTRIBUTES
    if rest:
        attributes = reader.lists.get(rest)
        if attributes is None:
            attributes = reader.attribute_list(rest)
    if shape is None or attributes is None or opcode not in ARITY or name in names:
        return None
    if opcode == "constant":
        return None if "..." in inner else Instruction(name, opcode, shape, (), attributes, Literal(inner))
    if opcode == "parameter":
        return Instruction(name, opcode, shape, (), attributes, None, int(inner)) if inner.isdigit() else None
    if not inner:
        return Instruction(name, opcode, shape, (), attributes)
    listed = without_comments(inner).replace("%", "").split(", ")
    operands: tuple[str, ...] | None
    if "#" in inner:
        for item in listed:
            named_element(reader, item, names)
    try:
        operands = tuple([names[operand].name for operand in listed])
    except KeyError:
        operands = _with_shapes(reader, without_comments(inner), names)
    if operands is None:
        return None
    return Instruction(name, opcode, shape, operands, attributes)


_SHAPED = re.compile(rf"({_SHAPE}) %?+({NAME})(?:, |\Z)")


def _with_shapes(reader: Reader, inner: str, names: dict[str, Instruction]) -> tuple[str, ...] | None:
    """`f32[2]{0} %a, (f32[], s32[]) %b` -> ("a", "b"); None where it has to be read exactly."""
    found: list[str] = []
    end = 0
    while match := _SHAPED.match(inner, end):
        text, name = match.groups()
        operand = names.get(name)
        shape = reader.shapes.get(text) or reader.shape(text)
        if operand is None or shape is None or not (shape is operand.shape or compatible(shape, operand.shape)):
            return None
        found.append(operand.name)
        end = match.end()
    return tuple(found) if found and end == len(inner) else None
