"""Combinators: programs inside programs, behind calls, loops, branches and jax's own transformations."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from assay.generate.expressions import operands
from assay.generate.form import Hole, Made, Site, form
from assay.generate.grammar import Grammar
from assay.generate.grow import grow
from assay.generate.plan import Node, Plan
from assay.generate.types import Type, is_float, python, without


def body(
    site: Site,
    roots: list[Type],
    given: list[Type] | None = None,
    smooth: bool = False,
    most: int = 6,
    innermost: bool = False,
) -> Plan:
    """A computation of a few operations with these results. innermost: whether it has no bodies of its own."""
    grammar = site.grammar
    if smooth and not grammar.differentiable:
        grammar = _smooth(grammar)
    budget = site.draw.between(1, max(min(most, site.budget), 1))
    made = grow(site.draw, grammar, roots, budget, grammar.depth if innermost else site.depth + 1, given or [])
    return with_all_used(site, made, len(given or []))


_JOINED = {"pred": ("bitwise_xor",), "s4": ("add",), "u4": ("add",)}


def with_all_used(site: Site, plan: Plan, given: int) -> Plan:
    """The plan, its first result joined with what it was given and makes no use of: a loop that leaves its carry alone,
    or a derivative by what has no part in the result, says little. Now and then that too is to be had.
    """
    used = {operand for node in plan.nodes for operand in node.operands} | set(plan.results)
    for at in plan.parameters[:given]:
        if at in used or site.draw.chance(0.05):
            continue
        wanted, there = plan.result_types[0], plan.parameter_types[plan.parameters.index(at)]
        if wanted == there:
            text = f"lax.{site.draw.pick(_JOINED.get(wanted.dtype, ('add', 'sub')))}({{0}}, {{1}})"
        elif is_float(wanted.dtype) and is_float(there.dtype):
            total = f"jnp.sum(jnp.sin({{1}})).astype({python(wanted.dtype)})"
            text = f"lax.add({{0}}, lax.full_like({{0}}, {total}))"
        else:
            continue
        joined = Node(wanted, "join", (plan.results[0], at), text)
        plan = replace(plan, nodes=(*plan.nodes, joined), results=(len(plan.nodes), *plan.results[1:]))
    return plan


@lru_cache(maxsize=64)
def _smooth(grammar: Grammar) -> Grammar:
    return replace(grammar, differentiable=True)


def applied(inner: Plan, own: str, count: int, first: int) -> str:
    """A body called with `count` arguments of its own, and with operands from number `first` on for the rest."""
    rest = operands(len(inner.parameters) - count, first)
    return f"{{f0}}({own}{', ' + rest if rest else ''})"


def holes(types: tuple[Type, ...]) -> tuple[Hole, ...]:
    return tuple(Hole(t) for t in types)


@form("jit", "lifting", "any", weight=2.0, lifts=True)
def _jit(site: Site, out: Type) -> Made:
    """A call that lowering does not inline; constants given to it are literals behind a call."""
    inner = body(site, [out])
    types = inner.parameter_types
    return Made(holes(types), f"jax.jit({{f0}})({operands(len(types))})[0]", (inner,))


@form("remat", "lifting", "any", weight=0.4, lifts=True)
def _remat(site: Site, out: Type) -> Made:
    inner = body(site, [out])
    types = inner.parameter_types
    return Made(holes(types), f"jax.checkpoint({{f0}})({operands(len(types))})[0]", (inner,))


@form("vmap", "lifting", "any", weight=1.6, lifts=True)
def _vmap(site: Site, out: Type) -> Made | None:
    if out.rank == 0 or out.dims[0] == 0:
        return None
    at = site.draw.below(out.rank)
    size = out.dims[at]
    inner = body(site, [out.shaped(without(out.dims, at))])
    axes: list[str] = []
    types: list[Type] = []
    for i, type_ in enumerate(inner.parameter_types):
        if (site.draw.chance(0.3) and i != 0) or type_.size * size > site.grammar.most:
            axes.append("None")
            types.append(type_)
        else:
            axis = site.draw.between(0, type_.rank)
            axes.append(str(axis))
            types.append(type_.shaped((*type_.dims[:axis], size, *type_.dims[axis:])))
    if all(a == "None" for a in axes):
        return None
    text = f"jax.vmap({{f0}}, in_axes=({', '.join(axes)},), out_axes={at})({operands(len(types))})[0]"
    return Made(tuple(map(Hole, types)), text, (inner,))


@form("scan", "lifting", "any", weight=1.4, lifts=True)
def _scan(site: Site, out: Type) -> Made | None:
    """One carry and one array of rows; the results are the last carry and all the rows."""
    draw = site.draw
    stacked = out.rank > 0 and out.dims[0] <= 9 and draw.chance(0.5)
    length = out.dims[0] if stacked else draw.pick((0, 1, 2, 3, 5))
    carry = site.grammar.type(draw) if stacked else out
    row = out.shaped(out.dims[1:]) if stacked else out
    if carry.size * 8 > site.grammar.most or row.size * 8 > site.grammar.most:
        return None
    inner = body(site, [carry, row], [carry, row], most=5)
    types = inner.parameter_types
    rows = row.shaped((length, *row.dims))
    more = draw.pick(("", "", ", reverse=True", ", unroll=2")) if length else ""
    text = f"lax.scan(lambda c, x: {applied(inner, 'c, x', 2, 2)}, {{0}}, {{1}}, length={length}{more})"
    return Made((Hole(carry), Hole(rows), *holes(types[2:])), text, (inner,), (carry, rows), int(stacked))


@form("fori_loop", "lifting", "any", weight=1.2, lifts=True)
def _fori(site: Site, out: Type) -> Made | None:
    """Trips known beforehand or not; none, one, or a number that a step does not divide."""
    if out.size * 4 > site.grammar.most:
        return None
    inner = body(site, [out], [out], most=5)
    types = inner.parameter_types
    call = f"{applied(inner, 'c', 1, 1)}[0]"
    trips = site.draw.pick((0, 1, 2, 3, 5))
    if site.draw.chance(0.7):
        return Made(
            holes(types),
            f"lax.fori_loop({site.draw.pick((0, 0, 1)) if trips else 0}, {trips}, lambda i, c: {call}, {{0}})",
            (inner,),
        )
    bound = f"lax.clamp(np.int32(0), {{{len(types)}}}, np.int32({trips}))"
    return Made((*holes(types), Hole(Type("s32"))), f"lax.fori_loop(0, {bound}, lambda i, c: {call}, {{0}})", (inner,))


@form("while_loop", "lifting", "any", weight=0.9, lifts=True, smooth=False)
def _while(site: Site, out: Type) -> Made | None:
    """Counts in steps that need not divide the bound, in a type that may be narrow and unsigned."""
    if out.size * 4 > site.grammar.most:
        return None
    inner = body(site, [out], [out], most=5)
    types = inner.parameter_types
    kind = site.grammar.dtype(site.draw, ("s32", "u8", "s8", "u32", "s16"))
    counter = python(kind)
    step, bound = site.draw.pick((1, 2, 3)), site.draw.pick((0, 1, 4, 5, 7))
    start = site.draw.pick((0, 0, 1, 3))
    text = (
        f"lax.while_loop(lambda s: s[0] < np.array({bound}, {counter}), "
        f"lambda s: (s[0] + np.array({step}, {counter}), {applied(inner, 's[1]', 1, 1)}[0]), "
        f"(np.array({start}, {counter}), {{0}}))"
    )
    return Made(holes(types), text, (inner,), (Type(kind), out), 1)


@form("cond", "lifting", "any", weight=1.2, lifts=True)
def _cond(site: Site, out: Type) -> Made:
    first = body(site, [out], most=4)
    second = body(site, [out], list(first.parameter_types), most=4)
    types = second.parameter_types
    count = len(first.parameters)
    text = f"lax.cond({{0}}, lambda *a: {{f0}}(*a[:{count}]), {{f1}}, {operands(len(types), 1)})[0]"
    if not types:
        text = "lax.cond({0}, {f0}, {f1})[0]"
    return Made((Hole(Type("pred")), *holes(types)), text, (first, second))


@form("switch", "lifting", "any", weight=0.7, lifts=True)
def _switch(site: Site, out: Type) -> Made:
    """The index is clamped into range."""
    first = body(site, [out], most=3)
    second = body(site, [out], list(first.parameter_types), most=3)
    third = body(site, [out], list(second.parameter_types), most=3)
    types = third.parameter_types
    a, b = len(first.parameters), len(second.parameters)
    branches = f"[lambda *a: {{f0}}(*a[:{a}]), lambda *a: {{f1}}(*a[:{b}]), {{f2}}]"
    return Made(
        (Hole(Type("s32")), *holes(types)),
        f"lax.switch({{0}}, {branches}, {operands(len(types), 1)})[0]",
        (first, second, third),
    )


@form("map", "lifting", "any", weight=0.7, lifts=True)
def _map(site: Site, out: Type) -> Made | None:
    if out.rank == 0 or not 0 < out.dims[0] <= 9:
        return None
    row = out.shaped(out.dims[1:])
    given = row if site.draw.chance(0.6) else Type(site.grammar.dtype(site.draw), row.dims)
    inner = body(site, [row], [given], most=5)
    types = inner.parameter_types
    rows = given.shaped((out.dims[0], *given.dims))
    return Made(
        (Hole(rows), *holes(types[1:])),
        f"lax.map(lambda x: {applied(inner, 'x', 1, 1)}[0], {{0}})",
        (inner,),
    )


@form("grad", "lifting", "f32 f64 bf16", weight=1.3, lifts=True)
def _grad(site: Site, out: Type) -> Made | None:
    """Of a sum of sines, so that cotangents differ from element to element."""
    root = Type(out.dtype, site.grammar.dims(site.draw, site.draw.between(0, 2), 256))
    inner = body(site, [root], [out], smooth=True, most=5)
    types = inner.parameter_types
    text = f"jax.grad(lambda x: jnp.sum(jnp.sin({applied(inner, 'x', 1, 1)}[0])))({{0}})"
    return Made(holes(types), text, (inner,))


@form("jvp", "lifting", "f32 f64 bf16", weight=0.8, lifts=True)
def _jvp(site: Site, out: Type) -> Made:
    inner = body(site, [out], [out], smooth=True, most=5)
    types = inner.parameter_types
    text = f"jax.jvp(lambda x: {applied(inner, 'x', 1, 2)}[0], ({{0}},), ({{1}},))"
    return Made((Hole(out), Hole(out), *holes(types[1:])), text, (inner,), (out, out), site.draw.pick((1, 1, 0)))


@form("custom_jvp", "lifting", "float", weight=0.4, lifts=True)
def _custom_jvp(site: Site, out: Type) -> Made | None:
    inner = body(site, [out], [out], most=4)
    if len(inner.parameters) != 1:
        return None
    text = "(lambda f: (f.defjvps(lambda t, y, x: t), f)[1])(jax.custom_jvp(lambda x: {f0}(x)[0]))({0})"
    return Made((Hole(out),), text, (inner,))


@form("shard_map", "lifting", "float int", weight=0.3, lifts=True, targets=("cpu",), outermost=True)
def _shard_map(site: Site, out: Type) -> Made:
    """On a mesh of one device."""
    inner = body(site, [out], [out], most=4, innermost=True)
    types = inner.parameter_types
    specs = f"({', '.join(['jax.sharding.PartitionSpec()'] * len(types))},)"
    mesh = "jax.sharding.Mesh(np.array(jax.devices('cpu')[:1]), ('i',))"
    place = (
        "getattr(jax, 'shard_map', None) or __import__('jax.experimental.shard_map', fromlist=['shard_map']).shard_map"
    )
    how = f"mesh={mesh}, in_specs={specs}, out_specs=(jax.sharding.PartitionSpec(),)"
    return Made(holes(types), f"({place})({{f0}}, {how})({operands(len(types))})[0]", (inner,))


@form("composite", "lifting", "any", weight=0.3, lifts=True, smooth=False, since=(0, 5), outermost=True)
def _composite(site: Site, out: Type) -> Made:
    """A body under a name, which lowering takes apart again where it does not know it. vmap has no rule for it."""
    inner = body(site, [out], most=4)
    types = inner.parameter_types
    return Made(holes(types), f"lax.composite({{f0}}, 'assay.body')({operands(len(types))})[0]", (inner,))


@form("platform_dependent", "lifting", "any", weight=0.2, lifts=True, smooth=False)
def _platform_dependent(site: Site, out: Type) -> Made:
    """The same by either branch."""
    inner = body(site, [out], most=4)
    types = inner.parameter_types
    text = f"lax.platform_dependent({operands(len(types))}{', ' if types else ''}cpu={{f0}}, default={{f0}})[0]"
    return Made(holes(types), text, (inner,))


@form("jit of two", "lifting", "any", weight=0.8, lifts=True)
def _jit_of_two(site: Site, out: Type) -> Made:
    """A call with two results."""
    other = site.grammar.type(site.draw)
    inner = body(site, [out, other])
    types = inner.parameter_types
    return Made(holes(types), f"jax.jit({{f0}})({operands(len(types))})", (inner,), (out, other))


@form("cond of two", "lifting", "any", weight=0.5, lifts=True)
def _cond_of_two(site: Site, out: Type) -> Made:
    other = site.grammar.type(site.draw)
    first = body(site, [out, other], most=4)
    second = body(site, [out, other], list(first.parameter_types), most=4)
    types = second.parameter_types
    count = len(first.parameters)
    given = f", {operands(len(types), 1)}" if types else ""
    text = f"lax.cond({{0}}, lambda *a: {{f0}}(*a[:{count}]), {{f1}}{given})"
    return Made((Hole(Type("pred")), *holes(types)), text, (first, second), (out, other))
