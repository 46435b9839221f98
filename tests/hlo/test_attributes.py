"""Typed views of attributes."""

from __future__ import annotations

import pytest

from assay.errors import HloTypeError
from assay.hlo import attributes as a
from assay.hlo.attributes import WindowDim
from assay.hlo.module import Instruction
from assay.hlo.shape import DTYPES, ArrayShape


def instruction(opcode: str = "add", **attributes: str) -> Instruction:
    return Instruction("i", opcode, ArrayShape(DTYPES["f32"], ()), (), attributes)


def test_numbers_and_words() -> None:
    i = instruction(
        dimensions="{1,0}", index="2", is_stable="true", direction="LT", infeed_config='"a\\"b\\012"', epsilon="0.5"
    )
    assert a.int_list(i, "dimensions") == (1, 0)
    assert a.int_list(i, "missing") == ()
    assert a.integer(i, "index") == 2
    assert a.integer(i, "missing", 7) == 7
    assert a.number(i, "epsilon") == 0.5
    assert a.flag(i, "is_stable")
    assert not a.flag(i, "missing")
    assert a.word(i, "direction") == "LT"
    assert a.word(i, "infeed_config") == 'a"b\n'
    for wrong in (
        lambda: a.integer(i, "missing"),
        lambda: a.int_list(i, "missing", required=True),
        lambda: a.word(i, "x"),
    ):
        with pytest.raises(HloTypeError, match="add needs the attribute"):
            wrong()
    with pytest.raises(HloTypeError, match="index=2"):
        a.flag(i, "index")


def test_windows() -> None:
    i = instruction(window="{size=3x1 stride=2x1 pad=0_1x-1_2 lhs_dilate=1x2 rhs_dilate=3x1 rhs_reversal=0x1}")
    assert a.window(i) == (WindowDim(3, 2, 0, 1, 1, 3, False), WindowDim(1, 1, -1, 2, 2, 1, True))
    assert a.window(instruction(window="{}")) == ()
    assert a.window(instruction()) == ()
    for text in ("{size=3x3 stride=1}", "{sizes=3}", "{size=a}"):
        with pytest.raises(HloTypeError):
            a.window(instruction(window=text))


def test_slices_and_padding() -> None:
    assert a.slices(instruction(slice="{[0:4], [2:8:3]}")) == ((0, 4, 1), (2, 8, 3))
    assert a.padding(instruction(padding="0_1x2_0_3x-1_0")) == ((0, 1, 0), (2, 0, 3), (-1, 0, 0))
    with pytest.raises(HloTypeError):
        a.slices(instruction(slice="{[0-4]}"))


def test_dimension_numbers() -> None:
    d = a.dot_dims(instruction(lhs_batch_dims="{0}", rhs_batch_dims="{1}", lhs_contracting_dims="{2}"))
    assert (d.lhs_batch, d.rhs_batch, d.lhs_contracting, d.rhs_contracting) == ((0,), (1,), (2,), ())
    c = a.convolution_dims(instruction(dim_labels="b01f_01io->bf01"))
    assert (c.lhs_batch, c.lhs_feature, c.lhs_spatial) == (0, 3, (1, 2))
    assert (c.rhs_input_feature, c.rhs_output_feature, c.rhs_spatial) == (2, 3, (0, 1))
    assert (c.output_batch, c.output_feature, c.output_spatial) == (0, 1, (2, 3))
    assert a.convolution_dims(instruction(dim_labels="bf_io->bf")).lhs_spatial == ()
    for text in ("b01f_01io", "b00f_01io->b01f", "b01f_0io->b01f", "b01_01io->b01f"):
        with pytest.raises(HloTypeError):
            a.convolution_dims(instruction(dim_labels=text))
    g = a.gather_dims(
        instruction(
            offset_dims="{1}",
            collapsed_slice_dims="{}",
            start_index_map="{0}",
            index_vector_dim="1",
            slice_sizes="{1,8}",
        )
    )
    assert (g.offset_dims, g.collapsed_slice_dims, g.slice_sizes, g.operand_batching_dims) == ((1,), (), (1, 8), ())
    with pytest.raises(HloTypeError):
        a.gather_dims(instruction())
    s = a.scatter_dims(
        instruction(
            update_window_dims="{1}",
            inserted_window_dims="{0}",
            scatter_dims_to_operand_dims="{0}",
            index_vector_dim="1",
        )
    )
    assert (s.update_window_dims, s.inserted_window_dims, s.index_vector_dim) == ((1,), (0,), 1)


def test_computations() -> None:
    loop = instruction("while", condition="c", body="b")
    assert a.called(loop) == ("c", "b")
    choice = instruction("conditional", branch_computations="{x, y, x}")
    assert a.called(choice) == a.branches(choice) == ("x", "y", "x")
    assert a.branches(instruction("conditional", true_computation="t", false_computation="f")) == ("t", "f")
    assert a.computation(instruction("custom-call", called_computations="{k}"), "called_computations") == "k"
    assert a.called(instruction(**{"control-predecessors": "{a, b}", "dimensions": "{1}"})) == ()


def test_configuration() -> None:
    i = instruction(
        frontend_attributes='{a="1",b={c = #d<[]>},x.y="p,q"}',
        backend_config='{"n":[1,{"k":"}"}]}',
        metadata='{op_name="jit(f)/{a}" source_line=3 profile_type={1,2}}',
        operand_precision="{highest,default}",
    )
    assert a.frontend(i) == {"a": "1", "b": "{c = #d<[]>}", "x.y": "p,q"}
    assert a.backend_config(i) == {"n": [1, {"k": "}"}]}
    assert a.metadata(i) == {"op_name": "jit(f)/{a}", "source_line": "3", "profile_type": "{1,2}"}
    assert a.precision(i) == ("highest", "default")
    assert a.backend_config(instruction(backend_config='"{\\"k\\": 1}"')) == {"k": 1}
    assert a.backend_config(instruction(backend_config='"opaque"')) == "opaque"
    assert a.backend_config(instruction()) is None
    assert a.frontend(instruction()) == {}


def test_groups() -> None:
    assert a.replica_groups(instruction(replica_groups="{{0,1},{2,3}}")) == ((0, 1), (2, 3))
    assert a.replica_groups(instruction(replica_groups="[2,2]<=[4]")) == ((0, 1), (2, 3))
    assert a.replica_groups(instruction(replica_groups="[2,4]<=[4,2]T(1,0)")) == ((0, 2, 4, 6), (1, 3, 5, 7))
    assert a.replica_groups(instruction(replica_groups="{}")) == ()
    assert a.source_target_pairs(instruction(source_target_pairs="{{0,1},{1,0}}")) == ((0, 1), (1, 0))
