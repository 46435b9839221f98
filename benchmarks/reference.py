"""How fast the reference is, against StableHLO's own interpreter and against XLA:CPU, in one run.

    python benchmarks/reference.py [--json FILE] [--only ops,block,memory,small] [--cores 1]

| bar | limit |
|---|---|
| `stablehlo.eval_module` over the reference, geometric mean over the operations at 2**17 elements | at least 200 |
| a transformer block forward and backward, the reference over XLA:CPU's own run | at most 20 |
| peak memory of that block over its largest set of live values at 8 bytes an element | at most 4 |
| 10,000 instructions of small tensors | at most 3 s |

The reference computes bounds throughout; float operands come with radii, as the result of another operation would.
`eval_module` gives plain values. What takes it long is given to it at a smaller size, and its time scaled up in
proportion to the elements, which favours it: nothing here takes less than linear time. Each measurement is a process
of its own, and takes the best of several times: of the wall clock for the block, on all cores; of the CPU for the rest,
which runs in one thread on both sides and would be slower for whatever else a busy machine does. Exit code 1 where a
bar is missed.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

ELEMENTS = 1 << 17
INTERPRETER, XLA, MEMORY, SECONDS = 200.0, 20.0, 4.0, 3.0
PATIENCE = 120.0  # seconds for one operation
BATCH, LENGTH, WIDTH, HEADS = 4, 128, 512, 8
INSTRUCTIONS = 10_000

Json = dict[str, Any]


# ---------------------------------------------------------------- operations


@dataclass(frozen=True)
class Op:
    """`make(n)` gives a JAX function and its arguments for about n elements; `eval_module` gets n / `share`."""

    name: str
    family: str
    make: Callable[[int], tuple[Callable[..., Any], list[np.ndarray]]]
    share: int = 1


def operations() -> list[Op]:
    import jax
    import jax.numpy as jnp
    from jax import lax

    rng = np.random.default_rng(0)

    def floats(*dims: int) -> np.ndarray:
        return rng.standard_normal(dims, np.float32)

    def positive(*dims: int) -> np.ndarray:
        return np.exp(floats(*dims))

    def whole(high: int, *dims: int) -> np.ndarray:
        return rng.integers(0, high, dims, dtype=np.int32)

    def square(n: int) -> tuple[int, int]:
        rows = 1 << (n.bit_length() // 2)
        return rows, n // rows

    def each(name: str, function: Callable[..., Any], *draws: Callable[..., np.ndarray]) -> Op:
        return Op(name, "elementwise", lambda n: (function, [draw(n) for draw in draws]))

    def move(name: str, function: Callable[..., Any]) -> Op:
        return Op(name, "movement", lambda n: (function, [floats(*square(n))]))

    def rows_at(n: int) -> list[np.ndarray]:
        rows, columns = square(n)
        return [floats(rows, columns), whole(rows, rows)]

    loop = partial(lax.fori_loop, 0, 8, lambda i, v: v * 0.5 + 1.0)
    pooled = partial(lax.reduce_window, init_value=-jnp.inf, computation=lax.max, window_dimensions=(2, 2),
                     window_strides=(2, 2), padding="VALID")  # fmt: skip

    def images(n: int) -> list[np.ndarray]:
        side = math.isqrt(n // 8)
        return [floats(1, side, side, 8), floats(3, 3, 8, 8)]

    def convolve(x: Any, k: Any) -> Any:
        return lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def matrices(n: int) -> list[np.ndarray]:
        rows, columns = square(n)
        return [floats(rows, columns), floats(columns, 32)]

    return [
        each("add", lax.add, floats, floats),
        each("multiply", lax.mul, floats, floats),
        each("divide", lax.div, floats, positive),
        each("maximum", lax.max, floats, floats),
        each("negate", lax.neg, floats),
        each("exponential", lax.exp, floats),
        each("log", lax.log, positive),
        each("tanh", lax.tanh, floats),
        each("logistic", lax.logistic, floats),
        each("sine", lax.sin, floats),
        each("rsqrt", lax.rsqrt, positive),
        each("power", lax.pow, positive, floats),
        each("erf", lax.erf, floats),
        each("floor", lax.floor, floats),
        each("compare", lax.lt, floats, floats),
        each("select", lambda p, x, y: lax.select(p > 0, x, y), lambda n: whole(2, n), floats, floats),
        each("clamp", lambda x: lax.clamp(np.float32(-1), x, np.float32(1)), floats),
        each("convert to bf16", lambda x: lax.convert_element_type(x, jnp.bfloat16), floats),
        each("convert to s32", lambda x: lax.convert_element_type(x, jnp.int32), lambda n: 1000 * floats(n)),
        each("add s32", lax.add, lambda n: whole(1 << 30, n), lambda n: whole(1 << 30, n)),
        each("shift-left s32", lax.shift_left, lambda n: whole(1 << 30, n), lambda n: whole(32, n)),
        move("transpose", jnp.transpose),
        move("reverse", lambda x: lax.rev(x, (0, 1))),
        move("pad", lambda x: lax.pad(x, np.float32(0), [(1, 2, 1), (0, 3, 0)])),
        move("slice", lambda x: x[::2, 1:]),
        move("concatenate", lambda x: jnp.concatenate([x, x], 1)),
        move("dynamic-slice", lambda x: lax.dynamic_slice(x, (3, 5), (x.shape[0] // 2, x.shape[1] // 2))),
        move("dynamic-update-slice", lambda x: lax.dynamic_update_slice(x, x[:8, :8], (3, 5))),
        Op("iota", "movement", lambda n: (lambda: lax.iota(np.float32, n), [])),
        Op("gather", "indexing", lambda n: (lambda x, i: x[i], rows_at(n))),
        Op("scatter", "indexing", lambda n: (lambda x, i: x.at[i].add(x), rows_at(n)), 4),
        Op("reduce sum", "reduction", lambda n: (lambda x: x.sum(1), [floats(*square(n))]), 4),
        Op("reduce max", "reduction", lambda n: (lambda x: x.max(0), [floats(*square(n))]), 4),
        Op("argmax", "reduction", lambda n: (lambda x: x.argmax(1), [floats(*square(n))]), 4),
        Op("reduce-window", "reduction", lambda n: (pooled, [floats(*square(n))]), 4),
        Op("cumsum", "reduction", lambda n: (jnp.cumsum, [floats(n)]), 512),
        Op("sort", "reduction", lambda n: (jnp.sort, [floats(n)]), 64),
        Op("dot", "products", lambda n: (jnp.matmul, matrices(n)), 16),
        Op("convolution", "products", lambda n: (convolve, images(n)), 64),
        Op("while", "control", lambda n: (loop, [floats(n)])),
        Op("softmax", "control", lambda n: (jax.nn.softmax, [floats(*square(n))]), 4),
        Op("top-k", "reduction", lambda n: (lambda x: lax.top_k(x, 8)[0], [floats(*square(n))]), 4),
        Op("fft", "products", lambda n: (jnp.fft.rfft, [floats(n // 256, 256)]), 64),
    ]


def interpreter_seconds(function: Callable[..., Any], arguments: list[np.ndarray]) -> float:
    """One run of `stablehlo.eval_module`; a second where the first was short."""
    import jax
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    module = jax.jit(function).lower(*arguments).compiler_ir("stablehlo")
    with module.context:
        held = [ir.DenseElementsAttr.get(np.ascontiguousarray(x)) for x in arguments]
        return best(lambda: stablehlo.eval_module(module, held), 0.5)


def reference_seconds(function: Callable[..., Any], arguments: list[np.ndarray]) -> float:
    """A run of the reference on balls: float arguments have radii of up to half an ulp."""
    from assay.hlo.parse import parse_module
    from assay.hlo.shape import DTYPES
    from assay.reference.evaluator import evaluate
    from assay.reference.value import Ball, from_array

    rng, balls = np.random.default_rng(1), []
    for x in arguments:
        ball = from_array(DTYPES[{"float32": "f32", "int32": "s32"}[x.dtype.name]], x)
        if ball.dtype.is_float:
            ball = Ball(ball.dtype, ball.mid, np.abs(ball.mid) * 2.0**-24 * rng.random(x.shape))
        balls.append(ball)
    module, policy = parse_module(hlo_text(function, arguments)), policy_here()
    return best(lambda: evaluate(module, balls, policy), 0.5)


def policy_here() -> Any:
    """That of XLA:CPU in the jax that is installed here."""
    from importlib.metadata import version

    from assay.reference.policies import for_target

    return for_target("cpu", version("jax"))


def hlo_text(function: Callable[..., Any], arguments: Any) -> str:
    import jax
    from jaxlib import _hlo

    lowered = jax.jit(function).lower(*arguments).compiler_ir("hlo").get_hlo_module()
    options = _hlo.HloPrintOptions()
    options.print_large_constants = True
    return str(lowered.to_string(options))


def best(run: Callable[[], Any], enough: float, most: int = 50, clock: Any = time.process_time) -> float:
    """The shortest of several runs, which take `enough` seconds together."""
    times: list[float] = []
    while not times or (sum(times) < enough and len(times) < most):
        start = clock()
        run()
        times.append(clock() - start)
    return min(times)


def measure_ops(first: int) -> Iterator[Json]:
    for op in operations()[first:]:
        ours = reference_seconds(*op.make(ELEMENTS))
        yield {"op": op.name, "family": op.family, "reference_s": ours}
        theirs = op.share * interpreter_seconds(*op.make(ELEMENTS // op.share))
        yield {"interpreter_s": theirs, "share": op.share, "ratio": theirs / ours}


# ---------------------------------------------------------------- a transformer block


def block() -> tuple[Callable[..., Any], list[np.ndarray]]:
    """Loss and gradients of a pre-norm block with causal attention and a gelu MLP, in f32."""
    import jax
    import jax.numpy as jnp

    depth = WIDTH // HEADS

    def normed(x: Any, scale: Any) -> Any:
        x = x - x.mean(-1, keepdims=True)
        return x * jax.lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-5) * scale

    def loss(weights: Any, x: Any, target: Any) -> Any:
        scale1, qkv, out, scale2, up, down = weights
        q, k, v = jnp.moveaxis((normed(x, scale1) @ qkv).reshape(BATCH, LENGTH, 3, HEADS, depth), 2, 0)
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.float32(math.sqrt(depth))
        causal = jnp.tril(jnp.ones((LENGTH, LENGTH), bool))
        mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(jnp.where(causal, scores, -1e30)), v)
        x = x + mixed.reshape(BATCH, LENGTH, WIDTH) @ out
        x = x + jax.nn.gelu(normed(x, scale2) @ up) @ down
        return jnp.square(x - target).mean()

    def step(*arrays: Any) -> Any:
        return jax.value_and_grad(loss, (0, 1))(arrays[:6], *arrays[6:])

    rng = np.random.default_rng(0)
    shapes = [(WIDTH,), (WIDTH, 3 * WIDTH), (WIDTH, WIDTH), (WIDTH,), (WIDTH, 4 * WIDTH), (4 * WIDTH, WIDTH)]
    weights = [rng.standard_normal(s, np.float32) / np.float32(math.sqrt(s[0])) for s in shapes]
    data = [rng.standard_normal((BATCH, LENGTH, WIDTH), np.float32) for _ in range(2)]
    return step, [*weights, *data]


def measure_block() -> Iterator[Json]:
    import jax

    from assay.hlo.parse import parse_module
    from assay.reference.evaluator import evaluate

    step, arrays = block()
    module, policy = parse_module(hlo_text(step, arrays)), policy_here()
    compiled = jax.jit(step).lower(*arrays).compile()
    placed = [jax.device_put(x) for x in arrays]
    xla = best(lambda: jax.block_until_ready(compiled(*placed)), 2.0, 20, time.perf_counter)
    ours = best(lambda: evaluate(module, arrays, policy), 6.0, 5, time.perf_counter)
    xla = min(xla, best(lambda: jax.block_until_ready(compiled(*placed)), 2.0, 20, time.perf_counter))
    yield {"reference_s": ours, "xla_s": xla, "ratio": ours / xla, "instructions": len(module.entry.instructions)}


def prepare_memory(folder: Path) -> None:
    step, arrays = block()
    (folder / "block.hlo").write_text(hlo_text(step, arrays))
    np.savez(folder / "block.npz", *arrays)


def measure_memory(folder: Path) -> Iterator[Json]:
    """In a process without JAX, whose own memory would be counted."""
    from assay.hlo.parse import parse_module
    from assay.reference.evaluator import evaluate

    module, policy = parse_module((folder / "block.hlo").read_text()), policy_here()
    with np.load(folder / "block.npz") as stored:
        arrays = [stored[name] for name in stored.files]
    np.ones((64, 64)) @ np.ones((64, 64))  # BLAS takes its own buffers
    live = live_bytes(module)
    before = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    result = evaluate(module, arrays, policy)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    yield {"peak_bytes": peak, "counted_bytes": result.peak_bytes, "live_bytes": live, "ratio": peak / live}


def live_bytes(module: Any) -> int:
    """The largest set of values that are alive at once in the entry, at 8 bytes an element; what a view gives, such
    as a broadcast, counts nothing.
    """
    from assay.hlo.graph import last_uses
    from assay.hlo.shape import ArrayShape, leaves

    views = {"broadcast", "reshape", "bitcast", "transpose", "slice", "reverse", "get-tuple-element", "tuple"}

    def size(instruction: Any) -> int:
        if instruction.opcode in views:
            return 0
        return sum(8 * leaf.size for leaf in leaves(instruction.shape) if isinstance(leaf, ArrayShape))

    entry, alive, peak = module.entry, 0, 0
    for instruction, dead in zip(entry.instructions, last_uses(entry), strict=True):
        alive += size(instruction)
        peak = max(peak, alive)
        alive -= sum(size(entry.by_name[name]) for name in dead)
    return peak


# ---------------------------------------------------------------- small tensors


def small_module() -> str:
    """A chain of many instructions on f32[4,8], whose values stay between -2 and 2."""
    lines = [
        "HloModule small",
        "",
        "%sum (a: f32[], b: f32[]) -> f32[] {",
        "  %a = f32[] parameter(0)",
        "  %b = f32[] parameter(1)",
        "  ROOT %r = f32[] add(%a, %b)",
        "}",
        "",
        "ENTRY %main (x: f32[4,8], y: f32[4,8]) -> f32[4,8] {",
        "  %x = f32[4,8]{1,0} parameter(0)",
        "  %y = f32[4,8]{1,0} parameter(1)",
        "  %zero = f32[] constant(0)",
        "  %small = f32[] constant(0.01)",
        "  %tenth = f32[4,8]{1,0} broadcast(%small), dimensions={}",
    ]
    wide, count, at = "f32[4,8]{1,0}", 5, "x"
    while count < INSTRUCTIONS - 1:
        i = count
        lines += [
            f"  %add.{i} = {wide} add(%{at}, %y)",
            f"  %tanh.{i} = {wide} tanh(%add.{i})",
            f"  %less.{i} = pred[4,8]{{1,0}} compare(%tanh.{i}, %y), direction=LT",
            f"  %one.{i} = {wide} select(%less.{i}, %tanh.{i}, %y)",
            f"  %turn.{i} = f32[8,4]{{1,0}} transpose(%y), dimensions={{1,0}}",
            f"  %dot.{i} = f32[4,4]{{1,0}} dot(%one.{i}, %turn.{i}), lhs_contracting_dims={{1}}, "
            "rhs_contracting_dims={0}",
            f"  %row.{i} = f32[4]{{0}} reduce(%dot.{i}, %zero), dimensions={{1}}, to_apply=%sum",
            f"  %wide.{i} = {wide} broadcast(%row.{i}), dimensions={{0}}",
            f"  %scaled.{i} = {wide} multiply(%wide.{i}, %tenth)",
            f"  %sine.{i} = {wide} sine(%scaled.{i})",
        ]
        count += 10
        at = f"sine.{i}"
    lines += [f"  ROOT %last = {wide} negate(%{at})", "}", ""]
    return "\n".join(lines)


def measure_small() -> Iterator[Json]:
    from assay.hlo.parse import parse_module
    from assay.reference.evaluator import evaluate

    module, policy = parse_module(small_module()), policy_here()
    arrays = list(np.random.default_rng(0).standard_normal((2, 4, 8), np.float32))
    seconds = best(lambda: evaluate(module, arrays, policy), 6.0, 3)
    yield {"instructions": len(module.entry.instructions), "seconds": seconds}


# ---------------------------------------------------------------- processes and report


def children(name: str, *arguments: str) -> Iterator[Json]:
    """What a process of this file prints, a JSON object a line; last {"died": why} where it ends badly."""
    command = [sys.executable, __file__, "--child", name, *arguments]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    if name != "block":
        environment["OPENBLAS_NUM_THREADS"] = "1"
    with tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment)
        assert child.stdout is not None
        for line in child.stdout:
            yield json.loads(line)
        if child.wait() != 0:
            errors.seek(0)
            lines = [line for line in errors.read().splitlines() if line.strip()]
            told = [line for line in lines if "ERROR" in line or "Error" in line] or lines or ["nothing was said"]
            yield {"died": told[-1][:120]}


def run_ops() -> list[Json]:
    rows: list[Json] = []
    running = True
    while running:
        running = False
        for found in children("ops", str(len(rows))):
            if "died" in found:
                assert rows, found["died"]
                assert "ratio" not in rows[-1], found["died"]
                rows[-1]["left_out"] = found["died"]
                running = True
            elif "op" in found:
                rows.append(found)
            else:
                rows[-1].update(found)
                show_op(rows[-1])
        if running:
            show_op(rows[-1])
    return rows


def show_op(row: Json) -> None:
    ours = f"  {row['op']:22}{row['reference_s'] * 1e3:9.2f} ms"
    if "left_out" in row:
        print(f"{ours}  left out of the mean: {row['left_out']}")
    else:
        note = f"  (measured at 1/{row['share']} of the size)" if row["share"] > 1 else ""
        print(f"{ours}{row['interpreter_s'] * 1e3:12.1f} ms{row['ratio']:10.0f}x{note}", flush=True)


def mean(rows: list[Json]) -> float:
    return math.exp(sum(math.log(row["ratio"]) for row in rows) / len(rows))


def bar(what: str, value: float, limit: float, *, least: bool = False) -> bool:
    met = value >= limit if least else value <= limit
    print(
        f"{'ok  ' if met else 'MISS'} {what}: {value:.2f}, {'at least' if least else 'at most'} {limit:g}", flush=True
    )
    return met


def report(only: list[str]) -> tuple[bool, Json]:
    met, found = True, {"threads": len(os.sched_getaffinity(0))}
    print(f"the block: {found['threads']} threads for XLA:CPU and for BLAS; all else: one thread, CPU time")
    if "ops" in only:
        print(f"operations at {ELEMENTS} elements: the reference, eval_module, ratio")
        found["ops"] = rows = run_ops()
        rows = [row for row in rows if "ratio" in row]
        for family in dict.fromkeys(row["family"] for row in rows):
            some = [row for row in rows if row["family"] == family]
            print(f"  {family}: {mean(some):.0f}x over {len(some)}")
        met &= bar(f"eval_module / reference, mean of {len(rows)} operations", mean(rows), INTERPRETER, least=True)
    if "block" in only:
        (row,) = children("block")
        found["block"] = row
        print(
            f"transformer block, batch {BATCH}, length {LENGTH}, width {WIDTH}, {HEADS} heads: "
            f"reference {row['reference_s']:.2f} s, XLA:CPU {row['xla_s']:.3f} s"
        )
        met &= bar("reference / XLA:CPU", row["ratio"], XLA)
    if "memory" in only:
        with tempfile.TemporaryDirectory() as folder:
            list(children("prepare", folder))
            (row,) = children("memory", folder)
        found["memory"] = row
        megabytes = {name: row[f"{name}_bytes"] / 2**20 for name in ("peak", "counted", "live")}
        print("the block's memory: " + ", ".join(f"{name} {size:.0f} MiB" for name, size in megabytes.items()))
        met &= bar("peak / live values in float64", row["ratio"], MEMORY)
    if "small" in only:
        (row,) = children("small")
        found["small"] = row
        met &= bar(f"{row['instructions']} instructions of small tensors, seconds", row["seconds"], SECONDS)
    return met, found


def child(name: str, arguments: list[str]) -> None:
    match name:
        case "ops":
            found = measure_ops(int(arguments[0]))
        case "block":
            found = measure_block()
        case "prepare":
            prepare_memory(Path(arguments[0]))
            found = iter(())
        case "memory":
            found = measure_memory(Path(arguments[0]))
        case _:
            found = measure_small()
    for row in found:
        print(json.dumps(row), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path, help="write all figures here")
    parser.add_argument("--only", default="ops,block,memory,small", help="some of the four measurements")
    parser.add_argument("--cores", type=int, help="keep to so many cores, XLA too; on a busy machine one is steadiest")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.child[0], arguments.child[1:])
        return 0
    if arguments.cores:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: arguments.cores])
    met, found = report(arguments.only.split(","))
    if arguments.json:
        arguments.json.write_text(json.dumps({**found, "met": met}, indent=1))
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
