"""What other processes do to a store in the tests, and what they store."""

from __future__ import annotations

import os
import resource
import signal
import sys
from multiprocessing.connection import Connection

from assay.errors import StoreError
from assay.oracle.verdict import MismatchClass, Verdict
from assay.store.api import open_store
from assay.store.finding import Culprit, Finding, Origin

BIG = 1 << 18


def finding(number: int) -> Finding:
    culprit = Culprit(f"pass-{'abc'[number % 3]}", "", "add", "negated")
    origin = Origin("c0", 1, number)
    return Finding(Verdict.MISMATCH, "cpu", "jax==0.10.2", MismatchClass.MISCOMPILE, culprit=culprit, origin=origin)


def files(number: int) -> dict[str, bytes]:
    return {"module.hlo": b"HloModule m%d" % number, "inputs.npz": bytes([number % 251]) * 20_000}


def campaign(place: str, told: Connection, at: int) -> None:
    """Adds findings for ever, and tells of each that is stored. at: where not 0, it ends itself at so many calls of C
    code after the first.
    """
    with open_store(place) as store:
        mine = store.campaign(1, {})
        number = mine.progress.get("next", 0)
        while True:
            store.add(finding(number), files(number))
            told.send_bytes(b".")
            number += 1
            mine.save({"next": number})
            if at:
                _end_at(at)
                at = 0


def _end_at(call: int) -> None:
    left = call

    def count(frame, event, argument):
        nonlocal left
        left -= event == "c_call"
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(count)


def artifact_that_does_not_fit(place: str, said: Connection) -> None:
    with open_store(place) as store:
        limit(BIG // 2)
        try:
            store.add(finding(1), files(1) | {"report.json": b"x" * BIG})
        except StoreError as error:
            said.send(str(error))


def until_it_cannot_grow(place: str, said: Connection, size: int) -> None:
    """Tells of the number that did not fit, and why."""
    with open_store(place) as store:
        limit(size)
        for number in range(1, 200):
            try:
                store.add(finding(number), {"module.hlo": b"HloModule m%d" % number})
            except StoreError as error:
                said.send((number, str(error)))
                return


def limit(size: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
