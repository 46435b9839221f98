"""One fusion under many windows: does the loop that libtpu makes of each give the same result?

    python benchmarks/llo_windows.py [--target tpu:v5e|tpu:v6e] [--toolchain jax==V,libtpu==W] [--windows 20]

A window is the block of tiles that a kernel works on at a time (`backend_config.window_config`). Each function is
compiled once; its scheduled module, with another window in it, goes straight to libtpu's backend, 20 times, and is
simulated at `original` and `final`. Elementwise results must be the same bits under every window; sums may be added in
another order, and must lie in the reference's bounds. Windows that libtpu does not take are told. Exit status 1 where a
result differs, or fewer windows than asked for could be tried.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
sys.path.insert(0, str(Path(__file__).parent / "llo_conformance"))

import jax
import jax.numpy as jnp
from cases import array
from compiling import Compiler
from judging import STAGES, Judge, Stage, same_bits, simulate

from assay.checking import api
from assay.hlo.attributes import backend_config
from assay.hlo.module import Instruction
from assay.inputs.generate import generate
from assay.toolchain import RequestRefused, WorkerDied


@dataclass(frozen=True)
class Swept:
    """exact: whether every window must give the same bits."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    exact: bool


FUNCTIONS = (
    Swept("elementwise", lambda x, y: jnp.tanh(x * y) + x, (array("f32", 500, 600),) * 2, True),
    Swept("narrow", lambda x, y: jnp.maximum(x * y, x), (array("bf16", 512, 1000),) * 2, True),
    Swept("broadcast", lambda x, y: (x[:, None] + y) * y, (array("f32", 400), array("f32", 400, 500)), True),
    Swept("slice", lambda x, y: x[8:456, 128:640] * y, (array("f32", 500, 700), array("f32", 448, 512)), True),
    Swept("reduction", lambda x: (x * x).sum(1), (array("f32", 512, 700),), False),
    Swept("softmax", lambda x: jax.nn.softmax(x, -1), (array("f32", 512, 300),), False),
)


def windowed(instruction: Instruction) -> tuple[list[int], list[int]] | None:
    """(output_window_bounds, iteration_bounds) of an instruction that has some, and none that must go with them."""
    config = backend_config(instruction)
    window = config.get("window_config") if isinstance(config, dict) else None
    if not window or not window.get("output_window_bounds"):
        return None
    if window.get("input_window_bounds") or window.get("kernel_window_bounds"):
        return None
    return [int(n) for n in window["output_window_bounds"]], [int(n) for n in window["iteration_bounds"]]


def candidates(whole: list[int], count: int) -> Iterator[list[int]]:
    """Windows that cover `whole` tiles, from the largest down; divisors first, then whatever leaves a rest."""
    sizes = [sorted({n for n in range(1, w + 1) if n < 9 or w % n == 0 or n % 8 == 0}, reverse=True) for w in whole]
    exact = [w for w in itertools.product(*sizes) if all(n % b == 0 for n, b in zip(whole, w, strict=True))]
    rest = [w for w in itertools.product(*sizes) if w not in exact]
    step = max(1, len(exact) // (count // 2 or 1))
    chosen = exact[::step][: count // 2]
    step = max(1, len(rest) // (count - len(chosen)))
    yield from map(list, chosen)
    yield from map(list, rest[::step])
    yield from (list(w) for w in exact if w not in chosen)


def with_window(text: str, name: str, bounds: list[int], trips: list[int]) -> str:
    """The module's text with another window for the instruction `name`."""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if re.match(rf"\s*(ROOT )?%{re.escape(name)} = ", line):
            for key, values in (("output_window_bounds", bounds), ("iteration_bounds", trips)):
                listed = json.dumps([str(v) for v in values])
                line = re.sub(rf'"{key}":\[[^\]]*\]', f'"{key}":{listed}', line, count=1)
            lines[number] = line
    return "\n".join(lines)


def sweep(swept: Swept, compiler: Compiler, target: str, count: int) -> bool:
    program = compiler.function(swept.function, swept.arguments, swept.name)
    made = compiler.compile(program)
    text = (made.dump.folder / "optimized.hlo").read_text()
    assert program.module is not None
    arguments = generate(program.module, 0)
    judge = Judge(
        program.module, made.module, arguments, api.settings_for(api.Request(target=target), compiler.versions)
    )
    # The instruction with the most tiles: the window that matters.
    found = [(i, w) for i in made.module.entry.instructions if (w := windowed(i)) is not None]
    instruction, (bounds, trips) = max(found, key=lambda f: sum(b * t for b, t in zip(*f[1], strict=True)))
    whole = [b * t for b, t in zip(bounds, trips, strict=True)]
    first = {stage: simulate(judge, made.dump, compiler.generation, stage) for stage in STAGES}
    good = all(told(f"{swept.name} {bounds} as compiled", stage, first[stage]) for stage in STAGES)
    tried, refused, differ, steps = 0, [], [], set()
    for window in candidates(whole, count):
        if tried == count:
            break
        loops = [-(-w // b) for w, b in zip(whole, window, strict=True)]
        other = with_window(text, instruction.name, window, loops)
        try:
            again = compiler.payload(program, other, "hlo-text")
        except (RequestRefused, WorkerDied) as why:
            refused.append(f"{window}: {str(why)[:120]}")
            continue
        tried += 1
        judge.optimized = again.module
        for stage in STAGES:
            ran = simulate(judge, again.dump, compiler.generation, stage)
            good &= told(f"{swept.name} {window} x {loops}", stage, ran)
            steps.add(ran.steps)
            if not same_bits(first[stage], ran):
                differ.append(f"{stage} {window}")
    print(
        f"{target} {swept.name}: {instruction.name}, {whole} tiles, {tried} windows in {len(steps)} lengths, "
        f"{len(refused)} refused, bits differ in {len(differ)}"
    )
    for line in (*refused[:3], *(differ if swept.exact else ())):
        print(f"    {line}")
    return good and tried == count and not (swept.exact and differ)


def told(what: str, stage: str, ran: Stage) -> bool:
    if ran.verdict != "agree":
        print(f"{what} {stage}: {ran.verdict}: {ran.why[:300]}")
    return ran.verdict == "agree"


def main() -> int:
    parser = argparse.ArgumentParser(description="Fusions under many windows through the LLO simulator.")
    parser.add_argument("--target", default="tpu:v5e", choices=("tpu:v5e", "tpu:v6e"))
    parser.add_argument("--toolchain", default=None, metavar="jax==V,libtpu==W")
    parser.add_argument("--windows", type=int, default=20)
    given = parser.parse_args()
    with Compiler(given.toolchain, given.target.removeprefix("tpu:")) as compiler:
        good = [sweep(swept, compiler, given.target, given.windows) for swept in FUNCTIONS]
    print("every window gives the same result" if all(good) else "NOT every window gives the same result")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
