"""Where a compiler may write what it did: a folder of its own, watched while it grows, pruned when it must not stay.

The invariant: a dump that outgrows its limit, or the disk, ends the compilation that writes it, is deleted, and is told
in one line; nothing of it is mistaken for a whole dump.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from assay.errors import InputError
from assay.toolchain.environments import cache_folder

LIMIT_BYTES = 8 << 30
"""Of one compilation: some 50 times what the snapshots of a train step of 7,500 instructions take."""
RESERVE_BYTES = 256 << 20
"""What must stay free on the disk."""


class DumpLimit(InputError):
    """A dump outgrew its limit or the disk, and was deleted."""


@contextlib.contextmanager
def watched(folder: Path, limit_bytes: int = LIMIT_BYTES) -> Iterator[Callable[[], None]]:
    """Makes `folder`, which has to be empty or missing (else InputError), and gives what is to be called while it
    fills. DumpLimit from there, or where it is too large in the end, leaves it empty.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        filled = any(folder.iterdir())
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror}; name another folder for the dump") from error
    if filled:
        raise InputError(f"{folder}: not empty; a dump goes into a folder of its own")
    watch = _Watch(folder, limit_bytes)
    try:
        watch()
        yield watch
        watch.look()
    except DumpLimit:
        empty(folder)
        raise


@dataclass(slots=True)
class _Watch:
    """Looks at the disk each time, and adds the files up as often as a twentieth of the time allows."""

    folder: Path
    limit_bytes: int
    _next: float = 0.0

    def __call__(self) -> None:
        free = shutil.disk_usage(self.folder).free
        if free < RESERVE_BYTES:
            raise DumpLimit(
                f"{self.folder}: {free >> 20} MiB free on this disk, a dump needs {RESERVE_BYTES >> 20} to spare; what "
                "was dumped is deleted: make room, or name a folder on a larger disk"
            )
        start = time.monotonic()
        if start >= self._next:
            self.look()
            now = time.monotonic()
            self._next = now + 20 * (now - start)

    def look(self) -> None:
        """Adds the files up."""
        size = size_of(self.folder)
        if size > self.limit_bytes:
            raise DumpLimit(
                f"{self.folder}: the compiler dumped {_spell(size)}, the limit is {_spell(self.limit_bytes)}; it is "
                "deleted: raise --dump-limit, or dump less"
            )


def size_of(folder: Path) -> int:
    """Bytes of all files below `folder`; a file that vanishes meanwhile counts nothing."""
    total = 0
    with contextlib.suppress(FileNotFoundError):
        for entry in os.scandir(folder):
            with contextlib.suppress(FileNotFoundError):
                total += size_of(Path(entry.path)) if entry.is_dir(follow_symlinks=False) else entry.stat().st_size
    return total


def empty(folder: Path) -> None:
    """Delete what is in `folder`."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """An empty folder beside the toolchains, deleted afterwards; those of processes that were killed go as well."""
    home = cache_folder().parent / "dumps"
    home.mkdir(parents=True, exist_ok=True)
    for left in home.iterdir():
        found = re.fullmatch(r"(\d+)-.*", left.name)
        if found and not psutil.pid_exists(int(found[1])):
            shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=home))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _spell(size: int) -> str:
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size / 2**10:.1f} KiB"
