"""Type rules refuse what contradicts. That they accept valid modules is in test_snippets.py and test_round_trip.py."""

from __future__ import annotations

import re

import pytest

from assay.errors import HloTypeError
from assay.hlo.opcodes import ARITY
from assay.hlo.parse import parse_module
from assay.hlo.types import RULES, check_module, infer_shape

from .snippets import BODIES, VARIANTS, module_of

# The result's shape is for these to say: nothing else decides it.
DECLARED = {"parameter", "custom-call", "infeed", "recv", "rng", "iota", "constant", "rng-get-and-update-state"}
# These say the element type of their result.
OWN_TYPE = DECLARED | {"convert", "stochastic-convert", "bitcast-convert"}
LAST = re.compile(r"(ROOT %r = )(.*?)( [a-z][a-z0-9-]*\()")


def corrupted(body: str, old: str, new: str) -> str:
    """The body with the first `old` in the result's shape replaced."""

    def change(match: re.Match[str]) -> str:
        return match.group(1) + re.sub(old, new, match.group(2), count=1) + match.group(3)

    return LAST.sub(change, body)


def refused(text: str) -> str:
    with pytest.raises(HloTypeError) as error:
        check_module(parse_module(text))
    assert "\n" not in str(error.value)
    return str(error.value)


def test_there_is_a_rule_for_every_opcode() -> None:
    assert set(RULES) == set(ARITY)


def with_result(pattern: str) -> list[str]:
    """The opcodes whose result's shape the pattern is in."""
    return [opcode for opcode, body in BODIES.items() if (found := LAST.search(body)) and re.search(pattern, found[2])]


@pytest.mark.parametrize("opcode", with_result(r"\[(<=)?\d"))
def test_a_wrong_dimension_is_refused(opcode: str) -> None:
    if opcode in DECLARED - {"constant"} | {"broadcast"}:
        pytest.skip(f"the declared type of {opcode} is its own: there is nothing it could contradict")
    body = corrupted(BODIES[opcode], r"(\[(?:<=)?)(\d+)", r"\g<1>1\g<2>")
    assert body != BODIES[opcode]
    assert f"({opcode})" in refused(module_of(body))


@pytest.mark.parametrize("opcode", with_result(r"\w\["))
def test_a_wrong_element_type_is_refused(opcode: str) -> None:
    if opcode in OWN_TYPE - {"rng-get-and-update-state", "rng"}:
        pytest.skip(f"the declared type of {opcode} is its own: there is nothing it could contradict")
    body = corrupted(BODIES[opcode], r"\b(?:f32|bf16|c64|pred|s32|s8|u8|u32|u64|token)\[", "s16[")
    assert body != BODIES[opcode]
    assert f"({opcode})" in refused(module_of(body))


