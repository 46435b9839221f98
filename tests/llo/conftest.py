"""Small programs of records, run in both engines: what differs between them fails here, so a test looks at one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest

from assay.llo import interpret, native
from assay.llo.code import WIDTH, Code
from assay.llo.machine import NAN_FILL, SPACES, Machine, Outcome
from assay.llo.program import Allocation
from assay.llo.semantics.table import OPS

Words = npt.NDArray[np.uint32]
Record = tuple[object, ...]
"""An op's name and its fields in the order of its signature, `.` left out; a last field {"if": k} is the predicate."""

SPECIAL = np.array(
    [
        0, 0x80000000, 1, 0x80000001, 0x007FFFFF, 0x807FFFFF, 0x00800000, 0x80800000,  # zeros, subnormals, the least
        0x3F800000, 0xBF800000, 0x3F000000, 0x40490FDB, 0x7F7FFFFF, 0xFF7FFFFF,  # numbers, the greatest
        0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00001, 0x7F800001, 0xFFABCDEF,  # infinities, NaNs quiet and not
        0x4B000000, 0x4B000001, 0x4B7FFFFF, 0x4F000000, 0xCF000000, 0xCF000001, 0x4EFFFFFF,  # where integers end
        0x7FFFFFFF, 0xFFFFFFFF, 31, 32, 33, 63, 64, 0x3F808000, 0x3F818000, 0x7F7F8000,  # shifts, halfway for bf16
    ],
    np.uint32,
)  # fmt: skip


def drawn(seed: int, shape: tuple[int, ...]) -> Words:
    """Random words, a third of them special."""
    rng = np.random.default_rng(seed)
    words = rng.integers(0, 1 << 32, shape, dtype=np.uint32)
    return np.where(rng.random(shape) < 0.35, rng.choice(SPECIAL, shape), words)


def assemble(records: Sequence[Record]) -> npt.NDArray[np.int32]:
    """Records of names and fields; a halt is added."""
    out = []
    for name, *fields in [*records, ("halt",)]:
        op = OPS[str(name)]
        record = [op.number] + [0] * (WIDTH - 1)
        if fields and isinstance(fields[-1], dict):
            record[-1] = fields.pop()["if"]
        given = iter(fields)
        for place, letter in enumerate(op.signature, 1):
            if letter != ".":
                record[place] = int(next(given))  # type: ignore[call-overload]  # an int
        assert next(given, None) is None, (name, fields, op.signature)
        out.append(record)
    return np.array(out, np.int64).astype(np.uint32).astype(np.int64).astype(np.uint32).view(np.int32)


@dataclass(frozen=True)
class Ran:
    """The NumPy machine after a run that C repeated to the bit."""

    outcome: Outcome
    machine: Machine

    def v(self, register: int) -> Words:
        return self.machine.v[register]

    def floats(self, register: int) -> npt.NDArray[np.float32]:
        return self.machine.v[register].view(np.float32)


Run = Callable[..., Ran]


def run_both(
    records: Sequence[Record],
    v: Mapping[int, object] | None = None,
    m: Mapping[int, object] | None = None,
    s: Mapping[int, int] | None = None,
    *,
    memory: Sequence[Allocation] = (),
    offsets: Sequence[tuple[int, str, int]] = (),
    setup: Callable[[Machine], None] | None = None,
    implicit: bool = False,
    limit: int = 10_000,
    fill: int = NAN_FILL,
) -> Ran:
    """v, m, s: register -> words (broadcast to 8 x 128), nibbles, a word. offsets: as in Code. setup: writes memory."""
    lines = np.arange(1, len(records) + 2, dtype=np.int32)
    notes = {"implicit_latch": int(implicit)}
    registers = 24, 8, 40
    code = Code(
        "k", "k.txt", assemble(records), lines, *registers, {}, {}, {}, (), tuple(memory), tuple(offsets), notes
    )
    ran = []
    for engine in (interpret.run, native.run):
        machine = Machine(code, "v5e", fill)
        for register, words in (v or {}).items():
            machine.v[register] = words
        for register, nibbles in (m or {}).items():
            machine.m[register] = nibbles
        for register, word in (s or {}).items():
            machine.s[register] = word & 0xFFFFFFFF
        if setup is not None:
            setup(machine)
        ran.append(Ran(engine(code, machine, limit), machine))
    one, two = ran
    assert one.outcome == two.outcome
    for name in ("v", "m", "s", *SPACES):
        a, b = getattr(one.machine, name), getattr(two.machine, name)
        differ = np.argwhere(a != b)
        assert not len(differ), (name, differ[0], hex(a[tuple(differ[0])]), hex(b[tuple(differ[0])]))
    return one


@pytest.fixture(scope="session")
def run() -> Run:
    """`run_both`; skipped where there is no C compiler, for then there are no two engines."""
    if native.missing():
        pytest.skip(str(native.missing()))
    return run_both


@pytest.fixture(scope="session")
def draw() -> Callable[[int, tuple[int, ...]], Words]:
    return drawn
