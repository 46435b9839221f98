"""Type rules of tuples, calls, control flow, asynchronous execution and collectives.

Source: shape_inference.cc and hlo_verifier.cc of XLA.
"""

from __future__ import annotations

from assay.hlo.attributes import (
    branches,
    computation,
    flag,
    int_list,
    integer,
    replica_groups,
    source_target_pairs,
    word,
)
from assay.hlo.literal import Literal, literal_array, tuple_literals
from assay.hlo.module import Instruction, Module
from assay.hlo.shape import ArrayShape, Shape, TokenShape, TupleShape, compatible, is_tiled
from assay.hlo.types.rule import (
    PRED,
    S32,
    TOKEN,
    U32,
    Rule,
    Shapes,
    array,
    arrays,
    callee,
    elements,
    need,
    need_dims,
    need_parameters,
    need_same,
    of,
    one_or_tuple,
    scalar,
    show,
    tuple_of,
    wrong,
)


def declared(instruction: Instruction, shapes: Shapes, module: Module) -> Shape:
    """custom-call and the like: the result is what the instruction says."""
    return instruction.shape


def constant(instruction: Instruction, shapes: Shapes, module: Module) -> Shape:
    assert instruction.literal is not None
    _need_literal(instruction.shape, instruction.literal)
    return instruction.shape


def _need_literal(shape: Shape, literal: Literal) -> None:
    if isinstance(shape, TupleShape):
        for element, value in zip(shape.elements, tuple_literals(shape, literal), strict=True):
            _need_literal(element, value)
    elif isinstance(shape, ArrayShape) and shape.dtype.numpy is not None:
        literal_array(shape, literal)


def tuple_(instruction: Instruction, shapes: Shapes, module: Module) -> Shape:
    return tuple_of(shapes)


def get_tuple_element(instruction: Instruction, shapes: Shapes, module: Module) -> Shape:
    operand, index = shapes[0], integer(instruction, "index")
    if not isinstance(operand, TupleShape):
        wrong(f"the operand is {show(operand)}, not a tuple")
    need(0 <= index < len(operand.elements), f"index={index} of a tuple of {len(operand.elements)}")
    return operand.elements[index]


def call(instruction: Instruction, shapes: Shapes, module: Module) -> Shape:
    body = callee(module, computation(instruction, "to_apply"))
    need_parameters(body, shapes)
    return body.root.shape


def fusion(instruction: Instruction, shapes: Shapes, module: Module) -> Shape:
    kind = word(instruction, "kind")
    need(kind in ("kLoop", "kInput", "kOutput", "kCustom"), f"unknown fusion kind={kind}")
    body = callee(module, computation(instruction, "calls"))
    need_parameters(body, shapes)
    return body.root.shape


def while_(instruction: Instruction, shapes: Shapes, module: Module) -> Shape:
    body = callee(module, computation(instruction, "body"))
    condition = callee(module, computation(instruction, "condition"))
    need_parameters(body, shapes)
    need_parameters(condition, shapes)
    need_same(body.root.shape, shapes[0], f"the body {body.name} does not give back the loop's shape")
    need_same(condition.root.shape, scalar(PRED), f"the condition {condition.name} does not give a pred")
    return shapes[0]


def conditional(instruction: Instruction, shapes: Shapes, module: Module) -> Shape:
    names = branches(instruction)
    selector = array(shapes[0], "the selector")
    by_index = "branch_computations" in instruction.attributes
    fits = selector.dims == () and (selector.dtype is S32 or (selector.dtype is PRED and len(names) == 2))
    need(fits and (by_index or selector.dtype is PRED), f"the selector {show(selector)} does not choose a branch")
    need(len(shapes) == len(names) + 1, f"{len(shapes) - 1} operands for {len(names)} branches")
    bodies = [callee(module, name) for name in names]
    for body, shape in zip(bodies, shapes[1:], strict=True):
        need_parameters(body, (shape,))
        need_same(body.root.shape, bodies[0].root.shape, f"branches {bodies[0].name} and {body.name} differ")
    return bodies[0].root.shape


def scan(instruction: Instruction, shapes: Shapes, module: Module) -> Shape:
    callee(module, computation(instruction, "to_apply"))
    carries = integer(instruction, "num_carries", 0)
    need(0 <= carries <= len(shapes), f"num_carries={carries} of {len(shapes)} operands")
    return instruction.shape


# ---------------------------------------------------------------- tokens and communication with the host


def _need_token(shape: Shape) -> None:
    need(isinstance(shape, TokenShape), f"expected a token, there is {show(shape)}")


def after_all(instruction: Instruction, shapes: Shapes, module: Module) -> Shape:
    for shape in shapes:
        if not is_tiled(shape):  # the TPU compiler orders after arrays as well
            _need_token(shape)
    return TOKEN


def add_dependency(instruction: Instruction, shapes: Shapes, module: Module) -> Shape:
    _need_token(shapes[1])
    return shapes[0]


