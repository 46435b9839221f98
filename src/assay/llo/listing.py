"""A kernel in one spelling, a line an instruction: to be told apart from another stage, counted, and shown."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from assay.errors import InputError
from assay.llo.files import KernelFiles, Stage
from assay.llo.program import Address, Allocation, Immediate, Instruction, Kernel, Memory, Operand, Value
from assay.llo.text import parse, parse_allocations
from assay.llo.whole import check_end, check_whole

_COMMENT = re.compile(r"/\*.*?\*/", re.S)
_NAME = re.compile(r"%(?:\w+?_)?((?:vm|[vsp])?\d\w*)")
_PHYSICAL = re.compile(r"%\w+_((?:vm|[vsp])\d+)\b")


@dataclass(frozen=True, slots=True)
class Loaded:
    """A stage read. declared: the memory that bundles use, which another stage declares; None for regions. text: of the
    file.
    """

    stage: Stage
    kernel: Kernel
    declared: tuple[Allocation, ...] | None
    text: str

    def fingerprint(self) -> str:
        """Of the text without what has no meaning: comments, names of values, where an instruction comes from."""
        names: dict[str, str] = {}

        def plain(found: re.Match[str]) -> str:
            name = found[0]
            physical = _PHYSICAL.match(name)
            return f"%{physical[1]}" if physical else names.setdefault(name, f"%{len(names)}")

        lines = []
        for line in _COMMENT.sub("", self.text).split("\n"):
            line = line.strip()
            if line and not line.startswith(("//", "loop: ")) and " = xla_tuple " not in line:
                lines.append(_NAME.sub(plain, line.partition("//")[0]))
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def load(files: KernelFiles, stage: Stage) -> Loaded:
    """One stage of a kernel. Raises InputError where a file is not there or cut at its end, LloSyntaxError where it
    cannot be read.
    """
    text = read(stage.path)
    check_end(stage, text)
    kernel = parse(text, str(stage.path), files.name)
    check_whole(files, stage, text, kernel)
    memory = files.memory_of(stage) if kernel.bundles and _has_allocations(kernel) else stage
    declared = None
    if memory is not stage:
        declaring = read(memory.path)
        check_end(memory, declaring)
        declared = parse_allocations(declaring, str(memory.path))
    if kernel.bundles and declared is None:
        declared = ()
    return Loaded(stage, kernel, declared, text)


def read(path: Path) -> str:
    """A file's text. Raises InputError."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        what = error.strerror if isinstance(error, OSError) else "no text"
        raise InputError(f"{path}: {what}; name a file or a folder of LLO") from error


def _has_allocations(kernel: Kernel) -> bool:
    for instruction in kernel.walk():
        places = [*instruction.operands, *([instruction.memory.base] if instruction.memory else [])]
        if any(isinstance(place, Address) for place in places):
            return True
    return False


def spelled(instruction: Instruction, registers: bool = False) -> str:
    """One line in normal form. registers: whether physical registers are shown beside the names of values."""

    def operand(value: Operand) -> str:
        match value:
            case Value():
                register = f"_{value.register}" if registers and value.register else ""
                return f"{'!' if value.negated else ''}%{value.name}{register}"
            case Immediate():
                return _number(value.bits)
            case Address():
                return f"[#allocation{value.allocation}{_offset(value.offset)}]"

    def memory(place: Memory) -> str:
        index = "" if place.index is None else f" + {operand(place.index)}"
        words = [f"[{place.space}:{operand(place.base).strip('[]')}{index}{_offset(place.offset)}"]
        if place.stride != 1 or place.group != 1:
            words.append(f"ss:{place.stride}" + (f" sps:{place.group}" if place.group != 1 else ""))
        if place.sublanes != Immediate(0xFF):
            words.append(f"sm:{operand(place.sublanes)}")
        if place.pattern is not None:
            words.append(f"pattern:{place.pattern:#x}")
        return " ".join(words) + "]"

    parts = [*([memory(instruction.memory)] if instruction.memory else []), *map(operand, instruction.operands)]
    if instruction.target is not None:
        parts.append(f"region {instruction.target}")
    head = f"{operand(instruction.dst)} = " if instruction.dst is not None else ""
    when = ""
    if instruction.predicate is not None:
        other = "" if instruction.otherwise is None else f", {operand(instruction.otherwise)}"
        when = f" ({operand(instruction.predicate)}{other})"
    words = f" {instruction.words}" if instruction.words else ""
    return f"{head}{opcode(instruction)}{words}{when} {', '.join(parts)}".rstrip()


def opcode(instruction: Instruction) -> str:
    """With its unit."""
    return f"{instruction.opcode}.{instruction.unit}" if instruction.unit else instruction.opcode


def _number(bits: int) -> str:
    return str(bits) if bits < 1 << 16 else str(bits - (1 << 32)) if bits > (1 << 32) - (1 << 16) else f"{bits:#x}"


def _offset(offset: int) -> str:
    return "" if not offset else f" {'+' if offset > 0 else '-'} {abs(offset):#x}"


@dataclass(frozen=True, slots=True)
class Change:
    """sign: `-` for an instruction of the stage before, `+` for one of the stage after; line: of its file."""

    sign: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.sign} {self.line:>6}  {self.text}"


def changes(before: Kernel, after: Kernel) -> list[Change]:
    """What either of two stages has and the other has not, whatever its order; where both have the same, registers
    count, and where these are the same too, the order. In the order of the lines, each side in its own.
    """
    for registers in (False, True):
        sides = [[(i.line, spelled(i, registers)) for i in kernel.walk()] for kernel in (before, after)]
        found = [*_only("-", sides[0], sides[1]), *_only("+", sides[1], sides[0])]
        if found:
            return found
    first = next((n for n, (a, b) in enumerate(zip(*sides, strict=True)) if a[1] != b[1]), None)
    if first is None:
        return []
    window = slice(max(0, first - 1), first + 6)
    return [Change(sign, *line) for sign, side in zip("-+", sides, strict=True) for line in side[window]]


def _only(sign: str, side: Sequence[tuple[int, str]], other: Sequence[tuple[int, str]]) -> list[Change]:
    left = Counter(text for _, text in other)
    found = []
    for line, text in side:
        if left[text]:
            left[text] -= 1
        else:
            found.append(Change(sign, line, text))
    return found
