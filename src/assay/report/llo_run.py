"""What `assay llo run` saw, for a person and as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.text import Text

from assay.hlo.shape import ArrayShape
from assay.llo.files import FINAL
from assay.llo.kernel import Pair
from assay.llo.machine import Stop, Trap
from assay.reference.value import Array
from assay.report.tables import table

SCHEMA = 1
SHOWN = 6


@dataclass(frozen=True, slots=True)
class RunReport:
    """One stage of one kernel. outputs: none where it stopped. engine: `C` or `NumPy`. words: how it stopped."""

    kernel: str
    stage: str
    source: str
    target: str
    inputs: str
    engine: str
    outputs: tuple[tuple[ArrayShape, Pair], ...]
    steps: int
    left: int
    flying: int
    stop: Stop | None
    words: str

    @property
    def exit_code(self) -> int:
        """0: it ended. 1: a trap stopped it. 2: it would not end."""
        return 0 if self.stop is None else 2 if self.stop.trap == Trap.STEP_LIMIT else 1

    @property
    def unwritten(self) -> list[int]:
        """Of each output how many elements depend on memory that nobody wrote."""
        return [0 if pair.unwritten is None else int(pair.unwritten.sum()) for _, pair in self.outputs]


def show(report: RunReport, console: Console) -> None:
    ended = report.stop is None
    line = Text("ENDED" if ended else "STOPPED", style="bold green" if ended else "bold red")
    line.append(f"  {report.kernel}, {report.stage}  on {report.target} in {report.engine} ({report.inputs}): ")
    line.append(f"{report.steps} records" if ended else f"{report.words}; {report.steps} records")
    console.print(line, soft_wrap=True)
    if report.stop is not None and report.stop.trap == Trap.STEP_LIMIT:
        console.print(Text("a loop that never ends, or a long one: --limit allows more records"))
    if any(report.unwritten) and not report.stage.endswith(FINAL):
        console.print(Text("elements that nobody wrote: a file that was cut behind a store looks like that too"))
    if report.left:
        console.print(Text(f"{report.left} entries of queues are left that nobody pops"))
    if report.flying:
        console.print(Text(f"{report.flying} DMAs are never waited for"))
    if not report.outputs:
        return
    rows = table("output", "shape", "elements", "unwritten", "least", "greatest", "mean", "")
    for number, ((shape, pair), wild) in enumerate(zip(report.outputs, report.unwritten, strict=True)):
        least, greatest, mean = _range(pair.first, shape)
        first = ", ".join(_spelled(value) for value in np.ravel(pair.first)[:SHOWN])
        more = ", ..." if pair.first.size > SHOWN else ""
        rows.add_row(str(number), _shape(shape), str(shape.size), str(wild), least, greatest, mean, f"{first}{more}")
    console.print(rows)


def _spelled(value: Any) -> str:
    return f"{float(value):.6g}" if np.asarray(value).dtype.kind in "fV" else str(value)


def _range(array: Array, shape: ArrayShape) -> tuple[str, str, str]:
    """Least, greatest and mean of the finite elements."""
    numbers = np.ravel(array).astype(np.complex128 if shape.dtype.is_complex else np.float64)
    numbers = numbers[np.isfinite(numbers)]
    if shape.dtype.is_complex or not numbers.size:
        return "", "", ""
    return f"{np.min(numbers):.6g}", f"{np.max(numbers):.6g}", f"{np.mean(numbers):.6g}"


def _shape(shape: ArrayShape) -> str:
    return f"{shape.dtype}[{','.join(map(str, shape.dims))}]"


def to_json(report: RunReport) -> str:
    return json.dumps(as_dict(report), indent=1) + "\n"


def as_dict(report: RunReport) -> dict[str, Any]:
    stop = report.stop
    return {
        "schema": SCHEMA,
        "kernel": report.kernel,
        "stage": report.stage,
        "source": report.source,
        "target": report.target,
        "inputs": report.inputs,
        "engine": report.engine,
        "ended": stop is None,
        "trap": None
        if stop is None
        else {"kind": stop.trap.name, "line": stop.line, "record": stop.record, "words": report.words},
        "records": report.steps,
        "left_in_queues": report.left,
        "never_waited_for": report.flying,
        "outputs": [
            {
                "shape": list(shape.dims),
                "dtype": str(shape.dtype),
                "unwritten": wild,
                "first": [_spelled(value) for value in np.ravel(pair.first)[:SHOWN]],
            }
            for (shape, pair), wild in zip(report.outputs, report.unwritten, strict=True)
        ],
    }
