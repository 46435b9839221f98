# mypy: ignore-errors
"""HLO and StableHLO in their several forms, and what differs between jaxlibs."""

from __future__ import annotations

import contextlib
import importlib
import io

from .wire import Refused, xla_dtype

CALLBACKS = ("xla_python_cpu_callback", "xla_ffi_python_cpu_callback", "xla_ffi_partitioned_python_cpu_callback")


def jaxlib_attribute(name: str):
    """`name` from whichever of jaxlib's extension modules has it here."""
    for module in ("jaxlib._hlo", "jaxlib._jax", "jaxlib.xla_extension"):
        with contextlib.suppress(ImportError):
            found = getattr(importlib.import_module(module), name, None)
            if found is not None:
                return found
    raise Refused("Unsupported", f"this jaxlib has no {name}")


def cpu_device():
    import jax

    return jax.local_devices(backend="cpu")[0]


def compile_options(overrides: list):
    """jax's own compile options for one device, with `overrides` as [(name, value)]."""
    import numpy as np

    for module in ("jax._src.compiler", "jax._src.xla_bridge"):
        with contextlib.suppress(ImportError):
            make = getattr(importlib.import_module(module), "get_compile_options", None)
            if make is not None:
                options = make(num_replicas=1, num_partitions=1, device_assignment=np.array([[cpu_device().id]]))
                break
    else:
        options = jaxlib_attribute("CompileOptions")()
    options.env_option_overrides = list(overrides)
    return options


def client_compile(module, options):
    """StableHLO text or bytecode -> loaded executable."""
    device = cpu_device()
    if hasattr(device.client, "compile_and_load"):
        return device.client.compile_and_load(module, jaxlib_attribute("DeviceList")((device,)), options)
    return device.client.compile(module, options)


def hlo_text(module) -> str:
    """Text of an HloModule, constants in full."""
    options = jaxlib_attribute("HloPrintOptions")()
    options.print_large_constants = True
    return module.to_string(options)


def computation_of(module):
    return jaxlib_attribute("XlaComputation")(module.as_serialized_hlo_module_proto())


def signature(computation) -> tuple:
    """([parameter types], [result types]) of an XlaComputation, tuples flattened; a type is {"dtype", "shape"}."""

    def flat(shape):
        if shape.is_tuple():
            return [leaf for part in shape.tuple_shapes() for leaf in flat(part)]
        if not shape.is_array():
            return [{"dtype": "token", "shape": []}]
        return [{"dtype": xla_dtype(shape.numpy_dtype()), "shape": list(shape.dimensions())}]

    program = computation.program_shape()
    parameters = [leaf for shape in program.parameter_shapes() for leaf in flat(shape)]
    return parameters, flat(program.result_shape())


@contextlib.contextmanager
def x64(value: bool):
    """jax's 64-bit mode for a while; arrays are never narrowed on their way in when it is on."""
    import jax

    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", value)
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", before)


def mlir_text(payload: bytes) -> str:
    """StableHLO as text, from text, bytecode or a portable artifact."""
    from jax._src.interpreters import mlir
    from jaxlib.mlir import ir

    if not payload.startswith(b"ML\xefR"):
        return payload.decode()
    if b"vhlo" in payload[:4096] or b"StableHLO_v" in payload[:64]:
        return as_text(jaxlib_attribute("mlir").deserialize_portable_artifact(payload))
    with mlir.make_ir_context():
        return str(ir.Module.parse(payload))


def as_text(module) -> str:
    if isinstance(module, bytes):
        return mlir_text(module) if module.startswith(b"ML\xefR") else module.decode()
    return str(module)


def hlo_proto_of(payload: bytes) -> bytes:
    """The HloModuleProto in `payload`, which may be wrapped in an HloProto or an HloSnapshot.

    Field 1 of an HloModuleProto is its name; of the other two it is a message, whose own first byte opens field 1
    (0x0a), and no name begins with a newline.
    """
    while payload[:1] == b"\x0a":
        size, shift, at = 0, 0, 1
        while at < len(payload):
            byte = payload[at]
            size |= (byte & 127) << shift
            shift, at = shift + 7, at + 1
            if byte < 128:
                break
        inner = payload[at : at + size]
        if inner[:1] != b"\x0a":
            return payload
        payload = inner
    raise Refused("InvalidProto", "not a serialized HloModuleProto, HloProto or HloSnapshot")


def exported_module(payload: bytes) -> bytes:
    """The StableHLO bytecode that jax lowers a jax.export artifact to, for its own argument shapes."""
    import jax

    try:
        export = importlib.import_module("jax.export")
    except ImportError:
        raise Refused("Unsupported", f"jax {jax.__version__} has no jax.export") from None
    exported = export.deserialize(bytearray(payload))
    if any(not isinstance(d, int) for aval in exported.in_avals for d in aval.shape):
        shapes = ", ".join(str(aval.shape) for aval in exported.in_avals)
        raise Refused("SymbolicShape", f"exported with symbolic shapes ({shapes}); export it with concrete ones")
    with x64(jax.config.jax_enable_x64 or any(aval.dtype.itemsize == 8 for aval in exported.in_avals)):
        leaves = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in exported.in_avals]
        args, kwargs = jax.tree_util.tree_unflatten(exported.in_tree, leaves)
        return bytecode(jax.jit(exported.call, keep_unused=True).lower(*args, **kwargs))


def bytecode(lowered) -> bytes:
    buffer = io.BytesIO()
    lowered.compiler_ir("stablehlo").operation.write_bytecode(buffer)
    return buffer.getvalue()


def unoptimized(payload: bytes, kind: str):
    """The HloModule, before any pass, of a payload of any kind."""
    module = jaxlib_attribute("HloModule")
    if kind == "hlo-text":
        return jaxlib_attribute("hlo_module_from_text")(payload.decode())
    if kind == "hlo-proto":
        return module.from_serialized_hlo_module_proto(hlo_proto_of(payload))
    text = mlir_text(exported_module(payload) if kind == "export" else payload)
    computation = jaxlib_attribute("mlir").mlir_module_to_xla_computation(text, False, False)
    return module.from_serialized_hlo_module_proto(computation.as_serialized_hlo_module_proto())


def compilable(payload: bytes, kind: str):
    """What client.compile takes: StableHLO is given as it came, HLO by way of XLA's own conversion."""
    if kind == "stablehlo":
        portable = payload.startswith(b"ML\xefR") and (b"vhlo" in payload[:4096] or b"StableHLO_v" in payload[:64])
        return mlir_text(payload) if portable or not payload.startswith(b"ML\xefR") else payload
    if kind == "export":
        return exported_module(payload)
    return jaxlib_attribute("mlir").xla_computation_to_mlir_module(computation_of(unoptimized(payload, kind)))