# opcode, what is replaced, by what, a part of the message
WRONG = [
    ("add", "y: f32[4,8]", "y: f32[4,9]", "operands 0 and 1 differ"),
    ("add", "y: f32[4,8]", "y: bf16[4,8]", "operands 0 and 1 differ"),
    ("add", "add(%x, %y)", "add(%x)", "takes 2 operands, there are 1"),
    ("floor", "f32[4,8]", "s32[4,8]", "floor takes floats, not s32"),
    ("and", "s32[4,8]", "f32[4,8]", "not f32"),
    ("remainder", "f32[4,8]", "c64[4,8]", "not c64"),
    ("compare", "direction=LT", "direction=LL", "direction=LL"),
    ("compare", "f32[4]", "c64[4]", "has no order"),
    ("compare", "type=TOTALORDER", "type=SIGNED", "type=SIGNED does not fit f32"),
    ("complex", "f32[4]", "bf16[4]", "f32 or f64"),
    ("clamp", "x: f32[]", "x: f32[3]", "the lower bound"),
    ("select", "x: pred[4]", "x: pred[5]", "fits no choice"),
    ("select", "x: pred[4]", "x: s8[4]", "not pred"),
    ("select", "z: f32[4]", "z: f32[5]", "choices differ"),
    ("reduce-precision", "exponent_bits=5", "exponent_bits=0", "exponent_bits"),
    ("stochastic-convert", "y: u32", "y: u16", "random bits"),
    ("map", "to_apply=%add", "to_apply=%minus", "takes 1 parameters"),
    ("map", "dimensions={0}", "dimensions={1}", "out of the range"),
    ("bitcast", "f32[32]", "f32[31]", "128 bytes to 124"),
    ("broadcast", "dimensions={1}", "dimensions={0}", "expected f32[4,4,5]"),
    ("broadcast", "dimensions={1}", "dimensions={3}", "out of the range of rank 3"),
    ("broadcast", "dimensions={1}", "dimensions={}", "0 entries for an operand of rank 1"),
    ("transpose", "dimensions={1,0}", "dimensions={0,1}", "expected f32[4,8]"),
    ("transpose", "dimensions={1,0}", "dimensions={0,0}", "no permutation"),
    ("reverse", "dimensions={1}", "dimensions={2}", "out of the range"),
    ("reverse", "dimensions={1}", "dimensions={1,1}", "repeats"),
    ("slice", "[1:3]", "[1:4]", "expected f32[3,3]"),
    ("slice", "[1:3]", "[3:5]", "does not fit its size 4"),
    ("slice", "[0:7:3]", "[0:7:0]", "does not fit"),
    ("slice", ", [0:7:3]", "", "1 ranges for an operand of rank 2"),
    ("pad", "padding=1_2", "padding=1_1", "expected f32[6,15]"),
    ("pad", "padding=1_2", "padding=-3_-2", "leaves -1"),
    ("pad", "y: f32[]", "y: f32[1]", "no scalar"),
    ("pad", "0_0_1", "0_0_-1", "interior"),
    ("concatenate", "dimensions={1}", "dimensions={0}", "operand 1 is f32[4,3]"),
    ("concatenate", "y: f32[4,3]", "y: bf16[4,3]", "operand 1"),
    ("dynamic-slice", "dynamic_slice_sizes={2,8}", "dynamic_slice_sizes={2,9}", "does not fit"),
    ("dynamic-slice", "dynamic_slice_sizes={2,8}", "dynamic_slice_sizes={3,8}", "expected f32[3,8]"),
    ("dynamic-slice", "y: s32[]", "y: f32[]", "not an integer"),
    ("dynamic-slice", "y: s32[]", "y: s64[]", "different types"),
    ("dynamic-slice", "dynamic-slice(%x, %y, %z)", "dynamic-slice(%x, %y)", "expected 2 scalar indices"),
    ("dynamic-update-slice", "u: f32[2,8]", "u: f32[5,8]", "does not fit"),
    ("gather", "slice_sizes={1,8}", "slice_sizes={1,7}", "expected f32[5,7]"),
    ("gather", "slice_sizes={1,8}", "slice_sizes={2,8}", "collapsed"),
    ("gather", "start_index_map={0}", "start_index_map={0,1}", "start_index_map has 2"),
    ("gather", "offset_dims={1}", "offset_dims={0}", "expected f32[8,5]"),
    ("gather", "index_vector_dim=1", "index_vector_dim=3", "index_vector_dim=3"),
    ("gather", "i: s32", "i: f32", "not integers"),
    ("scatter", "u: f32[5,8]", "u: f32[6,8]", "does not fit the indices"),
    ("scatter", "u: f32[5,8]", "u: f32[5,9]", "does not fit 8"),
    ("scatter", "to_apply=%add", "to_apply=%less", "gives what it does not take"),
    ("scatter", "inserted_window_dims={0}", "inserted_window_dims={}", "update_window_dims"),
    ("iota", "iota_dimension=1", "iota_dimension=2", "out of the range"),
    ("get-dimension-size", "dimensions={0}", "dimensions={2}", "out of the range"),
    ("set-dimension-size", "n: s32[]", "n: s64[]", "no s32 scalar"),
    ("dot", "rhs_contracting_dims={1}", "rhs_contracting_dims={2}", "contracting dims differ: 8 in lhs, 5 in rhs"),
    ("dot", "lhs_batch_dims={0}, ", "", "0 batch dims of lhs and 1 of rhs"),
    ("dot", "lhs_contracting_dims={2}", "lhs_contracting_dims={1}", "contracting dims differ: 4"),
    ("dot", "y: f32[2,8,5]", "y: f32[3,8,5]", "batch dims differ"),
    ("ragged-dot", "rhs_group_dims={0}", "rhs_group_dims={1}", "repeats"),
    ("ragged-dot", "lhs_ragged_dims={0}", "lhs_ragged_dims={3}", "out of the range"),
    ("scaled-dot", "rhs_contracting_dims={0}", "rhs_contracting_dims={1}", "contracting dims differ"),
    ("convolution", "feature_group_count=2", "feature_group_count=1", "lhs has 4 features, rhs takes 2"),
    ("convolution", "size=3x3", "size=3x2", "the window's size 2 is not rhs's 3"),
    ("convolution", "stride=2x2", "stride=2x1", "expected f32[2,4,9,6]"),
    ("convolution", "pad=0_0x1_1", "pad=0_2x1_1", "expected f32[2,5,5,6]"),
    ("convolution", "->b01f", "->bf01", "expected f32[2,6,4,5]"),
    ("convolution", "y: f32[3,3,2,6]", "y: f32[3,3,2,5]", "output features"),
    ("reduce", "dimensions={1}", "dimensions={0}", "expected f32[8]"),
    ("reduce", "dimensions={1}", "dimensions={2}", "out of the range"),
    ("reduce", "to_apply=%add", "to_apply=%add2", "takes 4 parameters"),
    ("reduce", "to_apply=%add", "to_apply=%less", "gives what it does not take"),
    ("reduce", "y: f32[]", "y: f32[1]", "not a scalar"),
    ("reduce-window", "stride=2x1", "stride=1x1", "expected f32[3,8]"),
    ("reduce-window", "window={size=2x3 stride=2x1 pad=0_0x1_1}", "window={size=2}", "the window has 1"),
    ("select-and-scatter", "s: f32[2,8]", "s: f32[3,8]", "the source"),
    ("select-and-scatter", "select=%less", "select=%add", "select does not give a pred"),
    ("sort", "dimensions={1}", "dimensions={2}", "out of the range"),
    ("sort", "to_apply=%less_by_key", "to_apply=%less", "takes 2 parameters"),
    ("sort", "y: s32[4,8]", "y: s32[4,7]", "operands differ"),
    ("topk", "k=3", "k=4", "expected (f32[4,4], s32[4,4])"),
    ("topk", "k=3", "k=9", "k=9 of 8"),
    ("fft", "fft_length={8}", "fft_length={6}", "fft_length"),
    ("fft", "fft_type=RFFT", "fft_type=FFT", "takes complex"),
    ("cholesky", "f32[3,4,4]", "f32[3,4,5]", "no (batch of) square"),
    ("triangular-solve", "left_side=true", "left_side=false", "does not solve"),
    ("batch-norm-training", "feature_index=1", "feature_index=0", "one value a feature"),
    ("batch-norm-inference", "v: f32[8]", "v: f32[7]", "one value a feature"),
    ("batch-norm-grad", "g: f32[4,8]", "g: f32[4,7]", "gradient"),
    ("rng", "x: f32[]", "x: f64[]", "no scalar of the result's type"),
    ("rng-bit-generator", "algorithm=rng_three_fry", "algorithm=rng_two_fry", "algorithm"),
    ("constant", "0.1 }", "0.1, 3 }", "has 5 elements, not 4"),
    ("constant", "0.1 }", "0.1x }", "not a literal"),
    ("get-tuple-element", "index=0", "index=1", "expected s32[]"),
    ("get-tuple-element", "index=0", "index=2", "index=2 of a tuple of 2"),
    ("call", "to_apply=%minus", "to_apply=%less", "takes 2 parameters"),
    ("call", "to_apply=%minus", "to_apply=%both_ways", "expected f32[2]"),
    ("fusion", "x: f32[4]", "x: f32[5]", "takes f32[4] as parameter 0"),
    ("fusion", "kind=kLoop", "kind=kLoup", "kLoup"),
    ("while", "body=%step", "body=%again", "does not give back"),
    ("while", "condition=%again", "condition=%step", "does not give a pred"),
    ("while", "(s32[], f32[4]{0})\n", "(s32[], f32[5]{0})\n", "as parameter 0"),
    ("conditional", "i: s32[]", "i: s64[]", "does not choose"),
    ("conditional", "{%minus, %plain}", "{%minus, %both_ways}", "branches minus and both_ways differ"),
    ("conditional", "{%minus, %plain}", "{%minus}", "2 operands for 1 branches"),
    ("after-all", "x: token[]", "x: f32[]", "expected a token"),
    ("add-dependency", "t: token[]", "t: f32[]", "expected a token"),
    ("send-done", "send-done(%s)", "send-done(%x)", "not that of the start"),
    ("copy-done", "copy-done(%s)", "copy-done(%x)", "not that of a copy-start"),
    ("async-start", "calls=%both_ways", "calls=%minus", "expected ((f32[4]), f32[4], u32[])"),
    ("async-done", "async-done(%s)", "async-done(%x)", "not that of the start"),
    ("all-gather", "[2,2]<=[4]", "[1,4]<=[4]", "expected f32[4,32]"),
    ("all-gather", "dimensions={1}", "dimensions={0}", "expected f32[8,8]"),
    ("all-gather-start", "{{0,1},{2,3}}", "{{0,1,2,3}}", "expected (f32[4,8], f32[4,32])"),
    ("all-reduce", "to_apply=%add", "to_apply=%minus", "takes 1 parameters"),
    ("reduce-scatter", "{{0,1,2,3}}", "{{0,1}}", "expected f32[4,4]"),
    ("reduce-scatter", "{{0,1,2,3}}", "{{0,1,2}}", "does not divide among 3"),
    ("all-to-all", "{{0,1}}", "{{0,1,2}}", "does not divide among 3"),
    ("ragged-all-to-all", "a: s32", "a: f32", "not an integer"),
    ("collective-permute", "{{0,1},{1,0}}", "{{0,1},{1,1}}", "one target twice"),
]


