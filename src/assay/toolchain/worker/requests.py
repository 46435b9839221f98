# mypy: ignore-errors
# ruff: noqa: B905
"""The table of requests. Each takes (state, header, blobs) and returns (reply, blobs).

state: `executables` by handle, `numbers` for handles, `callbacks`: the programs whose Python callbacks live here.
"""

from __future__ import annotations

import contextlib
import os
import platform
import sys
import time
from functools import partial

from .as_is import as_is, laid_out, layouts
from .faults import fault
from .options import compile_with, dumping
from .programs import (
    CALLBACKS,
    client_compile,
    compilable,
    computation_of,
    cpu_device,
    hlo_text,
    jaxlib_attribute,
    prepare_linear_algebra,
    signature,
    unoptimized,
    x64,
)
from .tpu import compile_for_tpu, packaged_libtpu, start_libtpu
from .user_file import load
from .wire import Refused, get_array, put_array


def describe(state: dict, header: dict, blobs: list):
    versions = {"python": platform.python_version(), "platform": cpu_device().platform}
    for name in ("jax", "jaxlib", "numpy", "scipy", "ml_dtypes", "libtpu"):
        versions[name] = distribution_version(name)
    versions["jax"] = sys.modules["jax"].__version__
    elsewhere = os.environ.get("TPU_LIBRARY_PATH")
    if elsewhere and elsewhere != packaged_libtpu():
        versions["libtpu"] = f"at {elsewhere}"
    return {"versions": versions, "xla_flags": os.environ.get("XLA_FLAGS", "")}, []


def distribution_version(name: str):
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def to_hlo(state: dict, header: dict, blobs: list):
    return {}, [hlo_text(unoptimized(bytes(blobs[0]), header["kind"])).encode()]


def refuse_what_this_client_aborts_on(payload: bytes, kind: str) -> None:
    """Old CPU clients fail a CHECK on tuples and tokens at the boundary. That is no fault of the compiler's."""
    client = cpu_device().client
    if hasattr(client, "compile_and_load"):
        return
    program = computation_of(unoptimized(payload, kind)).program_shape()
    result = program.result_shape()
    parts = result.tuple_shapes() if result.is_tuple() else [result]
    if any(s.is_tuple() for s in [*program.parameter_shapes(), *parts]):
        raise Refused("Unsupported", "this jaxlib's CPU client has no tuple parameters and no nested tuple results")
    if any(not s.is_array() for s in parts):
        raise Refused("Unsupported", "this jaxlib's CPU client has no token results")


def compile_program(state: dict, header: dict, blobs: list):
    payload = bytes(blobs[0])
    in_place = contextlib.nullcontext()
    if header["kind"] == "hlo-optimized":
        stand_in, in_place = as_is(payload)
        module = jaxlib_attribute("mlir").xla_computation_to_mlir_module(computation_of(stand_in))
    else:
        module = compilable(payload, header["kind"])
    if header["kind"] != "export":
        refuse_what_this_client_aborts_on(payload, header["kind"])
    if any(name.encode() in payload for name in CALLBACKS) and hash(payload) not in state["callbacks"]:
        raise Refused("HostCallback", "the program calls back into Python; only the process that traced it can run it")
    prepare_linear_algebra(payload)
    start = time.monotonic()
    with in_place:
        executable = compile_with(partial(client_compile, module), dumping(header["dump"], header["options"]))
    seconds = time.monotonic() - start
    optimized = executable.hlo_modules()[0]
    computation = computation_of(optimized)
    parameters, results = signature(computation)
    orders = layouts(computation) if header["kind"] == "hlo-optimized" else [None] * len(parameters)
    handle = next(state["numbers"])
    state["executables"][handle] = (executable, parameters, results, orders)
    reply = {"handle": handle, "seconds": seconds, "parameters": parameters, "results": results}
    return reply, [hlo_text(optimized).encode()]


def run(state: dict, header: dict, blobs: list):
    import jax
    import numpy as np

    executable, parameters, results, orders = state["executables"][header["handle"]]
    device = cpu_device()
    if any(p["dtype"] == "token" for p in parameters):
        raise Refused("Unsupported", "a program with a token parameter can be compiled, but not run")
    with x64(True):
        # Copied in for each run: a donated argument is overwritten, and the next run must not see that.
        arrays = [laid_out(get_array(spec, blobs), order) for spec, order in zip(header["arrays"], orders)]
        buffers = [jax.device_put(array, device) for array in arrays]
        start = time.monotonic()
        outputs = executable.execute(buffers)
        tokens = [r["dtype"] == "token" for r in results]
        values = [np.zeros(0, bool) if t else np.asarray(o) for o, t in zip(outputs, tokens)]
    out = []
    reply = {"arrays": [put_array(v, out) for v in values], "seconds": time.monotonic() - start}
    return reply, out


def release(state: dict, header: dict, blobs: list):
    state["executables"].pop(header["handle"], None)
    return {}, []


REQUESTS = {
    "describe": describe, "load": load, "to_hlo": to_hlo, "compile": compile_program, "run": run, "release": release,
    "start_libtpu": start_libtpu, "compile_for_tpu": compile_for_tpu, "fault": fault,
}  # fmt: skip
