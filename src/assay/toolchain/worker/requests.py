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

from .faults import fault
from .programs import (
    CALLBACKS,
    client_compile,
    compilable,
    compile_options,
    computation_of,
    cpu_device,
    hlo_text,
    signature,
    unoptimized,
    x64,
)
from .user_file import load
from .wire import Refused, get_array, put_array


def describe(state: dict, header: dict, blobs: list):
    versions = {"python": platform.python_version(), "platform": cpu_device().platform}
    for name in ("jax", "jaxlib", "numpy", "scipy", "ml_dtypes", "libtpu"):
        versions[name] = distribution_version(name)
    versions["jax"] = sys.modules["jax"].__version__
    return {"versions": versions, "xla_flags": os.environ.get("XLA_FLAGS", "")}, []


def distribution_version(name: str):
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def to_hlo(state: dict, header: dict, blobs: list):
    return {}, [hlo_text(unoptimized(bytes(blobs[0]), header["kind"])).encode()]


def option_values(text: str) -> list:
    """What an option's text may mean, most likely first: XLA wants the type of the field, and only it knows which."""
    values = []
    if text.lower() in ("true", "false"):
        values.append(text.lower() == "true")
    for convert in (int, float):
        with contextlib.suppress(ValueError):
            values.append(convert(text))
    if text in ("0", "1"):
        values.append(text == "1")
    return [*values, text]


def compile_with(module, options: dict):
    """Compile, trying each option's text as the types it may have; XLA names the option that it does not take."""
    candidates = {name: option_values(text) for name, text in options.items()}
    while True:
        try:
            return client_compile(module, compile_options([(name, values[0]) for name, values in candidates.items()]))
        except Exception as e:
            message = str(e)
            guilty = [name for name in candidates if f"option {name}," in message or f"'{name}'" in message]
            if "No such compile option" in message:
                raise Refused("UnknownOption", f"this XLA has no option {', '.join(guilty) or message}") from e
            if "While setting option" not in message or not guilty:
                raise
            name = guilty[0]
            candidates[name].pop(0)
            if not candidates[name]:
                raise Refused("BadOption", f"{message.splitlines()[0]}") from e


def compile_program(state: dict, header: dict, blobs: list):
    payload = bytes(blobs[0])
    module = compilable(payload, header["kind"])
    if any(name.encode() in payload for name in CALLBACKS) and hash(payload) not in state["callbacks"]:
        raise Refused("HostCallback", "the program calls back into Python; only the process that traced it can run it")
    start = time.monotonic()
    executable = compile_with(module, header["options"])
    seconds = time.monotonic() - start
    optimized = executable.hlo_modules()[0]
    parameters, results = signature(computation_of(optimized))
    handle = next(state["numbers"])
    state["executables"][handle] = (executable, results)
    reply = {"handle": handle, "seconds": seconds, "parameters": parameters, "results": results}
    return reply, [hlo_text(optimized).encode()]


def run(state: dict, header: dict, blobs: list):
    import jax
    import numpy as np

    executable, results = state["executables"][header["handle"]]
    device = cpu_device()
    with x64(True):
        # Copied in for each run: a donated argument is overwritten, and the next run must not see that.
        buffers = [jax.device_put(get_array(spec, blobs), device) for spec in header["arrays"]]
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
    "fault": fault,
}  # fmt: skip
