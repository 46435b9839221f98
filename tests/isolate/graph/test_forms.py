"""A compiler that does not take a piece as it is gets other forms of it, and the row says so."""

from __future__ import annotations

from typing import Any

import pytest

from assay.checking.api import Request, settings_for
from assay.hlo.parse import parse_module
from assay.isolate.graph.cascade import ANEW, APART, judge_piece
from assay.isolate.graph.cut import cut
from assay.oracle.verdict import Verdict
from assay.toolchain import Limits, RequestRefused, Worker, host

TEXT = """HloModule m, is_scheduled=true
%f (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  %s = f32[8]{0} sine(%p)
  ROOT %m = f32[8]{0} multiply(%s, %p)
}
ENTRY %e (x: f32[8]) -> f32[8] {
  %x = f32[8]{0} parameter(0)
  ROOT %fusion = f32[8]{0} fusion(%x), kind=kLoop, calls=%f
}
"""


class Refusing(Worker):
    """As an older jax, which has no hook for optimized modules; `words`: what else it refuses to read."""

    words: bytes = b"\0"

    def compile(self, payload: str | bytes, kind: Any, *rest: Any, **named: Any) -> Any:
        text = payload if isinstance(payload, bytes) else payload.encode()
        if kind == "hlo-optimized":
            raise RequestRefused("compile", "NoHook", "no hook")
        if self.words in text:
            raise RequestRefused("compile", "XlaRuntimeError", "INVALID_ARGUMENT: not this")
        return super().compile(payload, kind, *rest, **named)


@pytest.mark.parametrize(
    ("words", "verdict", "note"),
    [(b"\0", Verdict.AGREE, ANEW), (b" fusion(", Verdict.AGREE, APART), (b"HloModule", Verdict.UNVERIFIED, APART)],
    ids=["takes it anew", "takes no fusion", "takes nothing"],
)
def test_other_forms_are_tried_and_told(words: bytes, verdict: Verdict, note: str) -> None:
    request = Request(target="cpu")
    (piece,) = cut(parse_module(TEXT)).pieces
    with Refusing(host(), limits=Limits(timeout_s=120)) as worker:
        worker.words = words
        settings = settings_for(request, worker.describe().versions)
        row = judge_piece(piece, "k", "g", ("fusion",), worker, request, settings)
    assert row.verdict is verdict
    assert [n for n in (ANEW, APART) if n in row.notes] == [note]
    assert ("does not compile" in row.why) == (verdict is Verdict.UNVERIFIED)
