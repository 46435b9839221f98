"""Every module in ../shared/hlo through parser and printer, judged by jaxlib."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from assay.hlo.fingerprint import fingerprint
from assay.hlo.parse import parse_module
from assay.hlo.printer import print_for_compiler, print_module
from assay.hlo.types import check_module

FOLDER = Path(__file__).parents[2].parent / "shared" / "hlo"
FILES = sorted(FOLDER.glob("*.hlo"))

pytestmark = pytest.mark.skipif(
    not FILES, reason=f"no modules in {FOLDER.parent.name}/{FOLDER.name} beside the repository"
)


def text_of(hlo: Any, module: Any, style: str = "") -> str:
    options = getattr(hlo.HloPrintOptions, style)() if style else hlo.HloPrintOptions()
    options.print_large_constants = True
    options.print_backend_config = True
    options.print_control_dependencies = True
    text: str = module.to_string(options)
    return text


def judge() -> Any:
    return pytest.importorskip("jaxlib._hlo", reason="this jaxlib has no HLO parser of its own")


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_the_text_comes_back_letter_by_letter(path: Path) -> None:
    text = path.read_text()
    assert print_module(parse_module(text, path.name)) == text


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_jaxlib_reads_the_same_module(path: Path) -> None:
    hlo = judge()
    text = path.read_text()
    first = hlo.hlo_module_from_text(text)
    again = hlo.hlo_module_from_text(print_module(parse_module(text, path.name)))
    assert text_of(hlo, again) == text_of(hlo, first)
    assert fields(again.as_serialized_hlo_module_proto()) == fields(first.as_serialized_hlo_module_proto())


def fields(message: bytes) -> list[tuple[int, bytes]]:
    """The fields of an HloModuleProto but its id (5), which counts the modules of a process."""
    found, at = [], 0
    while at < len(message):
        tag, at = _varint(message, at)
        start = at
        if tag & 7 == 2:
            size, start = _varint(message, at)
            at = start + size
        else:
            _, at = _varint(message, at)
        if tag >> 3 != 5:
            found.append((tag >> 3, message[start:at]))
    return found


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


@pytest.mark.parametrize("style", ["short_parsable", "canonical"])
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_other_styles_say_the_same(path: Path, style: str) -> None:
    hlo = judge()
    # XLA's parser loses the sign of `-0`, so that both sides start from text with `-0.0`.
    text = path.read_text()
    if style == "canonical":  # which names predecessors by what they were called before
        text = re.sub(r", control-predecessors=\{[^}]*\}", "", text)
    module = parse_module(print_for_compiler(parse_module(text, path.name)))
    in_style = text_of(hlo, hlo.hlo_module_from_text(print_for_compiler(module)), style)
    read = parse_module(in_style)
    assert fingerprint(read) == fingerprint(module)
    hlo.hlo_module_from_text(print_module(read))


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_type_rules_accept(path: Path) -> None:
    check_module(parse_module(path.read_text(), path.name))
