"""A report as JSON, schema 1.

Numbers that JSON has no word for (infinity, NaN) are the strings "inf", "-inf" and "nan".
"""

from __future__ import annotations

import json
import math
from typing import Any

from assay.report.result import CaseResult, OutputResult, Report

SCHEMA = 1


def to_json(report: Report) -> str:
    return json.dumps(as_dict(report), indent=1) + "\n"


def as_dict(report: Report) -> dict[str, Any]:
    """The verdict and outputs at the top are those of the case that speaks for the report; `cases` has them all."""
    worst = report.worst
    return {
        "schema": SCHEMA,
        "verdict": str(worst.verdict),
        "why": worst.why,
        "class": None if worst.klass is None else str(worst.klass),
        "target": report.target,
        "toolchain": report.toolchain,
        "policy": report.policy or None,
        "accumulation": report.accumulation,
        "bounds": report.bounds,
        "seed": report.seed,
        "outputs": [_output(o) for o in worst.outputs],
        "program": report.program,
        "command": report.command,
        "cases": [case_dict(c) for c in report.cases],
    }


def case_dict(case: CaseResult) -> dict[str, Any]:
    """One program on one set of inputs."""
    return {
        "name": case.name,
        "inputs": case.inputs,
        "verdict": str(case.verdict),
        "why": case.why,
        "class": None if case.klass is None else str(case.klass),
        "outputs": [_output(o) for o in case.outputs],
        "notes": list(case.notes),
        "stderr": list(case.stderr_tail),
        "seconds": {name: round(value, 3) for name, value in case.seconds.items()},
    }


def _output(output: OutputResult) -> dict[str, Any]:
    return {
        "index": output.index,
        "name": output.name,
        "shape": list(output.shape),
        "dtype": output.dtype,
        "elements": output.elements,
        "outside": output.outside,
        "undecided": output.undecided,
        "masked": output.masked,
        "worst_ulp": number(output.worst_ulp),
        "worst_bound": number(output.worst_bound),
        "bound": output.bound,
        "box": None if output.box is None else [list(side) for side in output.box],
        "peak": None if output.peak is None else list(output.peak),
        "peak_target": output.peak_target,
        "peak_reference": output.peak_reference,
        "pattern": output.pattern,
        "drift": output.drift,
        "drift_allowed": output.drift_allowed,
    }


def number(value: float) -> float | str:
    """What JSON has a word for, or its name."""
    value = float(value)
    if math.isnan(value):
        return "nan"
    return value if math.isfinite(value) else ("inf" if value > 0 else "-inf")


def parsed(value: float | str) -> float:
    """The number that `number` made this of."""
    return float(value)
