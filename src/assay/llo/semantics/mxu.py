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
from assay.llo.machine import LANES, MRF, SUBLANES, Gains, Machine, Mxu, Trap, Trapped
from assay.llo.semantics.floats import flush, operand, result, round_bf16
from assay.llo.semantics.pack import half, quarter, sign_extended
from assay.llo.semantics.table import op
from assay.llo.semantics.vector import spread

Rows = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]
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


def mxu_of(m: Machine, unit: int) -> Mxu:
    return m.mxus.setdefault(unit, Mxu())


def push_rows(m: Machine, unit: int, register: str, rows: Rows) -> None:
    """Adds a block to what is staged in a register."""
    staged = mxu_of(m, unit).pushed.setdefault(register, [])
    staged.append(rows)
    count = sum(len(block) for block in staged)
    if count > LANES:
        raise Trapped(Trap.MXU, unit, count)


def _staged(mxu: Mxu, key: str, width: int) -> Rows:
    """The rows that were pushed: blocks came last rows first."""
    blocks = mxu.pushed.pop(key, [])
    return np.concatenate(blocks[::-1]) if blocks else np.zeros((0, width))


def latch(m: Machine, unit: int, register: str) -> None:
    """What is staged becomes the gains. With nothing new staged they stay.

    Of a wide MXU, `register.1` and `.2` hold rows 0-127 and 128-255, `.3` the left half of the former next to the right
    half of the latter.
    """
    mxu = mxu_of(m, unit)
    low = np.arange(LANES)
    for xpose in ("", ".xpose"):
        key = register + xpose
        blocks: list[tuple[Rows, Indices, Indices]] = []  # rows as pushed, where each stands, where each lane stands
        if mxu.pushed.get(key):
            rows = _staged(mxu, key, LANES)
            blocks = [(rows, np.arange(len(rows)), low)]
        elif mxu.pushed.get(f"{key}.3"):
            rows = _staged(mxu, f"{key}.3", 2 * LANES)
            here = np.arange(len(rows))
            blocks = [(rows[:, :LANES], here, low), (rows[:, LANES:], LANES + here, LANES + low)]
        elif mxu.pushed.get(f"{key}.1") or mxu.pushed.get(f"{key}.2"):
            first, second = _staged(mxu, f"{key}.1", 2 * LANES), _staged(mxu, f"{key}.2", 2 * LANES)
            here = np.concatenate([np.arange(len(first)), LANES + np.arange(len(second))])
            rows = np.concatenate([first, second])
            if xpose:
                blocks = [(rows[:, :LANES], here, low), (rows[:, LANES:], here, LANES + low)]
            else:
                both = np.arange(2 * LANES)
                blocks = [(first, here[: len(first)], both), (second, here[len(first) :], both)]
        if blocks:
            mxu.gains = [
                Gains(rows.T, lanes, here) if xpose else Gains(rows, here, lanes)
                for rows, here, lanes in blocks
                if len(rows)
            ]


def product(left: Rows, gains: Gains, depth: int) -> Rows:
    """(n, lanes) @ gains in float64, summed in order of K, up to lane `depth`; each product is exact."""
    total = np.zeros((len(left), len(gains.columns)))
    for k, lane in enumerate(gains.lanes[gains.lanes < depth]):
        total += left[:, lane, None] * gains.matrix[k]
    return total


