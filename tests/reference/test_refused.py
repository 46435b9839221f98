"""Every opcode is modelled or refused with a reason, and what is refused or ill-typed never ends in a fault of ours."""

from __future__ import annotations

import numpy as np
import pytest

from assay.errors import AssayError, HloTypeError, Unsupported
from assay.hlo.opcodes import ARITY, BINARY, UNARY
from assay.hlo.parse import parse_module
from assay.hlo.shape import DTYPES
from assay.reference import __main__ as table
from assay.reference import refused, registry
from assay.reference.evaluator import evaluate
from assay.reference.policy import Policy

WIDE = {"is-finite": "pred", "compare": "pred"}


def test_every_opcode_is_decided_on():
    known = set(registry.supported()["opcodes"]) | {"constant", "parameter"}
    assert known.isdisjoint(refused.OPCODES)
    assert set(ARITY) <= known | set(refused.OPCODES)
    assert set(registry.supported()["custom_calls"]).isdisjoint(refused.CUSTOM_CALLS)


def test_the_table_names_everything():
    text = " ".join(" ".join(table.lines()).split())
    for opcode in ARITY:
        assert opcode in text
    assert "lapack_[cdsz]getrf_ffi" in text
    for reason in refused.OPCODES.values():
        assert reason in text


def evaluated(opcode: str, dtype: str) -> None:
    count = 1 if opcode in UNARY else 3 if opcode == "clamp" else 2
    result = DTYPES[WIDE.get(opcode, dtype)]
    if opcode in ("real", "imag", "abs") and DTYPES[dtype].is_complex:
        result = DTYPES[dtype].part
    parameters = "\n".join(f"  p{i} = {dtype}[4] parameter({i})" for i in range(count))
    names = ", ".join(f"p{i}" for i in range(count))
    extra = ", direction=LT" if opcode == "compare" else ""
    text = f"HloModule m\n\nENTRY e {{\n{parameters}\n  ROOT r = {result}[4] {opcode}({names}){extra}\n}}\n"
    values = np.array([0, 1, 1, 1]).astype(DTYPES[dtype].numpy)
    evaluate(parse_module(text), [values] * count, Policy("xla-cpu"))


@pytest.mark.parametrize("dtype", ["pred", "s4", "u8", "s32", "u64", "bf16", "f8e4m3fn", "f32", "f64", "c64", "c128"])
def test_no_element_type_ends_in_a_fault_of_ours(dtype):
    for opcode in (*UNARY, *BINARY, "clamp", "compare"):
        try:
            evaluated(opcode, dtype)
        except (Unsupported, HloTypeError):
            continue
        except AssayError as error:
            pytest.fail(f"{opcode} of {dtype}: {error}")


@pytest.mark.parametrize("opcode", ["clamp", "maximum", "minimum", "remainder", "atan2", "cbrt", "asin", "sinh"])
def test_no_order_and_no_rare_functions_of_complex_numbers(opcode):
    with pytest.raises((Unsupported, HloTypeError), match=opcode):
        evaluated(opcode, "c64")


@pytest.mark.parametrize(
    ("line", "match"),
    [
        ("r = f32[4] custom-call(p), custom_call_target=\"xla_ffi_python_cpu_callback\"", "calls Python on the host"),
        ("r = f32[4] custom-call(p), custom_call_target=\"nobody_knows\"", "custom-call nobody_knows"),
        ("t = token[] after-all()\n  ROOT r = (f32[4], token[]) infeed(t)", "infeed: it"),
        ("t = token[] after-all()\n  ROOT r = token[] outfeed(p, t), outfeed_shape=f32[4]", "outfeed: it"),
        ("t = token[] after-all()\n  ROOT r = (f32[4], u32[], token[]) send(p, t), channel_id=1", "send: it"),
    ],
)  # fmt: skip
def test_reasons_are_given(line, match):
    line = line if "ROOT" in line else f"ROOT {line}"
    with pytest.raises(Unsupported, match=match):
        evaluate(
            parse_module(f"HloModule m\n\nENTRY e {{\n  p = f32[4] parameter(0)\n  {line}\n}}\n"),
            [np.zeros(4, np.float32)],
            Policy("xla-cpu"),
        )
