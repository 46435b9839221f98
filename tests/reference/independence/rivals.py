"""XLA:CPU on drawn programs, many in one module, for a compilation costs more than they do.

A batch that XLA refuses or dies of is halved until the program that did it stands alone, so that each outcome is that
of one program. Outcomes: a list of arrays, or `Refused` with what was said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType

from assay.errors import WorkerError
from assay.reference.value import Array
from assay.toolchain import Toolchain, Worker, WorkerDied, host

from .builder import Program, module_text


@dataclass(frozen=True)
class Refused:
    """What a party said instead of a result. died: its process ended."""

    message: str
    died: bool = False


Outcome = list[Array] | Refused

# Passes that only make programs faster, as `--xla_dump_hlo_pass_re=.*` and the pipelines' names show them.
OPTIMISING = (
    "algsimp,constant_folding,cse,fusion,reshape-mover,simplify-sorts,simplify-conditional,tuple-simplifier,"
    "while-loop-constant-sinking,while-loop-invariant-code-motion,while-loop-simplifier,tree_reduction_rewriter,"
    "transpose-folding,batch-dot-simplification,dot-library-rewriter,"
    "permutation_sort_simplifier,dynamic-dimension-simplifier,small-while-loop-hoisting,simplify-fp-conversions,"
    "reduce-window-rewriter,conditional-to-select,bitcast-decomposer,indexed-array-analysis"
)
LEVEL_0 = ("--xla_backend_optimization_level=0", f"--xla_disable_hlo_passes={OPTIMISING}")
OPTIMISED = ()


class Xla:
    """XLA:CPU with flags of its own; a context manager."""

    def __init__(self, name: str, flags: Sequence[str], toolchain: Toolchain | None = None) -> None:
        self.name = name
        self._worker = Worker(toolchain or host(), flags)

    def __enter__(self) -> Xla:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._worker.close()

    def run(self, programs: Sequence[Program], again: bool = False) -> list[Outcome]:
        """The outcome of each program."""
        if not programs:
            return []
        try:
            return list(self._together(programs))
        except (WorkerDied, WorkerError) as error:
            if len(programs) > 1:
                half = len(programs) // 2
                return [*self.run(programs[:half]), *self.run(programs[half:])]
            if isinstance(error, WorkerDied) and not again:
                return self.run(programs, again=True)  # in a fresh process: an earlier program may have done it
            return [Refused(_said(error), isinstance(error, WorkerDied))]

    def _together(self, programs: Sequence[Program]) -> list[list[Array]]:
        compiled = self._worker.compile(module_text(programs), "hlo-text", timeout_s=60)
        flat = self._worker.run(compiled, [value for p in programs for value in p.arguments], timeout_s=30)
        self._worker.release(compiled)
        counts = [len(p.outputs) for p in programs]
        assert sum(counts) == len(flat), f"{len(flat)} arrays for {sum(counts)} outputs"
        starts = [sum(counts[:k]) for k in range(len(counts))]
        return [flat[start : start + count] for start, count in zip(starts, counts, strict=True)]


def _said(error: WorkerDied | WorkerError) -> str:
    if isinstance(error, WorkerDied):
        lines = error.stderr_tail
        told = [line for line in lines if "Check failed" in line or "F0000" in line or "LLVM ERROR" in line]
        return f"{error.kind} {error.signal_name or ''} {' '.join(told)[-400:] or ''}"
    return str(error)
