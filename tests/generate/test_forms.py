"""Each form alone: it traces, and every value has the type that the plan says; together they reach every primitive."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from typing import Any

import jax
import pytest
from jax import lax
from printed import loaded

from assay.generate import Draw, Plan, for_target, generator
from assay.generate.form import REGISTRY, Form, Site
from assay.generate.plan import Node
from assay.generate.source import function
from assay.generate.types import Several, Type

LINE = re.compile(r"^(\s*)(\w+) = (.*)  # (\S.*)$", re.MULTILINE)
DIMS = (
    (),
    (3,),
    (8,),
    (2, 5),
    (4, 4),
    (6, 4),
    (1, 7),
    (2, 3, 4),
    (2, 3, 3),
    (3, 1, 4, 6),
    (2, 4, 3, 3),
    (0, 3),
    (130,),
    (9, 1),
)
WIDE = for_target("cpu", wide=True, jax=jax.__version__)


def told(value: Any) -> str:
    """The type of a value as a plan writes it."""
    if isinstance(value, tuple | list):
        return f"({', '.join(map(told, value))})"
    names = {"bool": "pred", "bfloat16": "bf16", "float8_e4m3fn": "f8e4m3fn", "float8_e5m2": "f8e5m2"}
    kind = {"int": "s", "uint": "u", "float": "f", "complex": "c"}
    name = str(value.dtype)
    if name not in names:
        word, bits = re.fullmatch(r"([a-z]+)(\d+)", name).groups()  # type: ignore[union-attr]
        name = f"{kind[word]}{bits}"
    return f"{names.get(name, name)}[{','.join(map(str, value.shape))}]"


def checked(value: Any, want: str) -> None:
    assert told(value) == want


def traced(plan: Plan) -> Any:
    """The jaxpr of a program, every value of which was compared with what the plan says of it."""
    text = LINE.sub(lambda m: f"{m[1]}{m[2]} = {m[3]}; checked({m[2]}, {m[4]!r})", function(plan, "program"))
    program, types = loaded(plan, text, checked=checked)
    with jax.enable_x64(True):
        return jax.make_jaxpr(program)(*types)


def alone(form: Form, out: Type, draw: Draw) -> Plan | None:
    """The form with parameters for operands."""
    made = form.inverse(Site(draw, WIDE, 0, 4), out)
    if made is None:
        return None
    count = len(made.operands)
    nodes = [Node(hole.type, "") for hole in made.operands]
    whole: Type | Several = Several(made.parts) if made.parts else out
    nodes.append(Node(whole, form.name, tuple(range(count)), made.text, made.bodies))
    if made.parts:
        nodes.append(Node(out, "part", (count,), f"{{0}}[{made.at}]"))
    return Plan(tuple(nodes), tuple(range(count)), (len(nodes) - 1,))


FORMS = [f for f in REGISTRY.forms.values() if f.since <= WIDE.jax]


@cache
def jaxprs(form: Form) -> list[Any]:
    found = []
    for dtype in sorted(form.results):
        for dims in DIMS if dtype == "f32" else DIMS[len(found) % 4 :: 4]:
            plan = alone(form, Type(dtype, dims), Draw(generator("form", form.name, dtype, dims)))
            if plan is not None:
                found.append(traced(plan))
    return found


@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.name)
def test_what_a_form_gives_is_what_jax_gives(form: Form) -> None:
    assert jaxprs(form), "no type of these is ever given"


def test_number_of_forms() -> None:
    assert len(FORMS) >= 120


def primitives(jaxpr: Any, found: Counter[str]) -> None:
    for equation in jaxpr.eqns:
        found[equation.primitive.name] += 1
        for value in equation.params.values():
            for inner in jax.tree.leaves(value, is_leaf=lambda v: hasattr(v, "eqns") or hasattr(v, "jaxpr")):
                inner = inner if hasattr(inner, "eqns") else getattr(inner, "jaxpr", None)
                if hasattr(inner, "eqns"):
                    primitives(inner, found)


OUT_OF_SCOPE = {
    "after_all": "a token, which orders effects and has no value",
    "create_token": "a token, which orders effects and has no value",
    "device_put": "a transfer, not an operation of the compiled program",
    "sharding_constraint": "says where values lie when there are several devices",
    "ragged_all_to_all": "between devices; vmap has no rule for it",
    "rng_uniform": "gives other numbers at each run",
    "eq_to": "total order, of which jax.lax has no function",
    "le_to": "total order, of which jax.lax has no function",
    "lt_to": "total order, of which jax.lax has no function",
    "select_and_scatter": "of no function of jax.lax; its derivative's kin select_and_scatter_add is",
}


# What tracing takes away again, so that no jaxpr has it: the primitive and the form that stands for it.
TRACED_AWAY = {
    "all_gather": "all_gather over vmap",
    "all_to_all": "all_to_all over vmap",
    "axis_index": "axis_index over vmap",
    "ppermute": "ppermute over vmap",
    "stage": "stage",
}


@pytest.mark.skipif(
    tuple(int(n) for n in jax.__version__.split(".")[:2]) < (0, 12), reason="what is left out is listed for jax 0.12"
)
def test_every_primitive_of_lax_is_reached_or_left_out_for_a_reason() -> None:
    found: Counter[str] = Counter()
    for form in FORMS:
        for jaxpr in jaxprs(form):
            primitives(jaxpr.jaxpr, found)
    public = {getattr(space, n).name for space in (lax, lax.linalg) for n in dir(space) if n.endswith("_p")}
    names = {form.name for form in FORMS}
    missing = public - set(found) - set(OUT_OF_SCOPE) - {p for p, form in TRACED_AWAY.items() if form in names}
    assert not missing
    assert not set(OUT_OF_SCOPE) & set(found)
