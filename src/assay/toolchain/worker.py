# mypy: ignore-errors
"""The worker: the one process that loads the compiler under test. Runs unchanged under every jax from 0.4.13 on.

    python worker.py CONTROL_FD

The idea: what is started is a *fork server*. It imports jax, and nothing more: no backend, no thread. For each "fork" that
the host sends on the control socket, with two file descriptors, it forks a child that serves requests on the first and
has the second as its stdout and stderr. When the child ends the server reports its wait status, and the host asks for
another, which is there in the time of a fork rather than of an import. That holds for every toolchain. (Pebble's pool,
which does the same within one interpreter, cannot: it pickles functions between processes of one Python, and a
toolchain is usually another Python with no assay in it.)

The invariant: nothing of a request outlives its child, and nothing but frames is ever written to a child's channel.
A frame is an 8-byte little-endian length, that many bytes of JSON, then the binary blobs whose sizes the JSON gives.

This file imports nothing of assay, and keeps to the syntax of Python 3.9. Version differences are found by looking for
attributes, never by version numbers.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import fnmatch
import importlib
import importlib.util
import io
import itertools
import json
import os
import platform
import resource
import select
import signal
import socket
import struct
import sys
import time
import traceback

if __name__ == "__main__":  # this folder must not shadow anybody's modules
    sys.path.pop(0)

# ---------------------------------------------------------------- frames and arrays; the host uses these too

# numpy's name -> XLA's name, where they differ by more than the obvious
DTYPE_NAMES = {
    "bool": "pred", "bfloat16": "bf16", "complex64": "c64", "complex128": "c128",
    "float16": "f16", "float32": "f32", "float64": "f64",
    "float8_e3m4": "f8e3m4", "float8_e4m3": "f8e4m3", "float8_e4m3fn": "f8e4m3fn", "float8_e4m3fnuz": "f8e4m3fnuz",
    "float8_e4m3b11": "f8e4m3b11fnuz", "float8_e4m3b11fnuz": "f8e4m3b11fnuz", "float8_e5m2": "f8e5m2",
    "float8_e5m2fnuz": "f8e5m2fnuz", "float8_e8m0fnu": "f8e8m0fnu", "float4_e2m1fn": "f4e2m1fn",
    **{f"int{n}": f"s{n}" for n in (1, 2, 4, 8, 16, 32, 64)},
    **{f"uint{n}": f"u{n}" for n in (1, 2, 4, 8, 16, 32, 64)},
}  # fmt: skip
NUMPY_NAMES = {xla: name for name, xla in DTYPE_NAMES.items()}


def numpy_dtype(name: str):
    """The NumPy dtype that XLA spells `name`; TypeError if this Python has none."""
    import numpy as np

    known = NUMPY_NAMES.get(name)
    if known is not None and known in np.sctypeDict:
        return np.dtype(known)
    import ml_dtypes

    if known is None or not hasattr(ml_dtypes, known):
        raise TypeError(f"dtype {name} has no NumPy counterpart in Python {platform.python_version()}")
    return np.dtype(getattr(ml_dtypes, known))


def xla_dtype(dtype) -> str:
    """XLA's name for a NumPy dtype; TypeError if XLA has none."""
    name = str(dtype)
    if name not in DTYPE_NAMES:
        raise TypeError(f"dtype {name} is not one of XLA's")
    return DTYPE_NAMES[name]


def put_array(array, blobs: list) -> dict:
    """Append the array's bytes (C order, one byte an element below 8 bits) to `blobs`; its description is returned."""
    import numpy as np

    array = np.asarray(array)
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    blobs.append(memoryview(flat))
    return {"dtype": xla_dtype(array.dtype), "shape": list(array.shape), "blob": len(blobs) - 1}


def get_array(spec: dict, blobs: list):
    """The array that `put_array` described; shares memory with its blob."""
    import numpy as np

    return np.frombuffer(blobs[spec["blob"]], dtype=numpy_dtype(spec["dtype"])).reshape(spec["shape"])


