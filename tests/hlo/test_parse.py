"""Errors with their places, and the styles of text that are not XLA's default."""

from __future__ import annotations

import pickle

import pytest

from assay.errors import HloSyntaxError
from assay.hlo.parse import parse_module
from assay.hlo.printer import print_module
from assay.hlo.reader import Memory
from assay.hlo.shape import ArrayShape

GOOD = """HloModule m, is_scheduled=true

%inner (p: f32[2]) -> f32[2] {
  ROOT %p = f32[2]{0} parameter(0)
}

ENTRY %main (x: f32[2], y: f32[2]) -> f32[2] {
  %x = f32[2]{0} parameter(0)
  %y = f32[2]{0} parameter(1)
  %z = f32[2]{0} add(%x, %y), metadata={op_name="a/{b" source_line=3}
  ROOT %r = f32[2]{0} fusion(%z), kind=kLoop, calls=%inner
}
"""


def test_a_module_is_flat_data() -> None:
    module = parse_module(GOOD)
    assert module.name == "m"
    assert module.attributes == {"is_scheduled": "true"}
    assert [c.name for c in module.computations] == ["inner", "main"]
    assert module.entry.root.attributes == {"kind": "kLoop", "calls": "inner"}
    assert module.entry.by_name["z"].operands == ("x", "y")
    assert module.entry.by_name["z"].attributes["metadata"] == '{op_name="a/{b" source_line=3}'
    assert [p.parameter_number for p in module.entry.parameters] == [0, 1]


def test_a_module_can_be_pickled_compared_and_its_instructions_hashed() -> None:
    module = parse_module(GOOD)
    copy = pickle.loads(pickle.dumps(module))
    assert copy == module
    shape = copy.entry.root.shape
    assert isinstance(shape, ArrayShape)
    assert isinstance(module.entry.root.shape, ArrayShape)
    assert shape.dtype is module.entry.root.shape.dtype
    assert len({*module.entry.instructions, *copy.entry.instructions}) == 4


# what is replaced, by what, the line and column of the error, a part of the message
FAULTS = [
    ("HloModule m", "HlpModule m", 1, 1, "expected `HloModule name`"),
    ("is_scheduled", "is_schedule", 1, 14, "unknown attribute `is_schedule`"),
    ("add(%x", "addd(%x", 10, 18, "unknown opcode `addd`"),
    ("add(%x, %y)", "add(%x, %w)", 10, 27, "operand `w` is not defined"),
    ("add(%x, %y)", "add(%x, %r)", 10, 27, "operand `r` is not defined"),
    ("add(%x, %y)", "add(%x, %y", 10, 21, "do not match"),
    ("metadata={", "metadate={", 10, 31, "unknown attribute `metadate`"),
    ('metadata={op_name="a/{b" source_line=3}', 'metadata={op_name="a/{b" source_line=3', 10, 40, "do not match"),
    ('metadata={op_name="a/{b" source_line=3}', 'metadata={op_name="a/{b source_line=3}', 10, 40, "do not match"),
    ("%z = f32[2]{0} add", "%z = f33[2]{0} add", 10, 8, "unknown element type `f33`"),
    ("%z = f32[2]{0} add", "%z = f32[2,a]{0} add", 10, 14, "expected a dimension, there is `a`"),
    ("%z = f32[2]{0} add", "%z = f32[2]{1} add", 10, 14, "not those of a rank 1 array"),
    ("%z = f32[2]{0} add", "%z = f32[2]{0:Q(3)} add", 10, 17, "unknown layout property"),
    ("%z = f32[2]{0} add", "%z = add", 10, 8, "the result's shape is missing"),
    ("%z = f32[2]{0} add", "%x = f32[2]{0} add", 10, 3, "a second instruction named `x`"),
    ("%z = f32[2]{0} add", "%z f32[2]{0} add", 10, 5, "expected `=`"),
    ("calls=%inner", "calls=%outer", 11, 54, "computation `outer` is not defined"),
    ("calls=%inner", "calls=%main", 11, 54, "is defined only after its caller"),
    ("add(%x, %y),", "add(%x, %y), control-predecessors={%q},", 10, 54, "control predecessor `q` is not defined"),
    ("ENTRY %main", "%main", 13, 1, "no computation is marked ENTRY"),
    ("%inner (p", "ENTRY %inner (p", 7, 1, "a second ENTRY computation"),
    ("%inner (p", "%main (p", 7, 1, "a second computation named `main`"),
    ("%z = f32[2]{0}", "ROOT %z = f32[2]{0}", 11, 3, "a second ROOT"),
    ("parameter(1)", "parameter(x)", 9, 28, "expected a parameter number"),
    ("kind=kLoop,", "kind=kLoop, kind=kLoop,", 11, 47, "a second attribute `kind`"),
    ("kind=kLoop,", "kind,", 11, 35, "expected an attribute"),
    ("-> f32[2] {\n  %x", "-> f32[3] {\n  %x", 7, 39, "the result shape of computation `main`"),
    ("%y = f32[2]{0} parameter(1)", "%y = f32[2]{0} constant({...})", 9, 27, "elided"),
    ("%y = f32[2]{0} parameter(1)", "%y = f32[2]{0}", 10, 3, "expected an opcode"),
]


