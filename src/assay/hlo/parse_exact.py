"""Reading an instruction piece by piece: any layout of lines, computations inside instructions, places of errors."""

from __future__ import annotations

import re
from collections.abc import Callable

from assay.errors import HloTypeError
from assay.hlo import async_form
from assay.hlo.attribute_names import (
    COMPUTATION,
    COMPUTATION_ATTRIBUTES,
    COMPUTATIONS,
    INSTRUCTION_ATTRIBUTES,
    REFERENCES,
)
from assay.hlo.literal import Literal
from assay.hlo.module import Computation, Instruction
from assay.hlo.opcodes import ARITY, wrapped_opcode
from assay.hlo.reader import NAMES, Reader, referred
from assay.hlo.scan import NAME, PARENS, Fault, items
from assay.hlo.shape import Shape, compatible
from assay.hlo.shape_text import shape_at
from assay.hlo.tuple_elements import named_element

ELIDED = (
    "the constant's value was elided (`{...}`): dump the module whole, as a proto with XLA_FLAGS=--xla_dump_to=DIR "
    "--xla_dump_hlo_as_proto, or as text with --xla_dump_large_constants, or print it with "
    "HloPrintOptions.print_large_constants = True"
)

_ROOT = re.compile(r"ROOT\s++(?=[%\w])")
_NAME = re.compile(rf"%?+({NAME})")
_EQUAL = re.compile(r"\s*+=\s*+")
_OPCODE = re.compile(r"\s*+([A-Za-z][\w-]*+)")
_OPERANDS = re.compile(PARENS)
_THREAD = re.compile(r",\s*+execution_thread\s*+=")

Names = dict[str, Instruction]
ReadBody = Callable[[Reader, int], tuple[tuple[Instruction, ...], str, int]]


def instruction(reader: Reader, offset: int, names: Names, read_body: ReadBody) -> tuple[Instruction, bool, int]:
    """The instruction at `offset`, whether it is ROOT, and where it ends.

    `names` holds the instructions of the same computation so far; `read_body` reads a computation printed inside this
    one. Raises Fault at what is not understood.
    """
    text = reader.text
    offset = reader.skip(offset)
    if offset == len(text):
        raise Fault(offset, "the text ends in the middle of a computation: the file is cut short")
    is_root = _ROOT.match(text, offset)
    if is_root:
        offset = is_root.end()
    start = offset
    match = _NAME.match(text, offset)
    if match is None:
        raise Fault(
            offset, "expected an instruction, `%name = shape opcode(operands)`, or the `}` that ends the computation"
        )
    name = match.group(1)
    equal = _EQUAL.match(text, match.end())
    if equal is None:
        raise Fault(match.end(), f"expected `=` after the instruction's name `{name}`")
    if name in names:
        raise Fault(start, f"a second instruction named `{name}` in this computation")
    shape, offset = _shape(reader, equal.end())
    match = _OPCODE.match(text, offset)
    if match is None:
        raise Fault(reader.skip(offset), "expected an opcode after the shape")
    opcode, at_opcode = match.group(1), match.start(1)
    wrapped = wrapped_opcode(opcode)
    if opcode not in ARITY and wrapped is None:
        raise Fault(at_opcode, f"unknown opcode `{opcode}`")
    offset = reader.skip(match.end())
    if not text.startswith("(", offset):
        raise Fault(offset, f"expected `(` after the opcode `{opcode}`")
    inner = _OPERANDS.match(text, offset)
    if inner is None:
        raise Fault(offset, f"the brackets or quotes in the operands of `{name}` do not match")
    content = inner.group()[1:-1].strip()
    operands: tuple[str, ...] = ()
    literal = number = None
    if opcode == "constant":
        literal = _literal(content, inner.start() + 1)
    elif opcode == "parameter":
        if not content.isdigit():
            raise Fault(inner.start() + 1, f"expected a parameter number, there is `{content[:40]}`")
        number = int(content)
    else:
        operands = operand_names(reader, content, inner.start() + 1, names)
    attributes, end = _attributes(reader, inner.end(), name, read_body)
    if opcode == "custom-call" and "calls" in attributes:
        # So old canonical text has it, but no parser of XLA's takes it.
        attributes["called_computations"] = f"{{{attributes.pop('calls')}}}"
    result = Instruction(name, opcode, shape, operands, attributes, literal, number)
    if wrapped is not None:
        result = _written_out(reader, result, names, at_opcode)
    return result, is_root is not None, end


def _shape(reader: Reader, offset: int) -> tuple[Shape, int]:
    try:
        return shape_at(reader.text, offset)
    except Fault as fault:
        if _OPCODE.match(reader.text, offset) and reader.text[offset:].split("(", 1)[0].strip() in ARITY:
            raise Fault(offset, "the result's shape is missing") from None
        raise fault


def _literal(content: str, offset: int) -> Literal:
    if "..." in content:
        raise Fault(offset, ELIDED)
    return Literal(content)


