"""What a campaign says at its end."""

from __future__ import annotations

import io
import json
from dataclasses import replace

from rich.console import Console

from assay.report.campaign import UNEXPLAINED, CampaignReport, as_json, exit_code, show

PLAIN = CampaignReport("cpu", "jax 0.12.0.1", 7, "c", 9.0, {"agree": 31}, {}, {}, 31, 0, (), (), ())
UNKNOWN = replace(
    PLAIN, verdicts={"agree": 30, "mismatch": 2}, told={UNEXPLAINED: 2}, examples={UNEXPLAINED: (33, 1207)}
)


def said(report: CampaignReport) -> str:
    console = Console(file=io.StringIO(), width=200)
    show([report], console)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_nothing_is_found_where_all_agree() -> None:
    assert exit_code([PLAIN]) == 0
    assert "NOTHING FOUND" in said(PLAIN)


def test_what_is_wrong_and_not_explained_is_not_nothing_and_is_named() -> None:
    assert exit_code([PLAIN, UNKNOWN]) == 2
    text = said(UNKNOWN)
    assert "NOTHING STORED " in text
    assert "FOUND" not in text
    assert "(assay replay 7/33, 7/1207)" in text
    assert json.loads(as_json([UNKNOWN]))["campaigns"][0]["examples"] == {UNEXPLAINED: [33, 1207]}
