"""Scalars against Python's own integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

WORDS = [
    0,
    1,
    2,
    3,
    5,
    31,
    32,
    33,
    63,
    255,
    256,
    0x7FFFFFFF,
    0x80000000,
    0x80000001,
    0xFFFFFFFF,
    0xFFFFFFFE,
    0xAAAAAAAB,
]
MASK = 0xFFFFFFFF


def signed(x: int) -> int:
    return int.from_bytes(x.to_bytes(4, "little"), "little", signed=True)


BINARY: dict[str, Callable[[int, int], int]] = {
    "sadd.s32": lambda x, y: x + y,
    "ssub.s32": lambda x, y: x - y,
    "smul.u32": lambda x, y: x * y,
    "smul.addr": lambda x, y: x * y,
    "smulhi.u32": lambda x, y: x * y >> 32,
    "sand.u32": lambda x, y: x & y,
    "sor.u32": lambda x, y: x | y,
    "sxor.u32": lambda x, y: x ^ y,
    "sshll.u32": lambda x, y: x << min(y, 32),
    "sshrl.u32": lambda x, y: x >> y,
    "sshra.s32": lambda x, y: signed(x) >> y,
    "scalar_lea.vmem": lambda x, y: x + y,
    "por": lambda x, y: x != 0 or y != 0,
    "pnand": lambda x, y: x == 0 or y == 0,
    "scmp.lt.s32.totalorder": lambda x, y: signed(x) < signed(y),
    "scmp.le.s32.totalorder": lambda x, y: signed(x) <= signed(y),
    "scmp.gt.s32.totalorder": lambda x, y: signed(x) > signed(y),
    "scmp.ge.s32.totalorder": lambda x, y: signed(x) >= signed(y),
    "scmp.eq.s32.totalorder": lambda x, y: x == y,
    "scmp.ne.s32.totalorder": lambda x, y: x != y,
    "scmp.lt.u32.totalorder": lambda x, y: x < y,
    "scmp.ge.u32.totalorder": lambda x, y: x >= y,
}


@pytest.mark.parametrize("name", BINARY)
def test_two_operands(name: str, run: Any) -> None:
    for x in WORDS:
        for at in range(0, len(WORDS), 9):
            some = WORDS[at : at + 9]
            records = [(name, 20 + k, 19, k) for k in range(len(some))]
            ran = run(records, s={**dict(enumerate(some)), 19: x})
            wanted = [BINARY[name](x, y) & MASK for y in some]
            assert ran.machine.s[20 : 20 + len(some)].tolist() == wanted, (name, hex(x), some)


def test_division_where_the_divisor_is_not_zero(run: Any) -> None:
    for x in WORDS[::2]:
        for y in WORDS[1::2]:
            ran = run([("sdiv.u32.pop", 2, 0, 1), ("srem.u32.pop", 3, 0, 1)], s={0: x, 1: y})
            assert (int(ran.machine.s[2]), int(ran.machine.s[3])) == divmod(x, y)


def test_select_and_negate(run: Any) -> None:
    records = [("scalar_select", 4, 0, 1, 2), ("scalar_select", 5, 3, 1, 2), ("pneg", 6, 0), ("pneg", 7, 3)]
    ran = run([*records, ("pmov", 8, 0), ("smov.u32", 9, 1)], s={0: 1, 1: 10, 2: 20, 3: 0})
    assert ran.machine.s[4:10].tolist() == [10, 20, 0, 1, 1, 10]


def test_predicates_and_jumps(run: Any) -> None:
    """A loop that adds 1 .. 5; what a false predicate guards does not run, but counts as a step."""
    records = [
        ("sadd.s32", 1, 1, 0),
        ("ssub.s32", 0, 0, 2),
        ("scmp.gt.s32.totalorder", 3, 0, 4),
        ("jump", 0, {"if": 3 + 1}),
        ("smov.u32", 5, 1, {"if": -(3 + 1)}),
        ("smov.u32", 6, 1, {"if": 3 + 1}),
    ]
    ran = run(records, s={0: 5, 1: 0, 2: 1, 4: 0, 6: 77})
    assert (int(ran.machine.s[5]), int(ran.machine.s[6])) == (15, 77)
    assert ran.outcome.steps == 5 * 4 + 3
