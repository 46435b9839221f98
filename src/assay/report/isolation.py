"""What `assay isolate` found, as data: a row for each distinct piece, of which some stand many times in the graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from assay.oracle.verdict import MismatchClass, Verdict


@dataclass(frozen=True, slots=True)
class PieceResult:
    """One distinct piece, judged.

    key: a fingerprint that keeps constants and configuration. group: a coarser one, for the report alone. name,
    computation, opcode: of the first instruction that it stands for; instances: of all, names. why: explains every
    verdict but `agree` and `mismatch`. votes: what each independent way of computing it says against the reference
    (`target`, `unfused`, ...). inputs, pattern: of the set of inputs that decided, in words. outside, undecided,
    masked: of `elements`, on that set. worst_bound: the largest distance in units of the bound. identical: whether the
    compiler makes the same kernel of the piece as in the graph; None where that is not known.
    """

    key: str
    group: str
    name: str
    computation: str
    opcode: str
    instances: tuple[str, ...]
    verdict: Verdict
    why: str = ""
    klass: MismatchClass | None = None
    votes: Mapping[str, str] = field(default_factory=dict)
    inputs: str = ""
    pattern: str = ""
    elements: int = 0
    outside: int = 0
    undecided: int = 0
    masked: int = 0
    worst_bound: float = 0.0
    identical: bool | None = None
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
