"""Every operation beside every other, both ways round.

Rare operations hardly ever meet at random, and rewrites key on pairs. So the first two operations of a program may be a
pair that is chosen by number: one, and another that gives one of its operands.
"""

from __future__ import annotations

from functools import lru_cache

from assay.generate.draw import Draw, generator
from assay.generate.form import REGISTRY, Form, Made, Site, weight_in
from assay.generate.grammar import Grammar
from assay.generate.types import Type

TRIES = 32
"""Types that are tried for a pair."""
SLOW = frozenset({"igamma", "igammac", "igamma_grad_a", "random_gamma_grad", "betainc"})
"""Loops over hundreds of operations, each of which the reference evaluates and bounds."""
SHAPES = ((4, 4), (6, 4), (8,), (2, 3, 3), (2, 4, 3, 3), (2, 16), (3, 8, 8), (4, 9, 5), (16,), (2, 2), (2, 2, 3, 3))
"""What operations can give that ask for a square, several dimensions or an even number."""


def allowed(grammar: Grammar, form: Form) -> bool:
    """Whether the form may occur at all."""
    return weight_in(grammar, form) > 0 and bool(results(grammar, form)) and bool(grammar.depth or not form.lifts)


def results(grammar: Grammar, form: Form) -> list[str]:
    """Element types that the form gives and the grammar has."""
    return [dtype for dtype, weight in grammar.dtypes.items() if weight > 0 and dtype in form.results]


@lru_cache(maxsize=64)
def pairs(grammar: Grammar) -> list[tuple[str, str]]:
    """(form, form that gives one of its operands), as far as element types go."""
    known = [form for form in REGISTRY.forms.values() if allowed(grammar, form)]
    found = []
    for taker in known:
        wanted = _operands(grammar, taker)
        found += [(taker.name, giver.name) for giver in known if wanted & giver.results]
    return found


@lru_cache(maxsize=64)
def quick(grammar: Grammar) -> list[tuple[str, str]]:
    """The pairs without slow operations."""
    return [pair for pair in pairs(grammar) if SLOW.isdisjoint(pair)] or pairs(grammar)


def drawn(draw: Draw, grammar: Grammar) -> tuple[str, str] | None:
    """A pair, by the number of it where that is the choice; of those drawn at random, a tenth may be slow."""
    if not (known := pairs(grammar)):
        return None
    at = draw.below(10 * len(known))
    return known[at] if at < len(known) else quick(grammar)[at % len(quick(grammar))]


def _operands(grammar: Grammar, form: Form) -> set[str]:
    """Element types that the form was seen to take, until they are all that the grammar has: any form gives one of
    those. So the order in which types are tried changes nothing but the time that it takes.
    """
    every = {dtype for dtype, weight in grammar.dtypes.items() if weight > 0}
    found: set[str] = set()
    for i, dims in enumerate((*SHAPES, ())):
        for dtype in results(grammar, form):
            draw = Draw(generator("tour", form.name, dtype, i))
            made = form.inverse(Site(draw, grammar, 0, 3), Type(dtype, dims))
            found |= {hole.type.dtype for hole in made.operands if not hole.leaf} if made is not None else set()
            if every <= found:
                return found
    return found


def begun(draw: Draw, grammar: Grammar, pair: tuple[str, str]) -> tuple[Type, Made, int, Made] | None:
    """The type of a result that the first of the pair gives, what it makes of it, the number of an operand, and what
    the second makes of that; None where no type was found that suits both.
    """
    taker, giver = (REGISTRY.forms[name] for name in pair)
    dtypes = results(grammar, taker)
    alike = [dtype for dtype in dtypes if dtype in giver.results] or dtypes
    for attempt in range(TRIES):
        dims = grammar.type(draw).dims if attempt < TRIES // 3 else draw.pick(SHAPES)
        out = Type(draw.pick(alike if attempt % 2 else dtypes), dims)
        site = Site(draw, grammar, 0, 3)
        if (made := taker.inverse(site, out)) is None or any(h.type.extent > grammar.most for h in made.operands):
            continue
        fitting = [i for i, h in enumerate(made.operands) if not h.leaf and h.type.dtype in giver.results]
        for at in draw.shuffled(fitting):
            inner = giver.inverse(site, made.operands[at].type)
            if inner is not None and all(h.type.extent <= grammar.most for h in inner.operands):
                return out, made, at, inner
    return None
