"""Draws tuples, calls, control flow, asynchronous forms, and collectives with one participant."""

from __future__ import annotations

import numpy as np

from assay.hlo.shape import DTYPES, ArrayShape, DType

from .builder import Builder, show
from .catalogue import draws
from .folding import monoids
from .values import TAME

PRED, S32, U32 = DTYPES["pred"], DTYPES["s32"], DTYPES["u32"]


def step(b: Builder, shape: ArrayShape, operand: str = "%a0") -> list[str]:
    """A line or two of a computation that makes `%r` of `shape` from an operand of the same."""
    dtype = shape.dtype
    text = show(shape)
    if shape.dims and b.choices.chance(3):
        return [f"%r = {text} reverse({operand}), dimensions={{0}}"]
    opcode = b.choices.pick(("add", "multiply")) if dtype.kind != "pred" else "not"
    operands = operand if dtype.kind == "pred" else f"{operand}, {operand}"
    return [f"%r = {text} {opcode}({operands})"]


@draws("psufc", "tuple", "get-tuple-element")
def tuple_(b: Builder, opcode: str, dtype: DType) -> None:
    shapes = [ArrayShape(dtype, b.dims()), ArrayShape(S32, b.dims())]
    operands = [b.operand(s.dtype, s.dims) for s in shapes]
    b.results(shapes, f"tuple({', '.join(operands)})")


@draws("psufc", "call", "fusion")
def call(b: Builder, opcode: str, dtype: DType) -> None:
    shape = ArrayShape(dtype, b.dims())
    body = b.computation([shape], step(b, shape))
    attributes = f"to_apply={body}" if opcode == "call" else f"kind=kLoop, calls={body}"
    b.result(dtype, shape.dims, f"{opcode}({b.operand(dtype, shape.dims, TAME)}), {attributes}")


@draws("psufc", "while")
def while_(b: Builder, opcode: str, dtype: DType) -> None:
    """A counter and an array; a known number of rounds, or as many as an argument says."""
    shape, counter = ArrayShape(dtype, b.dims(large=False)), ArrayShape(S32, ())
    both = f"({show(counter)}, {show(counter)}, {show(shape)})"
    get = [f"%i{k} = {show(s)} get-tuple-element(%state), index={k}" for k, s in enumerate((counter, counter, shape))]
    head = f"%state = {both} parameter(0)"
    condition = b.fresh("again")
    b.computations.append(
        f"{condition} {{\n  {head}\n  {get[0]}\n  {get[1]}\n  ROOT %r = pred[] compare(%i0, %i1), direction=LT\n}}\n\n"
    )
    body = b.fresh("round")
    lines = [head, *get, "%one = s32[] constant(1)", "%next = s32[] add(%i0, %one)", *step(b, shape, "%i2")]
    lines.append(f"ROOT %out = {both} tuple(%next, %i1, %r)")
    b.computations.append(f"{body} {{\n  " + "\n  ".join(lines) + "\n}\n\n")
    rounds = np.int32(b.choices.pick((2, 0, 1, 3)))
    limit = b.constant(S32, np.asarray(rounds)) if b.choices.chance(2) else b.parameter(S32, (), value=np.array(rounds))
    start = b.constant(S32, np.asarray(np.int32(0)))
    value = b.operand(dtype, shape.dims, TAME)
    state = b.tuple_op([counter, counter, shape], f"tuple({start}, {limit}, {value})")
    b.results([counter, counter, shape], f"while({state}), condition={condition}, body={body}")


@draws("psufc", "conditional")
def conditional(b: Builder, opcode: str, dtype: DType) -> None:
    """By a predicate, or by an index that may lie outside: the last branch then."""
    shape = ArrayShape(dtype, b.dims(large=False))
    by_index = b.choices.chance(2)
    count = b.choices.between(1, 3) if by_index else 2
    bodies = [b.computation([shape], step(b, shape), "branch") for _ in range(count)]
    operands = [b.operand(dtype, shape.dims, TAME) for _ in range(count)]
    if by_index:
        chosen = b.parameter(S32, (), value=np.array(b.choices.pick((0, 1, 2, -1, 3, 2**31 - 1)), np.int32))
        attributes = f"branch_computations={{{', '.join(bodies)}}}"
    else:
        chosen = b.parameter(PRED, ())
        attributes = f"true_computation={bodies[0]}, false_computation={bodies[1]}"
    b.result(dtype, shape.dims, f"conditional({chosen}, {', '.join(operands)}), {attributes}")


@draws("psufc", "add-dependency", "after-all")
def add_dependency(b: Builder, opcode: str, dtype: DType) -> None:
    shape = ArrayShape(dtype, b.dims())
    token = b.fresh("token")
    b.lines.append(f"{token} = token[] after-all()")
    b.result(dtype, shape.dims, f"add-dependency({b.operand(dtype, shape.dims)}, {token})")


