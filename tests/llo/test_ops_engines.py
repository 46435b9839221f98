"""Every op of the table on random bits: NumPy and C give the same registers, memory and traps.

Values are the business of the other test_ops files; here no op may be left out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from assay.llo.machine import Machine
from assay.llo.program import Allocation
from assay.llo.semantics.table import OPS, Op

VMEM = Allocation("0", "vmem", 64 * 512, "u32[8192]")
SMEM = Allocation("1", "smem", 256, "u32[64]")
FLAG = Allocation("2", "sflag", 4, "s32[1]")
HBM = Allocation("3", "hbm", 64 * 512, "u32[8192]")
MEMORY = (VMEM, SMEM, FLAG, HBM)
AT_VMEM, AT_SMEM, AT_FLAG, AT_HBM, AMOUNT = 20, 21, 22, 23, 24
"""Scalar registers with the places of memory; AMOUNT holds 256 granules."""
OFFSETS = ((AT_VMEM, "0", 0), (AT_SMEM, "1", 0), (AT_FLAG, "2", 0), (AT_HBM, "3", 0))
SPECIAL_SIGNATURES = {"jump", "halt", "shalt.err", "dma"}

POPS_TRF = [("vpop.trf", 8 + k, 0, 0) for k in range(8)]
LEFT = [("vmatpush.lsf.bf16.msrb", 0, 0), ("vmatpush.bf16.msra", 1, 0)]
GAINS = [("vmatpush.msra", 0, 0), ("vmatpush.msra", 1, 0), ("vmatpush.bf16.msrb", 2, 0)]
WIDE = [("vmatprep.subr", 0, 0), ("vmatpush1.msra", 1, 0), ("vmatprep.subr", 2, 0), ("vmatpush2.msra", 3, 0)]


def pops(count: int) -> list[tuple[Any, ...]]:
    return [("vpop.f32.mrf", 8 + k, 0, 0) for k in range(count)]


def rows(kind: str) -> int:
    return {"f32": 8, "bf16": 16, "s8": 32, "u8": 32}[kind]


def kind_of(name: str) -> str:
    return next((k for k in ("bf16", "s8", "u8") if k in name.split(".")), "f32")


def fields_of(op: Op) -> list[int]:
    """Registers of each letter from 0 on, written ones from 8 on; literals by name."""
    used = {"v": 0, "m": 0, "s": 0}
    fields = []
    for letter in op.signature:
        if letter == ".":
            continue
        if letter in "vms":
            fields.append(used[letter])
            used[letter] += 1
        elif letter in "VMS":
            fields.append({"V": 8, "M": 4, "S": 8}[letter])
        else:
            fields.append(0)
    return fields


def around(op: Op) -> list[tuple[Any, ...]]:
    """A program in which the op does what it is for."""
    name = op.name
    this = (name, *fields_of(op))
    if name == "vcmask":
        return [(name, 4, 0x3F8 | 2 | 7 << 10 | 100 << 13)]
    if name.startswith("vclampa"):
        return [(name, 8, 0, 0x40000000, 0x3F000000)]
    if name.startswith("vxpose.binary"):
        return [(name, 0, 1, 64, 1, 0, 0), (name, 2, 3, 64, 2, 0, 0), *POPS_TRF]
    if name.startswith("vxpose"):
        width = 64 if ".b32." in name else 128
        return [(name, 0, width, 1, 0, 0), (name, 1, width, 0, 0, 0), (name, 2, width, 2, 0, 0), *POPS_TRF]
    if name in ("vpop.permute", "vpop.xlane"):
        return [("vrot.lane.b32", 0, 0, 0, 5), (name, 8, 0, 5)]
    if name == "vpop.trf":
        return [("vxpose.b32.start.end", 0, 8, 3, 0, 7), (name, 8, 0, 7)]
    if name == "vpop.erf":
        return [("vrcp.f32", 0, 0, 3), (name, 8, 0, 3)]
    if name in ("vpush", "spop"):
        return [("vpush", 0, 9), ("spop", 8, 9)]
    if ".lmr." in name:
        return (
            [*LEFT, ("vllmr." + name.rsplit(".", 1)[1], 0), ("vmatmul.bf16.vlgmr.msra.gmra", 2, 0, 0), *pops(2)]
            + ([("vmatpush.bf16.msrb", 3, 0)] if "msrb" in name else [])
            + [("vmatpush.bf16.msra", 3, 0), (name, 0, 0), *pops(1)]
            + ([] if name.endswith("gmra.1") else [(name, 0, 0), ("vpop.f32.mrf", 9, 0, 0)])
        )
    if name.startswith(("vllmr", "vmatpush.lsf")):
        count = name.rsplit(".", 1)[1] if name.startswith("vllmr") else "8"
        push = ("vmatpush.bf16.msra", 1, 0) if "bf16" in name else ("vmatpush.msra", 1, 0)
        lsf = name if name.startswith("vmatpush") else "vmatpush.lsf.msrb"
        first = (lsf, 0, 0, 0) if "msk" in lsf else (lsf, 0, 0)
        return [first, push, (f"vllmr.{count}", 0), (f"vmatmul.lmr.bf16.vlgmr.msra.gmra.{count}", 0, 0), *pops(1)]
    if name.startswith("vpop.add.s32.mrf"):
        units = (int(name[-1]) + 1) % 4, int(name[-1])
        products = [r for u in units for r in (("vmatpush.s8.msra", u, u), ("vmatmul.s8.vlgmr.msra.gmra", 2, u, 0))]
        return [*products, *((name, 8 + k, units[0], 0) for k in range(4))]
    if name.startswith("vpop."):
        return [*GAINS, ("vmatmul.f32.vlgmr.msra.gmra", 3, 0, 0), (name, 8, 0, 0)]
    if name.startswith("vmatprep.mubr"):
        kind = kind_of(name)
        return [*WIDE, this, (f"vmatmul.mubr.{kind}.vlgmr.msra.gmra", 1, 0, 0), *pops(rows(kind) // 4)]
    if name.startswith("vmatprep.subr"):
        push = "vmatpush1" + ("" if kind_of(name) == "f32" else f".{kind_of(name)}") + ".msra"
        return [
            this,
            (push, 1, 0),
            ("vmatprep.mubr.f32", 2, 0),
            ("vmatmul.mubr.f32.vlgmr.msra.gmra", 3, 0, 0),
            *pops(2),
        ]
    if name.startswith(("vmatpush1", "vmatpush2", "vmatpush3")):
        kind, register = kind_of(name), name.rsplit(".", 1)[1]
        subr = "vmatprep.subr" + ("" if kind == "f32" else f".{kind}")
        matmul = f"vmatmul.mubr.f32.vlgmr.{register}.gmra"
        return [(subr, 2, 0), this, ("vmatprep.mubr.f32", 2, 0), (matmul, 3, 0, 0), *pops(2)]
    if name.startswith("vmatpush"):
        register = name.rsplit(".", 1)[1]
        return [this, this, (f"vmatmul.f32.vlgmr.{register}.gmra", 3, 0, 0), *pops(1)]
    if name.startswith("vmatmul.mubr"):
        first = [(f"vmatprep.mubr.{kind_of(name)}", 2, 0)]
        wide = [(n.replace("msra", "msrb"), *f) for n, *f in WIDE] if "msrb" in name else WIDE
        latch = [] if "vlgmr" in name else [("vmatprep.mubr.f32", 0, 0), ("vmatmul.mubr.f32.vlgmr.msra.gmra", 1, 0, 0)]
        return [*wide, *latch, *pops(len(latch)), *first, this, *pops(rows(kind_of(name)) // 4)]
    if name.startswith("vmatmul"):
        latch = [] if "vlgmr" in name else [("vmatmul.f32.vlgmr.msra.gmra", 1, 0, 0), *pops(1)]
        return [*GAINS, *latch, this, *pops(rows(kind_of(name)) // 8)]
    if op.signature == ".vut" or name in ("vrot.lane.b32", "vperm.lane", "vbcast.lane.b32"):
        pop = "vpop.permute" if name.startswith(("vrot", "vperm", "vbcast")) or "xlane" in name else "vpop.erf"
        return [this, (pop, 8, 0, 0)]
    if name.startswith("vld"):
        pattern = [] if "sshfl" not in name else [0x32107654]
        forms = [(0, 1, 255), (3, 2, 0x5A), (20, -1, 255), (4, 0, 255), (1, (4 << 16) | 8, 255)]
        steps = [(n + 10, form[2]) for n, form in enumerate(forms)]
        movs = [("mov.s", register, register - 10 + 30) for register, _ in steps]
        loads = [
            (name, 8 + n, AT_VMEM, offset, stride, 10 + n, *pattern) for n, (offset, stride, _) in enumerate(forms)
        ]
        return [*movs, *loads]
    if name.startswith("vst") and op.signature.startswith("vsiis"):
        mask = [0] if name.endswith("msk") else []
        return [
            ("mov.s", 10, 30),
            ("mov.s", 11, 31),
            (name, 0, AT_VMEM, 3, 2, 10, *mask),
            (name, 1, AT_VMEM, 30, -1, 11, *mask),
            (name, 2, AT_VMEM, 0, (4 << 16) | 8, 11, *mask),
        ]
    if name == "sld":
        return [(name, 8, AT_SMEM, 3)]
    if name == "sst":
        return [(name, 0, AT_SMEM, 5)]
    if name in ("vsyncadd", "vsyncpa"):
        return [(name, AT_FLAG, 0)]
    if name.startswith("dma.done"):
        return [("dma", 32, 0, 1, 0, 0), (name, AT_FLAG, AMOUNT), ("mov.s", 10, 30), ("vld", 8, AT_VMEM, 1, 1, 10)]
    return [this]


ORDINARY = [op for op in OPS.values() if op.name not in SPECIAL_SIGNATURES]


@pytest.mark.parametrize("op", ORDINARY, ids=lambda op: op.name)
def test_both_engines_agree(op: Op, run: Any, draw: Any) -> None:
    program = around(op)
    assert any(record[0] == op.name for record in program)
    for seed in range(2):
        words = draw(seed, (8, 8, 128))
        if seed == 1:
            words[1] = words[0]
        if op.name.startswith("vmat") or "mrf" in op.name or "llmr" in op.name:
            words[4:] = words[:4]
        masks = np.random.default_rng(seed).integers(0, 16, (4, 8, 128)).astype(np.uint8)
        scalars = {k: int(w) for k, w in enumerate(draw(seed + 50, (8,)))}
        scalars |= {30: 255, 31: 0x5A, 32: 255, 33: 255, 34: 255, AMOUNT: 256}

        def setup(machine: Machine, seed: int = seed) -> None:
            base = machine.bases
            at = base["0"]
            machine.vmem[at : at + 64] = draw(seed + 9, (64, 128))
            machine.smem[base["1"] : base["1"] + 64] = draw(seed + 8, (64,))
            machine.hbm[base["3"] * 8 : base["3"] * 8 + 8192] = draw(seed + 7, (8192,))
            if program[0][0] == "dma":
                machine.s[32:36] = base["3"], 256, base["0"] * 16, base["2"]

        ran = run(
            program,
            dict(enumerate(words)),
            dict(enumerate(masks)),
            scalars,
            memory=MEMORY,
            offsets=OFFSETS,
            setup=setup,
        )
        assert ran.outcome.stop is None, str(ran.outcome.stop)
        assert ran.outcome.steps == len(program) + 1


IN_PLACE = [op for op in OPS.values() if op.signature[:2] in ("Vv", "Mm", "Vm") and "i" not in op.signature]


@pytest.mark.parametrize("op", IN_PLACE, ids=lambda op: op.name)
def test_a_result_may_take_the_place_of_any_operand(op: Op, run: Any, draw: Any) -> None:
    """The same bits as in a register of its own."""
    words = dict(enumerate(draw(1, (4, 8, 128))))
    masks = dict(enumerate(np.random.default_rng(1).integers(0, 16, (4, 8, 128)).astype(np.uint8)))
    name, apart, *operands = (op.name, *fields_of(op))
    letter = op.signature[0]
    wanted = run([(name, apart, *operands)], words, masks, {0: 5}).machine
    for place, kind in enumerate(op.signature[1:]):
        if kind != letter.lower():
            continue
        got = run([(name, operands[place], *operands)], words, masks, {0: 5}).machine
        one, two = (
            (wanted.v[apart], got.v[operands[place]]) if letter == "V" else (wanted.m[apart], got.m[operands[place]])
        )
        assert np.array_equal(one, two), place


def test_every_op_says_how_it_is_known() -> None:
    for op in OPS.values():
        assert op.why.strip(), op.name
        assert op.known in ("probe", "stages", "isa", "own"), op.name
        assert set(op.signature) <= set("VMSvmsiut."), op.name
        assert len(op.signature) <= 6, op.name
