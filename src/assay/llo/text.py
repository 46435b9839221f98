"""Reads a dump of one kernel after one LLO pass: regions of instructions, or VLIW bundles.

The grammar is nowhere published; it was learned from dumps of libtpu 0.0.42.1 to 0.0.52. A line that does not fit is an
error with its number, never passed over.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from functools import cache

from assay.errors import LloSyntaxError
from assay.llo.program import (
    SPACES,
    Address,
    Allocation,
    Bundle,
    Immediate,
    Instruction,
    Kernel,
    Kind,
    Memory,
    Operand,
    Region,
    Space,
    Value,
)
from assay.llo.spellings import normal

_ALLOCATION = re.compile(
    r"#allocation(?P<name>\w+) \[shape = '(?P<shape>[^']*)', space=(?P<space>\w+), size = (?P<size>0x[0-9a-f]+)"
    r"(?:, offset = (?P<offset>0x[0-9a-f]+|\d+))?(?P<rest>.*)\]$"
)
_TAG = re.compile(r"tag = '(.*)'")
_REGION = re.compile(r"\$region(?P<number>\d+)(?: \([^)]*\))?:(?P<rest>.*)$")
_BUNDLE = re.compile(
    r"^\s*(?P<number>0x[0-9a-f]+|\d+)(?: +\w\w)?\s*:\s+(?:> *)*\{ ?(?P<body>.*?) ?\}(?P<rest>[^}]*)$", re.S
)
_INSTRUCTION = re.compile(r"\s*%(?P<dst>[\w.]+) = (?P<opcode>[a-z][\w.-]*)(?P<rest>.*)$", re.S)
_LABEL = re.compile(r"/\*(\w+)=\*/")
_MEMORY = re.compile(
    r"\[(?P<space>vmem|smem|sflag|hbm|cmem):(?P<inner>\[[^\]]*\]|\$0x[0-9a-f]+)(?P<words>(?: \w+:\S+?)*)\]"
)
_PREDICATE = re.compile(r"\s*\((?P<predicate>!?(?:%[\w.]+|0|1))(?:, (?P<otherwise>[^)]*))?\),?")
_WORDS = re.compile(r"\s*(?P<words>\[\d+/\d+\](?: \(\w+\))*)")
_TARGET = re.compile(r"target (?:= \$region|bundleno = \d+ \(0x[0-9a-f]+\), region = )(\d+)")
_STARTS = re.compile(r"Start(?:/End)?(?: empty)? region (\d+)")
_VALUE = re.compile(r"(?P<name>(?P<kind>vm|[vsp])?\d[\w.]*?)(?:_(?P<register>(?:vm|[vsp])\d+))?$")
_BRACKETS = re.compile(r"#?allocation(?P<allocation>\w+)(?: (?P<sign>[+-]) \$0x(?P<offset>[0-9a-f]+))?$")
_OPERAND_OF = re.compile(r"\[shape: (?P<shape>.*), index: (?P<index>-?\d+), kind: (?P<kind>\w+)(?P<rest>[^\]]*)\]")
_BASE = re.compile(
    r"(?P<base>%[\w.]+|#allocation\w+)(?: (?P<sign>[+-]) (?:\$0x(?P<offset>[0-9a-f]+)|(?P<index>%[\w.]+)))?$"
)
_ENTRY, _EXIT = "/* entry bundle: ", "exit bundle: "
_HINT = " [#allocation"
_TUPLE = " = xla_tuple "  # says which HLO an instruction comes from, and does nothing
_OF_BF16 = frozenset({"vclampa.f32"})
KINDS: dict[str | None, Kind] = {"v": "V", "vm": "M", "s": "S", "p": "P", None: ""}


def parse(text: str, source: str, name: str = "") -> Kernel:
    """The kernel that a dump holds. source: the file, for messages. Raises LloSyntaxError."""
    reader = _Reader(source)
    if "= control target key start" in text[:200] or _BUNDLE.match(text.split("\n", 1)[0]):
        return Kernel(name, source, (), bundles=tuple(reader.bundles(text)))
    regions = reader.regions(text)
    return Kernel(name, source, tuple(reader.allocations), regions=tuple(regions))


def parse_allocations(text: str, source: str) -> tuple[Allocation, ...]:
    """The allocations alone: bundles are dumped without them, the stage before has them. Raises LloSyntaxError."""
    reader = _Reader(source)
    for number, line in _logical(text):
        if "#allocation" in line and line.lstrip().startswith("#allocation"):
            reader.allocation(line.strip(), number)
    return tuple(reader.allocations)


class _Reader:
    def __init__(self, source: str) -> None:
        self.source = source
        self.allocations: list[Allocation] = []

    def fail(self, message: str, line: int) -> LloSyntaxError:
        return LloSyntaxError(message, line, self.source)

    # ---- regions

    def regions(self, text: str) -> Iterator[Region]:
        """In text order. An instruction after a nested region belongs to the region it is in by fall-through."""
        found: list[Region] = []
        instructions: list[Instruction] = []
        number, kind, opened = -1, "", False
        for line_number, line in _logical(text):
            stripped = line.strip()
            if not stripped or stripped == "_" or stripped.startswith(("//", "loop: ")) or _TUPLE in stripped:
                continue
            if stripped[0] == "%":
                if not opened:
                    raise self.fail("an instruction outside of any region; is the file cut at its start?", line_number)
                instructions.append(self.instruction(stripped, line_number))
            elif stripped[0] == "$":
                match = _REGION.match(stripped)
                if match is None:
                    raise self.fail(f"not a region: {_short(stripped)}", line_number)
                if opened:
                    found.append(Region(number, kind, tuple(instructions)))
                number, instructions, opened = int(match["number"]), [], True
                kind = match["rest"].rpartition("//")[2].strip() if "//" in match["rest"] else ""
            elif stripped[0] == "#":
                self.allocation(stripped, line_number)
            else:
                raise self.fail(f"not a line of LLO: {_short(stripped)}", line_number)
        if not opened:
            raise self.fail("no region: the file is empty or not a dump of LLO", 1)
        found.append(Region(number, kind, tuple(instructions)))
        return iter(found)

    def allocation(self, line: str, number: int) -> None:
        match = _ALLOCATION.match(line)
        if match is None or match["space"] not in SPACES:
            raise self.fail(f"not an allocation: {_short(line)}", number)
        tag = _TAG.search(match["rest"])
        offset = None if match["offset"] is None else int(match["offset"], 0)
        space: Space = match["space"]
        self.allocations.append(
            Allocation(
                match["name"],
                space,
                int(match["size"], 16),
                match["shape"],
                offset,
                tag[1] if tag else "",
                "fixed_abs" in match["rest"],
            )
        )

    # ---- bundles

    def bundles(self, text: str) -> Iterator[Bundle]:
        in_key, any_found, expected, line_number, ended = False, False, 0, 1, False
        for line_number, line in _logical(text):
            if line.startswith("= control target key"):
                in_key = line.endswith("start")
                continue
            if in_key or not line.strip():
                continue
            match = _BUNDLE.match(line)
            if match is None:
                raise self.fail(f"not a bundle: {_short(line.strip())}; is the file cut?", line_number)
            number = int(match["number"], 0)
            if number != expected:
                raise self.fail(f"bundle {number:#x} where {expected:#x} should be", line_number)
            expected += 1
            any_found, ended = True, _EXIT in match["rest"]
            body, starts = match["body"], tuple(map(int, _STARTS.findall(match["rest"])))
            yield Bundle(number, tuple(self._issued(body, line_number)), starts)
        if not any_found:
            raise self.fail("no bundle: the file is empty", 1)
        if _ENTRY in text and not ended:
            raise self.fail("the last bundle is not the kernel's exit; is the file cut?", line_number)

    def _issued(self, body: str, line: int) -> Iterator[Instruction]:
        if not body:
            return
        for part in body.split("  ;;  "):
            yield self.instruction(part, line + body[: body.find(part)].count("\n") if "\n" in body else line)

    # ---- one instruction

    def instruction(self, text: str, line: int) -> Instruction:
        match = _INSTRUCTION.match(text)
        if match is None:
            raise self.fail(f"not an instruction: {_short(text)}", line)
        raw, rest, comment = match["opcode"], match["rest"], ""
        try:
            dst = _value(match["dst"])
            if raw.startswith("inlined_call_operand"):
                return _call_operand(dst, raw.partition(".")[2], rest, line)
            opcode, unit = normal(raw)
            labels: tuple[str, ...] = ()
            if "/*" in rest:
                if raw.startswith("dma") or raw == "scalar_select":
                    labels = tuple(_LABEL.findall(rest))
                rest = _LABEL.sub("", rest)
                rest, _, comment = rest.partition("/*")
            return self._taken_apart(dst, opcode, unit, rest, labels, comment, line)
        except _NotUnderstood as error:
            raise self.fail(f"{error} in {_short(text)}", line) from None

    def _taken_apart(
        self, dst: Value, opcode: str, unit: str, rest: str, labels: tuple[str, ...], comment: str, line: int
    ) -> Instruction:
        words, target = "", None
        memory: Memory | None = None
        if "thread:" in rest or "resolvable:" in rest:
            rest = re.sub(r"\[(?:thread:\$\d+|resolvable:\$\w+)\]", "", rest)
        if "[" in rest:
            if (found := _WORDS.match(rest)) is not None:
                words, rest = found["words"], rest[found.end() :]
            if ":" in rest and (found := _MEMORY.search(rest)) is not None:
                memory = _memory(found[0])
                rest = rest[: found.start()] + rest[found.end() :]
        predicate: Value | None = None
        otherwise: Operand | None = None
        if "(" in rest and (found := _PREDICATE.match(rest)) is not None:
            predicate = _predicate(found["predicate"])
            otherwise = None if found["otherwise"] is None else _operand(found["otherwise"])
            rest = rest[found.end() :]
        if opcode == "sbr.rel":
            found = _TARGET.search(rest)
            if found is None or rest[: found.start()].strip():
                raise _NotUnderstood("no branch")
            target, rest = int(found[1]), ""
        rest = rest.strip().strip(",").strip()
        read = _bf16_operand if opcode in _OF_BF16 else _operand
        operands = tuple([read(part) for part in rest.split(", ")]) if rest else ()
        kind = dst.kind
        return Instruction(
            opcode,
            unit,
            dst if kind else None,
            "" if kind else dst.name,
            operands,
            labels,
            memory,
            predicate,
            otherwise,
            words,
            target,
            line,
            comment.removesuffix("*/").strip(),
        )


class _NotUnderstood(Exception):
    """Becomes a LloSyntaxError where the line is known."""


def _call_operand(dst: Value, space: str, rest: str, line: int) -> Instruction:
    """An operand of the kernel: `words` has its space (`-` for none), kind and shape, the operand its index."""
    found = _OPERAND_OF.search(rest)
    if found is None:
        raise _NotUnderstood("an operand without an index")
    words = f"{space or '-'} {found['kind']} {found['shape']}"
    index = Immediate(int(found["index"]) & 0xFFFFFFFF)
    return Instruction("inlined_call_operand", "", dst, "", (index,), (), None, None, None, words, None, line)


@cache
def _value(text: str) -> Value:
    """Of a name without its `%`."""
    match = _VALUE.match(text)
    if match is None:
        raise _NotUnderstood(f"%{text} is no value")
    return Value(match["name"], KINDS[match["kind"]], match["register"])


@cache
def _predicate(text: str) -> Value:
    negated = text[0] == "!"
    if text[-1] in "01" and "%" not in text:
        return Value(str(int(text[-1]) ^ negated), "P")
    found = _value(text.lstrip("!%"))
    return Value(found.name, found.kind, found.register, negated)


@cache
def _operand(text: str) -> Operand:
    if _HINT in text:  # in whose allocation the address lies
        return _operand(text[: text.index(_HINT)])
    if text[0] == "%":
        return _value(text[1:])
    if text[0] == "!":
        return _predicate(text)
    if text[0] == "[":
        match = _BRACKETS.match(text[1:-1])
        if match is None:
            raise _NotUnderstood(f"{text} is no address")
        return Address(match["allocation"], _signed(match["sign"], match["offset"]))
    if text[0] == "$":
        return Immediate(int(text[1:], 0) & 0xFFFFFFFF)
    return Immediate(_bits(text))


@cache
def _bf16_operand(text: str) -> Operand:
    """Where literals are bf16 that are printed in six digits, `1` for 1.0 among them: the f32 of the nearest bf16."""
    if text[0] == "%":
        return _operand(text)
    try:
        bits = _f32(text)
    except (ValueError, OverflowError):
        raise _NotUnderstood(f"{text!r} is no operand") from None
    return Immediate(bits + 0x7FFF + (bits >> 16 & 1) & 0xFFFF0000)


def _bits(text: str) -> int:
    """Of a number: decimal integers modulo 2^32, floats as f32, `a|b` as two bf16 with the low half first."""
    try:
        if "|" in text:
            low, high = (_f32(part) >> 16 if _is_float(part) else int(part) & 0xFFFF for part in text.split("|"))
            return low | high << 16
        return _f32(text) if _is_float(text) else int(text) & 0xFFFFFFFF
    except (ValueError, OverflowError):
        raise _NotUnderstood(f"{text!r} is no operand") from None


def _is_float(text: str) -> bool:
    return "." in text or "e" in text or "n" in text


def _f32(text: str) -> int:
    bits: int = struct.unpack("<I", struct.pack("<f", float(text)))[0]
    return bits


def _signed(sign: str | None, offset: str | None) -> int:
    found = 0 if offset is None else int(offset, 16)
    return -found if sign == "-" else found


@cache
def _memory(text: str) -> Memory:
    match = _MEMORY.match(text)
    assert match is not None
    space: Space = match["space"]  # type: ignore[assignment]  # by the expression
    words = dict(word.split(":", 1) for word in match["words"].split())
    if unknown := set(words) - {"ss", "sps", "sm", "pattern"}:
        raise _NotUnderstood(f"{', '.join(sorted(unknown))} of a memory operand")
    base: Operand
    offset, index = 0, None
    inner = match["inner"]
    if inner[0] == "$":
        base = Immediate(int(inner[1:], 16))
    else:
        found = _BASE.match(inner[1:-1])
        if found is None:
            raise _NotUnderstood(f"{inner} is no place in memory")
        offset = _signed(found["sign"], found["offset"])
        index = None if found["index"] is None else _value(found["index"][1:])
        name = found["base"]
        base = _value(name[1:]) if name[0] == "%" else Address(name[len("#allocation") :])
    stride = int(words.get("ss", "$1")[1:], 0)
    sublanes = _operand(words.get("sm", "$0xff"))
    pattern = int(words["pattern"][1:], 0) if "pattern" in words else None
    group = int(words.get("sps", "$1")[1:], 0)
    return Memory(space, base, offset, index, stride, group, sublanes, pattern)


def _logical(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their numbers; a remark that spans lines joins them."""
    pending, first = "", 0
    for number, line in enumerate(text.split("\n"), 1):
        if pending:
            pending = f"{pending}\n{line}"
            if "*/" in line and pending.count("/*") <= pending.count("*/"):
                yield first, pending
                pending = ""
        elif "/*" in line and line.count("/*") > line.count("*/"):
            pending, first = line, number
        else:
            yield number, line
    if pending:
        yield first, pending


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 100 else f"{line[:97]}..."
