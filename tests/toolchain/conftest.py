"""A Worker takes seconds to start, so one is shared by all tests that leave it usable."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from assay.toolchain import Limits, Worker, host

FAULTS = {"ASSAY_WORKER_FAULTS": "1"}
LIMITS = Limits(timeout_s=120, rss_bytes=1 << 30)


@pytest.fixture(scope="session")
def worker() -> Iterator[Worker]:
    """A worker of the host's own jax, with the faults enabled and 1 GiB of memory to use."""
    with Worker(host(), limits=LIMITS, env=FAULTS) as worker:
        yield worker
