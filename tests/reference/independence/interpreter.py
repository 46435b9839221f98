"""The StableHLO interpreter (`stablehlo.eval_module`), in a process of its own, since it aborts on what it has not.

Its Python binding knows neither complex nor narrow types as results, and no complex arguments: complex arrays go in and
out as their parts, narrow ones come out widened. Both are written into the program that it is given.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from assay.hlo.shape import DTYPES, ArrayShape, DType
from assay.reference.value import Array

from .builder import Program, show
from .rivals import Outcome, Refused

MLIR_TYPES = {
    "pred": "i1",
    **{f"s{n}": f"i{n}" for n in (1, 2, 4, 8, 16, 32, 64)},
    **{f"u{n}": f"ui{n}" for n in (1, 2, 4, 8, 16, 32, 64)},
    "c64": "complex<f32>",
    "c128": "complex<f64>",
    "f8e5m2": "f8E5M2",
    "f8e4m3": "f8E4M3",
    "f8e4m3fn": "f8E4M3FN",
    "f8e4m3b11fnuz": "f8E4M3B11FNUZ",
    "f8e5m2fnuz": "f8E5M2FNUZ",
    "f8e4m3fnuz": "f8E4M3FNUZ",
    "f8e3m4": "f8E3M4",
    "f8e8m0fnu": "f8E8M0FNU",
    "f6e2m3fn": "f6E2M3FN",
    "f6e3m2fn": "f6E3M2FN",
    "f4e2m1fn": "f4E2M1FN",
}


def handed_out(dtype: DType) -> DType:
    """The type in which an output comes back: its own, or one that holds it and that the binding knows."""
    if dtype.is_complex or dtype.kind == "pred" or dtype.name in ("f32", "f64", "f16"):
        return dtype
    if dtype.is_float:
        return DTYPES["f32"]
    return dtype if dtype.bits >= 8 else DTYPES["s8" if dtype.kind == "signed" else "u8"]


def rewritten(program: Program) -> tuple[str, list[tuple[str, Array]], list[ArrayShape]]:
    """The program for the interpreter: its text, its arguments with their element types, its results' shapes."""
    lines, arguments, shapes, names = [], [], [], []

    def parameter(shape: ArrayShape, value: Array) -> str:
        name = f"%in{len(arguments)}"
        lines.append(f"{name} = {show(shape)} parameter({len(arguments)})")
        arguments.append((shape.dtype.name, value))
        return name

    for name, shape, value in program.parameters:
        if shape.dtype.is_complex:
            part = ArrayShape(shape.dtype.part, shape.dims)
            parts = [parameter(part, p) for p in (value.real, value.imag)]
            lines.append(f"{name} = {show(shape)} complex({', '.join(parts)})")
        else:
            lines.append(f"{name} = {show(shape)} parameter({len(arguments)})")
            arguments.append((shape.dtype.name, value))
    lines += program.lines
    for name, shape in program.outputs:
        if shape.dtype.is_complex:
            part = ArrayShape(shape.dtype.part, shape.dims)
            ways = [(part, f"real({name})"), (part, f"imag({name})")]
        elif handed_out(shape.dtype) is not shape.dtype:
            wide = ArrayShape(handed_out(shape.dtype), shape.dims)
            ways = [(wide, f"convert({name})")]
        else:
            ways = []
            names.append(name)
            shapes.append(shape)
        for k, (to, text) in enumerate(ways):
            out = f"%~out{len(names)}_{k}"
            lines.append(f"{out} = {show(to)} {text}")
            names.append(out)
            shapes.append(to)
    root = f"ROOT %result = ({', '.join(map(show, shapes))}) tuple({', '.join(names)})"
    body = "\n".join(f"  {line}" for line in (*lines, root))
    text = f"HloModule drawn\n\n{program.computations}ENTRY %entry {{\n{body}\n}}\n".replace("~", "")
    return text, arguments, shapes


