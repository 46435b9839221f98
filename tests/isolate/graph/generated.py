"""Random modules for the cut: values under many names, tuples in tuples, chains, loops, branches and calls, nested."""

from __future__ import annotations

import random

V, P, S = "f32[4]{0}", "(f32[4]{0}, f32[4]{0})", "(s32[], f32[4]{0})"

KINDS = (
    "negate", "subtract", "subtract", "constant", "spread", "tuple", "element", "element", "barrier", "bitcast", "copy",
    "slice", "reduce", "fusion", "call", "while", "conditional",
)  # fmt: skip

PRELUDE = """HloModule generated

%sum (a: f32[], b: f32[]) -> f32[] {
  %a.s = f32[] parameter(0)
  %b.s = f32[] parameter(1)
  ROOT %c.s = f32[] add(%a.s, %b.s)
}
"""


def module_text(seed: int) -> str:
    made = _Made(random.Random(seed))
    entry = made.computation("main", depth=2)
    body = "\n\n".join(made.texts)
    return PRELUDE + "\n" + body.replace(f"%{entry} (", f"ENTRY %{entry} (") + "\n"


class _Made:
    """Computations (f32[4], f32[4]) -> f32[4], and loop bodies of them, callees first."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.texts: list[str] = []
        self.count = 0

    def name(self, what: str) -> str:
        self.count += 1
        return f"{what}.{self.count}"

    def computation(self, what: str, depth: int) -> str:
        name, lines = self.name(what), []
        x, y = self.name("x"), self.name("y")
        lines += [f"%{x} = {V} parameter(0)", f"%{y} = {V} parameter(1)"]
        arrays, pairs = [x, y], []
        for _ in range(self.rng.randint(4, 12)):
            self.instruction(lines, arrays, pairs, depth)
        root = self.name("r")
        lines.append(f"ROOT %{root} = {V} add(%{arrays[-1]}, %{self.rng.choice(arrays)})")
        self.texts.append(
            f"%{name} ({x}: f32[4], {y}: f32[4]) -> f32[4] {{\n" + "\n".join(f"  {line}" for line in lines) + "\n}"
        )
        return name

    def instruction(self, lines: list[str], arrays: list[str], pairs: list[str], depth: int) -> None:
        """Adds one value, with what it needs. Later values are taken more often than earlier ones."""
        rng, new = self.rng, self.name("v")
        a, b = (arrays[-1 - min(int(rng.expovariate(0.5)), len(arrays) - 1)] for _ in range(2))
        kind = rng.choice(KINDS)
        if kind in ("call", "while", "conditional", "fusion") and depth == 0:
            kind = "subtract"
        match kind:
            case "negate":
                lines.append(f"%{new} = {V} negate(%{a})")
            case "subtract":
                lines.append(f"%{new} = {V} subtract(%{a}, %{b})")
            case "constant":
                lines.append(f"%{new} = {V} constant({{{rng.random():.3f}, 1, -2, 0.5}})")
            case "spread":
                lines.append(f"%{new}.c = f32[] constant({rng.random():.3f})")
                lines.append(f"%{new}.n = f32[] negate(%{new}.c)")
                lines.append(f"%{new} = {V} broadcast(%{new}.n), dimensions={{}}")
            case "tuple":
                pair = f"{new}.p"
                lines.append(f"%{pair} = {P} tuple(%{a}, %{b})")
                if rng.random() < 0.3:
                    lines.append(f"%{pair}.b = {P} opt-barrier(%{pair})")
                    pair += ".b"
                pairs.append(pair)
                return
            case "element" if pairs:
                lines.append(f"%{new} = {V} get-tuple-element(%{rng.choice(pairs)}), index={rng.randint(0, 1)}")
            case "element" | "barrier":
                lines.append(f"%{new} = {V} opt-barrier(%{a})")
            case "bitcast":
                lines.append(f"%{new}.b = f32[2,2]{{1,0}} bitcast(%{a})")
                if rng.random() < 0.5:
                    lines.append(f"%{new}.k = f32[2,2]{{1,0}} bitcast(%{b})")
                    lines.append(f"%{new}.s = f32[2,2]{{1,0}} subtract(%{new}.b, %{new}.k)")
                    lines.append(f"%{new} = {V} bitcast(%{new}.s)")
                else:
                    lines.append(f"%{new} = {V} bitcast(%{new}.b)")
            case "copy":
                lines.append(f"%{new}.s = (f32[4]{{0}}, f32[4]{{0}}, u32[]) copy-start(%{a})")
                lines.append(f"%{new} = {V} copy-done(%{new}.s)")
            case "slice":
                lines.append(f"%{new}.s = ((f32[4]{{0}}), f32[2]{{0}}, u32[]) slice-start(%{a}), slice={{[1:3]}}")
                lines.append(f"%{new}.d = f32[2]{{0}} slice-done(%{new}.s)")
                lines.append(f"%{new} = {V} concatenate(%{new}.d, %{new}.d), dimensions={{0}}")
            case "reduce":
                lines.append(f"%{new}.z = f32[] constant(0)")
                lines.append(f"%{new}.r = f32[] reduce(%{a}, %{new}.z), dimensions={{0}}, to_apply=%sum")
                lines.append(f"%{new} = {V} broadcast(%{new}.r), dimensions={{}}")
            case "fusion":
                inner = self.computation("fused", 0)
                lines.append(f"%{new} = {V} fusion(%{a}, %{b}), kind=kLoop, calls=%{inner}")
            case "call":
                lines.append(f"%{new} = {V} call(%{a}, %{b}), to_apply=%{self.computation('called', depth - 1)}")
            case "while":
                lines.append(f"%{new}.i = s32[] constant(0)")
                lines.append(f"%{new}.t = {S} tuple(%{new}.i, %{a})")
                body = self.body(depth)
                lines.append(f"%{new}.w = {S} while(%{new}.t), condition=%{body}.twice, body=%{body}")
                lines.append(f"%{new} = {V} get-tuple-element(%{new}.w), index=1")
            case "conditional":
                branches = [self.branch(depth) for _ in range(rng.randint(2, 3))]
                lines.append(f"%{new}.i = s32[] constant({rng.randint(0, 2)})")
                lines.append(f"%{new}.t = {P} tuple(%{a}, %{b})")
                given = ", ".join([f"%{new}.t"] * len(branches))
                named = ", ".join(f"%{branch}" for branch in branches)
                lines.append(f"%{new} = {V} conditional(%{new}.i, {given}), branch_computations={{{named}}}")
        arrays.append(new)

    def body(self, depth: int) -> str:
        """A loop's body: counts, and applies a computation to its value."""
        inner, name = self.computation("applied", depth - 1), self.name("body")
        self.texts.append(f"""%{name}.twice (s: (s32[], f32[4])) -> pred[] {{
  %{name}.c = {S} parameter(0)
  %{name}.k = s32[] get-tuple-element(%{name}.c), index=0
  %{name}.two = s32[] constant(2)
  ROOT %{name}.l = pred[] compare(%{name}.k, %{name}.two), direction=LT
}}""")
        self.texts.append(f"""%{name} (s: (s32[], f32[4])) -> (s32[], f32[4]) {{
  %{name}.s = {S} parameter(0)
  %{name}.i = s32[] get-tuple-element(%{name}.s), index=0
  %{name}.x = {V} get-tuple-element(%{name}.s), index=1
  %{name}.one = s32[] constant(1)
  %{name}.n = s32[] add(%{name}.i, %{name}.one)
  %{name}.h = {V} constant({{0.5, 0.25, 2, 1}})
  %{name}.m = {V} multiply(%{name}.x, %{name}.h)
  %{name}.y = {V} call(%{name}.m, %{name}.x), to_apply=%{inner}
  ROOT %{name}.t = {S} tuple(%{name}.n, %{name}.y)
}}""")
        return name

    def branch(self, depth: int) -> str:
        """A computation of one pair."""
        inner, name = self.computation("applied", depth - 1), self.name("branch")
        self.texts.append(f"""%{name} (t: (f32[4], f32[4])) -> f32[4] {{
  %{name}.t = {P} parameter(0)
  %{name}.a = {V} get-tuple-element(%{name}.t), index=0
  %{name}.b = {V} get-tuple-element(%{name}.t), index=1
  %{name}.d = {V} subtract(%{name}.a, %{name}.b)
  ROOT %{name}.y = {V} call(%{name}.d, %{name}.a), to_apply=%{inner}
}}""")
        return name
