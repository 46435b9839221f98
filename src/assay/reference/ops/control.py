"""Control flow, tuples and tokens: which computations run, on what.

A decision that rounding leaves open is followed both ways. A conditional's open branches are all run; a loop whose
condition is open notes the state with which it might end here and goes on until the condition is decided. The result
is the hull of all that may have happened, undecided where integers differ.
"""

from __future__ import annotations

from functools import reduce

import numpy as np

from assay.errors import ReferenceLimit, Unsupported
from assay.hlo import attributes
from assay.hlo.async_form import begun
from assay.hlo.module import Instruction
from assay.hlo.shape import TupleShape
from assay.reference.bodies import call_batched
from assay.reference.context import Context, mark
from assay.reference.ops.compare import selected
from assay.reference.registry import find_custom_call, operation
from assay.reference.value import PRED, Ball, Token, Value, as_ball

OPEN_TRIPS = 64  # how many trips in all a loop's condition may be open before its results count as undecided
MOST_TRIPS = 100_000_000


@operation("tuple")
def tuple_(ctx: Context, instr: Instruction, *elements: Value) -> Value:
    return elements


@operation("get-tuple-element")
def get_tuple_element(ctx: Context, instr: Instruction, whole: tuple[Value, ...]) -> Value:
    return whole[attributes.integer(instr, "index")]


@operation("opt-barrier", "optimization-barrier")
def unchanged(ctx: Context, instr: Instruction, value: Value) -> Value:
    return value


@operation("after-all")
def after_all(ctx: Context, instr: Instruction, *tokens: Value) -> Value:
    return Token()


@operation("add-dependency")
def add_dependency(ctx: Context, instr: Instruction, value: Value, token: Value) -> Value:
    return value


# ---------------------------------------------------------------- calls


@operation("call", "fusion")
def call(ctx: Context, instr: Instruction, *operands: Value) -> Value:
    """A composite call (is_composite) has its decomposition as the computation to apply."""
    return ctx.call(attributes.called(instr)[0], operands)


@operation("async-start")
def async_start(ctx: Context, instr: Instruction, *operands: Value) -> Value:
    """((operands), result, contexts..): what is computed at the start is given at the done.

    A start with fewer operands than its computation has parameters waits for an update that brings the others, as
    libtpu's offloads to the sparse core do.
    """
    assert isinstance(instr.shape, TupleShape)
    contexts = tuple(Token() for _ in instr.shape.elements[2:])
    name = begun(ctx.module, instr)
    waits = len(operands) < len(ctx.module.by_name[name].parameters)
    return (operands, () if waits else ctx.call(name, operands), *contexts)


@operation("async-update")
def async_update(ctx: Context, instr: Instruction, started: tuple[Value, ...], *operands: Value) -> Value:
    if not operands:
        return started
    (start, *_) = ctx.makers(instr)
    if start.opcode != "async-start" or not isinstance(started[0], tuple):
        raise Unsupported("async-update", "of what is no async-start")
    whole = (*started[0], *operands)
    return (whole, ctx.call(begun(ctx.module, start), whole), *started[2:])


@operation("async-done")
def async_done(ctx: Context, instr: Instruction, started: tuple[Value, ...]) -> Value:
    return started[1]


@operation("map")
def map_(ctx: Context, instr: Instruction, *operands: Ball) -> Value:
    return call_batched(ctx, attributes.computation(instr, "to_apply"), operands)


@operation("custom-call")
def custom_call(ctx: Context, instr: Instruction, *operands: Value) -> Value:
    return find_custom_call(attributes.word(instr, "custom_call_target"))(ctx, instr, *operands)


# ---------------------------------------------------------------- branches


@operation("conditional")
def conditional(ctx: Context, instr: Instruction, selector: Ball, *operands: Value) -> Value:
    """Branches by index, the last for any index out of range; or true then false by a pred."""
    names = attributes.branches(instr)
    if selector.dtype.name == PRED.name:
        index = 0 if bool(selector.mid) else 1
    else:
        index = int(selector.mid)
        index = index if 0 <= index < len(names) else len(names) - 1
    taken = ctx.call(names[index], (operands[index],))
    if selector.und is None or not selector.und.any():
        return taken
    ctx.notes.add("a conditional whose branch rounding decides: all branches were run")
    others = [
        ctx.call(name, (operand,)) for i, (name, operand) in enumerate(zip(names, operands, strict=True)) if i != index
    ]
    return reduce(either, others, taken)


def either(a: Value, b: Value) -> Value:
    """A value that may be the one or the other."""
    if a is b:
        return a
    if isinstance(a, tuple) and isinstance(b, tuple):
        return tuple(either(x, y) for x, y in zip(a, b, strict=True))
    if not isinstance(a, Ball) or not isinstance(b, Ball) or a.mid.size == 0:
        return a
    everywhere = np.ones(a.mid.shape, bool)
    found = selected(Ball(PRED, everywhere, None, everywhere), a, b)
    rad = None if found.rad is None else np.asarray(found.rad)
    return Ball(
        found.dtype, found.mid, rad, np.asarray(found.und) if found.und is not None and found.und.any() else None
    )


def changed_undecided(before: Value, after: Value) -> Value:
    """`after`, undecided in all arrays that are not the very arrays of `before`."""
    if before is after:
        return after
    if isinstance(before, tuple) and isinstance(after, tuple):
        return tuple(changed_undecided(x, y) for x, y in zip(before, after, strict=True))
    return mark(after, np.ones(after.mid.shape, bool)) if isinstance(after, Ball) else after


# ---------------------------------------------------------------- loops


@operation("while")
def while_(ctx: Context, instr: Instruction, state: Value) -> Value:
    condition, body = attributes.computation(instr, "condition"), attributes.computation(instr, "body")
    start = state
    exits: list[Value] = []
    for _ in range(MOST_TRIPS):
        verdict = as_ball(ctx.call(condition, (state,)))
        if verdict.und is not None and verdict.und.any():
            exits.append(state)
            if len(exits) > OPEN_TRIPS:
                ctx.notes.add("a loop whose end rounding decides: what it changes is undecided")
                return changed_undecided(start, state)
        elif not verdict.mid:
            if exits:
                ctx.notes.add("a loop whose end rounding decides: its results cover every end")
            return reduce(either, exits, state)
        state = ctx.call(body, (state,))
    raise ReferenceLimit(f"{instr.name} runs more than {MOST_TRIPS} trips")
