"""What tests of several rooms share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from assay.toolchain import Limits, Toolchain, Worker, environments, host


@pytest.fixture(scope="session")
def tpu_toolchain() -> Toolchain:
    """The toolchain with the newest libtpu here, and of those the newest jax: the host's own, or an installed one."""
    here = [t for t in (host(), *environments.installed()) if t.version("libtpu")]
    if not here:
        pytest.skip("no libtpu: pip install 'assay-xla[tpu]', or assay toolchain add jax==VERSION,libtpu==VERSION")
    return max(here, key=lambda t: [[int(n) for n in str(t.version(name)).split(".")] for name in ("libtpu", "jax")])


@pytest.fixture(scope="session")
def tpu_worker(tpu_toolchain: Toolchain) -> Iterator[Worker]:
    """A worker of that toolchain, for tests that leave it usable."""
    with Worker(tpu_toolchain, limits=Limits(timeout_s=240)) as worker:
        yield worker
