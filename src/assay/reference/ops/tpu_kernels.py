"""`tpu_custom_call`: kernels that the TPU compiler wrote, from the text of their bodies (`assay.reference.mosaic`)."""

from __future__ import annotations

import base64
import binascii

from assay.errors import Unsupported
from assay.hlo.attributes import backend_config
from assay.hlo.module import Instruction
from assay.hlo.shape import ArrayShape, TupleShape
from assay.reference.context import Context
from assay.reference.mosaic.grid import run_kernel
from assay.reference.mosaic.memory import unknown
from assay.reference.mosaic.ops import Open
from assay.reference.mosaic.text import CALL, parse_kernel
from assay.reference.registry import custom_call
from assay.reference.value import Ball, Value


@custom_call("tpu_custom_call")
def kernel(ctx: Context, instr: Instruction, *operands: Value) -> Value:
    """Undecided as a whole where a number that steers the kernel is."""
    shapes = instr.shape.elements if isinstance(instr.shape, TupleShape) else (instr.shape,)
    results = [shape for shape in shapes if isinstance(shape, ArrayShape)]
    balls = [operand for operand in operands if isinstance(operand, Ball)]
    if len(results) != len(shapes) or len(balls) != len(operands):
        raise Unsupported(CALL, "with operands or results that are no arrays")
    try:
        found = run_kernel(ctx, parse_kernel(_body(instr)), balls, results)
    except Open:
        found = [unknown(shape) for shape in results]
    return tuple(found) if isinstance(instr.shape, TupleShape) else found[0]


def _body(instr: Instruction) -> str:
    config = backend_config(instr)
    custom = config.get("custom_call_config") if isinstance(config, dict) else None
    body = custom.get("body") if isinstance(custom, dict) else None
    if not isinstance(body, str):
        raise Unsupported(CALL, "without a body")
    try:
        return base64.b64decode(body, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise Unsupported(CALL, "a body that is no text") from None
