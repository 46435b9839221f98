"""The XLU: what moves values between lanes and sublanes, and reduces over lanes.

Permutes and lane reductions of one unit share a queue; its transposes have one of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from assay.llo.code import Words
from assay.llo.machine import CCRF, LANES, SUBLANES, TRF, XLU, Machine, Trap, Trapped
from assay.llo.semantics.floats import Floats, operand, result
from assay.llo.semantics.table import op
from assay.llo.semantics.vector import PROBE, SUBLANE, lanes, maximum, minimum

U = np.uint32
LANE_INDEX = np.arange(LANES)


@op("vrot.slane", "Vvv", "probe", "out[s, l] = in[(s + n[s, l]) mod 8, l]", "vrot_slane(V(dst), V(a), V(b));")
def _vrot_slane(m: Machine, r: Sequence[int]) -> None:
    """Each lane by its own amount: sums over lanes are laid out along a row so (probe: reduce of f32[4,64,512])."""
    source = (np.arange(8)[:, None] + m.v[r[3]].astype(np.int64)) & 7
    m.v[r[1]] = np.take_along_axis(m.v[r[2]], source, axis=0)


@op("vrot.lane.b32", ".vsut", "probe", "out[(l + n) mod 128] = in[l]", "vrot_lane(push(vm, Q_XLU, c, d), V(a), S(b));")
def _vrot_lane(m: Machine, r: Sequence[int]) -> None:
    m.push(XLU, r[4], r[5], np.roll(m.v[r[2]], int(m.s[r[3]] & U(127)), axis=1))


@op(
    "vperm.slane",
    "Vvv",
    "probe",
    "out[s, l] = in[pattern[s, l] mod 8, l]: attention written in Pallas; on v6e byte by byte, bits 3 "
    "and 4 naming the byte: sines look 1 / (2 pi) up by it",
    "vperm_slane(V(dst), V(a), V(b), vm->bytewise);",
)
def _vperm_slane(m: Machine, r: Sequence[int]) -> None:
    if m.bytewise:
        x, out = m.v[r[2]], np.zeros((SUBLANES, LANES), U)
        for j in range(4):
            place = m.v[r[3]] >> U(8 * j)
            word = np.take_along_axis(x, (place & U(7)).astype(np.intp), axis=0)
            out |= (word >> ((place >> U(3) & U(3)) * U(8)) & U(255)) << U(8 * j)
        m.v[r[1]] = out
        return
    m.v[r[1]] = np.take_along_axis(m.v[r[2]], (m.v[r[3]] & U(7)).astype(np.intp), axis=0)


lanes("vset.pattern.permute", "Vv", "x", why="the pattern that vperm.lane names")(lambda x: x)


@op(
    "vperm.lane",
    ".vvut",
    "probe",
    "out[s, l] = in[s, pattern[s, l] mod 128]",
    "vperm_lane(push(vm, Q_XLU, c, d), V(a), V(b));",
)
def _vperm_lane(m: Machine, r: Sequence[int]) -> None:
    pattern = (m.v[r[2]] & U(LANES - 1)).astype(np.intp)
    m.push(XLU, r[4], r[5], np.take_along_axis(m.v[r[3]], pattern, axis=1))


@op(
    "vbcast.lane.b32",
    ".vsut",
    "probe",
    "lane (n mod 128) + (n >> 8) * sublane, over all lanes",
    "vbcast_lane(push(vm, Q_XLU, c, d), V(a), S(b));",
)
def _vbcast_lane(m: Machine, r: Sequence[int]) -> None:
    n = m.s[r[3]]
    lane = ((n & U(127)) + (n >> U(8)) * SUBLANE[:, :1]) & U(127)
    row = np.take_along_axis(m.v[r[2]], lane.astype(np.intp), axis=1)
    m.push(XLU, r[4], r[5], np.repeat(row, LANES, axis=1))


# Reductions: a tree, lane l with lane l + 64, then + 32, ...; the hardware's order is not public.
REDUCTIONS: dict[str, tuple[str, Callable[[Floats, Floats], Floats]]] = {
    "vadd.xlane.f32": ("0", lambda x, y: x + y),
    "vmax.xlane.f32": ("1", maximum),
    "vmin.xlane.f32": ("2", minimum),
}
for _name, (_c, _combine) in REDUCTIONS.items():

    @op(
        _name,
        ".vut",
        "probe",
        "over 128 lanes, the result in all of them; the order of adding is assumed",
        f"reduce_lanes(push(vm, Q_XLU, b, c), V(a), {_c});",
    )
    def _reduce(m: Machine, r: Sequence[int], combine: Callable[[Floats, Floats], Floats] = _combine) -> None:
        x, n = m.v[r[2]], LANES // 2
        while n:
            x = result(combine(operand(x[:, :n]), operand(x[:, n : 2 * n])))
            n //= 2
        m.push(XLU, r[3], r[4], np.repeat(x, LANES, axis=1))


for _name in ("vpop.permute", "vpop.xlane"):

    @op(_name, "Vut", "probe", PROBE, "POP(Q_XLU, a, b, V(dst));")
    def _pop(m: Machine, r: Sequence[int]) -> None:
        m.v[r[1]] = m.pop(XLU, r[2], r[3])


@op("vpop.trf", "Vut", "probe", PROBE, "POP(Q_TRF, a, b, V(dst));")
def _pop_trf(m: Machine, r: Sequence[int]) -> None:
    m.v[r[1]] = m.pop(TRF, r[2], r[3])


# Transposes ---

FIRST, LAST = 1, 2


def _collect(m: Machine, unit: int, flags: int, *vectors: Words, most: int = 16) -> list[Words] | None:
    """The vectors of a transpose, in order, once the last has come."""
    if flags & FIRST:
        m.transposes[unit] = []
    elif unit not in m.transposes:
        raise Trapped(Trap.TRANSPOSE, unit, 0)
    held = m.transposes[unit]
    held.extend(v.copy() for v in vectors)
    if len(held) > most:
        raise Trapped(Trap.TRANSPOSE, unit, len(held))
    return m.transposes.pop(unit) if flags & LAST else None


def _push_rows(m: Machine, unit: int, token: int, rows: Words) -> None:
    for k in range(0, len(rows), SUBLANES):
        m.push(TRF, unit, token, rows[k : k + SUBLANES])


for _name in ("start", "cont", "end", "start.end"):

    @op(
        f"vxpose.b32.{_name}",
        ".viiut",
        "probe",
        "n vectors are a matrix 8n x 128; width / 8 vectors of its transpose, lanes from 8n on 0 (a pass drops zeros)",
        "CHECK(transpose32(vm, V(a), b, c, d, imm));",
    )
    def _vxpose(m: Machine, r: Sequence[int]) -> None:
        held = _collect(m, r[5], r[4], m.v[r[2]])
        if held is not None:
            stacked = np.concatenate(held)  # (8n, 128)
            out = np.zeros((LANES, LANES), U)
            out[:, : len(stacked)] = stacked.T
            _push_rows(m, r[5], r[6], out[: r[3]])


def _halves(m: Machine, held: Words, width: int) -> list[Words]:
    """The transpose of packed rows, packed again: width / 16 vectors. held: (8n, 128)."""
    rows = np.empty((2 * len(held), LANES), U)
    rows[0::2], rows[1::2] = held & U(0xFFFF), held >> U(16)
    out = np.full((LANES, LANES), m.fill & 0xFFFF, U)
    out[:, : len(rows)] = rows.T
    packed: Words = out[0::2] | out[1::2] << U(16)
    return [packed[k : k + SUBLANES] for k in range(0, min(width, LANES) // 2, SUBLANES)]


for _name in ("start", "cont", "end", "start.end"):

    @op(
        f"vxpose.c.b16.{_name}",
        ".viiut",
        "probe",
        "as b32, of 16 packed rows a vector: dots that contract a major dimension",
        "CHECK(transpose16(vm, 1, V(a), 0, b, c, d, imm));",
    )
    def _vxpose16(m: Machine, r: Sequence[int]) -> None:
        held = _collect(m, r[5], r[4], m.v[r[2]], most=8)
        if held is not None:
            for vector in _halves(m, np.concatenate(held), r[3]):
                m.push(TRF, r[5], r[6], vector)

    @op(
        f"vxpose.binary.c.b16.{_name}",
        "vviiut",
        "stages",
        "stands for two vxpose.c.b16, of vy and of vx; their results take turns, that of vy first",
        "CHECK(transpose16(vm, 2, V(a), V(dst), b, c, d, imm));",
    )
    def _vxpose_binary(m: Machine, r: Sequence[int]) -> None:
        held = _collect(m, r[5], r[4], m.v[r[2]], m.v[r[1]], most=16)
        if held is not None:
            two = [_halves(m, np.concatenate(held[k::2]), r[3]) for k in (0, 1)]
            for pair in zip(*two, strict=True):
                for vector in pair:
                    m.push(TRF, r[5], r[6], vector)


# To scalars ---

FIRST_ELEMENT = "the first element: offsets that a kernel computes in vectors and indexes smem by"


@op("vtos", "Sv", "probe", FIRST_ELEMENT, "S(dst) = V(a)[0];")
def _vtos(m: Machine, r: Sequence[int]) -> None:
    m.s[r[1]] = m.v[r[2], 0, 0]


@op("vpush", ".vt", "stages", "vtos is a vpush and a spop", "memcpy(push(vm, Q_CCRF, 0, b), V(a), SIZE * 4);")
def _vpush(m: Machine, r: Sequence[int]) -> None:
    m.push(CCRF, 0, r[3], m.v[r[2]].copy())


@op(
    "spop",
    "St",
    "stages",
    "vtos is a vpush and a spop",
    "uint32_t x[SIZE]; POP(Q_CCRF, 0, a, x); S(dst) = x[0];",
)
def _spop(m: Machine, r: Sequence[int]) -> None:
    m.s[r[1]] = m.pop(CCRF, 0, r[2])[0, 0]
