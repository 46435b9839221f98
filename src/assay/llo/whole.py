"""Whether a dump is all there: a file that was cut may read as a shorter program, and differ from every other stage.

Bundles name the kernel's exit (`text`). Of regions no stage but `post-delay-converter` marks its end; what a whole one
has was measured on 21,800 dumps of libtpu 0.0.42.1, 0.0.50.1 and 0.0.52 for v5e and v6e: every part of a loop and of a
predicated region as often as every other, every region that is jumped to, and something in the last region. A file
that is cut behind a store can have all that: but no pass brings back an instruction that one before took out (they keep
their names), and some passes add none with an effect. So the stages around it say what is missing. Where there are
none, a whole file ends with an effect that nothing has to follow, uses every output, and closes every sync flag.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from assay.errors import LloSyntaxError
from assay.llo.files import ORIGINAL, KernelFiles, Stage
from assay.llo.program import Address, Immediate, Instruction, Kernel, Value

_REGION = re.compile(r"^\s*\$region\d+[^\n]*\n", re.M)
_EFFECT = re.compile(r"(?:^|[{;])\s*%(\d+) = (?!xla_tuple)([a-z][\w.-]*)", re.M)
_LOOP = ("loop_header", "loop_header_branch", "loop_body", "loop_footer", "loop_footer_branch", "loop_exit")
_PREDICATED = ("pred_check", "pred_check_branch", "pred_region", "pred_fallthru")
_EXIT = re.compile(r"\$region\d+[^/\n]* parent=0\s*\n\s*_\s*\Z")
_NO_EFFECT = ("inlined_call_operand", "spseudo.", "sphi", "vphi", "pphi", "vmphi")
"""What may come last: a kernel that only reserves memory has operands alone, the exit of a loop phis."""
_PUSHES = ("vmat", "vllmr", "vxpose", "vperm", "vrot", "vbcast", "vset", "vadd", "vmax", "vmin", "vpush", "vtanh",
           "vrcp", "vrsqrt", "vexp2", "vlog2", "vsin", "vcos", "verf", "vpow")  # fmt: skip
"""What has no result of its own but puts one into a queue."""
_MARKED = "post-delay-converter"
_ADDS_NONE = {ORIGINAL: "post-address-simplifier", "post-GVN-3": "post-DCE-3"}
"""A stage -> the next, whose pass adds no effect. The first has none before it, the other has waits of its own."""
_NEAR = 3
"""Stages that are looked at on either side: those next to it may be cut as well."""


def check_whole(files: KernelFiles, stage: Stage, text: str, kernel: Kernel) -> None:
    """Raises LloSyntaxError where a stage of regions is not all there."""
    why = ""
    if kernel.regions:
        why = unfinished(kernel, text) or _unmarked(stage, text) or _lost(files, stage, text, kernel)
    if why:
        raise LloSyntaxError(f"{why}: the file is cut, dump it again", text.count("\n"), str(stage.path))


def check_end(stage: Stage, text: str) -> None:
    """The same of a stage that is not parsed, by its end alone."""
    if not text:
        why = "it is empty"
    else:
        why = _unmarked(stage, text) if text.endswith("\n") else "the last line has no end"
    if why:
        raise LloSyntaxError(f"{why}: the file is cut, dump it again", text.count("\n") + 1, str(stage.path))


def unfinished(kernel: Kernel, text: str) -> str:
    """What of a kernel of regions is begun and not ended; empty where nothing is."""
    if text.rfind("/*") > text.rfind("*/"):
        return "a remark has no end"
    kinds = Counter(region.kind for region in kernel.regions)
    for parts in (_LOOP, _PREDICATED):
        most, least = (pick(parts, key=kinds.__getitem__) for pick in (max, min))
        if kinds[most] != kinds[least]:
            return f"{kinds[most]} {most} and {kinds[least]} {least}"
    there = {region.number for region in kernel.regions}
    for instruction in kernel.walk():
        if instruction.target is not None and instruction.target not in there:
            return f"line {instruction.line} jumps to region {instruction.target}, which is not there"
    *_, last = _REGION.finditer(text)
    if not text[last.end() :].strip():
        return f"nothing in region {kernel.regions[-1].number}"
    return "" if kernel.instructions else "no instruction"


def _last(kernel: Kernel) -> Instruction:
    return next(region.instructions[-1] for region in reversed(kernel.regions) if region.instructions)


def _open(opcode: str) -> bool:
    """Whether an instruction with an effect is one that another has to follow: a pop, or a wait."""
    return opcode.startswith(_PUSHES) or (opcode.startswith("dma.") and not opcode.startswith("dma.done"))


def without(kernel: Kernel) -> str:
    """What a whole kernel has and this one lacks; asked where there are no stages around it to say so, for a pass may
    have lost it. Empty where it has all.
    """
    operands = [i for i in kernel.walk() if i.opcode == "inlined_call_operand"]
    outputs = {i.dst.name for i in operands if i.dst is not None and " output " in i.words}
    if len(operands) == kernel.instructions:  # memory for another kernel
        return "" if outputs and len(operands) == 1 and not kernel.allocations else "nothing but operands"
    last = _last(kernel)
    name = last.token if last.dst is None else last.dst.name
    if _open(last.opcode) if last.dst is None else not last.opcode.startswith(_NO_EFFECT):
        return f"%{name} = {last.opcode} comes last, and nothing takes what it makes"
    used = {value.name for i in kernel.walk() for value in i.read() if isinstance(value, Value)}
    if outputs - used:
        return f"nothing is done with the output %{min(outputs - used)}"
    return next((f"sync flag {flag} is opened and not closed" for flag, times in _flags(kernel) if times % 2), "")


def _flags(kernel: Kernel) -> Iterator[tuple[str, int]]:
    """Sync flags, and how often each is opened or closed (`vsyncpa` does either)."""
    places: dict[str, Address] = {}
    times: Counter[Address] = Counter()
    for instruction in kernel.walk():
        at, *rest = instruction.operands or (None,)
        place = places.get(at.name) if isinstance(at, Value) else at if isinstance(at, Address) else None
        if place is None:
            continue
        if instruction.opcode == "vsyncpa":
            times[place] += 1
        elif instruction.dst is not None and instruction.opcode in ("scalar_lea.sflag", "smov.u32"):
            step = rest[0].bits if rest and isinstance(rest[0], Immediate) else 0
            places[instruction.dst.name] = Address(place.allocation, place.offset + step)
    return iter((f"{place.allocation} + {place.offset}", count) for place, count in times.items())


def _unmarked(stage: Stage, text: str) -> str:
    marked = stage.label != _MARKED or _EXIT.search(text[-400:])
    return "" if marked else f"{stage.label} does not end with the region of the kernel's exit"


def _lost(files: KernelFiles, stage: Stage, text: str, kernel: Kernel) -> str:
    """Instructions with an effect that stages before and after have, the last one of either among them."""
    own = {name for name, _ in _EFFECT.findall(text)}
    before, after = _around(files, stage)
    last = _last(kernel)
    if last.dst is None and _open(last.opcode) and after and not _open(after[0][1][-1][1]):
        return f"%{last.token} = {last.opcode} comes last, and not so in {_name(after[0][0])}"
    for one, mine in before:
        names = [name for name, _ in mine]
        for other, found in after:
            theirs = [name for name, _ in found]
            both = [[name for name in names if name in set(theirs)], [name for name in theirs if name in set(names)]]
            missing = [name for name in both[0] if name not in own]
            if missing and not {both[0][-1], both[1][-1]} <= own:
                return _said(missing, f"{_name(one)} and {_name(other)} have")
    if after and after[0][0].label == _ADDS_NONE.get(stage.label):
        missing = [name for name, _ in after[0][1] if name not in own]
        return _said(missing, f"{_name(after[0][0])} has") if missing else ""
    return "" if before and after else without(kernel)


def ends_before(files: KernelFiles, stage: Stage, earlier: Stage) -> str:
    """What the last stage of a dump has not and one before it has, if that is the last of what it does: no later stage
    says whether the pass took it out or a cut. Empty where there is a later one, or nothing is missing.
    """
    if stage.form != "regions" or _around(files, stage)[1]:
        return ""
    own = {name for name, _ in effects(stage.path)}
    names = [name for name, _ in effects(earlier.path)]
    missing = [name for name in names if name not in own]
    if not missing or names[-1] in own:
        return ""
    lost = _said(missing, f"{_name(earlier)} has")
    return f"{lost}, and no later stage says whether the file is cut: dump more stages"


Effects = tuple[tuple[str, str], ...]
_Effects = list[tuple[Stage, Effects]]


def _around(files: KernelFiles, stage: Stage) -> tuple[_Effects, _Effects]:
    """Stages before and after that can be read, the nearest first, with their effects."""
    stages = [s for s in files.stages if not s.label.startswith("post-bundle-packing-no-")]
    place = next((number for number, s in enumerate(stages) if s is stage), None)
    if place is None:
        return [], []
    sides = stages[max(0, place - _NEAR) : place][::-1], stages[place + 1 : place + 1 + _NEAR]
    before, after = ([(s, names) for s in side if (names := effects(s.path))] for side in sides)
    return before, after


def _said(missing: list[str], who: str) -> str:
    more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
    return f"%{missing[0]}{more}, which {who}, is not there"


def _name(stage: Stage) -> str:
    return f"{stage.number:02d} {stage.label}"


def effects(path: Path) -> Effects:
    """The names and opcodes of a stage's instructions with an effect, in the order of its text; none where it cannot be
    read.
    """
    try:
        found = path.stat()
        return _effects(path, found.st_mtime_ns, found.st_size)
    except (OSError, UnicodeDecodeError):
        return ()


@lru_cache(maxsize=128)
def _effects(path: Path, changed: int, size: int) -> Effects:
    return tuple(_EFFECT.findall(path.read_text(encoding="utf-8")))
