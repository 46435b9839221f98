"""Computations that another operation applies to elements: the bodies of reduce, scatter, sort, map.

A body is recognised by its structure (`body_kind`), so that a NumPy reduction can stand for it; any other body runs
once on whole arrays (`call_batched`), each element being one application.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from assay.errors import Unsupported
from assay.hlo import attributes
from assay.hlo.literal import literal_array
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.shape import ArrayShape, leaves
from assay.reference.context import Context
from assay.reference.registry import find
from assay.reference.value import Ball, Value, as_ball, from_array

Kind = str
KINDS = ("add", "multiply", "maximum", "minimum", "and", "or", "xor")
_THROUGH = {"convert", "copy", "bitcast", "reshape"}


def body_kind(module: Module, name: str) -> Kind | None:
    """What a body `(a, b) -> f(a, b)` of two scalars is: one of KINDS, `assign` (it returns b), or None where it is
    anything else.

    Converts around the operation count as part of it where they widen (float normalisation puts them there).
    """
    return component_kind(module, module.by_name[name], 0, 1)


def component_kinds(module: Module, name: str, count: int) -> tuple[Kind | None, ...]:
    """The kind of each component of a body `(a1..an, b1..bn) -> (f1(a1, b1), ..)`, None where it is not one of
    KINDS.
    """
    body = module.by_name[name]
    if count == 1:
        root = body.root.operands[0] if body.root.opcode == "tuple" else body.root_name
        return (_kind_at(module, body, root, 0, 1),)
    if body.root.opcode != "tuple" or len(body.root.operands) != count:
        return (None,) * count
    return tuple(_kind_at(module, body, operand, i, count + i) for i, operand in enumerate(body.root.operands))


def component_kind(module: Module, body: Computation, first: int, second: int) -> Kind | None:
    return _kind_at(module, body, body.root_name, first, second)


def _kind_at(module: Module, body: Computation, name: str, first: int, second: int) -> Kind | None:
    base = body.parameters[first]
    instruction = _inner(body, name, base)
    if instruction.opcode == "parameter":
        return "assign" if instruction.parameter_number == second else None
    numbers = [_inner(body, operand, base).parameter_number for operand in instruction.operands]
    if instruction.opcode in ("call", "fusion"):
        if first not in numbers or second not in numbers:
            return None
        inner = module.by_name[attributes.called(instruction)[0]]
        return _kind_at(module, inner, inner.root_name, numbers.index(first), numbers.index(second))
    if instruction.opcode not in KINDS or numbers not in ([first, second], [second, first]):
        return None
    return instruction.opcode if _widens(base, instruction) else None


def _inner(body: Computation, name: str, base: Instruction) -> Instruction:
    """The instruction under copies of scalars and under converts between types at least as wide as that of `base`."""
    instruction = body.by_name[name]
    while instruction.opcode in _THROUGH and _widens(base, instruction):
        instruction = body.by_name[instruction.operands[0]]
    return instruction


def _widens(parameter: Instruction, instruction: Instruction) -> bool:
    """Whether the instruction's type is the parameter's or a wider float type."""
    if not isinstance(parameter.shape, ArrayShape) or not isinstance(instruction.shape, ArrayShape):
        return False
    have = parameter.shape.dtype
    used = instruction.shape.dtype
    if have.name == used.name:
        return True
    return have.is_float and used.is_float and used.mantissa >= have.mantissa and used.max >= have.max


def call_batched(ctx: Context, body: str | Computation, arguments: Sequence[Ball]) -> Value:
    """Applies a computation of scalars to arrays, element by element but all at once: arguments broadcast against
    each other.

    The result (or each element of a tuple result) has their common shape. Raises Unsupported where the computation
    holds an instruction that is not an operation on scalars.
    """
    shape = np.broadcast_shapes(*(a.mid.shape for a in arguments))
    computation = ctx.module.by_name[body] if isinstance(body, str) else body
    return _spread(_apply(ctx, computation, arguments), shape)


def _apply(ctx: Context, body: Computation, arguments: Sequence[Value]) -> Value:
    live: dict[str, Value] = {}
    for instruction in body.instructions:
        live[instruction.name] = _applied(ctx, instruction, arguments, live)
    return live[body.root_name]


def _applied(ctx: Context, instruction: Instruction, arguments: Sequence[Value], live: dict[str, Value]) -> Value:
    if instruction.parameter_number is not None:
        return arguments[instruction.parameter_number]
    if any(not isinstance(leaf, ArrayShape) or leaf.dims for leaf in leaves(instruction.shape)):
        raise Unsupported(instruction.opcode, f"{instruction.name} is no scalar, in a computation applied to elements")
    if instruction.literal is not None:
        shape = instruction.array
        return ctx.entering(from_array(shape.dtype, literal_array(shape, instruction.literal)))
    operands = [live[operand] for operand in instruction.operands]
    match instruction.opcode:
        case "broadcast" | "reshape" | "transpose" | "copy":
            return operands[0]
        case "call" | "fusion" | "map":
            return _apply(ctx, ctx.module.by_name[attributes.called(instruction)[0]], operands)
        case "while" | "conditional" | "reduce" | "sort" | "rng" | "rng-bit-generator" | "custom-call":
            raise Unsupported(instruction.opcode, "in a computation applied to elements")
        case "select" | "clamp":  # there a scalar among arrays means another thing
            dims = np.broadcast_shapes(*(as_ball(operand).dims for operand in operands))
            operands = [_spread(operand, dims) for operand in operands]
    return find(instruction.opcode)(ctx, instruction, *operands)


def _spread(value: Value, shape: tuple[int, ...]) -> Value:
    if isinstance(value, tuple):
        return tuple(_spread(element, shape) for element in value)
    ball = as_ball(value)
    parts = (ball.mid, ball.rad, ball.und)
    if all(part is None or part.shape == shape for part in parts):
        return ball
    mid, rad, und = (None if part is None else np.broadcast_to(part, shape) for part in parts)
    assert mid is not None
    return Ball(ball.dtype, mid, rad, und)
