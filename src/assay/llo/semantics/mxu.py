"""The MXU: gains are pushed row by row into a staging register, latched, and multiplied with rows of the left side.

Everything is a bf16 (f32 is rounded to nearest even on its way in) or a byte. Products are exact; they are summed
in float64 in order of K and rounded once to f32: the hardware's own order and width are not public. Only rows of
gains that were pushed count, so a K below 128 never meets what is not there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from assay.llo.code import Words
from assay.llo.machine import LANES, MRF, SUBLANES, Machine, Mxu, Trap, Trapped
from assay.llo.semantics.floats import flush, result, round_bf16
from assay.llo.semantics.pack import half, quarter, sign_extended
from assay.llo.semantics.table import op
from assay.llo.semantics.vector import spread

Rows = npt.NDArray[np.float64]
U = np.uint32
PROBE = "matrix products with known results"


def rows_of(x: Words, kind: str) -> Rows:
    """The rows of a packed vector: 8 of f32, 16 of bf16, 32 of s8 or u8."""
    if kind == "u8":
        return np.concatenate([quarter(x, k) for k in range(4)]).astype(np.float64)
    if kind == "s8":
        return np.concatenate([sign_extended(quarter(x, k), 8).view(np.int32) for k in range(4)]).astype(np.float64)
    bits = np.concatenate([half(x, 0), half(x, 1)]) if kind == "bf16" else round_bf16(flush(x))
    return flush(bits << U(16)).view(np.float32).astype(np.float64)


def _mxu(m: Machine, unit: int) -> Mxu:
    return m.mxus.setdefault(unit, Mxu())


def _push(m: Machine, unit: int, register: str, rows: Rows) -> None:
    staged = _mxu(m, unit).pushed.setdefault(register, [])
    staged.append(rows)
    count = sum(len(block) for block in staged)
    if count > LANES:
        raise Trapped(Trap.MXU, unit, count)


def _latch(m: Machine, unit: int, register: str) -> None:
    """What is staged becomes the gains; blocks came last rows first. With nothing new staged the gains stay."""
    mxu = _mxu(m, unit)
    for key in (register, register + ".xpose"):
        if mxu.pushed.get(key):
            rows = np.concatenate(mxu.pushed.pop(key)[::-1])
            mxu.gains = rows if key == register else rows.T


def product(left: Rows, gains: Rows) -> Rows:
    """(n, K) @ (K, N) in float64, summed in order of K; each product is exact."""
    total = np.zeros((len(left), gains.shape[1]))
    for k in range(len(gains)):
        total += left[:, k, None] * gains[k]
    return total


def push_results(m: Machine, unit: int, token: int, total: Rows, kind: str) -> None:
    """Eight rows an entry; columns without gains hold what is unwritten."""
    bits = total.astype(np.int64).astype(np.int32).view(U) if kind in ("s8", "u8") else result(total.astype(np.float32))
    for k in range(0, len(bits), SUBLANES):
        entry = np.full((SUBLANES, LANES), m.fill, U)
        entry[:, : bits.shape[1]] = bits[k : k + SUBLANES]
        m.push(MRF, unit, token, entry)


def _multiply(m: Machine, unit: int, token: int, left: Words, kind: str) -> None:
    gains = _mxu(m, unit).gains
    if gains is None:
        raise Trapped(Trap.MXU, unit, 0)
    push_results(m, unit, token, product(rows_of(left, kind), gains), kind)


KINDS = {"f32": 0, "bf16": 1, "s8": 2, "u8": 3}
REGISTERS = {"msra": 0, "msrb": 1}
_XPOSE = "rows are columns: dots that contract both last dimensions"
_MSK = "lanes outside the mask are 0: stands for a select with zeros in later stages"


def _push_op(kind: str, xpose: bool, masked: bool, register: str) -> None:
    name = ".".join(
        filter(None, ["vmatpush", kind if kind != "f32" else "", "xpose" * xpose, "msk" * masked, register])
    )
    key = register + ".xpose" * xpose
    where = "M(b), c" if masked else "0, b"
    body = f"CHECK(mxu_push(vm, V(a), {where}, {KINDS[kind]}, {REGISTERS[register]}, {int(xpose)}));"

    @op(
        name,
        ".vmu" if masked else ".vu",
        "stages" if masked else "probe",
        _MSK if masked else _XPOSE if xpose else PROBE,
        body,
    )
    def run(m: Machine, r: Sequence[int]) -> None:
        x = m.v[r[2]] & spread(m.m[r[3]]) if masked else m.v[r[2]]
        _push(m, r[4] if masked else r[3], key, rows_of(x, kind))


def _matmul_op(kind: str, masked: bool, latch: str) -> None:
    name = ".".join(filter(None, ["vmatmul", "msk" * masked, kind, f"vlgmr.{latch}" if latch else "", "gmra"]))
    where = "M(b), c, d" if masked else "0, b, c"
    body = f"CHECK(matmul(vm, V(a), {where}, {KINDS[kind]}, {REGISTERS[latch] + 1 if latch else 0}));"

    @op(name, ".vmut" if masked else ".vut", "stages" if masked else "probe", _MSK if masked else PROBE, body)
    def run(m: Machine, r: Sequence[int]) -> None:
        x = m.v[r[2]] & spread(m.m[r[3]]) if masked else m.v[r[2]]
        unit, token = (r[4], r[5]) if masked else (r[3], r[4])
        if latch or m.implicit_latch:
            _latch(m, unit, latch or "msra")
        _multiply(m, unit, token, x, kind)


for _kind in KINDS:
    for _masked in (False, True):
        for _register in REGISTERS:
            for _xpose in (False, True):
                _push_op(_kind, _xpose, _masked, _register)
        for _latch_from in ("", *REGISTERS):
            _matmul_op(_kind, _masked, _latch_from)


for _name in ("vpop.f32.mrf", "vpop.s32.mrf"):

    @op(_name, "Vut", "probe", PROBE, "POP(Q_MRF, a, b, V(dst));")
    def _pop(m: Machine, r: Sequence[int]) -> None:
        m.v[r[1]] = m.pop(MRF, r[2], r[3])


@op("vdwg", ".u", "probe", "done with the gains: changes nothing that a program can see", ";")
def _vdwg(m: Machine, r: Sequence[int]) -> None:
    return


# The left side from the MXU's own memory ---

_LSF = "bundles push the left side transposed, where region form has a vxpose and products of what it pops"


def _take_left(m: Machine, unit: int, rows: int) -> None:
    """What was pushed by lsf, (K, 128), becomes the left side: its first `rows` columns, eight for each product."""
    mxu = _mxu(m, unit)
    staged = mxu.pushed.pop("lsf", [])
    if not staged:
        raise Trapped(Trap.MXU, unit, 0)
    left = np.concatenate(staged[::-1]).T[:rows]
    mxu.lhs = deque(left[k : k + SUBLANES] for k in range(0, rows, SUBLANES))


for _kind in ("f32", "bf16"):
    _name = "vmatpush.lsf.msrb" if _kind == "f32" else f"vmatpush.lsf.{_kind}.msrb"

    @op(_name, ".vu", "stages", _LSF, f"CHECK(mxu_push(vm, V(a), 0, b, {KINDS[_kind]}, 4, 0));")
    def _push_left(m: Machine, r: Sequence[int], kind: str = _kind) -> None:
        _push(m, r[3], "lsf", rows_of(m.v[r[2]], kind))


for _count in (8, 16):

    @op(f"vllmr.{_count}", ".u", "stages", _LSF, f"CHECK(take_left(vm, a, {_count * SUBLANES}));")
    def _vllmr(m: Machine, r: Sequence[int], count: int = _count) -> None:
        _take_left(m, r[2], count * SUBLANES)

    for _latch_from in ("", *REGISTERS):
        _vlgmr = f"vlgmr.{_latch_from}." if _latch_from else ""

        @op(
            f"vmatmul.lmr.bf16.{_vlgmr}gmra.{_count}",
            ".ut",
            "stages",
            _LSF,
            f"CHECK(multiply_left(vm, a, b, {REGISTERS[_latch_from] + 1 if _latch_from else 0}));",
        )
        def _multiply_left(m: Machine, r: Sequence[int], latch: str = _latch_from) -> None:
            if latch:
                _latch(m, r[2], latch)
            mxu = _mxu(m, r[2])
            if mxu.gains is None or not mxu.lhs or mxu.lhs[0].shape[1] != len(mxu.gains):
                raise Trapped(Trap.MXU, r[2], mxu.lhs[0].shape[1] if mxu.lhs else 0)
            push_results(m, r[2], r[3], product(mxu.lhs.popleft(), mxu.gains), "bf16")
