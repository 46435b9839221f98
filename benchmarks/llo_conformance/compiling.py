"""Many programs through one process of libtpu, each with its LLO in a folder of its own.

libtpu takes the folder of its dumps once a process, and loading it costs a second, ten times a small compilation: so
all go into one folder, and what is new there after a compilation is moved away.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from assay.checking import api
from assay.errors import ToolchainError
from assay.hlo.module import Module
from assay.hlo.parse import parse_module
from assay.llo.files import Dump, read_dump
from assay.programs.program import Program
from assay.targets import tpu_aot
from assay.toolchain import Limits, Worker, resolve
from assay.toolchain.session import Kind

TENSORCORE = {
    "xla_tpu_offload_gather_to_sparsecore": "false",
    "xla_tpu_enable_offloading_gather_to_sparsecore": "false",
    "xla_tpu_enable_offloading_scatter_to_sparsecore": "false",
}
"""For a v6e, whose gathers and scatters may else run on SparseCores, which are not modelled."""


@dataclass(frozen=True)
class Made:
    """program: with the module before optimization. module: scheduled. folder: of the dump."""

    program: Program
    module: Module
    dump: Dump
    seconds: float


class Compiler:
    """A context manager. folder: for the dumps, or None for one that is deleted in the end. flags: more of libtpu's."""

    def __init__(
        self, toolchain: str | None, generation: str, folder: Path | None = None, flags: Sequence[str] = ()
    ) -> None:
        self._own = tempfile.TemporaryDirectory() if folder is None else None
        self.folder = Path(self._own.name) if self._own is not None else folder
        assert self.folder is not None
        self.folder = self.folder.absolute()
        self.generation = generation
        self._new = Path(tempfile.mkdtemp(dir=_made(self.folder), prefix="new-"))
        self.flags = (
            *flags,
            f"--xla_jf_dump_to={self._new}",
            "--xla_jf_dump_llo_text=true",
            f"--xla_jf_dump_llo_pass_label_regex={tpu_aot.LLO_PASSES}",
        )
        try:
            self.worker = Worker(resolve(toolchain), (), Limits(timeout_s=300))
            self.versions = self.worker.describe().versions
            tpu_aot.start(self.worker, generation, self.flags)
        except ToolchainError as error:
            raise SystemExit(str(error)) from error

    def __enter__(self) -> Compiler:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.worker.close()
        shutil.rmtree(self._new, ignore_errors=True)
        if self._own is not None:
            self._own.cleanup()

    def function(self, function: Any, arguments: Sequence[Any], name: str) -> Program:
        """A jax function, lowered in this process."""
        function.__name__ = name
        return api.lower(function, tuple(arguments), "tpu")(self.worker)

    def compile(self, program: Program, options: Mapping[str, str] | None = None) -> Made:
        """Raises RequestRefused where libtpu does not take the program, WorkerDied where it ends."""
        return self.payload(program, program.payload, program.kind, options)

    def payload(
        self, program: Program, payload: str | bytes, kind: Kind, options: Mapping[str, str] | None = None
    ) -> Made:
        """As `compile`, of another form of the program, as scheduled HLO."""
        for left in self._new.iterdir():
            left.unlink()
        given = {**(TENSORCORE if self.generation == "v6e" else {}), **(options or {})}
        made = tpu_aot.compile(self.worker, payload, kind, self.generation, given, flags=self.flags)
        folder = self.folder / program.name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for path in self._new.iterdir():
            path.rename(folder / path.name)
        (folder / "optimized.hlo").write_text(made.hlo)
        (folder / "program.hlo").write_bytes(program.payload)
        module = parse_module(made.hlo, source=f"{program.name}, optimized")
        return Made(program, module, read_dump(folder), made.seconds)

    def forget(self, made: Made) -> None:
        """Deletes a dump, unless the folder of all is the user's."""
        if self._own is not None:
            shutil.rmtree(made.dump.folder, ignore_errors=True)


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
