"""The scalar unit: 32-bit integers, addresses, predicates (0 or 1)."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

import numpy as np

from assay.llo.machine import Machine
from assay.llo.semantics.floats import Floats, operand, result
from assay.llo.semantics.table import Known, op

Meaning = Callable[..., int]
PROBE = "kernels with known results index and loop by it"


def _signed(x: int) -> int:
    return x - (x >> 31 << 32)


def _float_bits(function: Callable[..., Floats], *bits: int) -> int:
    return int(result(np.asarray(function(*(operand(np.array([x], np.uint32)) for x in bits))))[0])


def _scalar(name: str, arity: int, c: str, known: Known = "probe", why: str = PROBE) -> Callable[[Meaning], Meaning]:
    """An op over `arity` unsigned words; C sees them as x, y, z and gives the word that is written."""

    def enter(meaning: Meaning) -> Meaning:
        loads = " ".join(f"uint32_t {n} = S({f});" for n, f in zip("xyz", "abc", strict=False) if n in "xyz"[:arity])
        body = f"{loads} S(dst) = (uint32_t)({c});"

        @op(name, "S" + "s" * arity, known, why, body)
        def run(m: Machine, r: Sequence[int]) -> None:
            m.s[r[1]] = meaning(*(int(m.s[k]) for k in r[2 : 2 + arity])) & 0xFFFFFFFF

        return meaning

    return enter


for _name in ("sadd.s32", "scalar_lea.vmem", "scalar_lea.hbm", "scalar_lea.smem", "scalar_lea.sflag"):
    _scalar(_name, 2, "x + y")(lambda x, y: x + y)
_scalar("ssub.s32", 2, "x - y")(lambda x, y: x - y)
for _name in ("smul.u32", "smul.addr"):
    _scalar(_name, 2, "x * y")(lambda x, y: x * y)
_scalar("smulhi.u32", 2, "((uint64_t)x * y) >> 32", "stages", "made of srem by a constant: 0xaaaaaaab, then a shift")(
    lambda x, y: (x * y) >> 32
)
_scalar("sand.u32", 2, "x & y")(lambda x, y: x & y)
_scalar("sor.u32", 2, "x | y")(lambda x, y: x | y)
_scalar("sxor.u32", 2, "x ^ y")(lambda x, y: x ^ y)
_scalar("sshll.u32", 2, "y < 32 ? x << y : 0")(lambda x, y: x << y if y < 32 else 0)
_scalar("sshrl.u32", 2, "y < 32 ? x >> y : 0")(lambda x, y: x >> y if y < 32 else 0)
_scalar("sshra.s32", 2, "(int32_t)x >> (y < 31 ? y : 31)")(lambda x, y: _signed(x) >> min(y, 31))
_scalar("smin.u32", 2, "x < y ? x : y")(min)
_DIVISION = "the decomposer makes it a multiplication by the divisor's reciprocal and a shift"
_scalar("sdiv.u32.pop", 2, "y ? x / y : UINT32_MAX", "stages", _DIVISION)(lambda x, y: x // y if y else -1)
_scalar("srem.u32.pop", 2, "y ? x % y : x", "stages", _DIVISION)(lambda x, y: x % y if y else x)

_BITS = "floats by their bits: how a scalar bf16 loses its subnormals"
_scalar("ssub.f32", 2, "R(F(x) - F(y))", "probe", _BITS)(lambda x, y: _float_bits(operator.sub, x, y))
_scalar("sadd.f32", 2, "R(F(x) + F(y))", "probe", f"{_BITS}; a scatter of bf16 without a combiner")(
    lambda x, y: _float_bits(operator.add, x, y)
)

for _name in ("smov.u32", "int_to_ptr.hbm", "int_to_ptr.vmem", "int_to_ptr.smem", "int_to_ptr.sflag", "pmov"):
    _scalar(_name, 1, "x")(lambda x: x)
_scalar("scalar_select", 3, "x ? y : z")(lambda x, y, z: y if x else z)
_scalar("pneg", 1, "!x")(lambda x: not x)
_scalar("por", 2, "x || y")(lambda x, y: bool(x or y))
_scalar("pnand", 2, "!(x && y)")(lambda x, y: not (x and y))

_COMPARES: dict[str, tuple[str, Callable[[int, int], bool]]] = {
    "lt": ("<", lambda x, y: x < y),
    "le": ("<=", lambda x, y: x <= y),
    "gt": (">", lambda x, y: x > y),
    "ge": (">=", lambda x, y: x >= y),
    "eq": ("==", lambda x, y: x == y),
    "ne": ("!=", lambda x, y: x != y),
}
for _short, (_c, _compare) in _COMPARES.items():
    _scalar(f"scmp.{_short}.u32.totalorder", 2, f"x {_c} y")(_compare)
    _scalar(f"scmp.{_short}.s32.totalorder", 2, f"(int32_t)x {_c} (int32_t)y")(
        lambda x, y, compare=_compare: compare(_signed(x), _signed(y))
    )
