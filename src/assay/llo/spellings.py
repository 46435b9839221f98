"""Opcodes as older libtpus spell them, brought to the spelling of 0.0.52.

Measured on the same kernels in several releases. A spelling stands for one meaning in all of them, so the release need
not be known; an opcode that is neither here nor in the table of semantics is unsupported by name.
"""

from __future__ import annotations

import re
from functools import cache

_UNIT = re.compile(r"\.(?P<unit>(?:xlu|mxu)\d)(?=\.|$)|^(?P<eup>eup)")

_WHOLE = {
    "smov": "smov.u32",
    "vlaneseq": "vlaneseq.b32",
    "vrng": "vrng.u32",
    "set.rngseed": "vsetrngseed",
    "vperm": "vperm.lane",
    "vrcp.pop": "vrcp.f32.pop",
    "vrsqrt.pop": "vrsqrt.f32.pop",
    "vtanh.pop": "vtanh.f32.pop",
    "vlog2.pop": "vlog2.f32.pop",
    "vpow.pop": "vexp2.f32.pop",
    "vrcp": "vrcp.f32",
    "vrsqrt": "vrsqrt.f32",
    "vtanh": "vtanh.f32",
    "vlog2": "vlog2.f32",
    "vpow2.f32": "vexp2.f32",
    "vpop.eup": "vpop.erf",
    "vclamps": "vclamps.f32",
    "vnez": "vnez.u8",
    "vpack.c.bf16": "vpack.c.f32.bf16",
    "vpack.i.bf16": "vpack.i.f32.bf16",
    "vpack.c.b16": "vpack.c.b32.b16",
    "vpack.c.b8": "vpack.c.b16.b8",
    "vpack.c.b4": "vpack.c.b8.b4",
    "vclamp-gez-f32": "vclamp.gez.f32",
    "vclamps-f32": "vclamps.f32",
    "vunpack.c.l.b16": "vunpack.c.l.s16.s32",  # whoever uses it masks or shifts the upper half away
    "vunpack.c.h.b16": "vunpack.c.u.s16.s32",
    "vunpack.c.l.hf16": "vunpack.c.l.hf16.f32",
    "vunpack.c.h.hf16": "vunpack.c.u.hf16.f32",
    "vunpack.c.l.s4": "vunpack.c.l.s4.s8",
    "vunpack.c.h.s4": "vunpack.c.u.s4.s8",
    "vunpack.i.l.s16": "vunpack.i.l.s16.s32",
    "vunpack.i.h.s16": "vunpack.i.u.s16.s32",
    "vunpack.c.l.bf16": "vunpack.c.l.bf16.f32",
    "vunpack.c.h.bf16": "vunpack.c.u.bf16.f32",
    "vunpack.i.l.bf16": "vunpack.i.l.bf16.f32",
    "vunpack.i.h.bf16": "vunpack.i.u.bf16.f32",
}
_FITS = r"\.[su](?:4|8|16|32)$"  # what the value fits in; the bits are those of the whole word
_PARTS = (
    (re.compile(r"^vunpack\.c\.(\d)\.s8(\.s32)?(\.s8)?$"), r"vunpack.c.\1.s8.s32"),
    (
        re.compile(
            r"^(v(?:and|or|xor|shll|shrl|max|min)\.u32|v(?:shra|add|sub)\.s32|vmul\.u32|vunpack\.[ci]\.\w\.\w+\.s32)"
            + _FITS
        ),
        r"\1",
    ),
    (re.compile(r"^vsel\.[su](?:4|8|16|32)$"), "vsel"),
    (re.compile(r"^(vmatpush\.lsf)\.msk\.msk\."), r"\1.msk."),
)


@cache
def normal(opcode: str) -> tuple[str, str]:
    """(the opcode in normal form, its unit such as `mxu2` or "")."""
    unit = ""
    found = _UNIT.search(opcode)
    if found is not None and found["unit"]:
        unit = found["unit"]
        opcode = opcode[: found.start()] + opcode[found.end() :]
    opcode = _WHOLE.get(opcode, opcode)
    for pattern, spelling in _PARTS:
        opcode = pattern.sub(spelling, opcode)
    return opcode, unit