def gathered(program: Program, values: Sequence[Array]) -> list[Array]:
    """What came back, in the types of the program's outputs."""
    rest = list(values)
    found = []
    for _, shape in program.outputs:
        assert shape.dtype.numpy is not None
        first = rest.pop(0)
        if shape.dtype.is_complex:
            whole = np.empty(shape.dims, shape.dtype.numpy)
            whole.real, whole.imag = first, rest.pop(0)
            found.append(whole)
        else:
            with np.errstate(all="ignore"):
                found.append(np.asarray(first).astype(shape.dtype.numpy))
    return found


class Interpreter:
    """The process; started when first asked and again whenever it has died. A context manager."""

    name = "interpreter"

    def __init__(self, timeout_s: float = 20.0) -> None:
        self._timeout = timeout_s
        self._process: Any = None
        self._pipe: Connection | None = None

    def __enter__(self) -> Interpreter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
        self._process = self._pipe = None

    def run(self, programs: Sequence[Program]) -> list[Outcome]:
        return [self._one(program) for program in programs]

    def _one(self, program: Program) -> Outcome:
        text, arguments, _ = rewritten(program)
        if self._process is None:
            context = multiprocessing.get_context("forkserver")
            context.set_forkserver_preload(["jax._src.interpreters.mlir", "jaxlib._hlo"])
            self._pipe, theirs = context.Pipe()
            self._process = context.Process(target=serve, args=(theirs,), daemon=True)
            self._process.start()
            theirs.close()
        assert self._pipe is not None
        try:
            self._pipe.send((text, arguments))
            if not self._pipe.poll(self._timeout + 20):
                raise EOFError("no answer in time")
            stage, answer = self._pipe.recv()
        except (EOFError, ConnectionError) as error:
            self.close()
            return Refused(f"eval: the process ended {error}", died=True)
        return gathered(program, answer) if stage == "done" else Refused(f"{stage}: {answer}")


def serve(pipe: Connection) -> None:
    """Answers (text, arguments) with ("done", arrays) or (the stage that failed, what it said)."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    from jax._src.interpreters.mlir import make_ir_context

    context = make_ir_context()
    while True:
        try:
            text, arguments = pipe.recv()
        except EOFError:
            return
        pipe.send(answer(context, text, arguments))


def answer(context: Any, text: str, arguments: Sequence[tuple[str, Array]]) -> tuple[str, Any]:
    from jaxlib import _hlo, _jax
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    stage = "parse"
    try:
        computation = _hlo.XlaComputation(_hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto())
        stage = "import"
        converted = _jax.mlir.xla_computation_to_mlir_module(computation)
        with context, ir.Location.unknown():
            module = ir.Module.parse(converted)
            stage = "arguments"
            given = [attribute(dtype, value) for dtype, value in arguments]
            stage = "eval"
            return "done", [array_of(a) for a in stablehlo.eval_module(module, given)]
    except Exception as error:
        return stage, f"{type(error).__name__}: {error}"[:600]


def attribute(dtype: str, value: Array) -> Any:
    """The array as a DenseElementsAttr; booleans as text, of which MLIR packs eight into a byte or not."""
    from jaxlib.mlir import ir

    element = MLIR_TYPES.get(dtype, dtype)
    sizes = "".join(f"{size}x" for size in value.shape)
    if dtype == "pred":
        return ir.Attribute.parse(f"dense<{_nested(value)}> : tensor<{sizes}{element}>")
    kind = ir.RankedTensorType.get(list(value.shape), ir.Type.parse(element))
    raw = np.ascontiguousarray(value).reshape(value.shape)  # NumPy makes a vector of a scalar
    if raw.dtype.kind not in "iuf" or raw.dtype.name == "bfloat16":
        raw = raw.view(f"uint{8 * raw.dtype.itemsize}")
    return ir.DenseElementsAttr.get(raw, type=kind)


def _nested(value: Array) -> str:
    if value.size == 0:
        return ""
    if value.ndim == 0:
        return "true" if value else "false"
    return "[" + ",".join(_nested(row) for row in value) + "]"


def array_of(found: Any) -> Array:
    """A NumPy array, for those that are one value repeated too."""
    return np.array(found).reshape(found.type.shape)
