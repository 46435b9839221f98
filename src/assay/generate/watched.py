"""What a program shows of itself.

A wrong value deep inside a program is not seen where what comes after it gives the same whatever it is given: a
comparison that always holds, an index that is always clamped. Where that is likely, one more value is made a result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from assay.generate.plan import LEAVES, PART, Node, Plan
from assay.generate.types import Several, is_integer

ORDINARY = 0.985
"""How likely it is that what an operation gives still differs from element to element where its operands do."""

DRAWN = 0.9
"""Of an integer parameter: it may be an index, whose values are drawn to lie in a range that may be narrow."""

_KEPT = {
    "compare": 0.85, "sign": 0.8, "is_finite": 0.0, "argmax": 0.8, "one hot": 0.85, "floor": 0.85, "ceil": 0.85,
    "round away": 0.85, "round even": 0.85, "integer division": 0.85, "rem": 0.85, "rem guarded": 0.85, "clamp": 0.85,
    "convert": 0.92, "round trip": 0.9, "through an integer": 0.85, "with a scalar": 0.93, "chained scalars": 0.85,
    "shift": 0.9, "integer_pow": 0.93, "reduce logical": 0.8, "reduce bitwise": 0.85, "reduce_max": 0.85,
    "reduce_min": 0.85, "reduce_mul": 0.8, "reduce with a value": 0.8, "cummax": 0.85, "cummin": 0.85, "cumprod": 0.8,
    "max": 0.9, "min": 0.9, "and": 0.9, "or": 0.9, "mul": 0.95, "erfc": 0.9, "erf": 0.9, "logistic": 0.95, "tanh": 0.92,
    "relu": 0.85, "take": 0.9, "gather of slices": 0.85, "take_along_axis": 0.9, "index in the middle": 0.85,
    "scatter_set": 0.93, "scatter_mul": 0.9, "dynamic_slice": 0.95, "slice": 0.95, "sub": 0.96, "bincount": 0.9,
    "searchsorted": 0.8, "top_k": 0.95, "igamma": 0.8, "igammac": 0.8, "betainc": 0.8, "softmax": 0.9,
}  # fmt: skip
_LIFTED = 0.8
_VARIED = frozenset(
    {"iota of", "triangle", "random bits", "random uniform", "rng_bit_generator", "cumsum of a constant"}
)
"""What gives different elements whatever it is given."""
_PRODUCTS = frozenset(
    {
        "mul", "and", "dot_general", "matmul", "outer", "einsum of three", "conv_general_dilated", "conv separable",
        "conv transpose", "conv local", "ragged_dot", "take", "take_along_axis", "gather of slices",
        "index in the middle", "pow guarded", "triangular_solve",
        "take in bounds", "random permutation", "index_take", "scatter_mul",
    }
)  # fmt: skip
"""What one operand alone can make nothing of."""
_BY_ROWS = frozenset({"vmap", "map"})
"""Where a body's single values are rows of the program's."""
_CHOSEN = frozenset({"cond", "cond of two", "switch"})
"""What takes what it chooses by before what its bodies are given."""
_OPPOSED = frozenset({"sub", "xor", "compare", "div guarded"})
"""What gives nothing new of one value twice."""
_BETWEEN = 0.6
"""Of what is chosen from two different values, each one throughout, by a predicate that differs."""


def chances(plan: Plan, given: Sequence[float] = ()) -> list[float]:
    """For each node, how likely its elements differ; 0 for one element or none. given: of parameters, where they are
    not the program's own.
    """
    place = {at: i for i, at in enumerate(plan.parameters)}
    parts: dict[int, list[float]] = {}
    found: list[float] = []
    for at, node in enumerate(plan.nodes):
        if isinstance(node.type, Several):
            parts[at] = _of_parts(node, node.type, plan, found)
            found.append(max(parts[at], default=0.0))
        elif node.type.size <= 1:
            found.append(0.0)
        elif at in place:
            found.append(given[place[at]] if given else DRAWN if is_integer(node.type.dtype) else ORDINARY)
        elif node.form == PART:
            found.append(parts[node.operands[0]][int(node.text[4:-1])])
        elif node.form in LEAVES:
            found.append({"iota": 0.95, "literal": 0.5}.get(node.form, 0.0))
        elif node.form in _VARIED:
            found.append(0.95)
        elif node.form == "grad":
            found.append(_derivative(node, found))
        elif node.form in ("select", "select of three"):
            found.append(_selected(node, found))
        elif node.bodies and node.form not in _BY_ROWS:
            found.append(_LIFTED * min(_shown(node, body, found)[0] for body in node.bodies))
        else:
            found.append(_kept(node, plan, found))
    return found


def _of_parts(node: Node, type_: Several, plan: Plan, found: list[float]) -> list[float]:
    """Of the elements of a tuple: sorts keep their operands apart, bodies their results."""
    if node.form.startswith("sort"):
        return [ORDINARY * found[o] for o in node.operands]
    if node.bodies and len(node.bodies[0].results) == len(type_.parts):
        shown = [_shown(node, body, found) for body in node.bodies]
        return [_LIFTED * min(each) for each in zip(*shown, strict=True)]
    return [_kept(node, plan, found)] * len(type_.parts)


def _shown(node: Node, body: Plan, found: list[float]) -> list[float]:
    """Of a body's results, given what its parameters are given."""
    own = [found[o] for o in node.operands]
    own = own[1:] if node.form in _CHOSEN else own
    own += [max(own, default=0.0)] * (len(body.parameters) - len(own))
    inside = chances(body, own)
    return [inside[r] for r in body.results]