@pytest.mark.parametrize(("old", "new", "line", "column", "message"), FAULTS)
def test_a_fault_has_its_place(old: str, new: str, line: int, column: int, message: str) -> None:
    assert GOOD.count(old) == 1
    with pytest.raises(HloSyntaxError) as error:
        parse_module(GOOD.replace(old, new), "bad.hlo")
    assert message in str(error.value)
    assert (error.value.line, error.value.column) == (line, column)
    assert str(error.value).startswith(f"bad.hlo:{line}:{column}: ")
    assert "\n" not in str(error.value)


def test_an_elided_constant_says_how_to_dump_the_module_whole() -> None:
    with pytest.raises(HloSyntaxError, match=r"--xla_dump_hlo_as_proto.*--xla_dump_large_constants"):
        parse_module(GOOD.replace("parameter(1)", "constant({...})"))


@pytest.mark.parametrize("kept", range(20, len(GOOD) - 3, 7))
def test_a_text_cut_short_is_an_error_that_says_so(kept: int) -> None:
    with pytest.raises(HloSyntaxError) as error:
        parse_module(GOOD[:kept])
    assert "cut short" in str(error.value)


@pytest.mark.parametrize(
    "text", ["", "  \n", "\0\1\2", "HloModule m\0", "\ufffdELF", "// only a comment\n", "HloModule"]
)
def test_what_is_no_hlo_text_is_one_clear_line(text: str) -> None:
    with pytest.raises(HloSyntaxError) as error:
        parse_module(text)
    assert "\n" not in str(error.value)


def test_binary_is_called_binary() -> None:
    with pytest.raises(HloSyntaxError, match="binary"):
        parse_module("\n\x0bjit_f\x12\0\x01")


def test_a_computation_without_root_has_its_last_instruction_as_root() -> None:
    assert parse_module(GOOD.replace("ROOT ", "")).entry.root_name == "r"


def test_instructions_over_several_lines_and_comments() -> None:
    text = """HloModule m
ENTRY main { // the entry
  x = f32[2]
      parameter(0) /* first */
  ROOT r = f32[2] negate(
      x), metadata={op_name="n"
        source_line=3},
      backend_config={"a": {"b": [1,
        2]}} }
"""
    module = parse_module(text)
    assert module.entry.root.operands == ("x",)
    assert list(module.entry.root.attributes) == ["metadata", "backend_config"]
    assert parse_module(print_module(module)) == module


def test_operands_with_shapes_are_checked() -> None:
    text = GOOD.replace("add(%x, %y)", "add(f32[2]{0} %x, f32[2]{0} %y)")
    assert parse_module(text) == parse_module(GOOD)
    with pytest.raises(HloSyntaxError, match=r"operand `y` is said to be f32\[3\]"):
        parse_module(text.replace("f32[2]{0} %y)", "f32[3]{0} %y)"))


def test_computations_printed_inside_an_instruction() -> None:
    text = """HloModule m
ENTRY main {
  x = f32[2]{0} parameter(0)
  i = s32[] parameter(1)
  f = f32[2]{0} fusion(f32[2]{0} x), kind=kLoop, calls=
  {
    tmp_0 = f32[2]{0} parameter(0)
    ROOT tmp_1 = f32[2]{0} negate(f32[2]{0} tmp_0)
  }, metadata={op_name="f"}
  ROOT c = f32[2]{0} conditional(s32[] i, f32[2]{0} f, f32[2]{0} f), branch_computations={
  {
    ROOT tmp_0 = f32[2]{0} parameter(0)
  },
  {
    tmp_0 = f32[2]{0} parameter(0)
    ROOT tmp_1 = f32[2]{0} abs(f32[2]{0} tmp_0)
  }
}
}
"""
    module = parse_module(text)
    assert [c.name for c in module.computations] == [
        "f.calls",
        "c.branch_computations.0",
        "c.branch_computations.1",
        "main",
    ]
    assert module.entry.by_name["f"].attributes == {"kind": "kLoop", "calls": "f.calls", "metadata": '{op_name="f"}'}
    assert parse_module(print_module(module)) == module


def test_computations_without_names() -> None:
    text = "HloModule , is_scheduled=true\n\n{\n  ROOT tmp_0 = f32[2]{0} parameter(0)\n}\n\n"
    module = parse_module(text)
    assert (module.name, module.entry_name) == ("", "computation")


