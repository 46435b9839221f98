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
from dataclasses import dataclass, field

from assay.errors import HloSyntaxError
from assay.hlo import parse_exact
from assay.hlo.attribute_names import COMPUTATION_ATTRIBUTES, HEADER_ATTRIBUTES
from assay.hlo.literal import Literal
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.opcodes import ARITY
from assay.hlo.reader import Reader
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


@dataclass(slots=True)
class Memory:
    """What was read of earlier texts: lines, each with its instruction and whether that is a root; shapes; attributes.
    Texts that are nearly equal, such as snapshots, then share instructions.
    """

    lines: dict[str, tuple[Instruction, bool]] = field(default_factory=dict)
    shapes: dict[str, Shape | None] = field(default_factory=dict)
    lists: dict[str, Mapping[str, str] | None] = field(default_factory=dict)


def parse_module(text: str, source: str = "HLO text", memory: Memory | None = None) -> Module:
    """The module that `text` spells; `source` is what error messages call the text, such as a file's name. memory: of
    texts read before, which is added to.

    A computation without ROOT has its last instruction as root, as in XLA. Computations that XLA prints inside an
    instruction get names of their own, and the short forms of asynchronous instructions (`slice-start`) are written
    out. Raises HloSyntaxError with the line and the column that are not understood.
    """
    try:
        with _collector_paused():
            if memory is None:
                return _module(Reader(text))
            return _module(Reader(text, memory.shapes, memory.lists, lines=memory.lines))
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
    return Module(name, tuple(reader.computations), entry or reader.computations[-1].name, attributes, tables)


def _computation(reader: Reader, offset: int) -> tuple[bool, Computation, int]:
    """The computation at `offset`, which joins the reader's, whether it is ENTRY, and where it ends."""
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
    instructions, root, end = _body(reader, body + 1)
    attributes, end = reader.attributes(end, COMPUTATION_ATTRIBUTES)
    computation = Computation(name, instructions, root, attributes)
    if declared is not None and not compatible(declared, computation.root.shape):
        raise Fault(head.end(), f"the result shape of computation `{name}` is not that of its root `{root}`")
    reader.add(computation, offset)
    return is_entry is not None, computation, end


def _body(reader: Reader, offset: int) -> tuple[tuple[Instruction, ...], str, int]:
    """The instructions from `offset` to the closing brace, the root's name, and the offset after the brace."""
    text, start = reader.text, offset
    names: dict[str, Instruction] = {}
    root: str | None = None
    match_line = _LINE.match
    while True:
        instruction = match = None
        if reader.lines is not None and (known := _known(reader, offset, names)) is not None:
            instruction, is_root, offset = known
        else:
            match = match_line(text, offset)
        if match is not None:
            instruction = _from_line(reader, match, names)
        if match is not None and instruction is not None:
            is_root = match.group(1) is not None
            if reader.lines is not None:
                _remember(reader, match, instruction, is_root)
            offset = match.end()
        elif instruction is None and match is None and (close := _CLOSE.match(text, reader.skip(offset))):
            break
        elif instruction is None:
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


def _known(reader: Reader, offset: int, names: dict[str, Instruction]) -> tuple[Instruction, bool, int] | None:
    """The instruction of the line at `offset`, where an earlier text has the line, whether it is a root, and where the
    next line begins. No two instructions of a module are one object, so a line that stands in it twice is read twice.
    """
    end = reader.text.find("\n", offset) + 1
    line = reader.text[offset:end]
    assert reader.lines is not None
    known = reader.lines.get(line)
    if known is None or line in reader.taken:
        return None
    instruction, is_root = known
    if instruction.name in names or any(operand not in names for operand in instruction.operands):
        return None
    reader.taken.add(line)
    return instruction, is_root, end


def _remember(reader: Reader, match: re.Match[str], instruction: Instruction, is_root: bool) -> None:
    """For the next text, where the instruction follows from its line alone."""
    line = match.group()
    simple = line.endswith("\n") and line.count("\n") == 1 and "#" not in match.group(5)
    if simple and not _SHAPED.match(match.group(5)):
        assert reader.lines is not None
        reader.lines.setdefault(line, (instruction, is_root))
        reader.taken.add(line)


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