def multiply(m: Machine, unit: int, token: int, left: Rows, kind: str, depth: int = 2 * LANES) -> None:
    """left: (n, 128) or (n, 256), or of fewer lanes, `depth`, where no more were pushed. Pushes an entry for eight rows
    and 128 columns each, columns of the same rows next to each other; a column whose gains were not pushed is 0
    (libtpu's MXU assigner leaves out pushes of zeros).

    The two halves of a K of 256 are rounded apart and added in f32: so bundles do it where region form has one product.
    """
    gains = mxu_of(m, unit).gains
    lanes = max(left.shape[1], LANES)
    if not gains or gains[-1].lanes[-1] >= lanes:
        raise Trapped(Trap.MXU, unit, sum(len(part.lanes) for part in gains))
    out, there = np.zeros((len(left), 2 * LANES), U), np.zeros(2 * LANES, np.bool_)
    for part in gains:
        total = product(left, part, depth)
        whole = kind in ("s8", "u8")
        bits = total.astype(np.int64).astype(np.int32).view(U) if whole else result(total.astype(np.float32))
        before = out[:, part.columns]
        sums = before + bits if whole else result(operand(before) + operand(bits))
        out[:, part.columns] = np.where(there[part.columns], sums, bits)
        there[part.columns] = True
    for k in range(0, len(left), SUBLANES):
        for column in range(0, lanes, LANES):
            m.push(MRF, unit, token, out[k : k + SUBLANES, column : column + LANES])


KINDS = {"f32": 0, "bf16": 1, "s8": 2, "u8": 3}
REGISTERS = {"msra": 0, "msrb": 1}


def latched(register: str) -> int:
    """What C calls it: 0 for none."""
    return REGISTERS[register] + 1 if register else 0


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
        push_rows(m, r[4] if masked else r[3], key, rows_of(x, kind))


def _matmul_op(kind: str, masked: bool, register: str) -> None:
    name = ".".join(filter(None, ["vmatmul", "msk" * masked, kind, f"vlgmr.{register}" * bool(register), "gmra"]))
    where = "M(b), c, d" if masked else "0, b, c"
    body = f"CHECK(matmul(vm, V(a), {where}, {KINDS[kind]}, {latched(register)}));"

    @op(name, ".vmut" if masked else ".vut", "stages" if masked else "probe", _MSK if masked else PROBE, body)
    def run(m: Machine, r: Sequence[int]) -> None:
        x = m.v[r[2]] & spread(m.m[r[3]]) if masked else m.v[r[2]]
        unit, token = (r[4], r[5]) if masked else (r[3], r[4])
        if register or m.implicit_latch:
            latch(m, unit, register or "msra")
        multiply(m, unit, token, rows_of(x, kind), kind)


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
    mxu = mxu_of(m, unit)
    staged = mxu.pushed.pop("lsf", [])
    if not staged:
        raise Trapped(Trap.MXU, unit, 0)
    left = np.concatenate(staged[::-1]).T[:rows]
    mxu.lhs = deque(left[k : k + SUBLANES] for k in range(0, rows, SUBLANES))


def _push_left_op(kind: str, masked: bool) -> None:
    name = ".".join(filter(None, ["vmatpush.lsf", kind if kind != "f32" else "", "msk" * masked, "msrb"]))
    where = "M(b), c" if masked else "0, b"
    body = f"CHECK(mxu_push(vm, V(a), {where}, {KINDS[kind]}, 4, 0));"

    @op(name, ".vmu" if masked else ".vu", "stages", _MSK if masked else _LSF, body)
    def run(m: Machine, r: Sequence[int]) -> None:
        x = m.v[r[2]] & spread(m.m[r[3]]) if masked else m.v[r[2]]
        push_rows(m, r[4] if masked else r[3], "lsf", rows_of(x, kind))


for _kind in ("f32", "bf16"):
    for _masked in (False, True):
        _push_left_op(_kind, _masked)


for _count in range(1, 17):  # 8 rows each; bundles have 9 of them as well

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
            f"CHECK(multiply_left(vm, a, b, {latched(_latch_from)}));",
        )
        def _multiply_left(m: Machine, r: Sequence[int], register: str = _latch_from) -> None:
            if register:
                latch(m, r[2], register)
            mxu = mxu_of(m, r[2])
            if not mxu.lhs or not mxu.gains:
                raise Trapped(Trap.MXU, r[2], mxu.lhs[0].shape[1] if mxu.lhs else 0)
            left = mxu.lhs.popleft()
            multiply(m, r[2], r[3], left, "bf16", left.shape[1])
