"""A TPU that is not there, down to its kernels: the LLO that the compiler made of a program runs in the simulator.

Results are compared with the program's bounds, as a device's are; where one lies outside, it is wrong if it lies
outside the optimized module's own bounds too (a wrong kernel), or if that module's bounds do not meet the program's (a
wrong rewrite). Each kernel is judged on the operands that it got as well (`each`): that says which one is wrong; and
where all are right, an element that the program's bounds leave undecided is judged as that of the optimized module is;
where one is surely wrong, so is the program, though its bounds leave the elements open (`wrong_kernel`).
Two runs in memory that held other things before stand for two runs on a device: an output that depends
on memory that nobody wrote differs between them.

Nothing is judged where a kernel did not run: an opcode that is not modelled, or a step limit, leaves the program
unverified.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from assay.checking.bounds import Bounds, Settings, Step
from assay.checking.each import EachKernel, Kept, in_all
from assay.checking.target import Outputs, apart, decided_by_both, key_of, read_optimized, spent
from assay.checking.weigh import Weighed, compare, weigh, weigh_again
from assay.errors import AssayError, ReferenceLimit, Unsupported
from assay.hlo.graph import reachable
from assay.hlo.module import Module
from assay.llo import native
from assay.llo.code import Code
from assay.llo.files import Dump, read_dump
from assay.llo.machine import Trap
from assay.llo.module import KernelRun, ModuleRun, UnwrittenChoice, run_module
from assay.llo.operands import operands_of
from assay.oracle.verdict import Verdict
from assay.programs.program import Program
from assay.reference.value import Array
from assay.targets import tpu_aot
from assay.targets.dumps import scratch
from assay.toolchain import AheadOfTime, Worker
from assay.toolchain.session import Kind

PASSES = "post-delay-converter|final_bundles|deduplication-map"
"""What the device would run, the memory that it declares, and which kernels are one."""


OUR_OWN = frozenset((Trap.MXU, Trap.TRANSPOSE, Trap.QUEUE_FULL))
"""Traps of units whose state is modelled in part: a program may be right that comes to them."""


def is_ours(trap: Trap) -> bool:
    """Whether a stop tells of the simulator, its units or its limit of steps, and nothing of the kernel."""
    return trap in OUR_OWN or trap is Trap.STEP_LIMIT


class Stopped(Exception):
    """A kernel did what no right program does, and so the run has no result; carries the verdict."""

    def __init__(self, verdict: Verdict, why: str) -> None:
        super().__init__(why)
        self.verdict = verdict
        self.why = why


@dataclass(frozen=True, slots=True)
class _Built:
    module: Module
    dump: Dump
    codes: dict[str, Code]


@dataclass(slots=True)
class Simulated:
    """A target as `assay.checking.target` has them. last: the run whose results are being judged. each: its kernels."""

    worker: Worker
    program: Program
    settings: Settings
    generation: str
    flags: tuple[str, ...] = ()
    own: Bounds | None = None
    last: ModuleRun | None = None
    each: EachKernel | None = None
    _built: dict[str, _Built] = field(default_factory=dict)
    _open: ExitStack = field(default_factory=ExitStack)

    def outputs(
        self, arguments: Sequence[Array], options: Mapping[str, str], seconds: dict[str, float], step: Step, twice: bool
    ) -> Outputs:
        """Of a run in memory of one pattern and of another. Raises Stopped."""
        built = self._build(options, seconds, step)
        self.own = Bounds(built.module, arguments, self.settings, step, flushed=self.settings.device_flushes)
        policy = self.settings.own or self.settings.policy
        self.each = each = EachKernel(built.module, policy)
        start = time.monotonic()
        count = 0

        def deadline() -> None:
            nonlocal count
            count += 1
            if count % 16 == 0:
                step(f"simulating, instruction {count}")
            in_time()

        def watch(kernel: str, steps: int) -> None:
            step(f"simulating {kernel}, {steps} instructions")
            in_time()

        def in_time() -> None:
            if time.monotonic() - start > self.settings.reference_timeout_s:
                limit = f"{self.settings.reference_timeout_s:.0f} s"
                raise ReferenceLimit(f"the simulation takes longer than {limit}; raise it with --reference-timeout")

        try:
            self.last = run_module(
                built.module,
                built.dump,
                arguments,
                self.generation,
                policy,
                stage="final",
                engine=native.watched(watch),
                codes=built.codes,
                on_kernel=each,
                deadline=deadline,
            )
        except UnwrittenChoice as choice:
            raise Stopped(Verdict.NONDETERMINISTIC, str(choice)) from choice
        finally:
            spent(seconds, "simulate", time.monotonic() - start)
        for kernel in self.last.untrusted:
            _refuse(kernel)
        return [p.first for p in self.last.outputs], [p.second for p in self.last.outputs]

    def close(self) -> None:
        self._open.close()

    @property
    def note(self) -> str:
        """What ran, in words."""
        kernels = () if self.last is None else self.last.kernels
        steps = sum(kernel.steps for kernel in kernels)
        ran = f"through LLO: {len(kernels)} kernel{'s' * (len(kernels) != 1)} simulated, {steps} instructions"
        if self.each is None or not self.each.wrong:
            return ran
        name, what = next(iter(self.each.wrong.items()))
        more = f", and {len(self.each.wrong) - 1} more" if len(self.each.wrong) > 1 else ""
        return f"{ran}; the first that is wrong is {name}: {what}{more}"

    def stands(self, weighed: Weighed) -> bool:
        """Whether what was found wrong is outside the optimized module's own bounds as well, or those do not meet the
        program's.
        """
        assert self.own is not None, "nothing was simulated"
        assert self.last is not None
        try:
            if apart(weighed, self.own):
                return True
        except Unsupported:  # a kernel of the user's own: no reading of it may excuse a result
            return True
        return _outside(weighed, self.own, [p.first for p in self.last.outputs])

    def decided(self, weighed: Weighed, bounds: Bounds) -> Weighed:
        """`weighed`, with undecided elements counted as agreeing where program and optimized module give the same
        number and every kernel does what the optimized module says.
        """
        if self.own is None or self.each is None or self.each.wrong or self.each.unjudged:
            return weighed
        try:
            return decided_by_both(weighed, bounds, self.own)
        except Unsupported:
            return weighed

    def wrong_kernel(self) -> str:
        """In words, a kernel that is wrong whatever the program leaves open; empty where none surely is.

        On operands that are known, in both runs, an element that the reference decides lies outside its widest bounds
        (accumulations in the worst order, no sampled ones) of the one instruction that the kernel was made of.
        """
        if self.each is None or self.own is None:
            return ""
        settings = replace(self.settings, policy=self.settings.own or self.settings.policy, own=None)
        for name, kept in self.each.kept.items():
            alone = operands_of(self.own.module, name).alone
            arguments = [pair.first for pair in kept.operands]
            readings = {settings.device_flushes, False}  # what a kernel only moves may be subnormal
            bounds = [Bounds(alone, arguments, settings, self.own.step, flushed=flushed) for flushed in readings]
            try:
                masks = [_surely_outside(one, kept) for one in bounds]
                if any(both is not None and both.any() for both in map(in_all, zip(*masks, strict=True))):
                    return f"the kernel {name} is wrong: {self.each.wrong[name]}"
            except AssayError:
                continue  # it cannot be judged alone
        return ""

    def guilty_kernel(self, unwritten: bool = False) -> Module | None:
        """The instruction, alone, of the first kernel of the last run that is wrong on its own operands, or that stops
        as no right one does; None where there is none. unwritten: or whose result depends on memory that nobody wrote.
        """
        if self.last is None or self.own is None:
            return None
        wrong = set(() if self.each is None else self.each.wrong)
        for kernel in self.last.kernels:
            stopped = kernel.stop is not None and not is_ours(kernel.stop.trap)
            if kernel.name in wrong or stopped or (unwritten and kernel.kind == "unwritten"):
                alone = operands_of(self.own.module, kernel.name).alone
                return replace(alone, computations=reachable(alone))
        return None

    def _build(self, options: Mapping[str, str], seconds: dict[str, float], step: Step) -> _Built:
        key = key_of(options)
        if key not in self._built:
            step("compiling")
            folder = self._open.enter_context(scratch())
            payload, kind = self.program.payload, self.program.kind
            made, dump = dumped(self.worker, payload, kind, self.generation, options, self.flags, folder)
            spent(seconds, "compile", made.seconds)
            self._built[key] = _Built(read_optimized(self.program, made), dump, {})
        return self._built[key]


def dumped(
    worker: Worker,
    payload: str | bytes,
    kind: Kind,
    generation: str,
    options: Mapping[str, str],
    flags: Sequence[str],
    folder: Path,
    passes: str = PASSES,
) -> tuple[AheadOfTime, Dump]:
    """A program compiled, and the LLO of its kernels after `passes`, in `folder`. Raises what `tpu_aot.compile` does,
    Unsupported where the libtpu dumps no LLO.
    """
    made = tpu_aot.compile(
        worker, payload, kind, generation, options, dump=folder, llo=True, llo_passes=passes, flags=flags
    )
    llo = folder / tpu_aot.LLO_FOLDER
    if not llo.is_dir():
        raise Unsupported("LLO", "this libtpu dumps none")
    return made, read_dump(llo)


def _surely_outside(bounds: Bounds, kept: Kept) -> list[Array | None]:
    """Of each output the elements that are outside the widest bounds in both runs. Raises what evaluating raises."""
    widest = bounds.certain([False])
    first, second = ([pair.first for pair in kept.results], [pair.second for pair in kept.results])
    masks = [[compared.outside_mask for compared in compare(bounds, widest, run)] for run in (first, second)]
    return [in_all(pair) for pair in zip(*masks, strict=True)]


def _refuse(kernel: KernelRun) -> None:
    """Raises for a kernel that gave no result."""
    if kernel.kind == "unsupported":
        raise Unsupported(kernel.why, f"in the kernel {kernel.name}")
    if kernel.kind == "missing":
        raise Unsupported("LLO", kernel.why)
    assert kernel.stop is not None
    why = f"kernel {kernel.name}, {kernel.why}"
    if kernel.stop.trap is Trap.STEP_LIMIT:
        raise ReferenceLimit(why)
    if kernel.stop.trap in OUR_OWN:
        raise Unsupported(f"LLO: {why}")
    raise Stopped(Verdict.HANG if kernel.stop.trap is Trap.DEADLOCK else Verdict.CRASH, why)


def _outside(weighed: Weighed, own: Bounds, target: list[Array]) -> bool:
    """Whether an element found wrong is one that the optimized module does not allow either, be its subnormals zero or,
    where they are only moved, kept.
    """
    masks = [[compared.outside_mask for compared in weighed.comparisons]]
    kept = Bounds(own.module, own.arguments, own.settings, own.step, own.seconds, [], flushed=False)
    for bounds in (own, kept) if own.flushed else (own,):
        mine = weigh(bounds, target)
        if mine.wrong:
            mine = weigh_again(bounds, target, mine)
        masks.append([compared.outside_mask for compared in mine.comparisons])
    return any(mask is not None and bool(mask.any()) for mask in map(in_all, zip(*masks, strict=True)))
