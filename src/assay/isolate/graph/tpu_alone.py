"""A finding on a TPU that is not there, as a program that stands alone: is it still the kernel, and still wrong?"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace

from assay.checking.api import Request
from assay.checking.bounds import Settings
from assay.checking.judge import judge
from assay.checking.simulated import PASSES, Simulated, dumped
from assay.errors import AssayError, Unsupported
from assay.hlo.module import Module
from assay.hlo.printer import print_for_compiler
from assay.isolate.graph.cascade import say
from assay.isolate.graph.in_place import judge_again
from assay.isolate.graph.kernels import Kernel, kernel_of
from assay.isolate.graph.same_kernel import difference
from assay.isolate.graph.tpu_form import FLAGS, tpu_form
from assay.isolate.graph.unfused import unfused
from assay.llo.files import ORIGINAL, Dump
from assay.oracle.verdict import FINDINGS
from assay.programs.program import Program
from assay.report.isolation import PieceResult
from assay.targets.dumps import scratch
from assay.toolchain import RequestRefused, Worker, WorkerDied
from assay.toolchain.outcomes import one_line

FUSING = "tpu_fusion,main_fusion"
"""libtpu's passes, by its own snapshots, that fuse (0.0.52)."""


@dataclass(frozen=True, slots=True)
class Alone:
    """module: to be compiled under FLAGS; None where it is no reproducer. identical: whether libtpu makes of it the
    kernel of the whole graph; None where it makes none. why: it is not identical, or no reproducer. votes: what the
    kernel says on the row's arguments as libtpu wrote it first, before its own passes, and what libtpu makes of the
    instruction with nothing fused and every declared rounding in place.
    """

    module: Module | None
    identical: bool | None
    why: str = ""
    votes: Mapping[str, str] = field(default_factory=dict)


def stand_alone(
    module: Module, dump: Dump, row: PieceResult, request: Request, settings: Settings, worker: Worker
) -> Alone:
    """The kernel of `row`, a finding with its arguments, cut out of the module that was dumped. A cut that is another
    kernel is a reproducer where it shows a finding on the same arguments too.
    """
    kernel = kernel_of(module, dump, row.name)
    if kernel is None:
        return Alone(None, None, "it has no kernel of its own")
    unfused_says = _unfused(kernel, row, request, settings, worker)
    try:
        form = tpu_form(kernel.alone)
        found = _compiled(kernel, form, row, request, settings, worker)
    except Unsupported as missing:
        found = Alone(None, None, f"it has no form that stands alone: {missing}")
    except (RequestRefused, WorkerDied, AssayError) as error:
        found = Alone(None, None, f"the compiler does not take it alone: {one_line(str(error))}")
    return replace(found, votes={**found.votes, "unfused": unfused_says, "reference": "judges"})


def _unfused(kernel: Kernel, row: PieceResult, request: Request, settings: Settings, worker: Worker) -> str:
    """What the instruction's unfused form gives on the row's arguments."""
    apart = ",".join(filter(None, (request.options.get("xla_disable_hlo_passes"), FUSING)))
    options = {**request.options, "xla_allow_excess_precision": "false", "xla_disable_hlo_passes": apart}
    strict = replace(settings, options=options)
    try:
        text = print_for_compiler(unfused(kernel.alone))
        program = Program(kernel.name, text.encode(), "hlo-text", kernel.alone)
        generation = request.target.removeprefix("tpu:")
        with closing(Simulated(worker, program, strict, generation, request.flags)) as target:
            found = judge(program, row.arguments, row.inputs, target, strict)
    except (AssayError, WorkerDied) as error:
        return f"none: {one_line(str(error))}"
    assert found is not None
    return say(found)


def _compiled(
    kernel: Kernel, form: Module, row: PieceResult, request: Request, settings: Settings, worker: Worker
) -> Alone:
    with scratch() as folder:
        generation, flags = request.target.removeprefix("tpu:"), (*request.flags, *FLAGS)
        text, passes = print_for_compiler(form), f"{ORIGINAL}|{PASSES}"
        _, dump = dumped(worker, text, "hlo-text", generation, request.options, flags, folder, passes)
        files = dump.kernel(kernel.name)
        if files is None:
            return Alone(None, None, "the compiler makes no kernel of it alone")
        cut = replace(kernel, files=files)
        differs = difference(kernel.files, files)
        if not differs:
            first = judge_again(cut, request, settings, row.inputs, row.arguments, ORIGINAL)
            return Alone(form, True, votes={"before LLO's passes": first.votes["target"]})
        again = judge_again(cut, request, settings, row.inputs, row.arguments)
    if again.verdict in FINDINGS:
        return Alone(form, False, f"alone it is another kernel, which is wrong as well: {differs}")
    return Alone(None, False, f"alone it is another kernel, which is not wrong: {differs}")
