"""Processes that work for a campaign: what ends one of them costs its own work and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest
from lane_work import refuse, refuse_with_more, wait_and_tell

from assay.campaign.lanes import Gone, Lane, Lanes, answered
from assay.errors import StoreError

WAIT_S = 120.0


def answer(lane: Lane) -> object:
    assert answered([lane], WAIT_S) == [lane]
    return lane.answer()


def told(path: Path) -> int:
    """The process that begun there."""
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        if path.exists() and (text := path.read_text()):
            return int(text)
        time.sleep(0.05)
    raise AssertionError("it never began")


def test_answers_errors_and_their_order() -> None:
    with Lanes(2) as lanes:
        one, other = lanes
        one.begin(time.sleep, [1000])
        other.begin(pow, [3, 4])
        assert answered(list(lanes), WAIT_S) == [other]
        assert other.answer() == 81
        other.begin(refuse, [])
        with pytest.raises(StoreError, match="full"):
            answer(other)
        other.begin(refuse_with_more, [])
        with pytest.raises(Exception, match="3:4: what is that"):
            answer(other)
        assert answered([one], 0.1) == []
        one.stop()
        one.begin(pow, [2, 5])
        assert answer(one) == 32


def test_what_is_killed_is_told_and_begun_anew(tmp_path: Path) -> None:
    with Lanes(2) as lanes:
        one, other = lanes
        other.begin(os.getpid, [])
        idle = answer(other)
        for path in (tmp_path / "a", tmp_path / "b"):  # at work
            one.begin(wait_and_tell, [str(path)])
            os.kill(told(path), signal.SIGKILL)
            with pytest.raises(Gone) as gone:
                answer(one)
            assert gone.value.killed
        one.begin(os._exit, [3])
        with pytest.raises(Gone) as gone:
            answer(one)
        assert not gone.value.killed
        assert isinstance(idle, int)
        os.kill(idle, signal.SIGKILL)  # idle

        other.begin(pow, [2, 6])
        try:
            assert answer(other) == 64
        except Gone:  # it was seen to be there for a moment more
            other.begin(pow, [2, 6])
            assert answer(other) == 64
        one.begin(pow, [2, 7])
        assert answer(one) == 128


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    with Lanes(1) as lanes:
        (lane,) = lanes
        lane.begin(tempfile.mkdtemp, [])
        folder = Path(str(answer(lane)))
        assert folder.is_dir()
        lane.begin(wait_and_tell, [str(tmp_path / "a")])
        process = psutil.Process(told(tmp_path / "a"))
        start = time.monotonic()
    assert time.monotonic() - start < 5
    assert not folder.parent.exists()
    assert not process.is_running()


PARENT = """
import sys
sys.path.insert(0, {folder!r})
from lane_work import wait_and_tell
from assay.campaign.lanes import Lanes, answered
with Lanes(1) as lanes:
    (lane,) = lanes
    lane.begin(wait_and_tell, [sys.argv[1]])
    answered([lane], 1000.0)
"""


def test_they_end_with_a_campaign_that_is_killed(tmp_path: Path) -> None:
    code = PARENT.format(folder=str(Path(__file__).parent))
    parent = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "a")])
    process = psutil.Process(told(tmp_path / "a"))
    parent.kill()
    parent.wait()
    process.wait(timeout=20)