def test_a_short_asynchronous_form_is_written_out_and_printed_short() -> None:
    text = """HloModule m

ENTRY %main (x: f32[4]) -> f32[2] {
  %x = f32[4]{0} parameter(0)
  %s = ((f32[4]{0}), f32[2]{0}, u32[]) slice-start(%x), slice={[0:2]}, metadata={op_name="n"}
  %u = ((f32[4]{0}), f32[2]{0}, u32[]) slice-update(%s)
  ROOT %d = f32[2]{0} slice-done(%u)
}

"""
    module = parse_module(text)
    assert [i.opcode for i in module.entry.instructions] == ["parameter", "async-start", "async-update", "async-done"]
    wrapped = module.by_name[module.entry.by_name["s"].attributes["calls"]]
    assert [i.opcode for i in wrapped.instructions] == ["parameter", "slice"]
    assert wrapped.root.attributes == {"slice": "{[0:2]}", "metadata": '{op_name="n"}'}
    assert print_module(module) == text


def test_a_called_computation_that_is_used_twice_stays() -> None:
    start = "((f32[2]{0}), f32[2]{0}, u32[]) async-start(%z), calls=%inner"
    text = GOOD.replace("f32[2]{0} fusion(%z), kind=kLoop, calls=%inner", f"{start}\n  %o = {start}").replace(
        "ROOT %r", "%r"
    )
    text = text.replace("-> f32[2] {\n  %x", "-> ((f32[2]), f32[2], u32[]) {\n  %x")
    module = parse_module(text)
    assert parse_module(print_module(module)) == module
    assert "calls=%inner" in print_module(module)


def test_deep_nesting_of_a_value_is_no_crash() -> None:
    deep = "{" * 2000 + "}" * 2000
    with pytest.raises(HloSyntaxError):
        parse_module(GOOD.replace('{op_name="a/{b" source_line=3}', deep))


def test_elements_of_tuples_named_where_they_are_used() -> None:
    """libtpu 0.0.50 prints a get-tuple-element as `%t#1`; a name that the text has already is not taken twice."""
    text = """HloModule m

ENTRY %main (x: (f32[2], (s32[], f32[2]))) -> f32[2] {
  %x = (f32[2]{0}, (s32[], f32[2]{0})) parameter(0)
  %x.element.0 = f32[2]{0} add(%x#0, %x#1#1)
  %y = f32[2]{0} multiply(f32[2]{0} %x#0, f32[2]{0} %x.element.0)
  ROOT %r = f32[2]{0} subtract(%y, %x#0)
}
"""
    module = parse_module(text)
    entry = module.entry
    elements = {i.name: (i.operands, i.attributes["index"]) for i in entry.instructions if "tuple" in i.opcode}
    assert elements == {
        "x.element.0.1": (("x",), "0"),
        "x.element.1": (("x",), "1"),
        "x.element.1.element.1": (("x.element.1",), "1"),
    }
    assert entry.by_name["x.element.0"].operands == ("x.element.0.1", "x.element.1.element.1")
    assert entry.by_name["y"].operands == ("x.element.0.1", "x.element.0")
    assert entry.root.operands == ("y", "x.element.0.1")
    assert parse_module(print_module(module)) == module


@pytest.mark.parametrize("operand", ["%x#2", "%z#0", "%x#0#0"])
def test_an_element_that_is_not_there(operand: str) -> None:
    text = f"""HloModule m

ENTRY %main (x: (f32[2], f32[2])) -> f32[2] {{
  %x = (f32[2]{{0}}, f32[2]{{0}}) parameter(0)
  ROOT %r = f32[2]{{0}} negate({operand})
}}
"""
    with pytest.raises(HloSyntaxError, match="expected the name of an operand"):
        parse_module(text)


