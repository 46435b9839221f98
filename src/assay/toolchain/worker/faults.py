# mypy: ignore-errors
"""Ways to end badly on purpose, for the tests of the host."""

from __future__ import annotations

import ctypes
import os
import time

from .wire import Refused


def fault(state: dict, header: dict, blobs: list):
    """End badly on purpose, for the tests of the host."""
    if os.environ.get("ASSAY_WORKER_FAULTS") != "1":
        raise Refused("Unsupported", "faults are for tests: set ASSAY_WORKER_FAULTS=1")
    kind = header["kind"]
    if kind == "abort":
        os.write(2, b"F0000 fault.cc:1] Check failed: this is a test\n")
        os.abort()
    if kind == "segfault":
        ctypes.string_at(8)
    if kind == "exit":
        os._exit(3)
    if kind == "hang":
        while True:
            time.sleep(3600)
    if kind == "leak":
        kept = []
        while True:
            kept.append(b"x" * (16 << 20))
            time.sleep(0.005)
    if kind == "bad_alloc":
        os.write(2, b"terminate called after throwing an instance of 'std::bad_alloc'\n")
        os.abort()
    if kind in ("spew", "flood_then_abort"):
        with open(2, "w", closefd=False) as err:
            for i in range(header.get("lines", 1_000_000)):
                err.write(f"spew line {i}\n")
        if kind == "flood_then_abort":
            os.abort()
    if kind == "stdout":
        os.write(1, b"the compiler prints here\n")
        print("and so does Python", flush=True)
    if kind == "raise":
        raise RuntimeError("raised on purpose")
    if kind == "exhausted":
        raise RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 1 bytes.")
    return {}, []
