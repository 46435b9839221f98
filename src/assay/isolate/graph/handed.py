"""What a whole TPU program hands to each of its kernels, when they run one after the other in the simulator.

For kernels whose operands keep a promise to each other that no instruction states (an array and the starts of its
groups): inputs drawn for such a kernel alone would be none that it can get.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from assay.checking.bounds import Step
from assay.errors import AssayError, ReferenceLimit
from assay.hlo.module import Computation, Instruction, Module
from assay.isolate.graph.kernels import Kernel
from assay.llo.code import Code
from assay.llo.files import Dump
from assay.llo.module import Value, pairs, run_module
from assay.reference.policy import Policy
from assay.reference.value import Array

Sets = Callable[[], Iterable[tuple[str, list[Array]]]]

TRIPS = 2
"""Of a kernel in a loop the operands of so many trips are kept: those of the first are often all zero."""
MOST_BYTES = 2 << 30


@dataclass(slots=True)
class Handed:
    """Runs the program when it is first asked. sets: the program's arguments, with their names. why: a set on which it
    did not run to its end, and the reason.

    policy: for what the scalar core does. seconds: for one run. Memory that nobody wrote is taken to hold a number.
    """

    module: Module
    dump: Dump
    generation: str
    policy: Policy
    sets: Sets
    seconds: float = 600.0
    step: Step = lambda _: None
    why: str = ""
    _kept: dict[str, list[tuple[str, list[Value]]]] | None = None
    _bytes: int = 0
    _trips: dict[tuple[str, str], int] = field(default_factory=dict)

    def __call__(self, kernel: Kernel) -> list[tuple[str, list[Array]]]:
        """Sets of arguments of `kernel.alone`, each with where it comes from in words."""
        if self._kept is None:
            self._kept = {}
            self._run(self._kept)
        found = []
        for name in kernel.instances:
            for label, values in self._kept.get(name, ()):
                by_name = dict(zip(kernel.instruction.operands, values, strict=True))
                parameters = kernel.alone.entry.parameters
                arrays = [pair.second for p in parameters for pair in pairs(by_name[p.name])]
                found.append((f"as the program hands it to {name} ({label})", arrays))
        return found

    def _run(self, kept: dict[str, list[tuple[str, list[Value]]]]) -> None:
        codes: dict[str, Code] = {}
        for label, arguments in self.sets():
            self.step(f"what the kernels are handed ({label})")
            end = time.monotonic() + self.seconds

            def check(end: float = end) -> None:
                if time.monotonic() > end:
                    raise ReferenceLimit(f"the whole program takes more than {self.seconds:g} s in the simulator")

            def keep(
                c: Computation, i: Instruction, operands: Sequence[Value], value: Value, label: str = label
            ) -> None:
                trip = self._trips[i.name, label] = self._trips.get((i.name, label), 0) + 1
                if trip <= TRIPS and self._bytes < MOST_BYTES:
                    kept.setdefault(i.name, []).append((f"{label}, run {trip}", list(operands)))
                    self._bytes += sum(pair.second.nbytes for operand in operands for pair in pairs(operand))

            try:
                run_module(
                    self.module,
                    self.dump,
                    arguments,
                    self.generation,
                    self.policy,
                    stage="final",
                    codes=codes,
                    on_kernel=keep,
                    deadline=check,
                )
            except AssayError as error:
                self.why = f"{label}: {error}"
