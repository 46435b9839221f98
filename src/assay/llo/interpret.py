"""Runs a `Code` record by record in NumPy: the readable meaning, against which the C engine is tested."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from assay.llo.code import IMM, OP, PRED, Code
from assay.llo.machine import Machine, Outcome, Stop, Trap, Trapped
from assay.llo.semantics.table import BY_NUMBER, OPS

Watch = Callable[[str, int], None]
SLICE = 1 << 13


def unwatched(kernel: str, steps: int) -> None:
    """A watch that looks at nothing."""


def run(
    code: Code,
    machine: Machine,
    limit: int,
    hook: Callable[[int], None] | None = None,
    watch: Watch = unwatched,
) -> Outcome:
    """From record 0 to `halt`, or to the first trap. limit: how many records may be executed. hook: called with the
    record's index after each that did something; jumps and the end are none. watch: called every SLICE records with the
    kernel's name and their number; may raise.
    """
    records = code.records.tolist()
    jump, halt = OPS["jump"].number, OPS["halt"].number
    means = [op.run for op in BY_NUMBER]
    scalars = machine.s
    at = steps = 0
    stop = None
    with np.errstate(all="ignore"):
        while True:
            if steps >= limit:
                stop = Stop(Trap.STEP_LIMIT, at, int(code.lines[at]), (limit,))
                break
            if not steps % SLICE and steps:
                watch(code.name, steps)
            record = records[at]
            steps += 1
            predicate = record[PRED]
            if predicate and bool(scalars[abs(predicate) - 1]) != (predicate > 0):
                at += 1
                continue
            number = record[OP]
            if number == jump:
                at = record[IMM]
                continue
            if number == halt:
                break
            try:
                means[number](machine, record)
            except Trapped as trapped:
                stop = Stop(trapped.trap, at, int(code.lines[at]), trapped.detail)
                break
            if hook is not None:
                hook(at)
            at += 1
    return Outcome(steps, stop, sum(len(entries) for entries in machine.queues.values()), machine.flying)
