"""Journals: nothing is lost to a kill, at whatever byte it came."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assay.errors import InputError
from assay.journal import SCHEMA, Journal

ROWS = [{"row": k, "text": "ä" * k} for k in range(5)]


def written(path: Path) -> None:
    with Journal(path, "q", "test") as journal:
        journal.begin([])
        for row in ROWS:
            journal.write(row)


def test_a_cut_at_any_byte_loses_the_last_line_at_most(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    written(path)
    whole = path.read_bytes()
    for end in range(len(whole) + 1):
        path.write_bytes(whole[:end])
        complete = max(0, whole[:end].count(b"\n") - 1)
        try:
            with Journal(path, "q", "test") as journal:
                assert journal.found == ROWS[:complete]
        except UnicodeDecodeError:
            pytest.fail(f"cut at byte {end}")


def test_another_question_is_not_taken(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    written(path)
    with Journal(path, "other", "test") as journal:
        assert journal.found == []


def test_what_begin_did_not_finish_is_found_beside(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    lines = [{"question": "q", "schema": SCHEMA}, *ROWS]
    path.with_suffix(".new").write_text("".join(json.dumps(line) + "\n" for line in lines))
    path.write_text("")  # truncated, and then killed
    with Journal(path, "q", "test") as journal:
        assert journal.found == ROWS
        journal.begin(journal.found)
    assert not path.with_suffix(".new").exists()
    with Journal(path, "q", "test") as journal:
        assert journal.found == ROWS


def test_two_at_once_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    with Journal(path, "q", "assay x"), pytest.raises(InputError, match="another assay x"):
        Journal(path, "q", "assay x")


@pytest.mark.parametrize("text", ["def step(x):\n", "{}\n", '{"row": 1}\n'])
def test_a_file_of_somebody_else_is_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "j.jsonl"
    path.write_text(text)
    with pytest.raises(InputError, match="did not write"):
        Journal(path, "q", "assay x")
    assert path.read_text() == text


def test_a_journal_of_another_question_is_told(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    written(path)
    with Journal(path, "q", "test") as journal:
        assert journal.another() is None
    with Journal(path, "p", "test") as journal:
        assert (journal.found, journal.another()) == ([], "q")
    path.write_bytes(path.read_bytes()[:9])  # begun, and killed: nobody's yet
    with Journal(path, "p", "test") as journal:
        assert journal.another() is None
