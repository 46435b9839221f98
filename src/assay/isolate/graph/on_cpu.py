"""The graph that XLA:CPU makes of a program, cut into pieces that take the memory they have in it, and its code."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass

from assay.errors import InputError
from assay.hlo.module import Module
from assay.hlo.parse import parse_module
from assay.hlo.printer import print_for_compiler
from assay.isolate.graph import cpu_memory, same_ir
from assay.isolate.graph.cut import cut
from assay.isolate.graph.piece import Cut
from assay.programs.program import Program
from assay.targets import cpu
from assay.targets.dumps import scratch
from assay.toolchain import RequestRefused, Worker


@dataclass(frozen=True, slots=True)
class Built:
    """module: optimized. code: of its kernels, None where the toolchain tells nothing of it. compile_s: of XLA alone;
    cut_s: of the cut.
    """

    module: Module
    cut: Cut
    code: same_ir.Code | None
    compile_s: float
    cut_s: float = 0.0


def built(worker: Worker, program: Program, options: Mapping[str, str], optimized: bool) -> Built:
    """optimized: whether the program's module is what is to be cut, as it stands. Raises WorkerDied, and RequestRefused
    where a program is refused that was to be optimized.
    """
    with scratch() as folder:
        wanted = {**options, **same_ir.CODE_ALONE}
        if optimized:
            assert program.module is not None
            module, seconds = program.module, 0.0
            text = print_for_compiler(module)
            try:
                compiled = cpu.compile(worker, text, "hlo-optimized", wanted, dump=folder / "whole")
            except RequestRefused:  # its pieces are compiled anew, if at all
                return Built(module, cut(module), None, 0.0)
            seconds = compiled.seconds
        else:
            compiled = cpu.compile(worker, program.payload, program.kind, wanted, dump=folder / "whole")
            module, seconds = parse_module(compiled.hlo, source=f"{program.name}, optimized"), compiled.seconds
        worker.release(compiled)
        start = time.monotonic()
        pieces = cut(module)
        cut_s = time.monotonic() - start
        code = same_ir.read(folder / "whole")
        with contextlib.suppress(InputError):  # of a jaxlib that does not dump it: results have memory of their own
            pieces = cpu_memory.as_in_graph(pieces, cpu_memory.read(folder / "whole"))
        return Built(module, pieces, code if code.functions else None, seconds, cut_s)
