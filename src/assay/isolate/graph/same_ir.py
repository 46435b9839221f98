"""Whether XLA:CPU makes the same machine code of a piece as it did of the whole graph.

What is compared is what runs: the object files of a dump, function by function, whatever the functions are called. It
says more than LLVM IR would, which newer jaxlibs (0.12) dump only on request. The same code, and the same operands: a
piece that is wrong in the graph is wrong alone.

The form of a piece for which this holds: the module as it is (kind `hlo-optimized`: scheduled, no pass touches it,
layouts and backend_config stay) with results in the memory of operands where they are in the graph
(`assay.isolate.graph.cpu_memory`). A jax that has no hook for it (before 0.10.2) compiles pieces anew, and nothing is
known of their code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from assay.errors import InputError
from assay.hlo.printer import print_for_compiler
from assay.isolate.graph.object_code import functions, is_elf
from assay.isolate.graph.piece import Piece
from assay.targets import cpu
from assay.targets.dumps import scratch
from assay.toolchain import RequestRefused, Worker, WorkerDied
from assay.toolchain.outcomes import one_line

CODE_ALONE: Mapping[str, str] = {"xla_dump_hlo_pass_re": "", "xla_dump_hlo_as_text": "", "xla_dump_large_constants": ""}
"""Options with which a dump has object files and where values lie, and no snapshots."""


@dataclass(frozen=True, slots=True)
class Code:
    """The functions that one compilation made, by name, as digests; equal ones are the same code."""

    functions: Mapping[str, str]

    @property
    def digests(self) -> frozenset[str]:
        return frozenset(self.functions.values())


def read(folder: Path) -> Code:
    """From the dump of one compilation. Where object files are not ELF, a file counts as one function."""
    found: dict[str, str] = {}
    for path in sorted(folder.glob("*.o")):
        data = path.read_bytes()
        if is_elf(data):
            found.update(functions(data))
        else:
            found[path.name.split(".", 2)[-1]] = blake2b(data, digest_size=16).hexdigest()
    return Code(found)


def same_ir(
    worker: Worker,
    whole: Code | Path,
    piece: Piece,
    options: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
) -> tuple[bool | None, str]:
    """Whether the code of `piece` is that of the graph, and why that is not known or not so.

    whole: of the compilation of the graph with the same options (`read`), or the folder of its dump.
    """
    if isinstance(whole, Path):
        whole = read(whole)
    wanted = {**(options or {}), **CODE_ALONE}
    text = print_for_compiler(piece.module)
    with scratch() as folder:
        try:
            worker.release(cpu.compile(worker, text, "hlo-optimized", wanted, timeout_s, folder / "alone"))
        except (RequestRefused, WorkerDied) as error:
            if isinstance(error, RequestRefused) and error.type == "NoHook":
                return None, f"not known: {error.message}"
            return None, f"alone it does not compile: {one_line(str(error), 200)}"
        alone = read(folder / "alone")
    same, why = compare(whole, alone)
    if same is False and piece.opcode == "call":
        why += "; it is given the memory of its temporaries, which lie elsewhere in the graph"
    return same, why


def compare(whole: Code, alone: Code) -> tuple[bool | None, str]:
    """What `same_ir` says of two compilations."""
    if not alone.functions:
        return None, "it has no code of its own: a library or a copy does it"
    if not whole.functions:
        raise InputError("the dump of the whole graph has no object files; compile it with a dump")
    other = [name for name, digest in alone.functions.items() if whole.functions.get(name, digest) != digest]
    strange = [name for name in alone.functions if name not in whole.functions]
    missing = [name for name in strange if alone.functions[name] not in whole.digests]
    if other:
        return False, f"other machine code: {', '.join(sorted(other))}"
    if missing:
        return False, f"machine code that the graph does not have: {', '.join(sorted(missing))}"
    return True, "compiled once with its like" if strange else ""
