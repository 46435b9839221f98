"""A kernel's text as flat data: MLIR in its usual spelling, one operation a line (MLIR Language Reference).

Only the shape of the text is known here: results, name, what follows, and the operations of regions. What follows is
taken apart by the operation itself (`ops`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from assay.errors import Unsupported

CALL = "custom-call tpu_custom_call"

_OPERATION = re.compile(r"(?:(?P<results>%[\w#:, %]+?) = )?(?P<name>[a-z][\w]*(?:\.[\w.]+)?)(?P<rest>.*)")
_FUNCTION = re.compile(r"func\.func (?:private |public )?@(?P<name>[\w$.-]+)\((?P<arguments>.*?)\)(?P<rest>.*)\{$")
_ARGUMENT = re.compile(r"(%\w+): ((?:[^,<>]|<[^<>]*(?:<[^<>]*>)?[^<>]*>)+)")


@dataclass(frozen=True, slots=True)
class Operation:
    """results: names without their count. rest: all after the operation's name, without the brace of a region."""

    name: str
    results: tuple[str, ...]
    rest: str
    regions: tuple[tuple[Operation, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Function:
    """arguments: (name, type) each. attributes: what stands between the signature and the body."""

    name: str
    arguments: tuple[tuple[str, str], ...]
    attributes: str
    body: tuple[Operation, ...]


@dataclass(slots=True)
class _Lines:
    lines: list[str]
    at: int = 0
    functions: dict[str, Function] = field(default_factory=dict)

    def next(self) -> str:
        if self.at >= len(self.lines):
            raise Unsupported(CALL, "a body that is cut short")
        self.at += 1
        return self.lines[self.at - 1]


def parse_kernel(text: str) -> dict[str, Function]:
    """The functions of a kernel by name. Raises Unsupported at a line that is not understood."""
    reader = _Lines([line.strip() for line in text.splitlines() if line.strip()])
    if not reader.next().startswith("module"):
        raise Unsupported(CALL, "a body that is no text")
    while (line := reader.next()) != "}":
        head = _FUNCTION.fullmatch(line)
        if head is None:
            raise Unsupported(CALL, f"the line `{line[:60]}`")
        body, _ = _region(reader)
        arguments = tuple((name, kind.strip()) for name, kind in _ARGUMENT.findall(head["arguments"]))
        reader.functions[head["name"]] = Function(head["name"], arguments, head["rest"].strip(), body)
    return reader.functions


def _region(reader: _Lines) -> tuple[tuple[Operation, ...], str]:
    """The operations up to the closing brace, and what follows it on its line."""
    found: list[Operation] = []
    while not (line := reader.next()).startswith("}"):
        match = _OPERATION.fullmatch(line.removesuffix("{").rstrip())
        if match is None:
            raise Unsupported(CALL, f"the line `{line[:60]}`")
        regions = []
        if line.endswith("{"):
            body, after = _region(reader)
            regions.append(body)
            while after == "else {":
                body, after = _region(reader)
                regions.append(body)
            if after:
                raise Unsupported(CALL, f"the line `}} {after[:60]}`")
        names = _names(match["results"] or "")
        found.append(Operation(match["name"], names, match["rest"].strip(), tuple(regions)))
    return tuple(found), line[1:].strip()


def _names(results: str) -> tuple[str, ...]:
    """`%1:2` -> ("%1#0", "%1#1"), `%1` -> ("%1",)."""
    if not results:
        return ()
    name, _, count = results.partition(":")
    return tuple(f"{name}#{i}" for i in range(int(count))) if count else (name,)


_AFFINE = re.compile(r"affine_map<\(([^()]*)\) -> \(([^()]*)\)>")


def affine(text: str, numbers: Sequence[int]) -> tuple[int, ...]:
    """`affine_map<(d0, d1) -> (d1, 0)>` of two numbers. Raises Unsupported for more than dimensions and constants."""
    match = _AFFINE.fullmatch(text)
    names = [name.strip() for name in match[1].split(",")] if match else []
    if match is None or len(names) != len(numbers):
        raise Unsupported(CALL, f"the map {text[:60]}")
    known = dict(zip(names, numbers, strict=True))
    found = [item.strip() for item in match[2].split(",") if item.strip()]
    if any(item not in known and not item.isdigit() for item in found):
        raise Unsupported(CALL, f"the map {text[:60]}")
    return tuple(known[item] if item in known else int(item) for item in found)
