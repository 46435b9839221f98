"""An instruction of libtpu that writes its result backwards: the reverse is in its backend_config alone."""

from __future__ import annotations

import numpy as np
import pytest

from assay.errors import Unsupported
from assay.hlo.parse import parse_module
from assay.isolate.lockstep import Lockstep
from assay.reference.evaluator import evaluate
from assay.reference.policies import for_target
from assay.reference.value import flatten

CONFIG = ', backend_config={{"window_config":{{"output_reverse_dimensions":[{}],"output_window_bounds":[]}}}}'
HLO = """HloModule m, is_scheduled=true

body {{
  a = f32[3,4]{{{order}:T(8,128)}} parameter(0)
  ROOT s = f32[3,4]{{{order}:T(8,128)}} add(a, a)
}}

ENTRY main {{
  x = f32[3,4]{{{order}:T(8,128)}} parameter(0)
  {fused} = f32[3,4]{{{order}:T(8,128)}} fusion(x), kind=kLoop, calls=body{config}
  {after}
}}
"""
X = np.arange(12, dtype=np.float32).reshape(3, 4)
POLICY = for_target("tpu:v5e")


def text(dimensions: str = "", order: str = "1,0") -> str:
    return HLO.format(order=order, fused="ROOT r", config=CONFIG.format(dimensions), after="")


def value(hlo: str) -> np.ndarray:
    return flatten(evaluate(parse_module(hlo), [X], POLICY).value)[0].mid  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("dimensions", "right"),
    [("", X * 2), ('"0"', X[::-1] * 2), ('"1"', X[:, ::-1] * 2), ('"0","1"', X[::-1, ::-1] * 2)],
)
def test_it_is_reversed(dimensions: str, right: np.ndarray) -> None:
    np.testing.assert_array_equal(value(text(dimensions)), right)


def test_the_pass_that_puts_the_reverse_into_the_fusion_changes_no_value() -> None:
    before = HLO.format(order="1,0", fused="f", config="", after="ROOT r = f32[3,4]{1,0} reverse(f), dimensions={0}")
    steps = Lockstep(POLICY)
    numbers = [steps.results(parse_module(hlo), [X]) for hlo in (before, text('"0"'))]
    assert numbers[0] == numbers[1]
    assert numbers[0] != steps.results(parse_module(text('"1"')), [X])
    np.testing.assert_array_equal(steps.value(numbers[1][0]).mid, X[::-1] * 2)  # type: ignore[union-attr]


def test_the_numbers_are_those_of_the_shape_whatever_its_layout() -> None:
    np.testing.assert_array_equal(value(text("", "0,1")), X * 2)
    np.testing.assert_array_equal(value(text('"0"', "0,1")), X[::-1] * 2)
    np.testing.assert_array_equal(value(text('"1"', "0,1")), X[:, ::-1] * 2)


@pytest.mark.parametrize(("opcode", "right"), [("negate", -X), ("copy", X), ("convert", X)])
def test_it_need_not_be_a_fusion(opcode: str, right: np.ndarray) -> None:
    hlo = "HloModule m\nENTRY e {{\n  x = f32[3,4]{{0,1}} parameter(0)\n"
    hlo += "  {made} = f32[3,4]{{0,1}} {op}(x){config}{after}\n}}\n"
    backwards = hlo.format(made="ROOT r", op=opcode, config=CONFIG.format('"1"'), after="")
    np.testing.assert_array_equal(value(backwards), right[:, ::-1])
    after = "\n  ROOT r = f32[3,4]{0,1} reverse(f), dimensions={1}"
    before = hlo.format(made="f", op=opcode, config="", after=after)
    steps = Lockstep(POLICY)
    texts = (before, backwards, hlo.format(made="ROOT r", op=opcode, config="", after=""))
    numbers = [steps.results(parse_module(each), [X]) for each in texts]
    assert numbers[0] == numbers[1] != numbers[2]


def test_of_a_tuple_it_is_not_guessed() -> None:
    hlo = text('"0"').replace("ROOT s = f32[3,4]{1,0:T(8,128)} add(a, a)", "ROOT s = (f32[3,4]{1,0:T(8,128)}) tuple(a)")
    hlo = hlo.replace("ROOT r = f32[3,4]{1,0:T(8,128)} fusion", "ROOT r = (f32[3,4]{1,0:T(8,128)}) fusion")
    with pytest.raises(Unsupported, match="output_reverse_dimensions"):
        value(hlo)
