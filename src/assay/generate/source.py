"""A plan as Python: a function over jax.lax, that any supported jax traces, and that a person can read."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from assay.generate.plan import Plan
from assay.generate.types import Type, python, tuple_text

HEADER = "import jax\nimport jax.numpy as jnp\nimport numpy as np\nfrom jax import lax\n"


def function(plan: Plan, name: str) -> str:
    """The text of `def name(p0, p1): ...`; it returns a tuple, always."""
    return "\n".join(_lines(plan, name, "", itertools.count(1))) + "\n"


def example(types: Iterable[Type]) -> str:
    """The tuple of argument types of a function."""
    texts = [f"jax.ShapeDtypeStruct({tuple_text(t.dims)}, {python(t.dtype)})" for t in types]
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"


def file(programs: Sequence[tuple[str, Plan]], wide: bool) -> str:
    """A file whose cases() are the programs. wide: whether jax is to be in its 64-bit mode."""
    parts = [HEADER, f"\nX64 = {wide}\n"]
    parts += [f"\n\n{function(plan, name)}" for name, plan in programs]
    rows = [f"    yield {name!r}, {name}, {example(plan.parameter_types)}" for name, plan in programs]
    return "".join([*parts, "\n\ndef cases():\n", "\n".join(rows), "\n"])


def together(programs: Sequence[tuple[str, Plan]], wide: bool) -> str:
    """A file whose `together` is all the programs side by side, each a function that is called and not inlined: they
    are traced and lowered in one go.
    """
    parts = [HEADER, f"\nX64 = {wide}\n"]
    parts += [f"\n\n@jax.jit\n{function(plan, name)}" for name, plan in programs]
    calls: list[str] = []
    names: list[str] = []
    types: list[Type] = []
    for name, plan in programs:
        own = [f"{name}_{i}" for i in range(len(plan.parameters))]
        calls.append(f"    r_{name} = {name}({', '.join(own)})")
        names += own
        types += plan.parameter_types
    results = ", ".join(f"*r_{name}" for name, _ in programs)
    body = "\n".join([f"def together({', '.join(names)}):", *calls, f"    return ({results},)"])
    return "".join([*parts, f"\n\n{body}\n\n\ndef example_args():\n    return {example(types)}\n"])


def _lines(plan: Plan, name: str, prefix: str, numbers: Iterator[int]) -> list[str]:
    """numbers: for the functions nested in one program."""
    word = {at: f"{prefix}p{i}" for i, at in enumerate(plan.parameters)}
    lines = [f"def {name}({', '.join(word[at] for at in plan.parameters)}):"]
    for at, node in enumerate(plan.nodes):
        if at in word:
            continue
        functions = {}
        for i, body in enumerate(node.bodies):
            inner = f"f{next(numbers)}"
            functions[f"f{i}"] = inner
            lines += [f"    {line}" for line in _lines(body, inner, f"{inner}_", numbers)]
        word[at] = f"{prefix}v{at - len(plan.parameters)}"
        expression = node.text.format(*(word[o] for o in node.operands), **functions)
        lines.append(f"    {word[at]} = {expression}  # {node.type}")
    lines.append(f"    return ({', '.join(word[at] for at in plan.results)},)")
    return lines