@draws("psufc", "async-start", "async-update", "async-done")
def async_(b: Builder, opcode: str, dtype: DType) -> None:
    shape = ArrayShape(dtype, b.dims())
    body = b.computation([shape], step(b, shape))
    state = f"(({show(shape)}), {show(shape)}, u32[])"
    name = b.fresh("started")
    b.lines.append(f"{name} = {state} async-start({b.operand(dtype, shape.dims, TAME)}), calls={body}")
    if opcode == "async-update":
        updated = b.fresh("updated")
        b.lines.append(f"{updated} = {state} async-update({name})")
        name = updated
    b.result(dtype, shape.dims, f"async-done({name})")


@draws("psufc", "all-reduce", "collective-reduce", "reduce-scatter", "all-reduce-start", "all-reduce-done")
def all_reduce(b: Builder, opcode: str, dtype: DType) -> None:
    dims = b.dims(1)
    one = ArrayShape(dtype, ())
    known = [op for op in ("add", "minimum", "maximum", "multiply", "and", "or") if op in monoids(dtype)]
    choice = b.choices.pick(known[4:] if dtype.kind == "pred" else known[:4])  # XLA:CPU has no others
    body = b.computation([one, one], [f"%r = {show(one)} {choice}(%a0, %a1)"])
    operand = b.operand(dtype, dims)
    if opcode in ("all-reduce-start", "all-reduce-done"):
        started = b.op(ArrayShape(dtype, dims), f"all-reduce-start({operand}), replica_groups={{}}, to_apply={body}")
        b.result(dtype, dims, f"all-reduce-done({started})")
        return
    scattered = ", dimensions={0}" if opcode == "reduce-scatter" else ""
    b.result(dtype, dims, f"{opcode}({operand}), replica_groups={{{{0}}}}{scattered}, to_apply={body}")


@draws("psufc", "all-gather", "all-to-all", "collective-broadcast", "collective-permute")
def moved(b: Builder, opcode: str, dtype: DType) -> None:
    dims = b.dims(1, empty=False)
    operand = b.operand(dtype, dims)
    attributes = {
        "all-gather": "replica_groups={{0}}, dimensions={0}",
        "all-to-all": "replica_groups={{0}}, dimensions={0}",
        "collective-broadcast": "replica_groups={{0}}",
        "collective-permute": f"source_target_pairs={b.choices.pick(('{{0,0}}', '{}'))}",
    }[opcode]
    b.result(dtype, dims, f"{opcode}({operand}), {attributes}")


@draws("psufc", "all-gather-start", "all-gather-done", "collective-permute-start", "collective-permute-done")
def started(b: Builder, opcode: str, dtype: DType) -> None:
    dims = b.dims(1, empty=False)
    shape = ArrayShape(dtype, dims)
    stem = opcode.rsplit("-", 1)[0]
    shapes, attributes = [shape, shape], "replica_groups={{0}}, dimensions={0}"
    if stem == "collective-permute":
        shapes = [shape, shape, ArrayShape(U32, ()), ArrayShape(U32, ())]
        attributes = f"source_target_pairs={b.choices.pick(('{{0,0}}', '{}'))}"
    name = b.tuple_op(shapes, f"{stem}-start({b.operand(dtype, dims)}), {attributes}")
    b.result(dtype, dims, f"{stem}-done({name})")


@draws("u32 ", "partition-id", "replica-id")
def identity(b: Builder, opcode: str, dtype: DType) -> None:
    b.result(dtype, (), f"{opcode}()")


@draws("psufc", "domain")
def domain(b: Builder, opcode: str, dtype: DType) -> None:
    dims = b.dims()
    sharding = 'domain={kind="sharding", entry={maximal device=0}, exit={maximal device=0}}'
    b.result(dtype, dims, f"domain({b.operand(dtype, dims)}), {sharding}")


@draws("psufc", "ragged-all-to-all")
def ragged_all_to_all(b: Builder, opcode: str, dtype: DType) -> None:
    """One participant sends one piece of its input to a place in its output."""
    rest = b.dims(0, 1, empty=False, large=False)
    held, room = b.choices.between(1, 6), b.choices.between(1, 6)
    size = b.choices.between(0, min(held, room))
    numbers = [b.choices.between(0, held - size), size, b.choices.between(0, room - size), size]
    operands = [b.operand(dtype, (held, *rest)), b.operand(dtype, (room, *rest))]
    operands += [b.parameter(S32, (1,), value=np.array([n], np.int32)) for n in numbers]
    b.result(dtype, (room, *rest), f"ragged-all-to-all({', '.join(operands)}), replica_groups={{{{0}}}}")
