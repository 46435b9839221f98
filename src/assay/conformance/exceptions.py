"""Files whose own expectation is off: excused by an entry, and by the entry's proof at each run.

The expectations were made by a run of XLA:CPU, whose routines are off by a few units in the last place themselves. An
entry of exceptions.json names files, the function they apply, and why the expectation may be off. It excuses nothing by
itself: for every element that does not pass at the midpoint the function is taken of the file's inputs in mpmath. Only
where all of them show the file farther from the true value than the reference, and the reference as close to it as the
file's own comparison asks, is the file called `explained`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from assay.conformance.case import Checked, Outcome, inputs_of
from assay.conformance.comparisons import ulps_apart
from assay.conformance.truths import DIGITS, functions
from assay.errors import AssayError, ProgramError
from assay.hlo.shape import DType
from assay.reference.policy import Policy
from assay.reference.value import Array, Ball, held_dtype, round_to

ENTRIES = Path(__file__).with_name("exceptions.json")


@dataclass(frozen=True, slots=True)
class Entry:
    """files: a glob of file names. function: its name in `truths`. why: what is known of XLA's routine."""

    files: str
    function: str
    why: str


@dataclass(frozen=True, slots=True)
class Proof:
    """One element: where, of what, the true value in 25 digits, what the file has and what the reference has."""

    index: tuple[int, ...]
    arguments: tuple[str, ...]
    truth: str
    file: str
    reference: str
    file_ulps: int
    reference_ulps: int


def read_entries(path: Path = ENTRIES) -> tuple[Entry, ...]:
    """Raises ProgramError where the file is not a list of entries."""
    try:
        return tuple(Entry(**row) for row in json.loads(path.read_text()))
    except OSError as error:
        raise ProgramError(f"{path}: {error.strerror}") from error
    except (ValueError, TypeError) as error:
        raise ProgramError(f"{path}: not a list of entries with files, function and why: {error}") from error


def explained(outcome: Outcome, entries: Sequence[Entry], policy: Policy) -> tuple[Outcome, tuple[Proof, ...]]:
    """An outcome that failed, or passed within the bound alone, turned into `explained` where an entry proves the
    file's expectation off, with the proofs; otherwise the outcome as it is, the reason of a failure extended where an
    entry was tried in vain.
    """
    entry = next((e for e in entries if fnmatchcase(Path(outcome.file).name, e.files)), None)
    if outcome.status not in ("failed", "within bound") or entry is None or not outcome.checked:
        return outcome, ()

    def unproved(reason: str) -> tuple[Outcome, tuple[Proof, ...]]:
        return (outcome if outcome.status != "failed" else replace(outcome, why=f"{outcome.why}; {reason}")), ()

    try:
        function = functions()[entry.function]
    except KeyError:
        return unproved(f"its entry names no function of ours: {entry.function}")
    except AssayError as missing:
        return unproved(str(missing))
    proofs: list[Proof] = []
    assert outcome.module is not None
    inputs = inputs_of(outcome.module, policy)
    for checked in outcome.checked:
        found = _proofs(checked, inputs, function)
        if found is None:
            return unproved("mpmath does not show the file to be off")
        proofs.extend(found)
    worst = max(proofs, key=lambda proof: proof.file_ulps)
    call = f"{entry.function}({', '.join(worst.arguments)})"
    why = (
        f"the file is off in {len(proofs)} of {outcome.elements}: {call} is {worst.truth}, "
        f"the file has {worst.file} ({worst.file_ulps} ulps off), the reference {worst.reference} "
        f"({worst.reference_ulps}): {entry.why}"
    )
    return replace(outcome, status="explained", why=why), tuple(proofs)


def _proofs(checked: Checked, inputs: Sequence[Ball], function: Callable[..., Any]) -> list[Proof] | None:
    """A proof for each element that does not pass at the midpoint, None where one of them cannot be proved."""
    if not inputs and not checked.passes.all():
        return None
    proofs = []
    for at in np.argwhere(~checked.passes):
        proof = _proof(checked, inputs, function, tuple(int(i) for i in at))
        if proof is None:
            return None
        proofs.append(proof)
    return proofs


def _proof(checked: Checked, inputs: Sequence[Ball], function: Callable[..., Any], at: tuple[int, ...]) -> Proof | None:
    import mpmath  # type: ignore[import-untyped, unused-ignore]

    shape = checked.expected.shape
    try:
        arguments = [np.broadcast_to(ball.mid, shape)[at] for ball in inputs]
        with mpmath.workdps(DIGITS):
            truth = function(*(mpmath.mpmathify(a.item()) for a in arguments))
            exact = complex(truth) if checked.actual.dtype.is_complex else float(truth)
    except (ValueError, TypeError, ZeroDivisionError, OverflowError):
        return None  # not elementwise, or no number there: then nothing is proved
    dtype = checked.actual.dtype
    mine, file, true = checked.value[at], checked.expected[at], _held(exact, dtype)
    if not np.isfinite(true):
        return None
    far, near = int(ulps_apart(file, true, dtype)), int(ulps_apart(mine, true, dtype))
    if near >= far or not checked.comparison.holds(mine, true, dtype):
        return None
    with mpmath.workdps(DIGITS):
        text = mpmath.nstr(truth, 25)
    return Proof(at, tuple(map(str, arguments)), text, str(file), str(mine), far, near)


def _held(value: complex | float, dtype: DType) -> Array:
    """`value` rounded to `dtype`, as `Ball.mid` holds it."""
    return round_to(dtype, np.asarray(value, held_dtype(dtype)))
