"""One compilation with a snapshot after every pass, and the text of each in full."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from assay.errors import InputError
from assay.isolate.executable import Executable
from assay.programs.program import Program
from assay.targets import cpu, tpu_aot
from assay.targets.snapshots import OPTIONS, Snapshot, read
from assay.toolchain import RequestRefused, Worker

FREE_BYTES = 256 << 20
PER_BYTE = 200
"""A dump has as many snapshots as there are passes that change something, 20 to 100, each as long as the program or
some times that. Where less than FREE_BYTES plus PER_BYTE for each byte of the program is free, none is begun.
"""


@dataclass(frozen=True, slots=True)
class Dump:
    """text: of a snapshot, with the values of all constants. compile_s: wall seconds of the compilation, dumping
    included. executable: where it can be run.
    """

    snapshots: tuple[Snapshot, ...]
    text: Callable[[Snapshot], str]
    compile_s: float
    executable: Executable | None = None


def dump(worker: Worker, program: Program, target: str, folder: Path, options: Mapping[str, str]) -> Dump:
    """Compiles `program` for `target` with the snapshots going to `folder`, which is empty; nothing but them is left in
    it. Raises WorkerDied, RequestRefused, InputError.
    """
    _refuse_full_disk(folder, len(program.payload))
    generation = target.partition(":")[2]
    if target.startswith("tpu:"):
        ahead = tpu_aot.compile(worker, program.payload, program.kind, generation, options, dump=folder)
        return Dump(_pruned(folder), Snapshot.text, ahead.seconds)
    return _dump_on_cpu(worker, program, folder, options)


def _dump_on_cpu(worker: Worker, program: Program, folder: Path, options: Mapping[str, str]) -> Dump:
    """Constants come in full by an option of their own, which older ones lack: those write protos besides."""
    wanted = {"xla_dump_to": str(folder.absolute()), **OPTIONS, **options}
    text: Callable[[Snapshot], str] = Snapshot.text
    try:
        compiled = cpu.compile(worker, program.payload, program.kind, {**wanted, "xla_dump_large_constants": "true"})
    except RequestRefused as refused:
        if refused.type != "UnknownOption" or "xla_dump_large_constants" not in refused.message:
            raise
        compiled = cpu.compile(worker, program.payload, program.kind, {**wanted, "xla_dump_hlo_as_proto": "true"})
        text = partial(_in_full, worker)
    return Dump(_pruned(folder), text, compiled.seconds, Executable(worker, program, options, compiled))


def _in_full(worker: Worker, snapshot: Snapshot) -> str:
    """The text of a snapshot; by way of its proto where constants are left out of it."""
    text = snapshot.text()
    if "constant({...})" not in text:
        return text
    proto = snapshot.path.with_suffix(".hlo.pb")
    with contextlib.suppress(OSError):
        return worker.to_hlo(proto.read_bytes(), "hlo-proto")
    raise InputError(f"{snapshot.path}: constants are left out, and there is no {proto.name} that has them")


def _pruned(folder: Path) -> tuple[Snapshot, ...]:
    """The snapshots of a dump; whatever else was dumped is deleted."""
    snapshots = read(folder)
    wanted = {snapshot.path for snapshot in snapshots} | {s.path.with_suffix(".hlo.pb") for s in snapshots}
    for path in folder.iterdir():
        if path not in wanted:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    return snapshots


def _refuse_full_disk(folder: Path, size: int) -> None:
    needed = FREE_BYTES + PER_BYTE * size
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise InputError(
            f"{folder}: {free >> 20} MiB free, the snapshots may take {needed >> 20} MiB; make room, or set TMPDIR or "
            "--keep to a larger disk"
        )