@pytest.mark.parametrize(("opcode", "old", "new", "message"), WRONG)
def test_a_contradiction_is_refused(opcode: str, old: str, new: str, message: str) -> None:
    body = BODIES[opcode]
    assert old in body
    said = refused(module_of(body.replace(old, new)))
    assert said.startswith("computation main, instruction ") or "entry" in said
    assert message in said


def test_missing_attributes_are_named() -> None:
    assert "iota needs the attribute `iota_dimension`" in refused(
        module_of(BODIES["iota"].replace(", iota_dimension=1", ""))
    )
    assert "needs the attribute `offset_dims`" in refused(module_of(BODIES["gather"].replace("offset_dims={1}, ", "")))


def test_parameters_are_numbered_without_a_gap() -> None:
    assert "numbered [0, 2]" in refused(module_of(BODIES["add"]).replace("%y = f32[4,8]{1,0} parameter(1)",
                                                                        "%y = f32[4,8]{1,0} parameter(2)"))  # fmt: skip


def test_the_entry_layout_is_checked() -> None:
    text = module_of(BODIES["negate"]).replace(
        "HloModule snippet", "HloModule snippet, entry_computation_layout={(f32[4,8]{1,0})->f32[8,4]{1,0}}"
    )
    assert "entry_computation_layout has f32[4,8] -> f32[8,4]" in refused(text)


def test_mixed_floats_are_for_tiled_modules_alone() -> None:
    text = module_of(BODIES["copy"]).replace("ROOT %r = f32[4,8]{1,0} copy", "ROOT %r = bf16[4,8]{1,0} copy")
    assert "expected f32[4,8], there is bf16[4,8]" in refused(text)
    check_module(parse_module(text.replace("{1,0}", "{1,0:T(8,128)}")))
    assert "expected" in refused(text.replace("{1,0}", "{1,0:T(8,128)}").replace("bf16", "s32"))


def test_a_shape_can_be_asked_for() -> None:
    module = parse_module(module_of(VARIANTS["reduce of two"]))
    root = module.entry.root
    shapes = [module.entry.by_name[name].shape for name in root.operands]
    shape = infer_shape(root, shapes, module)
    assert str([e.dims for e in shape.elements]) == "[(4,), (4,)]"  # type: ignore[union-attr]
