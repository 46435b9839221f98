"""One compilation with a snapshot after every pass, and the text of each in full."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from assay.checking.api import generation_of
from assay.errors import InputError
from assay.isolate.executable import Executable
from assay.programs.program import Program
from assay.targets import cpu, tpu_aot
from assay.targets.dumps import LIMIT_BYTES
from assay.targets.snapshots import Snapshot, read
from assay.toolchain import Worker


@dataclass(frozen=True, slots=True)
class Dump:
    """text: of a snapshot, with the values of all constants. compile_s: wall seconds of the compilation, dumping
    included. executable: where it can be run.
    """

    snapshots: tuple[Snapshot, ...]
    text: Callable[[Snapshot], str]
    compile_s: float
    executable: Executable | None = None


def dump(
    worker: Worker,
    program: Program,
    target: str,
    folder: Path,
    options: Mapping[str, str],
    flags: Sequence[str] = (),
    limit: int = LIMIT_BYTES,
) -> Dump:
    """Compiles `program` for `target` with the snapshots going to `folder`, which is empty or not there yet; nothing
    but them is left in it. flags: of libtpu. limit: bytes of the dump. Raises WorkerDied, RequestRefused, InputError,
    ToolchainError.
    """
    generation = generation_of(target)
    text = partial(_in_full, worker)
    if generation is not None:
        ahead = tpu_aot.compile(
            worker, program.payload, program.kind, generation, options, dump=folder, dump_limit=limit, flags=flags
        )
        return Dump(_pruned(folder), text, ahead.seconds)
    compiled = cpu.compile(worker, program.payload, program.kind, options, dump=folder, dump_limit=limit)
    return Dump(_pruned(folder), text, compiled.seconds, Executable(worker, program, options, compiled))


def _in_full(worker: Worker, snapshot: Snapshot) -> str:
    """The text of a snapshot; by way of its proto where constants are left out of it, as in older dumps."""
    text = snapshot.text()
    if "constant({...})" not in text:
        return text
    proto = _proto(snapshot)
    with contextlib.suppress(OSError):
        return worker.to_hlo(proto.read_bytes(), "hlo-proto")
    raise InputError(f"{snapshot.path}: constants are left out, and there is no {proto.name} that has them")


def _proto(snapshot: Snapshot) -> Path:
    return snapshot.path.with_suffix(".hlo.pb")


def _pruned(folder: Path) -> tuple[Snapshot, ...]:
    """The snapshots of a dump; whatever else was dumped is deleted."""
    snapshots = read(folder)
    wanted = {path for snapshot in snapshots for path in (snapshot.path, _proto(snapshot))}
    for path in folder.iterdir():
        if path not in wanted:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    return snapshots
