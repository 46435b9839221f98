"""Everything else: results of which only the type is known, and operands of which nothing is asked as numbers.

What a factorisation asks of its matrix as a whole is in `traits`.
"""

from __future__ import annotations

from collections.abc import Iterator

from assay.inputs.flat import STRUCTURAL, Node
from assay.inputs.rules.rule import Asked, Need, Needs, Rule, View
from assay.inputs.span import INF, Span, whole


def _unknown(view: View, node: Node) -> Span:
    return whole(node.dtype)


UNKNOWN = Rule(_unknown)


def _custom(view: View, node: Node) -> Span:
    return view.spans[node.operands[0]] if node.kind == "same" else whole(node.dtype)


def _custom_narrow(view: View, node: Node, want: Span) -> Iterator[Asked]:
    if node.kind == "same":
        yield 0, want


def _variance(operand: int) -> Needs:
    """A variance, to which a small number is added before its root is taken."""

    def needs(view: View, node: Node) -> Iterator[Need]:
        yield operand, Span(0.0, INF), Span(0.0, INF)

    return needs


def _device(view: View, node: Node) -> Span:
    return Span(0, min(2**31 - 1, 2**node.dtype.bits - 1))


RULES: dict[str, Rule] = {
    **dict.fromkeys(
        (
            "after-all", "all-gather-done", "all-reduce-done", "async-done", "async-start", "async-update",
            "batch-norm-training", "call", "cholesky", "collective-permute-done", "conditional", "copy-done",
            "copy-start", "fft", "fusion", "infeed", "map", "outfeed", "ragged-all-to-all", "recv", "recv-done",
            "rng", "rng-bit-generator", "rng-get-and-update-state", "scan", "send", "send-done",
            "stochastic-convert", "triangular-solve", "unknown", "while",
        ),
        UNKNOWN,
    ),
    **dict.fromkeys(("domain", "opt-barrier", "add-dependency", "get-tuple-element", "tuple"), UNKNOWN),
    "batch-norm-grad": Rule(_unknown, needs=_variance(3)),
    "batch-norm-inference": Rule(_unknown, needs=_variance(4)),
    "custom-call": Rule(_custom, _custom_narrow),
    "partition-id": Rule(_device),
    "replica-id": Rule(_device),
}  # fmt: skip
assert set(RULES) >= STRUCTURAL
