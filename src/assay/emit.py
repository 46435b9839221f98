"""`assay compile`: a program through a compiler, and what that made of it into a folder.

OUT/NAME.optimized.hlo    the optimized module, as the compiler gives it back
OUT/NAME/passes/          a snapshot of the module after every pass, under XLA's own names
OUT/NAME/llo/             the TPU's low-level code of every kernel, after its first and some later passes
OUT/NAME/bundles/         the same, after the last
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from assay.checking.api import Request, generation_of, open_worker, read_programs, refuse_unknown_names, words
from assay.checking.bounds import Step
from assay.errors import InputError
from assay.programs.load import parse_source
from assay.programs.program import Program
from assay.targets import cpu, tpu_aot
from assay.targets.dumps import LIMIT_BYTES, scratch
from assay.toolchain import RequestRefused, Worker, WorkerDied
from assay.toolchain.outcomes import one_line

KINDS = {
    "hlo":     "the optimized HLO",
    "passes":  "the HLO after every pass",
    "llo":     "the LLO of every kernel after some passes (TPU)",
    "bundles": "the final VLIW bundles of every kernel (TPU)",
}  # fmt: skip
BUNDLES = "final_bundles"  # the label; a schedule analysis has it in its label too, and is none


@dataclass(frozen=True, slots=True)
class Emitted:
    """One program compiled. hlo: its optimized text. files: what was written, by kind. problem: why there is nothing.
    found: whether that is a finding, as a compiler's crash is.
    """

    name: str
    hlo: str = ""
    seconds: float = 0.0
    files: tuple[tuple[str, Path, int], ...] = ()
    problem: str = ""
    found: bool = False


@dataclass(frozen=True, slots=True)
class Order:
    """kinds: of KINDS. out: where to; None to write nothing. llo_passes: labels of LLO passes, a regular expression."""

    kinds: tuple[str, ...] = ("hlo",)
    out: Path | None = None
    llo_passes: str = tpu_aot.LLO_PASSES
    dump_limit: int = LIMIT_BYTES


def emit(source: str, request: Request, order: Order, step: Step = lambda _: None) -> tuple[str, list[Emitted]]:
    """Compiles every program that `source` names: (the toolchain's versions, one Emitted a program).

    Raises AssayError where it cannot begin, and where a dump outgrows its limit.
    """
    parse_source(source)
    _refuse(request, order)
    with open_worker(request, step) as (worker, versions):
        step("reading the program")
        programs = read_programs(source, request, worker, scheduled=generation_of(request.target) is not None)
        done: list[Emitted] = []
        for program in programs:
            step(f"{program.name}: compiling")
            done.append(_compiled(program, request, order, worker))
        return words(versions), done


def _refuse(request: Request, order: Order) -> None:
    refuse_unknown_names(request)
    for kind in order.kinds:
        if kind not in KINDS:
            raise InputError(f"--emit {kind}: there is {', '.join(KINDS)}")
        if kind in ("llo", "bundles") and generation_of(request.target) is None:
            raise InputError(f"--emit {kind}: only a TPU's compiler has it; name one with --target tpu:v5e")
        if kind != "hlo" and order.out is None:
            raise InputError(f"--emit {kind}: many files; say where to with --out DIR")
    if order.out is not None:
        try:
            order.out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{order.out}: {error.strerror}; name another folder with --out") from error
    try:
        re.compile(order.llo_passes)
    except re.error as error:
        raise InputError(f"--llo-passes {order.llo_passes}: {error}; write a regular expression of labels") from error


def _compiled(program: Program, request: Request, order: Order, worker: Worker) -> Emitted:
    if program.problem is not None:
        return Emitted(program.name, problem=program.problem)
    try:
        return _written(program, request, order, worker)
    except WorkerDied as death:
        if {"llo", "bundles"} & set(order.kinds):
            return Emitted(program.name, problem=f"{death}; some libtpus fail at dumping LLO: leave it out to be sure")
        return Emitted(program.name, problem=str(death), found=death.kind != "resource")
    except RequestRefused as refused:
        if refused.type in ("UnknownOption", "BadOption"):
            raise InputError(f"--option: {one_line(refused.message)}") from refused
        return Emitted(program.name, problem=f"the toolchain refuses it: {one_line(refused.message)}")


def _written(program: Program, request: Request, order: Order, worker: Worker) -> Emitted:
    if order.kinds == ("hlo",):
        hlo, seconds = _hlo(program, request, order, worker, None)
        return Emitted(program.name, hlo, seconds, _files(program, order, hlo, None))
    with scratch() as folder:
        hlo, seconds = _hlo(program, request, order, worker, folder)
        return Emitted(program.name, hlo, seconds, _files(program, order, hlo, folder))


def _hlo(program: Program, request: Request, order: Order, worker: Worker, dump: Path | None) -> tuple[str, float]:
    """(optimized text, seconds); everything else goes to `dump`."""
    kind, payload, options = program.kind, program.payload, request.options
    generation = generation_of(request.target)
    if generation is None:
        compiled = cpu.compile(worker, payload, kind, options, dump=dump, dump_limit=order.dump_limit)
        worker.release(compiled)
        return compiled.hlo, compiled.seconds
    wanted = {"llo", "bundles"} & set(order.kinds)
    passes = "|".join([*([order.llo_passes] if "llo" in wanted else []), *([BUNDLES] if "bundles" in wanted else [])])
    ahead = tpu_aot.compile(
        worker,
        payload,
        kind,
        generation,
        options,
        dump=dump,
        llo=bool(wanted),
        llo_passes=passes,
        flags=request.flags,
        dump_limit=order.dump_limit,
    )
    return ahead.hlo, ahead.seconds


def _files(program: Program, order: Order, hlo: str, dump: Path | None) -> tuple[tuple[str, Path, int], ...]:
    """Moves what was asked for to its place."""
    if order.out is None:
        return ()
    name = re.sub(r"[^\w.-]+", "_", program.name).removesuffix(".hlo")
    written: list[tuple[str, Path, int]] = []
    try:
        if "hlo" in order.kinds:
            path = order.out / f"{name}.optimized.hlo"
            path.write_text(hlo)
            written.append(("hlo", path, 1))
        for kind in order.kinds:
            if kind != "hlo" and dump is not None:
                written.append(_moved(kind, dump, order.out / name / kind))
    except OSError as error:
        raise InputError(f"{error.filename or order.out}: {error.strerror}; name another folder with --out") from error
    return tuple(written)


OF_A_DUMP = re.compile(r"module_\d+\.|\d{12,}-")
"""How XLA and libtpu name what they dump."""


def _moved(kind: str, dump: Path, place: Path) -> tuple[str, Path, int]:
    place.mkdir(parents=True, exist_ok=True)
    for path in place.iterdir():
        if path.is_file() and OF_A_DUMP.match(path.name):  # of an earlier compilation; other files are not ours
            path.unlink()
    chosen = _chosen(kind, dump)
    for path in chosen:
        shutil.move(path, place / path.name) if kind == "passes" else shutil.copy(path, place / path.name)
    return kind, place, len(chosen)


def _chosen(kind: str, dump: Path) -> Sequence[Path]:
    if kind == "passes":
        return [path for path in sorted(dump.iterdir()) if path.is_file()]
    found = sorted((dump / tpu_aot.LLO_FOLDER).rglob("*"))
    found = [path for path in found if path.is_file()]
    return [path for path in found if f"-{BUNDLES}" in path.name] if kind == "bundles" else found
