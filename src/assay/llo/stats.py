"""What a kernel's LLO consists of: instructions and opcodes by stage, bundles, and the slots that they fill.

A slot is what an instruction takes of a bundle. Known: libtpu counts them itself for every bundle, in the dump's
`final_hlo-static-per-bundle-utilization` (0.0.52, v5e), and these counts agree with it in every bundle but for the
XLU, the MXU and the EUP, of which libtpu counts the cycles that they stay busy and we the instructions issued. Mask
arithmetic, sync flags and waits go through a slot of loads; branches, predicates and DMA through one of scalars; what
is pushed to the EUP takes one of the VALU besides.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from assay.errors import AssayError
from assay.llo.files import FINAL, ORIGINAL, KernelFiles
from assay.llo.listing import load
from assay.llo.lowering import unknown_opcodes
from assay.llo.program import Bundle, Instruction, Kernel

SLOTS = ("scalar", "V-load", "V-store", "VALU", "V-pop", "EUP", "XLU", "MXU")
CAPACITY: Mapping[str, int] = MappingProxyType(
    {"scalar": 2, "V-load": 3, "V-store": 1, "VALU": 4, "V-pop": 2, "EUP": 1, "XLU": 3, "MXU": 4}
)
"""Of a bundle on v5e, as libtpu prints it with its counts; of the MXU's, 4 multiply and 4 push."""

_FREE = re.compile(r"inlined_call_operand|int_to_ptr\..*|[svp]phi|vmphi|vnop|vdelay")
_BY_OPCODE = (
    (re.compile(r"vpop\..*"), "V-pop"),
    (re.compile(r"vst(\..*)?"), "V-store"),
    (re.compile(r"vld(\..*)?|vm(and|or|xor|neg|mov)|vsync.*|dma\.done.*|vwait.*"), "V-load"),
    (re.compile(r"(vrcp|vrsqrt|vexp2|vlog2|vtanh|verf|vsin|vcos)\.f32|eup.*"), "EUP"),
    (re.compile(r"vmat.*|vllmr.*|vdwg"), "MXU"),
    (re.compile(r"vxpose\..*|vrot\.lane.*|vperm\..*|vset\.pattern.*|vbcast\.lane.*|v\w+\.xlane\..*"), "XLU"),
    (re.compile(r"[sp].*|dma\..*|vpush.*"), "scalar"),
    (re.compile(r"v.*"), "VALU"),
)


@dataclass(frozen=True, slots=True)
class StageSize:
    """One stage: its instructions, and its regions or bundles. why: it cannot be read."""

    number: int
    label: str
    form: str
    instructions: int
    parts: int
    why: str = ""


@dataclass(frozen=True, slots=True)
class KernelStats:
    """bundles: of the last stage, which run in as many cycles if nothing jumps or waits; 0 where they were not dumped.
    empty: of them, those that issue nothing. slots: how many instructions go through each. full: in how many bundles a
    slot has at least one. opcodes: of the last stage that can be read, without units. unmodelled: opcodes without a
    meaning in the simulator, with the stages, as `NN label`, that have them.
    """

    name: str
    stages: tuple[StageSize, ...]
    bundles: int
    empty: int
    slots: Mapping[str, int]
    full: Mapping[str, int]
    opcodes: Mapping[str, int]
    unmodelled: Mapping[str, tuple[str, ...]]

    @property
    def hindered(self) -> list[str]:
        """Opcodes for whose sake the first stage or the last cannot be run."""
        ends = (ORIGINAL, FINAL)
        return [name for name, where in self.unmodelled.items() if any(w.split(" ", 1)[1] in ends for w in where)]


def stats(files: KernelFiles) -> KernelStats:
    """Reads every stage of a kernel from `original` on; one that cannot be read is told among `stages`."""
    sizes: list[StageSize] = []
    unmodelled: dict[str, tuple[str, ...]] = {}
    last: Kernel | None = None
    final: tuple[Bundle, ...] = ()
    first = next((stage.number for stage in files.stages if stage.label == ORIGINAL), 0)
    for stage in files.stages:
        if stage.number < first:
            continue
        try:
            kernel = load(files, stage).kernel
        except AssayError as error:
            sizes.append(StageSize(stage.number, stage.label, stage.form, 0, 0, str(error)))
            continue
        parts = len(kernel.regions) or len(kernel.bundles)
        sizes.append(StageSize(stage.number, stage.label, stage.form, kernel.instructions, parts))
        for name in unknown_opcodes(kernel):
            unmodelled[name] = (*unmodelled.get(name, ()), f"{stage.number:02d} {stage.label}")
        last = kernel
        final = kernel.bundles if stage.label == FINAL else ()
    counted = [issued(bundle) for bundle in final]
    return KernelStats(
        files.name,
        tuple(sizes),
        len(final),
        sum(not counts for counts in counted),
        {name: sum(counts[name] for counts in counted) for name in SLOTS},
        {name: sum(counts[name] > 0 for counts in counted) for name in SLOTS},
        {} if last is None else opcodes(last),
        unmodelled,
    )


def opcodes(kernel: Kernel) -> dict[str, int]:
    """Without units, most frequent first."""
    return dict(Counter(i.opcode for i in kernel.walk()).most_common())


def issued(bundle: Bundle) -> Counter[str]:
    """The slots that a bundle fills."""
    return Counter(name for instruction in bundle.instructions for name in slots(instruction))


def slots(instruction: Instruction) -> tuple[str, ...]:
    """Those of SLOTS through which an instruction is issued; none for what only names a value."""
    opcode = instruction.opcode
    if _FREE.fullmatch(opcode):
        return ()
    found = next((name for pattern, name in _BY_OPCODE if pattern.fullmatch(opcode)), "scalar")
    return ("VALU", "EUP") if found == "EUP" else (found,)