def frame(header: dict, blobs: list) -> list:
    """The pieces to write, in order, for one frame."""
    header = dict(header, blobs=[len(b) for b in blobs])
    text = json.dumps(header).encode()
    return [struct.pack("<Q", len(text)) + text, *blobs]


def read_exactly(channel: socket.socket, size: int) -> bytearray | None:
    buffer = bytearray(size)
    view, got = memoryview(buffer), 0
    while got < size:
        n = channel.recv_into(view[got:], min(size - got, 1 << 26))
        if n == 0:
            return None
        got += n
    return buffer


def read_frame(channel: socket.socket):
    """(header, blobs), or None when the other side is gone."""
    prefix = read_exactly(channel, 8)
    text = prefix and read_exactly(channel, struct.unpack("<Q", prefix)[0])
    if not text:
        return None
    header = json.loads(bytes(text))
    blobs = [read_exactly(channel, size) for size in header["blobs"]]
    return None if any(b is None for b in blobs) else (header, blobs)


# ---------------------------------------------------------------- what differs between jaxlibs


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


# ---------------------------------------------------------------- programs in their several forms


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

    Field 1 of an HloModuleProto is its name; of the other two it is a message, whose own first byte opens field 1 (0x0a),
    and no name begins with a newline.
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
    raise Refused("InvalidProto", "not an HLO module: a serialized HloModuleProto, HloProto or HloSnapshot was expected")


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


CALLBACKS = ("xla_python_cpu_callback", "xla_ffi_python_cpu_callback", "xla_ffi_partitioned_python_cpu_callback")


# ---------------------------------------------------------------- the user's Python file


def where_in(error: BaseException, path: str) -> str:
    """`file:line` of the innermost frame in the user's file or its folder, else of the raise itself."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    folder = os.path.dirname(os.path.abspath(path)) + os.sep
    for wanted in (os.path.abspath(path), folder):
        for f in reversed(frames):
            if os.path.abspath(f.filename).startswith(wanted) and "site-packages" not in f.filename:
                return f"{f.filename}:{f.lineno}"
    return ""


def problem(error: BaseException, path: str) -> dict:
    return {"type": type(error).__name__, "message": str(error), "where": where_in(error, path)}


@contextlib.contextmanager
def user_file(path: str):
    """The file's module, executed; whatever it changed in the process is put back afterwards, so that a later load of
    another file does not inherit its 64-bit mode, search path, folder or a sibling module of the same name."""
    import jax

    folder = os.path.dirname(os.path.abspath(path))
    config, modules = dict(jax.config.values), set(sys.modules)
    search, cwd, argv = list(sys.path), os.getcwd(), list(sys.argv)
    try:
        sys.path.insert(0, folder)
        sys.argv = [path]
        name = "_assay_" + "".join(c if c.isalnum() else "_" for c in os.path.basename(path))
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None:
            raise Refused("ImportError", f"{path}: not a Python file (.py)")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        if getattr(module, "X64", False):
            jax.config.update("jax_enable_x64", True)
        yield module
    finally:
        for key, value in config.items():
            if jax.config.values.get(key, value) is not value:
                jax.config.update(key, value)
        for key in set(sys.modules) - modules:
            file = getattr(sys.modules[key], "__file__", None) or ""
            if file.startswith(folder + os.sep) and "site-packages" not in file:
                del sys.modules[key]
        sys.path[:], sys.argv = search, argv
        os.chdir(cwd)


def find_function(module, name: str):
    found = module
    for part in name.split("."):
        if not hasattr(found, part):
            names = sorted(k for k, v in vars(module).items() if callable(v) and not k.startswith("_"))
            raise Refused("MissingFunction", f"no function {name} in it; it has: {', '.join(names) or 'none'}")
        found = getattr(found, part)
    if not callable(found):
        raise Refused("MissingFunction", f"{name} is a {type(found).__name__}, not a function")
    return found


def example_arguments(module, name: str, function, arrays):
    """The argument tuple for `function`: from example_args(), with the host's arrays, where given, in place of its leaves."""
    import inspect

    import jax

    make = getattr(module, "example_args", None)
    if make is not None:
        args = make()
        args = args if isinstance(args, tuple) else (args,)
        if arrays is None:
            return args
        leaves, tree = jax.tree_util.tree_flatten(args)
        if len(leaves) != len(arrays):
            raise Refused("ArgumentCount", f"{name} takes {len(leaves)} arrays (see example_args), {len(arrays)} were given")
        return jax.tree_util.tree_unflatten(tree, arrays)
    if arrays is not None:
        return tuple(arrays)
    with contextlib.suppress(TypeError, ValueError):
        if not inspect.signature(function).parameters:
            return ()
    raise Refused("MissingArguments", f"no arguments for {name}: define example_args() in the file, or give inputs")


