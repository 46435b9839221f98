"""The module as it stood after each pass, read from the folder that XLA dumped one compilation into.

XLA (hlo_pass_pipeline.cc) writes a file where a pipeline begins and after each pass that changed the module,
`module_NNNN.<name>.<KKKK>.<pipeline>.after_<pass>.before_<pass>.txt`, KKKK counting up; before them
`module_NNNN.<name>.before_optimizations.txt` and behind them `..._after_optimizations.txt`. A pass that says it changed
nothing leaves no file, so what one snapshot differs in from the one before lies between two passes, not in one. A pass
that puts a new module in the old one's place (libtpu's x-precision rewriter) goes on under another NNNN, from 0000.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from assay.errors import InputError

START = "pipeline-start"
"""What XLA calls the pass before the first one of a pipeline."""

_MODULE = r"(?P<module>module_\d+\..*?)"
_PASS = re.compile(
    rf"{_MODULE}\.(?P<number>\d{{4,}})\.(?P<pipeline>.+?)(?=\.after_|\.before_)"
    r"(?:\.after_(?P<after>.+?))?(?:\.before_(?P<before>.+?))?\.txt"
)
_FIRST = re.compile(rf"{_MODULE}\.before_optimizations\.txt")
_LAST = re.compile(rf"{_MODULE}\.(?:\w+_)?after_optimizations\.txt")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One file of a dump.

    index: its place in the order of writing. pipeline: the pipeline that ran, empty for the module before and after all
    of them. after: the pass that ran last, `pipeline-start` where the pipeline had run none. before: the pass that is
    next, empty where XLA does not say. A pass that consists of steps dumps them as a pipeline of its own name.
    """

    index: int
    pipeline: str
    after: str
    before: str
    path: Path

    @property
    def label(self) -> str:
        """`0006.simplification.after_algsimp`: what its file is called, without the module and the next pass."""
        found = _PASS.fullmatch(self.path.name)
        if found is None:
            return self.after
        place = f"after_{self.after}" if found["after"] else f"before_{self.before}"
        return f"{found['number']}.{self.pipeline}.{place}"

    def text(self) -> str:
        """The HLO text. Raises InputError where the file cannot be read or is no text."""
        try:
            return self.path.read_text()
        except OSError as error:
            raise InputError(f"{self.path}: {error.strerror}; dump the module again") from error
        except UnicodeDecodeError as error:
            raise InputError(f"{self.path}: no text at byte {error.start}; dump the module again") from error


def read(folder: Path) -> tuple[Snapshot, ...]:
    """The snapshots of the one module in `folder`, in the order XLA wrote them, the unoptimized and the optimized
    module among them where they are there.

    Raises InputError where there are none, where they are of several modules, or where some are missing.
    """
    try:
        names = sorted(path.name for path in folder.iterdir())
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror}; name a folder that XLA dumped into") from error
    chain = {name: found for name in names if (found := _PASS.fullmatch(name))}
    if not chain:
        raise InputError(
            f"{folder}: no snapshot module_*.after_*.txt in this folder; dump with XLA_FLAGS='--xla_dump_to=DIR "
            "--xla_dump_hlo_as_text --xla_dump_hlo_pass_re=.*'"
        )
    modules = sorted({found["module"] for found in chain.values()})
    begun = {found["module"] for name in names if (found := _FIRST.fullmatch(name))}
    first, *later = modules
    if later and (first not in begun or any(_name(m) != _name(first) or m in begun for m in later)):
        listed = ", ".join(modules[:4])
        raise InputError(f"{folder}: snapshots of {len(modules)} modules ({listed}); keep those of one")
    for module in modules:
        _refuse_gaps(folder, [int(found["number"]) for found in chain.values() if found["module"] == module])
    return tuple(
        Snapshot(index, pipeline, after, before, folder / name)
        for index, (pipeline, after, before, name) in enumerate(_ordered(names, chain))
    )


def _name(module: str) -> str:
    """`module_0003.jit_f` -> `jit_f`."""
    return module.partition(".")[2]


def _ordered(names: list[str], chain: dict[str, re.Match[str]]) -> Iterator[tuple[str, str, str, str]]:
    """(pipeline, after, before, file name) in order."""
    inner = sorted(chain.values(), key=lambda found: (found["module"], int(found["number"])))
    own = {found["module"] for found in inner}
    for name in names:
        if (found := _FIRST.fullmatch(name)) and found["module"] in own:
            yield "", "before_optimizations", "", name
    for found in inner:
        yield found["pipeline"], found["after"] or START, found["before"] or "", found.string
    for name in names:
        if (found := _LAST.fullmatch(name)) and found["module"] in own:
            yield "", "after_optimizations", "", name


def _refuse_gaps(folder: Path, numbers: list[int]) -> None:
    missing = sorted(set(range(max(numbers) + 1)) - set(numbers))
    if missing:
        raise InputError(
            f"{folder}: snapshot {missing[0]:04d} is not there, of {max(numbers) + 1}: the dump is cut short; dump the "
            "module again"
        )


def interval(good: Snapshot | None, bad: Snapshot, chain: tuple[Snapshot, ...]) -> tuple[str, ...]:
    """Every pass known to have run between two snapshots of `chain` (from the beginning where `good` is None), in
    order, each once: those that XLA says were next, or had run last. One in between that changed nothing is not known.
    """
    named: dict[str, None] = {}
    first = 0 if good is None else good.index + 1
    if good is not None:
        named[good.before] = None
    for snapshot in chain[first : bad.index + 1]:
        named[snapshot.after] = None
        if snapshot is not bad:
            named[snapshot.before] = None
    return tuple(name for name in named if name not in NO_PASS)


NO_PASS = frozenset(("", START, "pipeline-end", "before_optimizations", "after_optimizations"))