def _derivative(node: Node, found: list[float]) -> float:
    """By the first operand: nothing where the body does not read it."""
    body = node.bodies[0]
    read, waiting = set(body.results), list(body.results)
    while waiting:
        fresh = set(body.nodes[waiting.pop()].operands) - read
        read |= fresh
        waiting += fresh
    if body.parameters[0] not in read:
        return 0.0
    shown = _shown(node, body, found)[0]
    return _LIFTED * (shown + min(shown, found[node.operands[0]])) / 2


def _selected(node: Node, found: list[float]) -> float:
    """By a predicate that differs from element to element, or by one that chooses the whole of one operand."""
    by, *operands = node.operands
    among = [found[o] for o in operands]
    apart = max(*among, _BETWEEN if len(set(operands)) > 1 else 0.0)
    return ORDINARY * (found[by] * apart + (1 - found[by]) * sum(among) / len(among))


def _kept(node: Node, plan: Plan, found: list[float]) -> float:
    if node.form in _OPPOSED and len(set(node.operands)) < len(node.operands):
        return 0.0
    sizes = [plan.nodes[o].type.size for o in node.operands]
    below = max((found[o] for o in node.operands), default=0.0)
    if node.form in _PRODUCTS:
        arrays = [found[o] for o, size in zip(node.operands, sizes, strict=True) if size > 1]
        below = 0.0 if 0 in sizes else min(arrays, default=0.0)
    return _KEPT.get(node.form, _LIFTED if node.bodies else ORDINARY) * below


def _unseen(plan: Plan, results: Sequence[int], alike: Sequence[float]) -> float:
    """How likely it is that each result of several elements is one value throughout; 0 where there is none such."""
    several = [alike[r] for r in results if plan.nodes[r].type.size > 1]
    return math.prod(1 - chance for chance in several) if several else 0.0


def watched(plan: Plan, most: int = 3, enough: float = 0.03) -> tuple[Plan, float]:
    """The plan with up to `most` more results, until it is unlikely enough that each result is one value throughout;
    and how likely that is in the end.
    """
    alike = chances(plan)
    results = list(plan.results)
    for _ in range(most):
        if _unseen(plan, results, alike) <= enough:
            break
        options = [
            (alike[i], i)
            for i, node in enumerate(plan.nodes)
            if i not in results and node.form not in ("", *LEAVES) and not isinstance(node.type, Several)
        ]
        if not options or max(options)[0] == 0:
            break
        results.append(max(options)[1])
    return replace(plan, results=tuple(results)), _unseen(plan, results, alike)