def infeed(instruction: Instruction, shapes: Shapes, module: Module) -> Shape:
    _need_token(shapes[0])
    return tuple_of((elements(instruction.shape)[0], TOKEN))


def outfeed(instruction: Instruction, shapes: Shapes, module: Module) -> Shape:
    _need_token(shapes[1])
    return TOKEN


def send(instruction: Instruction, shapes: Shapes, module: Module) -> Shape:
    _need_token(shapes[1])
    return tuple_of((shapes[0], scalar(U32), TOKEN))


def recv(instruction: Instruction, shapes: Shapes, module: Module) -> Shape:
    _need_token(shapes[0])
    return tuple_of((elements(instruction.shape)[0], scalar(U32), TOKEN))


def send_done(instruction: Instruction, shapes: Shapes, module: Module) -> Shape:
    _start_of(shapes[0], 3)
    return TOKEN


def recv_done(instruction: Instruction, shapes: Shapes, module: Module) -> Shape:
    return tuple_of((_start_of(shapes[0], 3)[0], TOKEN))


def _start_of(shape: Shape, count: int) -> Shapes:
    if not isinstance(shape, TupleShape) or len(shape.elements) < count:
        wrong(f"the operand {show(shape)} is not that of the start of this operation")
    return shape.elements


# ---------------------------------------------------------------- asynchronous execution


def async_start(instruction: Instruction, shapes: Shapes, module: Module) -> Shape:
    """((operands), result, context...)"""
    body = callee(module, computation(instruction, "calls"))
    need_parameters(body, shapes)
    context = elements(instruction.shape)[2:]
    return tuple_of((tuple_of(shapes), body.root.shape, *context))


def async_update(instruction: Instruction, shapes: Shapes, module: Module) -> Shape:
    _start_of(shapes[0], 2)
    return shapes[0]


def async_done(instruction: Instruction, shapes: Shapes, module: Module) -> Shape:
    return _start_of(shapes[0], 2)[1]


# ---------------------------------------------------------------- collectives


def _group_size(instruction: Instruction, module: Module) -> int | None:
    """How many take part in one group; None where the groups do not say."""
    groups = replica_groups(instruction) if "@" not in instruction.attributes.get("replica_groups", "") else ()
    if not groups or not groups[0]:
        return None
    need(len({len(g) for g in groups}) == 1, "the replica groups differ in size")
    size = len(groups[0])
    if "channel_id" in instruction.attributes and not flag(instruction, "use_global_device_ids"):
        return None  # groups of replicas, each with all its partitions
    return size


def _scaled(operand: ArrayShape, result: Shape, d: int, factor: int | None, *, up: bool) -> ArrayShape:
    """The operand with dimension `d` multiplied or divided by the group's size, or as the result says where unknown."""
    size = operand.dims[d]
    shown = array(result, "the result")
    if factor is None:
        need(shown.rank == operand.rank, f"the result {show(shown)} has another rank than {show(operand)}")
        whole, part = (shown.dims[d], size) if up else (size, shown.dims[d])
        need(part == whole == 0 or (part and whole % part == 0), f"dimension {d} of {whole} is no multiple of {part}")
        new = shown.dims[d]
    else:
        need(up or size % factor == 0, f"dimension {d} of {size} does not divide among {factor}")
        new = size * factor if up else size // factor
    return of(operand.dtype, (*operand.dims[:d], new, *operand.dims[d + 1 :]))


def _one_dimension(instruction: Instruction, rank: int) -> int:
    dims = int_list(instruction, "dimensions", required=True)
    need(len(dims) == 1, f"dimensions={dims} is not one dimension")
    need_dims(dims, rank, "dimensions")
    return dims[0]


def _gathered(instruction: Instruction, shapes: Shapes, results: Shapes, module: Module, *, up: bool) -> Shape:
    operands = arrays(shapes)
    need(operands and len(results) == len(operands), f"{len(operands)} operands and {len(results)} results")
    size = _group_size(instruction, module)
    found = []
    for operand, result in zip(operands, results, strict=True):
        d = _one_dimension(instruction, operand.rank)
        found.append(_scaled(operand, result, d, size, up=up))
    return one_or_tuple(found)


def all_gather(instruction: Instruction, shapes: Shapes, module: Module) -> Shape:
    return _gathered(instruction, shapes, elements(instruction.shape), module, up=True)


def all_gather_start(instruction: Instruction, shapes: Shapes, module: Module) -> Shape:
    """(operands, results, context...)"""
    given = elements(instruction.shape)
    need(len(given) >= 2, f"the result {show(instruction.shape)} is not (operand, result)")
    gathered = _gathered(instruction, shapes, elements(given[1]), module, up=True)
    return tuple_of((one_or_tuple(shapes), gathered, *given[2:]))


def start_result(instruction: Instruction, shapes: Shapes, module: Module) -> Shape:
    """all-gather-done, collective-permute-done: the second part of what the start gave."""
    return _start_of(shapes[0], 2)[1]


