"""What is asked of arrays beside the range of their elements, followed back to the parameters.

Sorted or distinct indices that an instruction promises, matrices that are factored, weights of long sums, numbers that
bound a loop. A row an opcode, for what is asked (`SEEDS`) and for how it is handed on (`TRANSFERS`); an opcode without
a row asks nothing and hands on nothing.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence

from assay.errors import AssayError
from assay.hlo import attributes
from assay.inputs.domain import ANY, Domain
from assay.inputs.flat import Flat, Node
from assay.inputs.rules.movement import wrapped_index
from assay.inputs.rules.rule import View

Asked = tuple[int, Domain]
Seed = Callable[[Sequence[Node], Node], Iterator[Asked]]
Transfer = Callable[[View, Node, Domain], Iterator[Asked]]

DEFINITE = Domain(definite=True)


# ---- seeds


def _gather(nodes: Sequence[Node], node: Node) -> Iterator[Asked]:
    dims = attributes.gather_dims(node.instruction)
    axis = _vector(nodes[node.operands[1]], dims.index_vector_dim, len(dims.start_index_map))
    yield 1, Domain(ordered=attributes.flag(node.instruction, "indices_are_sorted"), vector=axis)


def _scatter(nodes: Sequence[Node], node: Node) -> Iterator[Asked]:
    dims = attributes.scatter_dims(node.instruction)
    ordered = attributes.flag(node.instruction, "indices_are_sorted")
    distinct = attributes.flag(node.instruction, "unique_indices")
    axis = _vector(nodes[node.operands[1]], dims.index_vector_dim, len(dims.scatter_dims_to_operand_dims))
    yield 1, Domain(ordered=ordered, distinct=distinct, vector=axis)


def _vector(indices: Node, dimension: int, components: int) -> int | None:
    return dimension if dimension < len(indices.dims) and components > 1 else None


def _dot(nodes: Sequence[Node], node: Node) -> Iterator[Asked]:
    """The weights of a dot: its right-hand side, but not where the two are a batch of parameters."""
    dims = attributes.dot_dims(node.instruction)
    left = nodes[node.operands[0]]
    terms = math.prod(left.dims[d] for d in dims.lhs_contracting)
    if not dims.lhs_batch or _source(nodes, left).opcode != "parameter":
        yield 1, Domain(fan_in=terms)


def _source(nodes: Sequence[Node], node: Node) -> Node:
    for _ in range(64):
        if node.opcode not in ("broadcast", "reshape", "convert", "copy", "transpose", "bitcast", "slice"):
            break
        node = nodes[node.operands[0]]
    return node


def _convolution(nodes: Sequence[Node], node: Node) -> Iterator[Asked]:
    dims = attributes.convolution_dims(node.instruction)
    kernel = nodes[node.operands[1]].dims
    yield 1, Domain(fan_in=math.prod(kernel[d] for d in dims.rhs_spatial) * kernel[dims.rhs_input_feature])


def _custom_call(nodes: Sequence[Node], node: Node) -> Iterator[Asked]:
    target = attributes.word(node.instruction, "custom_call_target", "").lower()
    if "potrf" in target or "cholesky" in target:
        yield 0, DEFINITE


def _definite(nodes: Sequence[Node], node: Node) -> Iterator[Asked]:
    yield 0, DEFINITE


SEEDS: dict[str, Seed] = {
    "gather":           _gather,
    "scatter":          _scatter,
    "dot":              _dot,
    "convolution":      _convolution,
    "custom-call":      _custom_call,
    "cholesky":         _definite,
    "triangular-solve": _definite,
}  # fmt: skip


# ---- transfers


def _same(view: View, node: Node, asked: Domain) -> Iterator[Asked]:
    yield 0, asked


def _reshape(view: View, node: Node, asked: Domain) -> Iterator[Asked]:
    inner = view.nodes[node.operands[0]]
    if asked.vector is not None and inner.dims != node.dims:
        asked = dataclasses.replace(asked, vector=None)
    if node.opcode == "reshape" or inner.dtype == node.dtype:
        yield 0, asked


def _loose(asked: Domain) -> Domain:
    """Elements change places or are repeated: their order and difference are no longer what was asked."""
    return dataclasses.replace(asked, ordered=False, distinct=False, vector=None)


def _marked(view: View, node: Node, asked: Domain) -> Iterator[Asked]:
    if node.kind == "same":
        yield 0, asked


def _moved(view: View, node: Node, asked: Domain) -> Iterator[Asked]:
    yield 0, _loose(asked)


def _all(view: View, node: Node, asked: Domain) -> Iterator[Asked]:
    for k in range(len(node.operands)):
        yield k, _loose(asked)


def _first_two(view: View, node: Node, asked: Domain) -> Iterator[Asked]:
    yield 0, _loose(asked)
    yield 1, _loose(asked)


def _select(view: View, node: Node, asked: Domain) -> Iterator[Asked]:
    wrapped = wrapped_index(view, node) is not None
    yield 2, asked if wrapped else _loose(asked)
    if not wrapped:
        yield 1, _loose(asked)


def _clamp(view: View, node: Node, asked: Domain) -> Iterator[Asked]:
    yield 1, dataclasses.replace(_loose(asked), fan_in=0)


def _values(view: View, node: Node, asked: Domain) -> Iterator[Asked]:
    """What is asked of single elements and of matrices, not of how indices stand together."""
    for k, other in ((0, 1), (1, 0)):
        if not view.moving[node.operands[other]]:
            yield k, Domain(steps=asked.steps, definite=asked.definite)


def _steps(view: View, node: Node, asked: Domain) -> Iterator[Asked]:
    if asked.steps:
        for k, operand in enumerate(node.operands):
            if view.nodes[operand].dtype.is_integer or node.opcode != "compare":
                yield k, Domain(steps=True)


TRANSFERS: dict[str, Transfer] = {
    **dict.fromkeys(
        (
            "copy", "convert", "reduce-precision", "floor", "ceil", "round-nearest-afz", "round-nearest-even",
            "guard",
        ),
        _same,
    ),
    **dict.fromkeys(("reshape", "bitcast"), _reshape),
    **dict.fromkeys(
        (
            "broadcast", "transpose", "reverse", "slice", "dynamic-slice", "gather", "all-gather",
            "collective-permute",
        ),
        _moved,
    ),
    **dict.fromkeys(("pad", "dynamic-update-slice"), _first_two),
    **dict.fromkeys(("maximum", "minimum", "add", "subtract", "multiply", "divide"), _values),
    **dict.fromkeys(("compare", "and", "or", "not"), _steps),
    "clamp":       _clamp,
    "custom-call": _marked,
    "concatenate": _all,
    "phi":         _all,
    "select":      _select,
}  # fmt: skip


def traits(flat: Flat, view: View) -> dict[int, Domain]:
    """What is asked of each parameter. Each node is visited once, last first, and again where a loop comes round."""
    nodes = flat.nodes
    known: dict[int, Domain] = dict.fromkeys(flat.conditions, Domain(steps=True))
    for _ in range(2):
        for number in range(len(nodes) - 1, -1, -1):
            node = nodes[number]
            seed = SEEDS.get(node.opcode)
            asked = known.get(number)
            if seed is None and asked is None:
                continue
            try:
                demands = list(seed(nodes, node)) if seed is not None else []
                transfer = TRANSFERS.get(node.opcode)
                if asked is not None and transfer is not None:
                    demands += transfer(view, node, asked)
            except (AssayError, AssertionError, IndexError, ValueError):
                continue  # a malformed instruction is for the evaluator to complain of
            for operand, domain in demands:
                if domain != ANY:
                    k = node.operands[operand]
                    known[k] = known.get(k, ANY).merged(domain)
        if not flat.phis:
            break
    return {k: known[k] for k in flat.parameters if k in known}
