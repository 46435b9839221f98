# mypy: ignore-errors
"""HLO and StableHLO in their several forms, and what differs between jaxlibs."""

from __future__ import annotations

import contextlib
import importlib
import io
import re

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


def compile_options():
    """jax's own compile options for one device."""
    import numpy as np

    for module in ("jax._src.compiler", "jax._src.xla_bridge"):
        with contextlib.suppress(ImportError):
            make = getattr(importlib.import_module(module), "get_compile_options", None)
            if make is not None:
                return make(num_replicas=1, num_partitions=1, device_assignment=np.array([[cpu_device().id]]))
    return jaxlib_attribute("CompileOptions")()


def client_compile(module, options):
    """StableHLO text or bytecode -> loaded executable."""
    device = cpu_device()
    if hasattr(device.client, "compile_and_load"):
        return device.client.compile_and_load(module, jaxlib_attribute("DeviceList")((device,)), options)
    return device.client.compile(module, options)


def prepare_linear_algebra(payload: bytes) -> None:
    """Have jaxlib look up SciPy's LAPACK, which its custom calls jump to: done by jax as it traces one, so not for a
    program that comes as HLO, and then they jump to address zero."""
    if b"lapack_" in payload:
        importlib.import_module("jaxlib.lapack")._lapack.initialize()


def hlo_text(module) -> str:
    """Text of an HloModule, constants in full."""
    options = jaxlib_attribute("HloPrintOptions")()
    options.print_large_constants = True
    return module.to_string(options)


NEGATIVE_ZERO = re.compile(r"(?<![\w.-])-0(?![\w.-])")


def module_of(text: str):
    """HLO text -> HloModule. XLA prints the float -0 as `-0`, and reads that as 0."""
    return jaxlib_attribute("hlo_module_from_text")(NEGATIVE_ZERO.sub("-0.0", text))


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
        with mlir.make_ir_context():
            return as_text(jaxlib_attribute("mlir").deserialize_portable_artifact(payload))
    with mlir.make_ir_context():
        return ir.Module.parse(payload).operation.get_asm(enable_debug_info=True)


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
    if kind in ("hlo-text", "hlo-optimized"):
        return module_of(payload.decode())
    if kind == "hlo-proto":
        return module.from_serialized_hlo_module_proto(hlo_proto_of(payload))
    return unfolded(mlir_text(exported_module(payload) if kind == "export" else payload))


CONSTANT = re.compile(
    r"^(\s*)(%[\w$.-]+) = (stablehlo|mhlo)\.constant (.* : (tensor<(?:[^<>]|<[^<>]*>)*>)(?: loc\(.*\))?)$", re.MULTILINE
)
HLO_CONSTANT = re.compile(r"^ *(?:ROOT )?(%?[\w.-]+) = [^ ]+ constant\(", re.MULTILINE)
BARRIER = re.compile(r"^ *(ROOT )?(%?[\w.-]+) = (.*?) opt-barrier\((?:[^%()]* )?(%?[\w.-]+)\)[^\n]*\n", re.MULTILINE)


def unfolded(text: str):
    """StableHLO text -> HloModule, by XLA's own conversion but without what it folds on the way.

    The conversion runs MLIR's canonicalizer, which folds constants and rewrites x + 0 to x. A reference that began
    after that would not see what it does wrong. So each constant is put behind an optimization barrier, which nothing
    folds through, and the barriers are taken out of the HLO again.
    """
    hidden, count = CONSTANT.subn(
        r'\1\2_folds_not = \3.constant \4\n\1\2 = "\3.optimization_barrier"(\2_folds_not) : (\5) -> \5', text
    )
    if count:
        try:
            converted = hlo_module(hidden)
        except Exception:
            # Something needs its constant to be one (a shape operand, a region that captures it): as XLA folds it then.
            return hlo_module(text)
        return module_of(without_barriers(hlo_text(converted)))
    return hlo_module(text)


def hlo_module(text: str):
    """StableHLO text -> HloModule as XLA converts it."""
    computation = jaxlib_attribute("mlir").mlir_module_to_xla_computation(text, False, False)
    proto = computation.as_serialized_hlo_module_proto()
    return jaxlib_attribute("HloModule").from_serialized_hlo_module_proto(proto)


def without_barriers(text: str) -> str:
    """HLO text with each opt-barrier of a constant replaced by the constant; one that is a root becomes a copy."""
    constants, behind = set(HLO_CONSTANT.findall(text)), {}

    def take_out(found) -> str:
        root, name, shape, operand = found.groups()
        if operand not in constants:
            return found.group()
        if root:
            return f"  ROOT {name} = {shape} copy({operand})\n"
        behind[name] = operand
        return ""

    text = BARRIER.sub(take_out, text)
    if not behind:
        return text
    names = re.compile("|".join(sorted((re.escape(n) for n in behind), key=len, reverse=True)) + r"(?![\w.-])")
    return names.sub(lambda found: behind[found.group()], text)


def compilable(payload: bytes, kind: str):
    """What client.compile takes: StableHLO is given as it came, HLO by way of XLA's own conversion."""
    if kind == "stablehlo":
        portable = payload.startswith(b"ML\xefR") and (b"vhlo" in payload[:4096] or b"StableHLO_v" in payload[:64])
        return mlir_text(payload) if portable or not payload.startswith(b"ML\xefR") else payload
    if kind == "export":
        return exported_module(payload)
    return jaxlib_attribute("mlir").xla_computation_to_mlir_module(computation_of(unoptimized(payload, kind)))