def _need_reducer(instruction: Instruction, shapes: Shapes, module: Module) -> None:
    body = callee(module, computation(instruction, "to_apply"))
    need(len(body.parameters) == 2, f"computation {body.name} takes {len(body.parameters)} parameters, not 2")
    first = arrays(shapes)[0]
    need_same(
        body.root.shape, scalar(array(body.parameters[0].shape).dtype), f"computation {body.name} gives another type"
    )
    taken = array(body.parameters[0].shape)
    need(taken.dtype.kind == first.dtype.kind, f"computation {body.name} takes {show(taken)}, not {first.dtype.name}")


def all_reduce(instruction: Instruction, shapes: Shapes, module: Module) -> Shape:
    need(shapes, "all-reduce needs an operand")
    _need_reducer(instruction, shapes, module)
    return one_or_tuple(shapes)


def all_reduce_done(instruction: Instruction, shapes: Shapes, module: Module) -> Shape:
    return shapes[0]


def reduce_scatter(instruction: Instruction, shapes: Shapes, module: Module) -> Shape:
    _need_reducer(instruction, shapes, module)
    return _gathered(instruction, shapes, elements(instruction.shape), module, up=False)


def all_to_all(instruction: Instruction, shapes: Shapes, module: Module) -> Shape:
    """With `dimensions` one array is split and put together again; without, one operand goes to each."""
    operands = arrays(shapes)
    if "dimensions" in instruction.attributes:
        need(len(operands) == 1, f"all-to-all along a dimension has one operand, not {len(operands)}")
        d, size = _one_dimension(instruction, operands[0].rank), _group_size(instruction, module)
        need(size is None or operands[0].dims[d] % size == 0, f"dimension {d} does not divide among {size}")
        return operands[0]
    for other in operands[1:]:
        need_same(other, operands[0], "operands differ")
    if isinstance(instruction.shape, TupleShape) or len(operands) != 1:
        return tuple_of(operands)
    return operands[0]


def collective_permute(instruction: Instruction, shapes: Shapes, module: Module) -> Shape:
    pairs = source_target_pairs(instruction)
    need(len({t for _, t in pairs}) == len(pairs), "source_target_pairs sends to one target twice")
    need(len({s for s, _ in pairs}) == len(pairs), "source_target_pairs sends from one source twice")
    if len(shapes) == 4 and "slice_sizes" in instruction.attributes:
        return shapes[1]  # in place: input, output, where to read, where to write
    return one_or_tuple(shapes)


def collective_permute_start(instruction: Instruction, shapes: Shapes, module: Module) -> Shape:
    """(operands, results, context...)"""
    moved = collective_permute(instruction, shapes, module)
    context = elements(instruction.shape)[2:]
    operands: Shape = tuple_of(shapes) if len(shapes) > 1 else shapes[0]
    given = elements(instruction.shape)
    if given and not compatible(given[0], operands) and len(shapes) == 4:
        operands = shapes[0]
    return tuple_of((operands, moved, *context))


def collective_broadcast(instruction: Instruction, shapes: Shapes, module: Module) -> Shape:
    need(shapes, "collective-broadcast needs an operand")
    return one_or_tuple(shapes)


def ragged_all_to_all(instruction: Instruction, shapes: Shapes, module: Module) -> Shape:
    """input, output, input offsets, send sizes, output offsets, receive sizes -> the output with what arrived."""
    need(len(shapes) >= 6, f"ragged-all-to-all takes 6 operands, there are {len(shapes)}")
    for offsets in arrays(shapes[2:6]):
        need(offsets.dtype.is_integer, f"an offset or size is {show(offsets)}, not an integer")
    return shapes[1]


def identity(instruction: Instruction, shapes: Shapes, module: Module) -> Shape:
    """partition-id, replica-id."""
    return scalar(U32)


CONTROL: dict[str, Rule] = {
    "parameter": declared,
    "custom-call": declared,
    "constant": constant,
    "tuple": tuple_,
    "get-tuple-element": get_tuple_element,
    "call": call,
    "fusion": fusion,
    "while": while_,
    "conditional": conditional,
    "scan": scan,
    "after-all": after_all,
    "add-dependency": add_dependency,
    "infeed": infeed,
    "outfeed": outfeed,
    "send": send,
    "send-done": send_done,
    "recv": recv,
    "recv-done": recv_done,
    "async-start": async_start,
    "async-update": async_update,
    "async-done": async_done,
    "all-gather": all_gather,
    "all-gather-start": all_gather_start,
    "all-gather-done": start_result,
    "all-reduce": all_reduce,
    "all-reduce-start": all_reduce,
    "all-reduce-done": all_reduce_done,
    "collective-reduce": all_reduce,
    "reduce-scatter": reduce_scatter,
    "all-to-all": all_to_all,
    "ragged-all-to-all": ragged_all_to_all,
    "collective-permute": collective_permute,
    "collective-permute-start": collective_permute_start,
    "collective-permute-done": start_result,
    "collective-broadcast": collective_broadcast,
    "partition-id": identity,
    "replica-id": identity,
}
