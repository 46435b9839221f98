# mypy: ignore-errors
"""A function whose Pallas kernels are plain operations, as Pallas' own interpret mode has them.

What jax hands to a TPU's compiler holds a kernel as bytecode; this is the same function for those who read HLO alone.
"""

from __future__ import annotations

from .wire import Refused


def interpreted(function, args, platform: str):
    """What jax lowers for `platform` with every pallas_call interpreted. Raises what jax does where it cannot be."""
    import jax
    from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

    traced = jax.jit(function, keep_unused=True).trace(*args).jaxpr
    found, count = swapped(traced.jaxpr)
    if not count:
        raise Refused("Unsupported", "its custom calls are no Pallas kernels")
    whole = jax.jit(jaxpr_as_fun(ClosedJaxpr(found, traced.consts)), keep_unused=True)
    return whole.trace(*jax.tree_util.tree_leaves(args)).lower(lowering_platforms=(platform,))


def swapped(jaxpr):
    """(the jaxpr with every pallas_call in it interpreted, how many there are)"""
    from jax.extend.core import ClosedJaxpr, Jaxpr

    count = 0

    def part(value):
        nonlocal count
        if isinstance(value, (ClosedJaxpr, Jaxpr)):
            closed = isinstance(value, ClosedJaxpr)  # which from jax 0.11 on is a Jaxpr too
            inner, more = swapped(value.jaxpr if closed else value)
            count += more
            return ClosedJaxpr(inner, value.consts) if closed else inner
        if type(value) in (tuple, list):
            return type(value)(part(element) for element in value)
        return value

    equations = []
    for equation in jaxpr.eqns:
        if equation.primitive.name == "pallas_call":
            count += 1
            changed = dict(equation.params, interpret=True)
        else:
            changed = {key: part(value) for key, value in equation.params.items()}
        equations.append(equation.replace(params=changed))
    return jaxpr.replace(eqns=equations), count