def lower(function, args):
    """(lowered, flat arguments). Every argument keeps its parameter, used or not, so that they line up."""
    import jax

    try:
        return jax.jit(function, keep_unused=True).lower(*args), jax.tree_util.tree_leaves(args)
    except TypeError:
        if not hasattr(function, "lower"):
            raise
    # A function that is already jitted with static arguments: only its own lower() knows which. The dynamic ones are the
    # choice of positions whose tree is the one it reports; an argument that is no array is static first.
    lowered = function.lower(*args)
    wanted = lowered.in_tree
    static_first = sorted(range(len(args)), key=lambda i: hasattr(args[i], "dtype"))
    for count in range(1, len(args) + 1):
        for static in itertools.combinations(static_first, count):
            dynamic = tuple(a for i, a in enumerate(args) if i not in static)
            if jax.tree_util.tree_structure((dynamic, {})) == wanted:
                return jax.jit(pinned(function, args, static), keep_unused=True).lower(*dynamic), (
                    jax.tree_util.tree_leaves(dynamic)
                )
    raise Refused("StaticArguments", "cannot tell which arguments are static; pass a function of arrays only")


def pinned(function, args, static):
    def of_dynamic(*dynamic):
        rest = iter(dynamic)
        return function(*[args[i] if i in static else next(rest) for i in range(len(args))])

    of_dynamic.__name__ = getattr(function, "__name__", "function")
    return of_dynamic


def value_of(leaf, kind: dict):
    """The leaf as an array of the parameter's dtype, or None if it is only a shape."""
    import jax
    import numpy as np

    if isinstance(leaf, jax.ShapeDtypeStruct):
        return None
    if "key<" in str(getattr(leaf, "dtype", "")):
        leaf = jax.random.key_data(leaf)
    return np.asarray(leaf).astype(numpy_dtype(kind["dtype"])).reshape(kind["shape"])


def paths_of(tree, leaves: int) -> list:
    import jax

    numbered = jax.tree_util.tree_unflatten(tree, list(range(leaves)))
    if hasattr(jax.tree_util, "tree_flatten_with_path"):
        return [jax.tree_util.keystr(p) for p, _ in jax.tree_util.tree_flatten_with_path(numbered)[0]]
    return [f"[{i}]" for i in range(leaves)]


def expected_leaves(expected, lowered, results: list) -> list:
    """The user's expected arrays, one for each result; ValueError where they do not fit."""
    import jax
    import numpy as np

    if len(results) == 1:
        leaves = jax.tree_util.tree_leaves(expected) if isinstance(expected, (tuple, dict)) else [expected]
    else:
        leaves = jax.tree_util.tree_leaves(expected)
    if len(leaves) != len(results):
        raise ValueError(f"expected has {len(leaves)} arrays, the function returns {len(results)}")
    arrays = [np.asarray(leaf) for leaf in leaves]
    for i, (array, result) in enumerate(zip(arrays, results)):
        if list(array.shape) != result["shape"]:
            raise ValueError(f"expected[{i}] has shape {array.shape}, the function returns {tuple(result['shape'])}")
    return arrays


