"""What is installed here, which targets work, and how to get what is missing."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from importlib import metadata

import numpy as np

from assay.errors import AssayError
from assay.llo import native
from assay.targets import tpu_aot
from assay.toolchain import Limits, Worker, WorkerDied, environments, host

PACKAGES = ("assay-xla", "jax", "jaxlib", "numpy", "ml_dtypes", "scipy")
# A program small enough to compile anywhere: 2 * x.
PROBE = """HloModule probe
ENTRY main {
  x = f32[4] parameter(0)
  two = f32[] constant(2)
  twos = f32[4] broadcast(two), dimensions={}
  ROOT r = f32[4] multiply(x, twos)
}
"""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at: does it work, what was seen, and what to do if not. extra: whether assay works without."""

    what: str
    ok: bool
    seen: str
    advice: str = ""
    extra: bool = False


def examine() -> list[Finding]:
    """Looks at packages, the targets and the toolchains."""
    return [*_packages(), _cpu(), _tpu(), _simulator(), *_toolchains()]


def _packages() -> list[Finding]:
    found = [Finding("python", True, platform.python_version())]
    for name in PACKAGES:
        try:
            found.append(Finding(name, True, metadata.version(name)))
        except metadata.PackageNotFoundError:
            found.append(Finding(name, False, "not installed", f"pip install {name}"))
    return found


def _cpu() -> Finding:
    """Compiles and runs the probe in a worker of the host's jax."""
    x = np.arange(4, dtype=np.float32)
    try:
        with Worker(host(), limits=Limits(timeout_s=120)) as worker:
            (got,) = worker.run(worker.compile(PROBE, "hlo-text"), [x])
    except (AssayError, WorkerDied) as error:
        return Finding("target cpu", False, str(error), "pip install --upgrade jax jaxlib")
    if not np.array_equal(got, 2 * x):
        return Finding("target cpu", False, f"2 * {x} came back as {got}", "this jaxlib is broken; install another")
    return Finding("target cpu", True, "compiles and runs")


def _tpu() -> Finding:
    """Compiles the probe for a v5e."""
    what = "target tpu:v5e"
    if host().version("libtpu") is None and not os.environ.get("TPU_LIBRARY_PATH"):
        seen = "no libtpu beside assay: nothing can be compiled for a TPU; dumps of a TPU's HLO and LLO can be read"
        others = [t.spec for t in environments.installed() if t.version("libtpu")]
        advice = f"--toolchain {others[0]}" if others else "pip install 'assay-xla[tpu]', on Linux on x86-64"
        return Finding(what, False, seen, advice, extra=True)
    try:
        with Worker(host(), limits=Limits(timeout_s=120)) as worker:
            compiled = tpu_aot.compile(worker, PROBE, "hlo-text", "v5e")
    except (AssayError, WorkerDied) as error:
        return Finding(what, False, str(error), "pip install --upgrade libtpu jax")
    if "multiply" not in compiled.hlo:
        return Finding(what, False, "the probe's product is not in the optimized HLO", "install another libtpu")
    return Finding(what, True, "compiles, with no TPU needed")


def _simulator() -> Finding:
    """What runs LLO."""
    if (why := native.missing()) is not None:
        return Finding("LLO simulator", False, f"in NumPy, some 50 times slower: {why}", "install cc", extra=True)
    return Finding("LLO simulator", True, "compiled with the C compiler that is here")


def _toolchains() -> list[Finding]:
    kept = environments.installed()
    if not kept:
        return [Finding("toolchains", True, "none beside the host's", "assay toolchain add jax==VERSION")]
    return [Finding("toolchain", True, toolchain.spec) for toolchain in kept]
