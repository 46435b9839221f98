"""A batch for a TPU through LLO: its kernels run in the simulator, each is judged on the operands that it got, and what
is odd about one is put down to the programs whose results need it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from assay.campaign.reach import program_of, reached
from assay.checking.bounds import Settings, deadline
from assay.checking.each import EachKernel
from assay.checking.simulated import PASSES, dumped, is_ours
from assay.checking.target import Outputs, read_optimized
from assay.errors import Unsupported
from assay.hlo.attributes import called
from assay.hlo.module import Module
from assay.hlo.shape import ArrayShape, leaves
from assay.llo import native
from assay.llo.code import OP, Code
from assay.llo.files import Dump
from assay.llo.module import KernelRun, run_module
from assay.llo.semantics.table import BY_NUMBER
from assay.programs.program import Array, Program
from assay.toolchain import Worker

SIMULATE_S = 60.0
"""Seconds of one set of inputs of a batch, which takes two: beyond, its halves are looked at."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """Of a result. wrong: whether a kernel that it needs is wrong, or stops as no right one does; else none can be
    said of it, and why.
    """

    wrong: bool
    why: str


@dataclass(slots=True)
class Kernels:
    """One compilation. doubts: by number of the result. needs: of each result, the instructions it depends on."""

    program: Program
    module: Module
    dump: Dump
    generation: str
    settings: Settings
    doubts: dict[int, Doubt] = field(default_factory=dict)
    needs: list[frozenset[str]] = field(default_factory=list)
    _codes: dict[str, Code] = field(default_factory=dict)

    @staticmethod
    def compiled(
        worker: Worker, program: Program, generation: str, settings: Settings, flags: Sequence[str], folder: Path
    ) -> Kernels:
        """`folder` gets every snapshot besides. Raises what `simulated.dumped` does."""
        made, dump = dumped(
            worker, program.payload, program.kind, generation, settings.options, flags, folder, passes=PASSES
        )
        module = read_optimized(program, made)
        return Kernels(program, module, dump, generation, settings, needs=needed(module))

    def run(self, arguments: Sequence[Array]) -> Outputs:
        """The results in memory of one pattern and of another; and what is doubtful of them is noted. Raises
        ReferenceLimit where it takes too long, what `run_module` raises.
        """
        policy = self.settings.own or self.settings.policy
        each = EachKernel(self.module, policy)
        in_time = deadline(SIMULATE_S, what="the simulation")
        ran = run_module(
            self.module,
            self.dump,
            arguments,
            self.generation,
            policy,
            stage="final",
            engine=native.watched(lambda kernel, steps: in_time()),
            codes=self._codes,
            on_kernel=each,
            deadline=in_time,
        )
        for kernel in ran.untrusted:
            self.stopped(kernel)
        for name, what in each.wrong.items():
            self.note(name, Doubt(True, f"the kernel {name} is wrong: {what}"))
        if not ran.outputs:
            raise Unsupported("LLO", f"{ran.untrusted[-1].why}, and the reference has no such instruction either")
        return [pair.first for pair in ran.outputs], [pair.second for pair in ran.outputs]

    def doubt(self, results: range) -> Doubt | None:
        """Of a program with these results."""
        found = [self.doubts[number] for number in results if number in self.doubts]
        return max(found, key=lambda doubt: doubt.wrong, default=None)

    def reached(self) -> dict[str, int]:
        """feature -> the number of a program that reached it, as `reach.reached` has it; opcodes of LLO too."""
        found = reached(self.module)
        owners = {i.name: i for c in self.module.computations for i in c.instructions}
        for name, code in self._codes.items():
            number = program_of(owners[name]) if name in owners else -1
            for opcode in sorted(set(code.records[:, OP].tolist())):
                found.setdefault(f"llo {BY_NUMBER[opcode].name}", number)
        return found

    def stopped(self, kernel: KernelRun) -> None:
        """Notes one that gave no result. The same stops count as in `assay.checking.simulated`."""
        why = f"kernel {kernel.name}: {kernel.why}"
        if kernel.stop is None:
            self.note(kernel.name, Doubt(False, f"unsupported: {why}"))
        else:
            self.note(kernel.name, Doubt(not is_ours(kernel.stop.trap), why))

    def note(self, kernel: str, doubt: Doubt) -> None:
        """`doubt` of all results that need the kernel; that it is wrong goes before that nothing can be said."""
        for number, names in enumerate(self.needs):
            if kernel in names and (number not in self.doubts or doubt.wrong):
                self.doubts[number] = doubt


def needed(module: Module) -> list[frozenset[str]]:
    """For each array that the module gives, the names of the instructions that it depends on, and of those in the
    computations that they call.
    """
    entry = module.entry
    inside: dict[str, frozenset[str]] = {}

    def of(computation: str) -> frozenset[str]:
        if computation not in inside:
            instructions = module.by_name[computation].instructions
            names = frozenset(i.name for i in instructions)
            inside[computation] = names.union(*(of(name) for i in instructions for name in called(i)))
        return inside[computation]

    depends: dict[str, frozenset[str]] = {}
    for instruction in entry.instructions:
        own = frozenset((instruction.name,)).union(*map(of, called(instruction)))
        depends[instruction.name] = own.union(*(depends[name] for name in instruction.operands))
    roots = entry.operands(entry.root) if entry.root.opcode == "tuple" else [entry.root]
    return [depends[root.name] for root in roots for leaf in leaves(root.shape) if isinstance(leaf, ArrayShape)]
