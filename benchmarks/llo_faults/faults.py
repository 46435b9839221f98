"""Wrong LLO, made in the text of one stage: where each kind of fault can be planted, and how it reads then."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """kind: of KINDS. The text from start to end becomes `by`. line: of the file, from 1. dst: the value, or token,
    of the instruction, without its `%`.
    """

    kind: str
    start: int
    end: int
    by: str
    line: int
    dst: str

    def planted(self, text: str) -> str:
        return text[: self.start] + self.by + text[self.end :]


Found = Iterator[tuple[int, int, str]]

# An operand ends before a remark, the next instruction of a bundle, or the line's end.
_PAIR = r" (?P<a>[^\s,()/]+), (?P<b>[^\s,()/]+)(?=\s*(?:\n|/\*| ;;| \}))"
_MASK = re.compile(r"\[vmem:\[[^\]]*\](?: \w+:[^\s\]]+)*? sm:\$(?P<mask>0x[0-9a-f]+)\]")
_ADDRESS = re.compile(r"\[vmem:\[(?:%\w+|#allocation\w+)(?P<offset> \+ \$0x[0-9a-f]+)?\]")
_SWAP = re.compile(
    r"= (?:vsub\.f32|vsub\.s32|ssub\.s32|vcmp\.(?:lt|gt|le|ge)\.\w+\.\w+)(?: \(!?%\w+\),)?(?P<both>" + _PAIR + ")"
)
_SELECT = re.compile(r"/\*on_true_vy=\*/(?P<a>[^\s,]+), /\*on_false_vx=\*/(?P<b>[^\s,]+)")
_SIGNED = re.compile(r"[vs]cmp\.(?:lt|le|gt|ge)\.(?P<type>s32)\.totalorder")
_WAIT = re.compile(r"= (?P<rest>dma\.done[^\n;}]*?)(?=\s*(?:\n| ;;| \}))")
_CONSTANT = r"(?:-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|-?inf|nan|\d[\d.]*\|\d[\d.]*)"
_END = r"(?=\s*(?:\n|/\*| ;;| \}))"
_STORE = re.compile(
    r"= (?P<rest>vst(?:\.\w+)? \[[^\n;]*?(?:/\*vst_source=\*/)(?P<source>" + _CONSTANT + r"|%\w+))" + _END
)
_SPLAT = re.compile(r"%(?P<name>\w+) = (?P<rest>vmov " + _CONSTANT + r")" + _END)
_COMPARE = re.compile(r"%(?P<name>p\w+) = scmp\.(?P<how>lt|le|gt|ge)\.s32")
_BRANCH = re.compile(r"sbr\.rel \(!?%(?P<name>p\w+)\)")
_UNPACK = re.compile(r"vunpack\.[ci]\.(?P<part>[lu0-3])\.(?:bf16|s8|u8|s16|u16)")

_OTHER = {"lt": "le", "le": "lt", "gt": "ge", "ge": "gt"}
_PART = {"l": "u", "u": "l", "0": "1", "1": "0", "2": "3", "3": "2"}


def _masks(text: str) -> Found:
    """One sublane less, each in turn."""
    for match in _MASK.finditer(text):
        mask = int(match["mask"], 16)
        for bit in range(8):
            if mask >> bit & 1:
                yield *match.span("mask"), f"{mask & ~(1 << bit):#x}"


def _addresses(text: str) -> Found:
    for match in _ADDRESS.finditer(text):
        if match["offset"] is None:
            yield match.end() - 1, match.end() - 1, " + $0x1"
        else:
            yield *match.span("offset"), f" + $0x{int(match['offset'][6:], 16) + 1:x}"


def _swaps(text: str) -> Found:
    for match in _SWAP.finditer(text):
        if match["a"] != match["b"]:
            yield *match.span("both"), f" {match['b']}, {match['a']}"
    for match in _SELECT.finditer(text):
        if match["a"] != match["b"]:
            by = f"/*on_true_vy=*/{match['b']}, /*on_false_vx=*/{match['a']}"
            yield match.start(), match.end(), by


def _unsigned(text: str) -> Found:
    for match in _SIGNED.finditer(text):
        yield *match.span("type"), "u32"


def _waits(text: str) -> Found:
    for match in _WAIT.finditer(text):
        yield *match.span("rest"), "vnop"


def _accumulators(text: str) -> Found:
    """A constant that is no longer stored, or no longer put into the register where a sum begins."""
    splats = {match["name"] for match in _SPLAT.finditer(text)}
    for match in _STORE.finditer(text):
        source = match["source"]
        if not source.startswith("%") or source[1:] in splats:
            yield *match.span("rest"), "vnop"
    for match in re.finditer(r"vphi (?P<initial>%v\w+|" + _CONSTANT + r"),", text):
        initial = match["initial"]
        if not initial.startswith("%") or initial[1:] in splats:
            yield *match.span("initial"), "%v999999999"


def _bounds(text: str) -> Found:
    deciding = {match["name"] for match in _BRANCH.finditer(text)}
    for match in _COMPARE.finditer(text):
        if match["name"] in deciding:
            yield *match.span("how"), _OTHER[match["how"]]


def _unpacks(text: str) -> Found:
    for match in _UNPACK.finditer(text):
        yield *match.span("part"), _PART[match["part"]]


KINDS: dict[str, Callable[[str], Found]] = {
    "dropped sublane":              _masks,
    "off-by-one address":           _addresses,
    "swapped operands":             _swaps,
    "unsigned compare":             _unsigned,
    "missing wait":                 _waits,
    "accumulator not initialised":  _accumulators,
    "wrong loop bound":             _bounds,
    "narrow unpack":                _unpacks,
}  # fmt: skip

_DST = re.compile(r"%([\w.]+) = ")


def faults(kind: str, text: str) -> list[Fault]:
    """All that can be planted in a stage's text."""
    lines = [match.start() for match in re.finditer("\n", text)]
    found = []
    for start, end, by in KINDS[kind](text):
        before = text.rfind("%", 0, text.rfind(" = ", 0, max(start, 1)))
        dst = _DST.match(text, before) if before >= 0 else None
        if dst is not None:
            found.append(Fault(kind, start, end, by, bisect_left(lines, start) + 1, dst[1]))
    return found
