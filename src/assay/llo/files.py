"""A folder of LLO dumps: which kernels it holds, in which stages, and where each stage's memory is declared.

Known, of libtpu 0.0.42.1 to 0.0.52: a file is `<stamp>-<HLO instruction>-<NN>-<label>.txt`, NN counting up within a
kernel; a label may occur twice (`post-cssa`). `TLP` is the program that calls the kernels, `<late-...>` what runs
before and after it. A module begins with `<stamp>-TLP-hlo.txt`. Bundles declare no memory: the stage of regions they
were packed from does, `post-bundle-packing-X` for `packed-bundles-X` and `post-delay-converter` for `final_bundles`.
Of kernels that are alike one alone is compiled; `TLP-NN-deduplication-map.txt` has a block for each group:

    key:fusion.23
    ordinal:67
    equivalent_hlos[size=2]:
      fusion.23
      fusion.25
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from assay.errors import InputError

Form = Literal["regions", "bundles"]

ORIGINAL, FINAL = "original", "final_bundles"

_NAME = re.compile(r"(\d+)-(.+)-(\d\d+)-(.+?)\.txt")  # a name may hold -NN- itself: the last one counts
_MODULE = re.compile(r"\d+-TLP-hlo\.txt")
_NO_KERNEL = re.compile(r"TLP|<.*>")
# Fragments, statistics and the like: no whole program.
_NO_STAGE = re.compile(
    r"DGO-.*|schedule-analysis.*|.*fingerprints|critical-path|region-expansion.*|.*utilization.*|deduplication-map"
    r"|register-pressure.*"
)
_MAP = "deduplication-map"


@dataclass(frozen=True, slots=True)
class Stage:
    """One kernel after one pass; number: NN of the file's name."""

    number: int
    label: str
    path: Path

    @property
    def form(self) -> Form:
        return "bundles" if self.label == FINAL or self.label.startswith("packed-bundles") else "regions"


@dataclass(frozen=True, slots=True)
class KernelFiles:
    """A kernel's stages in the order of the passes. name: of the HLO instruction that it was made of."""

    name: str
    stages: tuple[Stage, ...]

    def stage(self, which: str) -> Stage:
        """`original`, `final` for the last bundles, NN, or a label that occurs once. Raises InputError for none."""
        label = FINAL if which == "final" else which
        found = [s for s in self.stages if s.label == label or (which.isdecimal() and s.number == int(which))]
        if len(found) == 1:
            return found[0]
        if found:
            numbers = ", ".join(f"{s.number:02d}" for s in found)
            raise InputError(f"{self.name} has {len(found)} stages {which!r}: name one by its number, {numbers}")
        have = ", ".join(f"{s.number:02d} {s.label}" for s in self.stages[:8])
        more = f" and {len(self.stages) - 8} more" if len(self.stages) > 8 else ""
        raise InputError(f"{self.name} has no stage {which!r}: there is {have}{more}")

    def memory_of(self, stage: Stage) -> Stage:
        """The stage whose text declares the memory that `stage` uses: itself, unless it is of bundles. Raises
        InputError where that was not dumped.
        """
        if stage.form == "regions":
            return stage
        wanted = "post-delay-converter"
        if stage.label != FINAL:
            wanted = f"post-bundle-packing{stage.label.removeprefix('packed-bundles')}"
        found = [other for other in self.stages if other.label == wanted]
        if not found:
            raise InputError(
                f"{stage.path}: bundles alone do not say how much memory {self.name} has: dump its stage {wanted} too"
            )
        return found[-1]


@dataclass(frozen=True, slots=True)
class Dump:
    """The kernels of one module by name. same: for an instruction without a kernel of its own, whose it shares."""

    folder: Path
    kernels: Mapping[str, KernelFiles]
    same: Mapping[str, str]

    def kernel(self, name: str) -> KernelFiles | None:
        """The kernel that the HLO instruction `name` runs; None where it has none."""
        return self.kernels.get(name) or self.kernels.get(self.same.get(name, ""))


def read_dump(folder: Path) -> Dump:
    """The kernels in `folder`, or in `folder/llo`; a module may have none. Raises InputError where no LLO is there, or
    that of two modules.
    """
    inner = folder / "llo"
    folder = inner if inner.is_dir() else folder
    try:
        names = sorted(path.name for path in folder.iterdir() if path.suffix == ".txt")
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror}; name the folder of an LLO dump") from error
    if sum(1 for name in names if _MODULE.fullmatch(name)) > 1:
        raise InputError(f"{folder}: LLO of more than one module; dump each into a folder of its own")
    kernels: dict[str, dict[str, list[Stage]]] = {}
    same: dict[str, str] = {}
    for name in names:
        if (parts := _NAME.fullmatch(name)) is None:
            continue
        stamp, kernel, number, label = parts.groups()
        if label == _MAP:
            same.update(read_map((folder / name).read_text()))
        elif not _NO_KERNEL.fullmatch(kernel) and not _NO_STAGE.fullmatch(label):
            kernels.setdefault(kernel, {}).setdefault(stamp, []).append(Stage(int(number), label, folder / name))
    if not any(map(_NAME.fullmatch, names)):
        raise InputError(f"{folder}: no LLO in it; dump it with assay compile --emit llo")
    # A kernel that was compiled again, for want of memory, has a later stamp.
    last = {kernel: stamps[max(stamps, key=int)] for kernel, stamps in kernels.items()}
    found = {kernel: KernelFiles(kernel, tuple(sorted(s, key=lambda s: s.number))) for kernel, s in last.items()}
    return Dump(folder, found, same)


def read_map(text: str) -> dict[str, str]:
    """The text of a deduplication map: each instruction -> the one that was compiled in its place."""
    same: dict[str, str] = {}
    key = ""
    for line in text.splitlines():
        if line.startswith("key:"):
            key = line.removeprefix("key:")
        elif line.startswith("  "):
            same[line.strip()] = key
    return same