def load_case(case: dict, function, args, expected, has_expected: bool, blobs: list, live: set) -> None:
    """Fill `case` with the lowered program, its arguments, results and expectation."""
    lowered, leaves = lower(function, args)
    module = bytecode(lowered)
    text = mlir_text(module)
    if any(name in text for name in CALLBACKS):
        live.add(hash(module))
    hlo = unoptimized(module, "stablehlo")
    parameters, results = signature(computation_of(hlo))
    if len(parameters) != len(leaves):
        raise Refused("ArgumentCount", f"{len(leaves)} arguments became {len(parameters)} parameters (ordered effects?)")
    import jax

    paths = paths_of(jax.tree_util.tree_structure(args), len(leaves)) if len(leaves) == len(
        jax.tree_util.tree_leaves(args)
    ) else [f"[{i}]" for i in range(len(leaves))]
    case["arguments"] = []
    for path, leaf, kind in zip(paths, leaves, parameters):
        value = value_of(leaf, kind)
        case["arguments"].append(
            dict(kind, path=path, weak=isinstance(leaf, (bool, int, float, complex)), blob=None)
            if value is None
            else dict(put_array(value, blobs), path=path, weak=isinstance(leaf, (bool, int, float, complex)))
        )
    output_paths = paths_of(lowered.out_tree, lowered.out_tree.num_leaves)
    case["results"] = [dict(r, path=p) for r, p in zip(results, output_paths)]
    blobs.append(module)
    case["stablehlo"] = len(blobs) - 1
    blobs.append(hlo_text(hlo).encode())
    case["hlo"] = len(blobs) - 1
    if has_expected:
        try:
            case["expected"] = [put_array(a, blobs) for a in expected_leaves(expected, lowered, results)]
        except (TypeError, ValueError) as e:
            case["expected_error"] = str(e)


def cases_of(module, header: dict, arrays):
    """Yield (name, function, args, expected, has_expected)."""
    if header["function"]:
        function = find_function(module, header["function"])
        yield header["function"], function, example_arguments(module, header["function"], function, arrays), None, False
        return
    if not hasattr(module, "cases"):
        raise Refused("MissingFunction", "no cases() in it; name a function of it as FILE:FUNCTION")
    for number, case in enumerate(module.cases()):
        if not isinstance(case, tuple) or len(case) not in (3, 4):
            raise Refused("BadCase", f"case {number} of cases() is not (name, function, arguments, expected)")
        name, function, args = case[:3]
        args = args if isinstance(args, (tuple, list)) else (args,)
        if not header["filter"] or any(fnmatch.fnmatchcase(str(name), pattern) for pattern in header["filter"]):
            yield str(name), function, tuple(args), case[3] if len(case) == 4 else None, len(case) == 4


def load(state: dict, header: dict, blobs: list):
    import jax

    path = header["path"]
    arrays = None if header["arrays"] is None else [get_array(spec, blobs) for spec in header["arrays"]]
    cases, out = [], []
    try:
        with user_file(path) as module:
            reply = {"x64": bool(jax.config.jax_enable_x64), "rtol": getattr(module, "RTOL", None)}
            found = cases_of(module, header, arrays)
            while True:
                try:
                    name, function, args, expected, has_expected = next(found)
                except StopIteration:
                    break
                except Exception as e:
                    if header["function"] or (isinstance(e, Refused) and not cases):
                        raise
                    cases.append({"name": "cases()", "error": problem(e, path)})
                    break
                case = {"name": name, "error": None}
                try:
                    load_case(case, function, args, expected, has_expected, out, state["callbacks"])
                except Exception as e:
                    case = {"name": name, "error": problem(e, path)}
                cases.append(case)
    except (Exception, SystemExit) as e:
        raise UserFile(problem(e, path)) from e
    return dict(reply, cases=cases), out


# ---------------------------------------------------------------- requests


class Refused(Exception):
    """A request that cannot be done, with a type name that says why."""

    def __init__(self, kind: str, message: str):
        super().__init__(message)
        self.kind = kind