def test_texts_that_share_lines_share_instructions_and_nothing_else():
    """Each text reads as it does alone, whatever was read before; no instruction stands in a module twice."""
    first = """HloModule a
f { p = f32[2] parameter(0)
  ROOT n = f32[2] negate(p) }
g { p = f32[2] parameter(0)
  ROOT n = f32[2] negate(p) }
ENTRY e {
  p = f32[2] parameter(0)
  q = f32[2]{0} add(f32[2]{0} p, f32[2]{0} p)
  c = f32[2] call(q), to_apply=f
  d = f32[2] call(c), to_apply=g
  ROOT r = f32[2] multiply(d, d), metadata={op_name="m"}
}
"""
    texts = [
        first,
        first.replace("add(", "subtract("),
        first.replace("ROOT r", "r").replace("}\n}\n", "}\n  ROOT s = f32[2] abs(r)\n}\n"),
        first.replace("q = f32[2]{0} add(f32[2]{0} p, f32[2]{0} p)", "q = f32[2]{0} add(p, p)"),
        first,
    ]
    memory = Memory()
    modules = [parse_module(text, memory=memory) for text in texts]
    for text, module in zip(texts, modules, strict=True):
        assert module == parse_module(text)
        ids = [id(i) for c in module.computations for i in c.instructions]
        assert len(ids) == len(set(ids))
    shared = {id(i) for i in modules[0].entry.instructions} & {id(i) for i in modules[1].entry.instructions}
    assert len(shared) == 3
    wrong = first.replace("f32[2] multiply(d, d)", "f32[2] multiply(d, nowhere)")
    with pytest.raises(HloSyntaxError, match="nowhere"):
        parse_module(wrong, memory=memory)
    gone = first.replace("  d = f32[2] call(c), to_apply=g\n", "")
    with pytest.raises(HloSyntaxError, match="d"):
        parse_module(gone, memory=memory)
    twice = first.replace("ENTRY e {\n", "ENTRY e {\n  ROOT z = f32[2] constant({1, 2})\n")
    with pytest.raises(HloSyntaxError, match="second ROOT"):
        parse_module(twice, memory=memory)


ELEMENTS = """HloModule m
f {
  p = f32[2] parameter(0)
  q = f32[2] negate(p)
  ROOT r = (f32[2], f32[2]) tuple(p, q)
}
g {
  p = f32[2] parameter(0)
  pair = (f32[2], f32[2]) fusion(p), kind=kLoop, calls=f
  s = f32[2] add(pair#0, pair#1)
  ROOT t = f32[2] multiply(s, pair#1)
}
ENTRY e {
  p = f32[2] parameter(0)
  pair = (f32[2], f32[2]) fusion(p), kind=kLoop, calls=f
  s = f32[2] subtract(pair#0, pair#1)
  ROOT c = f32[2] fusion(s), kind=kLoop, calls=g
}
"""


@pytest.mark.parametrize(
    "edits",
    [
        [],
        [("add(", "maximum(")],
        [("subtract(", "maximum(")],
        [("negate(", "abs(")],  # what is called changed, the callers' text did not
        [("s = f32[2] add(pair#0, pair#1)", "s = f32[2] add(pair#1, pair#1)")],  # the first use is another
        [("s = f32[2] subtract", "pair.element.1 = f32[2] subtract"), ("fusion(s)", "fusion(pair.element.1)")],
        [("p = f32[2] parameter(0)\n  q", "pair.element.0 = f32[2] parameter(0)\n  q"), ("(p)\n", "(pair.element.0)\n"),
         ("tuple(p", "tuple(pair.element.0")],
    ],
)  # fmt: skip
def test_elements_and_whole_computations_are_shared_where_they_say_the_same(edits: list[tuple[str, str]]) -> None:
    memory = Memory()
    changed = ELEMENTS
    for old, new in edits:
        assert old in changed
        changed = changed.replace(old, new, 1)
    texts = [ELEMENTS, changed, ELEMENTS, changed]
    modules = [parse_module(text, memory=memory) for text in texts]
    for text, module in zip(texts, modules, strict=True):
        assert module == parse_module(text)
        for computation in module.computations:
            assert len({i.name for i in computation.instructions}) == len(computation.instructions)
    again = [new is old for new, old in zip(modules[2].computations, modules[0].computations, strict=True)]
    assert again == [True, True, True]
    if "element" not in changed:
        assert [c is d for c, d in zip(modules[3].computations, modules[1].computations, strict=True)] == again


def test_a_computation_that_is_known_is_checked_against_what_is_around_it() -> None:
    memory = Memory()
    parse_module(ELEMENTS, memory=memory)
    without = ELEMENTS.replace(ELEMENTS[ELEMENTS.index("f {") : ELEMENTS.index("g {")], "")
    with pytest.raises(HloSyntaxError, match="computation `f` is not defined"):
        parse_module(without, memory=memory)
    twice = ELEMENTS.replace("ENTRY", ELEMENTS[ELEMENTS.index("g {") : ELEMENTS.index("ENTRY")] + "ENTRY")
    with pytest.raises(HloSyntaxError, match="a second computation named `g`"):
        parse_module(twice, memory=memory)
    entry = ELEMENTS[ELEMENTS.index("ENTRY") :]
    with pytest.raises(HloSyntaxError, match="a second ENTRY"):
        parse_module(ELEMENTS + entry.replace("ENTRY e", "ENTRY h"), memory=memory)
    faulty = ELEMENTS.replace("calls=g", "calls=g, control-predecessors={nowhere}")
    for _ in range(2):  # what a faulty text said is not remembered as right
        with pytest.raises(HloSyntaxError, match="control predecessor `nowhere`"):
            parse_module(faulty, memory=memory)
