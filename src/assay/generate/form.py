"""A form: one way in which a program can come by a value of a given type.

Its inverse rule is asked for a type and gives the types of operands and the expression over them, all parameters drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from assay.generate.draw import Draw
from assay.generate.grammar import Grammar
from assay.generate.types import COMPLEX, FLOATS, INTEGERS, NARROW_FLOATS, NARROW_INTEGERS, Type

if TYPE_CHECKING:
    from assay.generate.plan import Plan

GROUPS: dict[str, tuple[str, ...]] = {
    "float": FLOATS,
    "int": INTEGERS,
    "complex": COMPLEX,
    "pred": ("pred",),
    "narrow": NARROW_FLOATS + NARROW_INTEGERS,
    "f8": NARROW_FLOATS,
    "s4": NARROW_INTEGERS,
    "real": FLOATS + INTEGERS,
    "number": FLOATS + INTEGERS + COMPLEX,
    "any": ("pred", *FLOATS, *INTEGERS, *COMPLEX, *NARROW_FLOATS, *NARROW_INTEGERS),
}


@dataclass(frozen=True, slots=True)
class Hole:
    """An operand to come. leaf: whether only a parameter will do, whose values can be drawn to suit a rule that cannot
    be kept otherwise.
    """

    type: Type
    leaf: bool = False


@dataclass(frozen=True, slots=True)
class Made:
    """text: a Python expression in `{0}`, `{1}` ... for the operands, and `{f0}` ... for the bodies' functions.

    parts: where the expression is a tuple, the types of its elements; `at` is the one that was asked for.
    """

    operands: tuple[Hole, ...]
    text: str
    bodies: tuple[Plan, ...] = ()
    parts: tuple[Type, ...] = ()
    at: int = 0


@dataclass(slots=True)
class Site:
    """Where a form is asked: what may be drawn there, and how many operations are left for bodies."""

    draw: Draw
    grammar: Grammar
    depth: int = 0
    budget: int = 0


Inverse = Callable[[Site, Type], Made | None]


@dataclass(frozen=True, slots=True)
class Form:
    """name: of the operation, with what sets it apart from others of the same primitive. results: element types it can
    give. family: a word for several. smooth: whether jax differentiates it. lifts: whether it has bodies. outermost:
    whether it may stand in no body. since: the first jax that has it.
    """

    name: str
    family: str
    results: frozenset[str]
    inverse: Inverse
    weight: float = 1.0
    smooth: bool = True
    targets: tuple[str, ...] = ("cpu", "tpu")
    lifts: bool = False
    outermost: bool = False
    since: tuple[int, ...] = ()


@dataclass(slots=True)
class Registry:
    forms: dict[str, Form] = field(default_factory=dict)

    def add(self, form: Form) -> None:
        """Raises ValueError for a name that is taken."""
        if form.name in self.forms:
            raise ValueError(f"two forms are called {form.name}")
        self.forms[form.name] = form


REGISTRY = Registry()


def weight_in(grammar: Grammar, form: Form) -> float:
    """How often the form is drawn, beside others; 0 where the grammar leaves it out."""
    if grammar.target not in form.targets or grammar.jax < form.since or (grammar.differentiable and not form.smooth):
        return 0.0
    if grammar.only and not {form.name, form.family} & grammar.only:
        return 0.0
    return form.weight * grammar.forms.get(form.name, grammar.forms.get(form.family, 1.0))


def types_of(groups: str) -> frozenset[str]:
    """`"float pred s4"`: names of GROUPS or of element types."""
    return frozenset(t for name in groups.split() for t in GROUPS.get(name, (name,)))


def form(
    name: str,
    family: str,
    results: str,
    *,
    weight: float = 1.0,
    smooth: bool = True,
    targets: tuple[str, ...] = ("cpu", "tpu"),
    lifts: bool = False,
    outermost: bool = False,
    since: tuple[int, ...] = (),
) -> Callable[[Inverse], Inverse]:
    """Registers an inverse rule."""

    def register(inverse: Inverse) -> Inverse:
        results_ = types_of(results)
        REGISTRY.add(Form(name, family, results_, inverse, weight, smooth, targets, lifts, outermost, since))
        return inverse

    return register
