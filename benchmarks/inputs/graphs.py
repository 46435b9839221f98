"""Random graphs of operations that leave their domain easily."""

from __future__ import annotations

import numpy as np

from assay.hlo.module import Module
from assay.hlo.parse import parse_module

RISKY_ONE = ("log", "sqrt", "rsqrt", "exponential")
RISKY_TWO = ("divide", "power")
TAME_ONE = ("tanh", "logistic", "negate", "abs", "sine")
TAME_TWO = ("add", "subtract", "multiply", "maximum", "minimum")
ROWS, COLUMNS = 8, 16

BODIES = """
sum { x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT r = f32[] add(x, y)
}
top { x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT r = f32[] maximum(x, y)
}
"""


def graph(seed: int, risk: float = 0.5, operations: int = 20, inputs: int = 3, dtype: str = "f32") -> Module:
    """A graph of so many operations on arrays of 8 by 16, of which a share `risk` are risky. Its result is every value
    that no other operation takes."""
    rng = np.random.default_rng(seed)
    shape = f"{dtype}[{ROWS},{COLUMNS}]{{1,0}}"
    lines = [f"  p{k} = {shape} parameter({k})" for k in range(inputs)]
    lines += [f"  zero = {dtype}[] constant(0)", f"  low = {dtype}[] constant(-inf)"]
    names = [f"p{k}" for k in range(inputs)]
    unused = set(names)

    def pick() -> str:
        # Now and then an old value, mostly a new one: depth as in programs.
        name = str(rng.choice(names[-4:] if rng.random() < 0.6 else names))
        unused.discard(name)
        return name

    for k in range(operations):
        kind, risky = rng.random(), rng.random() < risk
        if kind < 0.06:
            body, start = ("sum", "zero") if rng.random() < 0.5 else ("top", "low")
            lines.append(f"  r{k} = {dtype}[{ROWS}]{{0}} reduce({pick()}, {start}), dimensions={{1}}, to_apply={body}")
            lines.append(f"  x{k} = {shape} broadcast(r{k}), dimensions={{0}}")
        elif kind < 0.6:
            lines.append(f"  x{k} = {shape} {rng.choice(RISKY_ONE if risky else TAME_ONE)}({pick()})")
        else:
            lines.append(f"  x{k} = {shape} {rng.choice(RISKY_TWO if risky else TAME_TWO)}({pick()}, {pick()})")
        names.append(f"x{k}")
        unused.add(f"x{k}")
    results = sorted(unused)
    shapes = ", ".join([shape] * len(results))
    lines.append(f"  ROOT r = ({shapes}) tuple({', '.join(results)})")
    bodies = BODIES.replace("f32", dtype)
    return parse_module(f"HloModule g{seed}\n{bodies}\nENTRY e {{\n" + "\n".join(lines) + "\n}\n")


def narrow(seed: int, dtype: str) -> Module:
    """Sums, products, scalings and row sums of a narrow type."""
    rng = np.random.default_rng(seed)
    shape = f"{dtype}[{ROWS},{COLUMNS}]{{1,0}}"
    lines = [f"  p{k} = {shape} parameter({k})" for k in range(3)]
    lines += [f"  zero = {dtype}[] constant(0)"]
    names = ["p0", "p1", "p2"]
    for k in range(6):
        kind = rng.random()
        one, other = (str(rng.choice(names)) for _ in range(2))
        if kind < 0.2:
            lines.append(f"  r{k} = {dtype}[{ROWS}]{{0}} reduce({one}, zero), dimensions={{1}}, to_apply=sum")
            lines.append(f"  x{k} = {shape} broadcast(r{k}), dimensions={{0}}")
        elif kind < 0.4:
            factor = rng.choice(["0.5", "2", "0.125", "8"])
            lines.append(f"  c{k} = {dtype}[] constant({factor})")
            lines.append(f"  b{k} = {shape} broadcast(c{k}), dimensions={{}}")
            lines.append(f"  x{k} = {shape} multiply({one}, b{k})")
        else:
            lines.append(f"  x{k} = {shape} {rng.choice(['multiply', 'add', 'subtract'])}({one}, {other})")
        names.append(f"x{k}")
    lines.append(f"  ROOT r = {shape} copy(x5)")
    bodies = BODIES.replace("f32", dtype)
    return parse_module(f"HloModule n{seed}\n{bodies}\nENTRY e {{\n" + "\n".join(lines) + "\n}\n")


BLOCK = """
  m{k} = f32[64]{{0}} reduce(x{p}, low), dimensions={{1}}, to_apply=top
  mb{k} = f32[64,64]{{1,0}} broadcast(m{k}), dimensions={{0}}
  d{k} = f32[64,64]{{1,0}} subtract(x{p}, mb{k})
  e{k} = f32[64,64]{{1,0}} exponential(d{k})
  s{k} = f32[64]{{0}} reduce(e{k}, zero), dimensions={{1}}, to_apply=sum
  sb{k} = f32[64,64]{{1,0}} broadcast(s{k}), dimensions={{0}}
  q{k} = f32[64,64]{{1,0}} divide(e{k}, sb{k})
  y{k} = f32[64,64]{{1,0}} dot(q{k}, p1), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  a{k} = f32[64,64]{{1,0}} abs(y{k})
  l{k} = f32[64,64]{{1,0}} log-plus-one(a{k})
  t{k} = f32[64,64]{{1,0}} tanh(l{k})
  x{k} = f32[64,64]{{1,0}} add(x{p}, t{k})"""


def repeated(instructions: int) -> Module:
    """Attention-like blocks one after another, so many instructions in all."""
    blocks = "".join(BLOCK.format(k=k + 1, p=k) for k in range(instructions // 12))
    last = instructions // 12
    return parse_module(
        f"HloModule deep\n{BODIES}\nENTRY e {{\n  x0 = f32[64,64]{{1,0}} parameter(0)\n"
        "  p1 = f32[64,64]{1,0} parameter(1)\n  zero = f32[] constant(0)\n  low = f32[] constant(-inf)"
        f"{blocks}\n  ROOT r = f32[64,64]{{1,0}} copy(x{last})\n}}\n"
    )
