"""What every type rule is made of.

A rule takes an instruction, its operands' shapes and the module, and gives the shape that the result must have, without
layouts. Where XLA leaves part of the result to the instruction (an element type that a dot may widen to, a reshape's
dimensions), the rule checks that part and takes it from the instruction. What contradicts raises HloTypeError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NoReturn

from assay.errors import HloTypeError
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.printer import print_shape
from assay.hlo.shape import DTYPES, ArrayShape, DType, Shape, TokenShape, TupleShape, compatible

Shapes = tuple[Shape, ...]
Rule = Callable[[Instruction, Shapes, Module], Shape]

PRED = DTYPES["pred"]
S32 = DTYPES["s32"]
U32 = DTYPES["u32"]
TOKEN = TokenShape()


def show(shape: Shape) -> str:
    return print_shape(shape, layout=False)


def wrong(message: str) -> NoReturn:
    raise HloTypeError(message)


def need(condition: object, message: str) -> None:
    """Raises HloTypeError unless the condition holds."""
    if not condition:
        raise HloTypeError(message)


def array(shape: Shape, what: str = "the operand") -> ArrayShape:
    """`shape` as an array's. Raises HloTypeError where it is a tuple, a token or the like."""
    if not isinstance(shape, ArrayShape):
        wrong(f"{what} is {show(shape)}, not an array")
    return shape


def arrays(shapes: Iterable[Shape]) -> tuple[ArrayShape, ...]:
    return tuple(array(s, f"operand {i}") for i, s in enumerate(shapes))


def result_array(instruction: Instruction) -> ArrayShape:
    return array(instruction.shape, "the result")


def scalar(dtype: DType) -> ArrayShape:
    return ArrayShape(dtype, ())


def of(dtype: DType, dims: Iterable[int]) -> ArrayShape:
    return ArrayShape(dtype, tuple(dims))


def tuple_of(shapes: Iterable[Shape]) -> TupleShape:
    return TupleShape(tuple(shapes))


def one_or_tuple(shapes: Sequence[Shape]) -> Shape:
    """XLA's variadic operations give a tuple where there is more than one result."""
    return shapes[0] if len(shapes) == 1 else TupleShape(tuple(shapes))


def elements(shape: Shape) -> Shapes:
    """A tuple's elements; the shape alone where it is no tuple."""
    return shape.elements if isinstance(shape, TupleShape) else (shape,)


def need_same(a: Shape, b: Shape, what: str) -> None:
    if not compatible(a, b):
        wrong(f"{what}: {show(a)} and {show(b)}")


def need_dims(dims: Sequence[int], rank: int, what: str, *, distinct: bool = True) -> None:
    """Dimension numbers are in [0, rank) and, unless said otherwise, each at most once."""
    for d in dims:
        need(0 <= d < rank, f"{what} has dimension {d}, out of the range of rank {rank}")
    need(not distinct or len(set(dims)) == len(dims), f"{what}={{{','.join(map(str, dims))}}} repeats a dimension")


def callee(module: Module, name: str) -> Computation:
    found = module.by_name.get(name)
    if found is None:
        wrong(f"it calls computation {name}, which is not in the module")
    return found


def need_parameters(computation: Computation, shapes: Sequence[Shape]) -> None:
    """The computation takes exactly these shapes, layouts aside."""
    parameters = computation.parameters
    if len(parameters) != len(shapes):
        wrong(f"computation {computation.name} takes {len(parameters)} parameters, there are {len(shapes)}")
    for i, (parameter, shape) in enumerate(zip(parameters, shapes, strict=True)):
        if not compatible(parameter.shape, shape):
            wrong(
                f"computation {computation.name} takes {show(parameter.shape)} as parameter {i}, there is {show(shape)}"
            )
