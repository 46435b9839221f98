"""Each snippet is judged by jaxlib first, then goes through our parser, printer and type rules."""

from __future__ import annotations

import pytest

from assay.hlo.opcodes import ARITY
from assay.hlo.parse import parse_module
from assay.hlo.printer import print_for_compiler, print_module
from assay.hlo.types import check_module

from .snippets import BODIES, VARIANTS, module_of

ALL = {**BODIES, **VARIANTS}

# In the table of opcodes, but jaxlib 0.12.0.1 either does not have them or does not take them from text.
NOT_IN_JAXLIB = {"atan", "exp2", "log2", "collective-reduce", "shuffle", "scan"}


def test_every_opcode_has_a_snippet() -> None:
    assert set(ARITY) - set(BODIES) == NOT_IN_JAXLIB


@pytest.mark.parametrize("name", ALL)
def test_jaxlib_takes_what_we_print(name: str) -> None:
    hlo = pytest.importorskip("jaxlib._hlo", reason="this jaxlib has no HLO parser of its own")
    text = module_of(ALL[name])
    try:
        first = hlo.hlo_module_from_text(text)
    except RuntimeError as error:  # an older jaxlib without this opcode or attribute
        pytest.skip(str(error).splitlines()[1])
    again = hlo.hlo_module_from_text(print_module(parse_module(text)))
    assert whole(hlo, again) == whole(hlo, first)


@pytest.mark.parametrize("name", ALL)
def test_what_jaxlib_prints_comes_back_letter_by_letter(name: str) -> None:
    hlo = pytest.importorskip("jaxlib._hlo", reason="this jaxlib has no HLO parser of its own")
    try:
        text = whole(hlo, hlo.hlo_module_from_text(module_of(ALL[name])))
    except RuntimeError as error:
        pytest.skip(str(error).splitlines()[1])
    assert print_module(parse_module(text)) == text


@pytest.mark.parametrize("name", ALL)
def test_type_rules_accept(name: str) -> None:
    check_module(parse_module(module_of(ALL[name])))


def whole(hlo: object, module: object) -> str:
    options = hlo.HloPrintOptions()  # type: ignore[attr-defined]
    options.print_large_constants = True
    text: str = module.to_string(options)  # type: ignore[attr-defined]
    return text


def with_metadata(metadata: str, tables: str = "") -> str:
    main = f"ENTRY %main (x: f32[2]) -> f32[2] {{\n  ROOT %x = f32[2]{{0}} parameter(0), metadata={metadata}\n}}"
    return f"HloModule m\n\n{tables}{main}"


@pytest.mark.parametrize(
    "metadata",
    [
        "{stack_frame_id=7}",
        '{op_name="jit(f)/add" stack_frame_id=7}',
        '{op_type="neg" stack_frame_id=7 source_line=4}',
        '{stack_frame_id=7 op_name="f/stack_frame_id=3"}',
    ],
)
def test_a_frame_that_no_table_has_is_not_given_to_a_compiler(metadata: str) -> None:
    """It warns of it, and leaves it out as well."""
    hlo = pytest.importorskip("jaxlib._hlo", reason="this jaxlib has no HLO parser of its own")
    text = with_metadata(metadata)
    ours = print_for_compiler(parse_module(text))
    assert "stack_frame_id=7" not in ours
    assert whole(hlo, hlo.hlo_module_from_text(ours)) == whole(hlo, hlo.hlo_module_from_text(text))


def test_a_frame_that_a_table_has_is_kept() -> None:
    tables = (
        'FileNames\n1 "a.py"\n\nFunctionNames\n1 "f"\n\n'
        "FileLocations\n1 {file_name_id=1 function_name_id=1 line=2 end_line=2 column=0 end_column=1}\n\n"
        "StackFrames\n1 {file_location_id=1 parent_frame_id=1}"
    )
    module = parse_module(with_metadata("{stack_frame_id=1}", tables + 3 * "\n"))
    assert module.tables
    assert "metadata={stack_frame_id=1}" in print_for_compiler(module)
