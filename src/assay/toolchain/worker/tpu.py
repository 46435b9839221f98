# mypy: ignore-errors
"""The request that compiles for a TPU that is not there, with the libtpu of this Python.

Known: libtpu reads LIBTPU_INIT_ARGS once, when it is first used, so a child that has compiled with some keeps to them;
the host asks for a fresh child where others are wanted. Dumps of HLO are an option of each compilation.
TPU_SKIP_MDS_QUERY keeps it from asking a cloud's metadata server where it is, and ALLOW_MULTIPLE_LIBTPU_LOAD lets
several processes of a machine use it, which is fine as long as none talks to a device.
"""

from __future__ import annotations

import importlib.util
import os
import time

from .options import compile_with, dumping
from .pjrt import PjrtError, Plugin, api_of
from .programs import (
    computation_of,
    exported_module,
    hlo_proto_of,
    hlo_text,
    jaxlib_attribute,
    mlir_text,
    signature,
    unoptimized,
)
from .wire import Refused

ENVIRONMENT = {"TPU_SKIP_MDS_QUERY": "1", "ALLOW_MULTIPLE_LIBTPU_LOAD": "1"}


def start_libtpu(state: dict, header: dict, blobs: list):
    """Load libtpu and look whether it knows the topology; `NoLibtpu`, `LibtpuDoesNotLoad`, `UnknownTopology` if not."""
    plugin = libtpu(state, header["init_args"])
    topology_of(plugin, header["topology"])
    return {"api": list(plugin.version)}, []


def compile_for_tpu(state: dict, header: dict, blobs: list):
    payload = bytes(blobs[0])
    plugin = libtpu(state, header["init_args"])
    topology = topology_of(plugin, header["topology"])
    form, program, needed = given(plugin, payload, header["kind"])
    options = dumping(header["dump"], {**needed, **header["options"]})
    seconds = []

    def compile_once(settings):
        start = time.monotonic()
        try:
            return plugin.compile(program, form, settings.SerializeAsString(), topology)
        except PjrtError as e:
            if "id > INT_MAX" not in str(e):
                raise
            # Newer jaxlibs number instructions with 64 bits. StableHLO has no numbers.
            raise Refused("LibtpuDoesNotFit", f"this libtpu cannot read the HLO that this jaxlib writes: {e}") from e
        finally:
            seconds.append(time.monotonic() - start)

    executable = compile_with(compile_once, options, directly=False)
    try:
        proto = hlo_proto_of(executable.optimized())
    finally:
        executable.close()
    try:
        module = jaxlib_attribute("HloModule").from_serialized_hlo_module_proto(proto)
        parameters, results = signature(computation_of(module))
    except Exception as e:
        raise Refused("LibtpuDoesNotFit", f"this jaxlib cannot read what this libtpu writes: {e}") from e
    reply = {"seconds": seconds[-1], "parameters": parameters, "results": results}
    return reply, [hlo_text(module).encode()]


def libtpu(state: dict, init_args: list) -> Plugin:
    """The plugin, loaded at the first call of this process with these arguments."""
    text = " ".join(init_args)
    if "libtpu" in state:
        plugin, loaded_with = state["libtpu"]
        if loaded_with != text:
            raise Refused("InitArguments", f"libtpu was loaded with {loaded_with!r} in this process, not {text!r}")
        return plugin
    path = libtpu_path()
    os.environ.update(ENVIRONMENT)
    if text:
        os.environ["LIBTPU_INIT_ARGS"] = f"{os.environ.get('LIBTPU_INIT_ARGS', '')} {text}".strip()
    try:
        plugin = Plugin(api_of(path))
    except (OSError, AttributeError, PjrtError) as e:
        raise Refused("LibtpuDoesNotLoad", f"{path} does not load: {e}") from e
    state["libtpu"] = (plugin, text)
    return plugin


def topology_of(plugin: Plugin, name: str) -> int:
    try:
        return plugin.topology(name)
    except PjrtError as e:
        raise Refused("UnknownTopology", f"libtpu has no topology {name}: {e}") from e


def libtpu_path() -> str:
    """Where libtpu.so is: TPU_LIBRARY_PATH, which jax sets as well, else in this Python's `libtpu` package."""
    path = os.environ.get("TPU_LIBRARY_PATH") or packaged_libtpu()
    if path is None:
        raise Refused("NoLibtpu", "this Python has no libtpu")
    return path


def packaged_libtpu():
    """The library in this Python's `libtpu` package; None without one."""
    spec = importlib.util.find_spec("libtpu")
    for folder in () if spec is None else spec.submodule_search_locations or ():
        path = os.path.join(folder, "libtpu.so")
        if os.path.exists(path):
            return path
    return None


def given(plugin: Plugin, payload: bytes, kind: str) -> tuple:
    """(form, program, options) as PJRT_Compile takes them: StableHLO as jax gives it, HLO as it is, schedule and all.

    A scheduled module has its memory spaces; to assign them anew, as is done after the schedule, fails a check.
    """
    if kind in ("stablehlo", "export"):
        return "mlir", portable(plugin, exported_module(payload) if kind == "export" else payload), {}
    module = unoptimized(payload, kind)
    header = hlo_text(module).partition("\n")[0]
    needed = {"xla_msa_enable": "false"} if "is_scheduled=true" in header else {}
    return "hlo", module.as_serialized_hlo_module_proto(), needed


def portable(plugin: Plugin, payload: bytes) -> bytes:
    """StableHLO as a portable artifact of the newest version that jaxlib writes and libtpu reads."""
    from jaxlib.mlir.dialects import stablehlo

    ours = tuple(int(n) for n in stablehlo.get_current_version().split("."))
    theirs = plugin.attribute("stablehlo_current_version") or ours
    version, text = ".".join(str(n) for n in min(ours, theirs)), mlir_text(payload)
    try:
        return jaxlib_attribute("mlir").serialize_portable_artifact(text, version)
    except Exception as e:
        if version == stablehlo.get_current_version():
            raise
        raise Refused(
            "LibtpuDoesNotFit", f"this libtpu reads StableHLO {version}, which lacks what is used: {e}"
        ) from e
