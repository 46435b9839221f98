"""Operands that come in a table, on a kernel written for it: y = x + s, with x and y in memory and s handed over."""

from __future__ import annotations

import numpy as np
import pytest

from assay.errors import InputError
from assay.hlo.shape import ArrayShape
from assay.hlo.shape_text import shape_or_none
from assay.llo import interpret, native
from assay.llo.kernel import Engine, run, same
from assay.llo.lowering import lower
from assay.llo.text import parse

KERNEL = """$region0: #{add}
  %s0 = inlined_call_operand.smem [shape: u32[3], index: -1, kind: input, shape index: {}]
  %s1 = sld [smem:[%s0]] /* operand 0 */
  %s2 = scalar_lea.smem %s0, 1
  %s3 = sld [smem:[%s2]] /* operand 1 */
  %s4 = scalar_lea.smem %s0, 2
  %s5 = sld [smem:[%s4]] /* operand 2 */
  %v6 = vstv %s3
  %v7 = vld [vmem:[%s1] sm:$0xff]
  %v8 = vadd.f32 %v7, %v6
  %9 = vst [vmem:[%s5] sm:$0xff] /*vst_source=*/%v8
"""


def shape(text: str) -> ArrayShape:
    found = shape_or_none(text)
    assert isinstance(found, ArrayShape)
    return found


ROWS, SCALAR = shape("f32[8,128]{1,0:T(8,128)S(1)}"), shape("f32[]{:T(128)}")


@pytest.mark.parametrize("engine", [interpret.run, native.run])
def test_a_table_holds_addresses_and_values(engine: Engine) -> None:
    code = lower(parse(KERNEL, "add.txt", "add"))
    x = np.random.default_rng(0).normal(size=(8, 128)).astype(np.float32)
    result = run(code, "v5e", [(ROWS, same(x)), (SCALAR, same(np.float32(2.5)))], [ROWS], engine=engine)
    assert result.stop is None
    (y,) = result.outputs
    assert y.unwritten is None
    np.testing.assert_array_equal(y.first, x + np.float32(2.5))


def test_operands_in_memory_of_their_own_are_where_their_layouts_say() -> None:
    """x in hbm: its address is that of hbm, where a load from vmem finds what nobody wrote."""
    code = lower(parse(KERNEL, "add.txt", "add"))
    far = shape("f32[8,128]{1,0:T(8,128)}")
    x = np.ones((8, 128), np.float32)
    result = run(code, "v5e", [(far, same(x)), (SCALAR, same(np.float32(1)))], [ROWS])
    assert result.outputs[0].unwritten is not None
    assert result.outputs[0].unwritten.all()


def test_a_kernel_without_a_table_says_which_operands_it_takes() -> None:
    text = KERNEL.replace("smem [shape: u32[3], index: -1", "vmem [shape: f32[8,128], index: 0")
    with pytest.raises(InputError, match="1 inputs and 0 outputs"):
        run(
            lower(parse(text, "add.txt", "add")),
            "v5e",
            [(ROWS, same(np.zeros((8, 128)))), (SCALAR, same(np.float32(1)))],
            [ROWS],
        )
