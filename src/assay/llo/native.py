"""The C engine: `interpret` at the speed of a compiler, with the same answers.

The op's bodies in the table become functions of one C file, which the system's compiler makes a library of on first use
(`cc -O3`); it is kept in the user's cache under a hash of source, compiler and processor. Without a compiler, `run`
is `interpret.run`, and `missing` says why.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import logging
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from assay.llo import interpret
from assay.llo.code import Code
from assay.llo.interpret import Watch
from assay.llo.machine import SPACES, Machine, Outcome, Stop, Trap
from assay.llo.semantics.table import BY_NUMBER, OPS

SOURCES = Path(__file__).with_name("native")
FLAGS = ("-O3", "-std=gnu11", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fPIC", "-shared", "-w")
LOCAL = "-march=native"
DETAILS = {
    Trap.OUT_OF_BOUNDS: 3,
    Trap.QUEUE_EMPTY: 3,
    Trap.QUEUE_ORDER: 4,
    Trap.RACE: 3,
    Trap.DEADLOCK: 3,
    Trap.SYNC_FLAG: 2,
    Trap.BOUNDS_CHECK: 0,
    Trap.STEP_LIMIT: 1,
    Trap.MXU: 2,
    Trap.TRANSPOSE: 2,
    Trap.QUEUE_FULL: 2,
}


SLICE = 1 << 17
"""Records between two looks at a run: a tenth of a second, or a third."""
_WATCH = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int64)


class NoCompiler(Exception):
    """Why there is no C engine here."""


def generated() -> str:
    """ops.h: a function for each op of the table."""
    head = "(VM *vm, int dst, int a, int b, int c, int d, int imm)"
    functions = [
        f"/* {op.name} */ static int op_{op.number}{head} {{ {op.c or missing_body(op.name)} return 0; }}"
        for op in BY_NUMBER
        if op.name not in ("jump", "halt")
    ]
    names = ", ".join("0" if op.name in ("jump", "halt") else f"op_{op.number}" for op in BY_NUMBER)
    return "\n".join(
        [
            *functions,
            f"#define OP_JUMP {OPS['jump'].number}",
            f"#define OP_HALT {OPS['halt'].number}",
            f"static int (*const OPS[])(VM *, int, int, int, int, int, int) = {{{names}}};",
            "",
        ]
    )


def missing_body(name: str) -> str:
    raise AssertionError(f"{name} has no body in C")


def _cache() -> Path:
    if os.environ.get("ASSAY_CACHE"):
        return Path(os.environ["ASSAY_CACHE"]).absolute() / "llo"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "assay" / "llo"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "assay" / "llo"


def _processor() -> str:
    """What a library made for this very processor depends on."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    flags = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return f"{platform.machine()} {platform.processor()} {flags}"


def build(compiler: str | None, cache: Path) -> Path:
    """The library, made if it is not there yet; NoCompiler with the reason in a line."""
    if compiler is None:
        raise NoCompiler("no C compiler (cc) was found; install one, or name one in CC")
    texts = {p.name: p.read_text() for p in sorted(SOURCES.iterdir()) if p.suffix in (".c", ".h")}
    texts["ops.h"] = generated()
    try:
        version = subprocess.run([compiler, "--version"], capture_output=True, text=True, timeout=30).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise NoCompiler(f"{compiler} --version: {error}") from error
    key = hashlib.sha256(repr((texts, version, FLAGS, _processor())).encode()).hexdigest()[:24]
    library = cache / f"vm-{key}.so"
    if library.exists():
        return library
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            for name, text in texts.items():
                (Path(folder) / name).write_text(text)
            made = Path(folder) / "vm.so"
            for flags in ((*FLAGS, LOCAL), FLAGS):
                command = [compiler, *flags, "vm.c", "-o", str(made), "-lm"]
                result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
                if result.returncode == 0:
                    os.replace(made, library)
                    return library
    except (OSError, subprocess.SubprocessError) as error:
        raise NoCompiler(f"{cache}: {error}") from error
    said = next((line for line in result.stderr.splitlines() if "error" in line), f"exit code {result.returncode}")
    raise NoCompiler(f"{compiler} does not compile the engine: {said}")


def compiler() -> str | None:
    """The C compiler: what CC says, or cc, gcc or clang, whichever is there."""
    return os.environ.get("CC") or next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)


@functools.cache
def _library() -> ctypes.CDLL | NoCompiler:
    try:
        library = ctypes.CDLL(str(build(compiler(), _cache())))
    except (NoCompiler, OSError) as why:
        logging.getLogger("assay").warning("LLO runs in NumPy, some 50 times slower: %s", why)
        return why if isinstance(why, NoCompiler) else NoCompiler(f"the engine does not load: {why}")
    library.assay_llo_run.argtypes = [
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_int64,
        _WATCH,
        ctypes.c_int64,
        ctypes.c_void_p,
    ]
    library.assay_llo_run.restype = None
    return library


def missing() -> str | None:
    """Why there is no C engine here, in a line; None where there is one."""
    library = _library()
    return str(library) if isinstance(library, NoCompiler) else None


def watched(watch: Watch) -> Callable[[Code, Machine, int], Outcome]:
    """An engine: `run`, with `watch`."""
    return lambda code, machine, limit: run(code, machine, limit, watch)


def run(code: Code, machine: Machine, limit: int, watch: Watch = interpret.unwatched) -> Outcome:
    """`interpret.run` in C: the same registers, memory, traps and counts. watch: called with the kernel's name and the
    number of records that it has executed, again and again; what it raises ends the run.
    """
    library = _library()
    if isinstance(library, NoCompiler):
        return interpret.run(code, machine, limit, watch=watch)
    raised: list[BaseException] = []

    def asked(steps: int) -> int:
        try:
            watch(code.name, steps)
        except BaseException as error:  # an interrupt too: nothing may leave through C
            raised.append(error)
        return len(raised)

    state = (machine.v, machine.m, machine.s, machine.hbm, machine.vmem, machine.smem, machine.sflag)
    places = [a.ctypes.data for a in state] + [machine.owners[space].ctypes.data for space in SPACES]
    given = (ctypes.c_void_p * len(places))(*places)
    sizes = [len(machine.owners[space]) for space in SPACES]
    sizes += [machine.fill, int(machine.implicit_latch), int(machine.bytewise)]
    sizes_words = np.array(sizes, np.int64)
    records = np.ascontiguousarray(code.records, np.int32)
    out = np.zeros(9, np.int64)
    library.assay_llo_run(
        given, sizes_words.ctypes.data, records.ctypes.data, limit, _WATCH(asked), SLICE, out.ctypes.data
    )
    if raised:
        raise raised[0]
    steps, trap, at, *detail, left, flying = (int(x) for x in out)
    stop = None
    if trap:
        stop = Stop(Trap(trap), at, int(code.lines[at]), tuple(detail[: DETAILS[Trap(trap)]]))
    return Outcome(steps, stop, left, flying)