class UserFile(Exception):
    """An error in the user's file: `problem` has type, message and where."""

    def __init__(self, found: dict):
        super().__init__(found["message"])
        self.problem = found


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
            guilty = [n for n in candidates if f"option {n}," in message or f"option '{n}'" in message or f"'{n}'" in message]
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
    if kind == "spew":
        with open(2, "w", closefd=False) as err:
            for i in range(header.get("lines", 1_000_000)):
                err.write(f"spew line {i}\n")
    if kind == "stdout":
        os.write(1, b"the compiler prints here\n")
        print("and so does Python", flush=True)
    if kind == "raise":
        raise RuntimeError("raised on purpose")
    if kind == "exhausted":
        raise RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 1 bytes.")
    return {}, []


REQUESTS = {
    "describe": describe, "load": load, "to_hlo": to_hlo, "compile": compile_program, "run": run, "release": release,
    "fault": fault,
}  # fmt: skip


def serve(channel: socket.socket) -> None:
    """Answer requests until the host hangs up."""
    state = {"executables": {}, "numbers": itertools.count(1), "callbacks": set()}
    while True:
        got = read_frame(channel)
        if got is None:
            return
        header, blobs = got
        try:
            reply, out = REQUESTS[header["op"]](state, header, blobs)
            reply = dict(reply, ok=True)
        except UserFile as e:
            reply, out = dict(e.problem, ok=False, user=True), []
        except Refused as e:
            reply, out = {"ok": False, "type": e.kind, "message": str(e), "where": "", "user": False}, []
        except Exception as e:
            reply, out = {"ok": False, "type": type(e).__name__, "message": str(e), "where": "", "user": False}, []
            traceback.print_exc()
        del blobs
        sys.stdout.flush()
        sys.stderr.flush()
        for piece in frame(reply, out):
            channel.sendall(piece)


# ---------------------------------------------------------------- the fork server


def become_child(server: int, channel_fd: int, log_fd: int) -> None:
    """In the forked child: own process group, output to the log, dead when the server is."""
    os.setpgid(0, 0)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != server:
        os._exit(0)
    os.dup2(log_fd, 1)
    os.dup2(log_fd, 2)
    os.close(log_fd)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.enable(file=2, all_threads=True)
    faulthandler.register(signal.SIGUSR1, file=2, all_threads=True)  # the host asks where a hang is before it kills it
    status = 1
    try:
        serve(socket.socket(fileno=channel_fd))
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def server(control: socket.socket) -> None:
    """Fork a child for each request to; report each child's end; when the host goes, take the child along and go too."""
    import warnings

    warnings.filterwarnings("ignore")
    import jax
    import jax.numpy  # noqa: F401

    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    os.set_blocking(write_end, False)
    signal.set_wakeup_fd(write_end)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    children = set()

    def say(message: dict) -> None:
        with contextlib.suppress(OSError):  # the host is gone: the next read of the control socket says so
            control.sendall(json.dumps(message).encode() + b"\n")

    say({"ready": jax.__version__})
    while True:
        ready, _, _ = select.select([control, read_end], [], [])
        if read_end in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(read_end, 4096)
            for pid in list(children):
                done, status = os.waitpid(pid, os.WNOHANG)
                if done:
                    children.remove(pid)
                    say({"exit": pid, "status": status})
        if control in ready:
            text, fds, _, _ = socket.recv_fds(control, 4096, 2)
            if not text:
                for pid in children:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(pid, signal.SIGKILL)
                return
            if text == b"kill\n":
                for pid in children:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(pid, signal.SIGKILL)
                continue
            me = os.getpid()
            pid = os.fork()
            if pid == 0:
                control.close()
                os.close(read_end)
                os.close(write_end)
                become_child(me, *fds)
            with contextlib.suppress(PermissionError):  # the child has set it itself already
                os.setpgid(pid, pid)
            children.add(pid)
            for fd in fds:
                os.close(fd)
            say({"pid": pid})


if __name__ == "__main__":
    server(socket.socket(fileno=int(sys.argv[1])))
