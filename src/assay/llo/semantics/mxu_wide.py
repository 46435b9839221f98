"""The MXU of 256 x 256: what does not fit into one vector comes before it by a vmatprep.

A row of gains is 256 wide: its right half is prepared by `vmatprep.subr`, and a push brings the left half.
`vmatpush1` fills rows 0-127, `vmatpush2` rows 128-255. `vmatpush3` brings the left half of one of rows 0-127 and,
from the vmatprep, the right half of one of rows 128-255, so that two products of 128 x 128 are made at once; the other
halves take no part. Of the left side, `vmatprep.mubr` prepares lanes 128-255. Every eight rows give two results:
columns 0-127, then 128-255.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from assay.llo.code import Words
from assay.llo.machine import Machine, Trap, Trapped
from assay.llo.semantics.mxu import KINDS, REGISTERS, Rows, latch, latched, multiply, mxu_of, push_rows, rows_of
from assay.llo.semantics.table import Known, op
from assay.llo.semantics.vector import spread

PROBE = "matrix products of v6e with known results, K and N from 1 to 256"
MSK = "lanes outside the mask are 0: stands for a select with zeros in later stages"
PUSH3 = "bundles have it, and a vadd of its two results, for a K of 256; transposed, without, for an N of 256"


def _name(*parts: str) -> str:
    return ".".join(part for part in parts if part)


def _typed(kind: str) -> str:
    return "" if kind == "f32" else kind


def _operand(m: Machine, r: Sequence[int], masked: bool) -> tuple[Words, int, int]:
    """The vector, masked where the record has a mask; the fields that follow."""
    if masked:
        return m.v[r[2]] & spread(m.m[r[3]]), r[4], r[5]
    return m.v[r[2]], r[3], r[4]


def _prepare(name: str, side: str, kind: str, masked: bool) -> None:
    where = "M(b), c" if masked else "0, b"
    body = f"prepare(vm, V(a), {where}, {KINDS[kind]}, {int(side == 'mubr')});"

    @op(name, ".vmu" if masked else ".vu", "stages" if masked else "probe", MSK if masked else PROBE, body)
    def run(m: Machine, r: Sequence[int]) -> None:
        x, unit, _ = _operand(m, r, masked)
        mxu_of(m, unit).held[side] = rows_of(x, kind)


def _held(m: Machine, unit: int, side: str, rows: Rows) -> Rows:
    """What was prepared, in the number of rows that go with it."""
    held = mxu_of(m, unit).held.get(side)
    if held is None or len(held) != len(rows):
        raise Trapped(Trap.MXU, unit, 0 if held is None else len(held))
    return held


def _push(number: int, kind: str, xpose: bool, masked: bool, register: str) -> None:
    name = _name(f"vmatpush{number}", _typed(kind), "xpose" * xpose, "msk" * masked, register)
    key = register + ".xpose" * xpose
    where = "M(b), c" if masked else "0, b"
    body = f"CHECK(push_wide(vm, V(a), {where}, {KINDS[kind]}, {REGISTERS[register]}, {int(xpose)}, {number}));"
    known: Known = "stages" if masked or number == 3 else "probe"

    @op(name, ".vmu" if masked else ".vu", known, PUSH3 if number == 3 else MSK if masked else PROBE, body)
    def run(m: Machine, r: Sequence[int]) -> None:
        x, unit, _ = _operand(m, r, masked)
        rows = rows_of(x, kind)
        right = _held(m, unit, "subr", rows)
        push_rows(m, unit, f"{key}.{number}", np.concatenate([rows, right], axis=1))


def _matmul(kind: str, masked: bool, register: str) -> None:
    name = _name("vmatmul.mubr", "msk" * masked, kind, f"vlgmr.{register}" * bool(register), "gmra")
    where = "M(b), c, d" if masked else "0, b, c"
    body = f"CHECK(matmul_wide(vm, V(a), {where}, {KINDS[kind]}, {latched(register)}));"

    @op(name, ".vmut" if masked else ".vut", "stages" if masked else "probe", MSK if masked else PROBE, body)
    def run(m: Machine, r: Sequence[int]) -> None:
        x, unit, token = _operand(m, r, masked)
        if register or m.implicit_latch:
            latch(m, unit, register or "msra")
        rows = rows_of(x, kind)
        multiply(m, unit, token, np.concatenate([rows, _held(m, unit, "mubr", rows)], axis=1), kind)


for _kind in KINDS:
    for _masked in (False, True):
        _prepare(_name("vmatprep.subr", "msk" * _masked, _typed(_kind)), "subr", _kind, _masked)
        _prepare(_name("vmatprep.mubr", "msk" * _masked, _kind), "mubr", _kind, _masked)
        for _register in REGISTERS:
            for _xpose in (False, True):
                for _number in (1, 2, 3):
                    _push(_number, _kind, _xpose, _masked, _register)
        for _register in ("", *REGISTERS):
            _matmul(_kind, _masked, _register)