def operand_names(reader: Reader, content: str, offset: int, names: Names) -> tuple[str, ...]:
    """`f32[2]{0} %a, %b` -> ("a", "b"). Raises Fault where an operand is unknown or has not the shape it is given."""
    found: list[str] = []
    for item in items(content):
        before, _, last = item.rpartition(" ")
        name = last.removeprefix("%")
        operand = names.get(name) or named_element(reader, name, names)
        at = offset + max(content.find(item), 0) + len(item) - len(name)
        if operand is None:
            if not NAMES.fullmatch(name):
                raise Fault(
                    offset + max(content.find(item), 0), f"expected the name of an operand, there is `{item[:60]}`"
                )
            raise Fault(at, f"operand `{name}` is not defined before this instruction")
        if before.strip():
            try:
                declared, end = shape_at(item, 0)
            except Fault as fault:
                raise Fault(at, fault.message) from None
            if item[end:].strip() != last:
                raise Fault(at, f"expected an operand, there is `{item[:60]}`")
            if not compatible(declared, operand.shape):
                raise Fault(at, f"operand `{name}` is said to be {before.strip()}, which is not its shape")
        found.append(operand.name)
    return tuple(found)


def _attributes(reader: Reader, offset: int, owner: str, read_body: ReadBody) -> tuple[dict[str, str], int]:
    found: dict[str, str] = {}
    while next_key := reader.key(offset, INSTRUCTION_ATTRIBUTES):
        key, at, offset = next_key
        if key in found:
            raise Fault(at, f"a second attribute `{key}`")
        at_body = reader.text.startswith("{", offset)
        if key in COMPUTATION and at_body and not _is_list_of_names(reader, offset):
            found[key], offset = _inline(reader, offset, f"{owner}.{key}", read_body)
        elif key in COMPUTATIONS and at_body and not _is_list_of_names(reader, offset):
            found[key], offset = _inline_list(reader, offset, f"{owner}.{key}", read_body)
        else:
            found[key], offset = reader.value(key, offset)
    return found, offset


_LIST_OF_NAMES = re.compile(rf"\{{\s*+(?:%?+{NAME}\s*+(?:,\s*+(?:/\*[^*]*+\*/\s*+)?+)?+)*+\}}")


def _is_list_of_names(reader: Reader, offset: int) -> bool:
    return _LIST_OF_NAMES.match(reader.text, offset) is not None


def _inline(reader: Reader, offset: int, wanted: str, read_body: ReadBody) -> tuple[str, int]:
    """A computation printed in place: `{ instructions }`. It gets a name of its own."""
    instructions, root, end = read_body(reader, offset + 1)
    attributes: dict[str, str] = {}
    if _THREAD.match(reader.text, end):
        attributes, end = reader.attributes(end, COMPUTATION_ATTRIBUTES, at_most=1)
    name = reader.new_name(wanted)
    reader.add(Computation(name, instructions, root, attributes), offset)
    return name, end


def _inline_list(reader: Reader, offset: int, wanted: str, read_body: ReadBody) -> tuple[str, int]:
    names: list[str] = []
    offset = reader.skip(offset + 1)
    while not reader.text.startswith("}", offset):
        if not reader.text.startswith("{", offset):
            raise Fault(offset, "expected `{`, which begins a computation, or `}`, which ends the list of them")
        name, offset = _inline(reader, offset, f"{wanted}.{len(names)}", read_body)
        names.append(name)
        offset = reader.skip(offset)
        if reader.text.startswith(",", offset):
            offset = reader.skip(offset + 1)
    return "{" + ", ".join(names) + "}", offset + 1


def _written_out(reader: Reader, short: Instruction, names: Names, offset: int) -> Instruction:
    """A short asynchronous instruction in its long form; the computation that it calls joins the reader's."""
    try:
        long, wrapped = async_form.long_form(short, [names[o] for o in short.operands], reader.new_name)
    except HloTypeError as error:
        raise Fault(offset, str(error)) from None
    if wrapped is not None:
        reader.add(wrapped, offset)
    return long


def check_references(reader: Reader) -> None:
    """Raises Fault where what an instruction calls, or comes after, does not stand before it."""
    known: set[str] = set()
    for computation in reader.computations:
        called = reader.called.get(computation.name)
        if called is not None and known.issuperset(called):
            known.add(computation.name)
            continue
        names: dict[str, None] = {}
        for user in computation.instructions:
            if not user.attributes or REFERENCES.isdisjoint(user.attributes):
                continue
            for name in referred(user):
                names[name] = None
                if name not in known:
                    what = "is defined only after its caller" if name in reader.starts else "is not defined"
                    raise Fault(_place(reader, computation, user, name), f"computation `{name}` {what}")
            if "control-predecessors" in user.attributes:
                for name in NAMES.findall(user.attributes["control-predecessors"]):
                    if name not in computation.by_name:
                        at = _place(reader, computation, user, name)
                        raise Fault(at, f"control predecessor `{name}` is not defined")
        reader.called[computation.name] = tuple(names)
        known.add(computation.name)


def _place(reader: Reader, computation: Computation, user: Instruction, name: str) -> int:
    start = reader.starts[computation.name]
    line = re.compile(rf"%?{re.escape(user.name)}\s*=").search(reader.text, start)
    use = re.compile(rf"[={{,\s]%?({re.escape(name)})(?![\w.-])").search(reader.text, line.end() if line else start)
    return use.start(1) if use else start
