"""Templates: skeletons with typed holes, which are filled with generated programs.

A template names dimensions and element types, each drawn once a program from what it allows; holes, which are grown
like any program; steps, which are expressions over holes and earlier steps; and the results. It may also, or only, set
what the grammar draws from. See docs/generate.md for the format.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from assay.errors import InputError
from assay.generate.draw import Draw
from assay.generate.grammar import Grammar
from assay.generate.grow import grow
from assay.generate.plan import Node, Plan
from assay.generate.types import BITS, WIDE, Type, python


@dataclass(frozen=True, slots=True)
class Step:
    """One value. text: an expression over `{name}`s of earlier ones, with `$name` and `$(...)` for dimensions and
    types; empty for a hole. given: of a hole, the earlier values that what grows there starts from. operations: least
    and most that grow there. leaf: of a hole, whether it is a parameter always.
    """

    name: str
    type: str
    text: str = ""
    given: tuple[str, ...] = ()
    operations: tuple[int, int] = (0, 2)
    leaf: bool = False


@dataclass(frozen=True, slots=True)
class Template:
    """dims: sizes that each may have. types: element types that each may be. settings: of the grammar, by its fields'
    names.
    """

    name: str
    about: str = ""
    dims: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    types: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    results: tuple[str, ...] = ()
    settings: Mapping[str, object] = field(default_factory=dict)
    operations: int | None = None

    def grammar(self, base: Grammar) -> Grammar:
        """The grammar with the template's settings."""
        return replace(base, **self.settings)  # type: ignore[arg-type]


@dataclass(slots=True)
class _Skeleton:
    """nodes, in order, with parameters among them; of: the node of each name."""

    draw: Draw
    grammar: Grammar
    values: dict[str, int | str]
    nodes: list[Node] = field(default_factory=list)
    of: dict[str, int] = field(default_factory=dict)

    def add(self, template: Template, step: Step) -> None:
        out = typed(step.type, self.values)
        if not step.text:
            self.of[step.name] = self._grown(step, out)
            return
        names: list[str] = []

        def numbered(found: re.Match[str]) -> str:
            if found[1] not in names:
                names.append(found[1])
            return f"{{{names.index(found[1])}}}"

        text = NAMED.sub(numbered, substituted(step.text, self.values))
        self.nodes.append(Node(out, f"{template.name}: {step.name}", tuple(self.of[n] for n in names), text))
        self.of[step.name] = len(self.nodes) - 1

    def _grown(self, step: Step, out: Type) -> int:
        least, most = step.operations
        budget = self.draw.between(least, most)
        given = [self._type(name) for name in step.given]
        if step.leaf or (budget == 0 and not given):
            self.nodes.append(Node(out, ""))
            return len(self.nodes) - 1
        part = grow(self.draw, self.grammar, [out], max(budget, 1), 0, given)
        place = dict(zip(part.parameters, (self.of[name] for name in step.given), strict=False))
        for at, node in enumerate(part.nodes):
            if at not in place:
                self.nodes.append(replace(node, operands=tuple(place[o] for o in node.operands)))
                place[at] = len(self.nodes) - 1
        return place[part.results[0]]

    def _type(self, name: str) -> Type:
        found = self.nodes[self.of[name]].type
        if not isinstance(found, Type):
            raise InputError(f"{name} is a tuple, from which nothing grows")
        return found


def planned(template: Template, draw: Draw, grammar: Grammar) -> Plan:
    """A program of a template that has steps. Raises InputError where a size or a type is none."""
    values: dict[str, int | str] = {name: draw.pick(sizes) for name, sizes in template.dims.items()}
    for name, dtypes in template.types.items():
        allowed = [t for t in dtypes if grammar.wide or t not in WIDE] or list(dtypes)
        values[name] = draw.pick(allowed)
    skeleton = _Skeleton(draw, grammar, values)
    for step in template.steps:
        skeleton.add(template, step)
    return _parameters_first(skeleton.nodes, [skeleton.of[name] for name in template.results])


def _parameters_first(nodes: Sequence[Node], results: Sequence[int]) -> Plan:
    """A plan of what the results need and of all parameters."""
    needed = set(results)
    for at in range(len(nodes) - 1, -1, -1):
        if at in needed:
            needed.update(nodes[at].operands)
    parameters = [at for at, node in enumerate(nodes) if not node.form and at in needed]
    order = parameters + [at for at, node in enumerate(nodes) if node.form and at in needed]
    place = {at: i for i, at in enumerate(order)}
    kept = tuple(replace(nodes[at], operands=tuple(place[o] for o in nodes[at].operands)) for at in order)
    return Plan(kept, tuple(range(len(parameters))), tuple(place[r] for r in results))


# ---- the language of types and dimensions

NAMED = re.compile(r"(?<!\{)\{([A-Za-z_]\w*)\}(?!\})")
_TYPED = re.compile(r"\s*(\w+)\s*\[([^\]]*)\]\s*")
_VALUE = re.compile(r"\$(?:\(([^()]*(?:\([^()]*\)[^()]*)*)\)|(\w+))")
_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}  # fmt: skip


def typed(text: str, values: Mapping[str, int | str]) -> Type:
    """`t[b, 2*s]`. Raises InputError where it is no type."""
    if (found := _TYPED.fullmatch(text)) is None:
        raise InputError(f"{text!r} is no type; write one as f32[n, 2*m]")
    dtype = values.get(found[1], found[1])
    if dtype not in BITS:
        raise InputError(f"{text!r}: {found[1]} is no element type; there is: {', '.join(sorted(BITS))}")
    dims = tuple(size(part, values) for part in found[2].split(",") if part.strip())
    if any(d < 0 for d in dims):
        raise InputError(f"{text!r} has a negative dimension where {_told(values)}")
    return Type(str(dtype), dims)


def size(text: str, values: Mapping[str, int | str]) -> int:
    """An integer expression over dimensions' names. Raises InputError where it is none."""
    try:
        return _evaluated(ast.parse(text.strip(), mode="eval").body, values)
    except (SyntaxError, KeyError, TypeError, ZeroDivisionError) as error:
        raise InputError(f"{text.strip()!r} is no size; use integers, dimensions' names and + - * // %") from error


def _evaluated(node: ast.expr, values: Mapping[str, int | str]) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.Name) and isinstance(value := values[node.id], int):
        return value
    if isinstance(node, ast.BinOp):
        return _OPERATORS[type(node.op)](_evaluated(node.left, values), _evaluated(node.right, values))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_evaluated(node.operand, values)
    raise TypeError


def substituted(text: str, values: Mapping[str, int | str]) -> str:
    """`$d` and `$(2*d)` as numbers, `$t` as Python's name of an element type."""

    def one(found: re.Match[str]) -> str:
        if found[1] is not None:
            return str(size(found[1], values))
        if (value := values.get(found[2])) is None:
            raise InputError(f"${found[2]}: no dimension and no type has this name")
        return python(value) if isinstance(value, str) else str(value)

    return _VALUE.sub(one, text)


def _told(values: Mapping[str, int | str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())
