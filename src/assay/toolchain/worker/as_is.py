# mypy: ignore-errors
"""An optimized module compiled as it stands: no pass of HLO touches it, and every attribute reaches the backend.

XLA:CPU takes StableHLO alone, and on the way there `backend_config` is lost, without which it compiles no fusion of its
libraries. But a pass of one's own may replace the module (jax >= 0.10.2): a program of the same signature is compiled
and replaced before the scheduler, after the last pass that rewrites. The scheduler then makes an order of its own, and
after it, if the module is still what it was, it gets its order back. Known: bits and HLO of a train step are those of
the ordinary compilation. Passes that a user's file registered after the scheduler see the module as any other.
"""

from __future__ import annotations

import contextlib

from .programs import computation_of, hlo_text, jaxlib_attribute, module_of
from .wire import Refused, xla_dtype

NAME = "assay-as-is"


def as_is(payload: bytes):
    """Text of an optimized module -> (the program to compile in its place, a context in which it becomes the module).

    Refused with type `NoHook` where jax has no such hook.
    """
    try:
        from jax.extend import xla

        register, clear = xla.register_hlo_module_transformation, xla.clear_hlo_module_transformation
        before, after = xla.PipelineStage.PRE_SCHEDULER, xla.PipelineStage.POST_SCHEDULER
    except (ImportError, AttributeError):
        raise Refused("NoHook", "an optimized module is compiled as it is by jax 0.10.2 and later") from None
    module = module_of(payload.decode())
    proto, lines = module.as_serialized_hlo_module_proto(), unordered(module)
    replaced = []

    def replace(_: bytes) -> bytes:
        replaced.append(True)
        return proto

    def order(now: bytes):
        same = lines == unordered(jaxlib_attribute("HloModule").from_serialized_hlo_module_proto(now))
        return proto if same else None

    @contextlib.contextmanager
    def in_place():
        register(replace, name=NAME, stage=before, platforms="cpu")
        register(order, name=NAME, stage=after, platforms="cpu")
        try:
            yield
        finally:
            clear(NAME, stage=before, platforms="cpu")
            clear(NAME, stage=after, platforms="cpu")
        if not replaced:
            raise RuntimeError("the hook for passes was not called, so the module was not compiled")

    return stand_in(module), in_place()


def unordered(module) -> list:
    """The instructions in the module's text, whatever their order."""
    text = hlo_text(module)
    return sorted(line for line in text.splitlines() if line.startswith("  "))


def stand_in(module):
    """An unoptimized HloModule that takes and gives what `module` does, in the layouts that a program begins with."""
    program = computation_of(module).program_shape()
    lines = [f"  parameter.{n} = {spell(shape)} parameter({n})" for n, shape in enumerate(program.parameter_shapes())]
    root = zeros(program.result_shape(), lines)
    lines[-1] = lines[-1].replace(f"  {root} =", f"  ROOT {root} =")
    text = "HloModule stand_in\n\nENTRY e {\n" + "\n".join(lines) + "\n}\n"
    return jaxlib_attribute("hlo_module_from_text")(text)


def zeros(shape, lines: list) -> str:
    """Adds instructions that make a value of that shape; the name of the last."""
    if shape.is_tuple():
        parts = ", ".join(zeros(part, lines) for part in shape.tuple_shapes())
        lines.append(f"  value.{len(lines)} = {spell(shape)} tuple({parts})")
    elif not shape.is_array():
        lines.append(f"  value.{len(lines)} = token[] after-all()")
    else:
        dtype = xla_dtype(shape.numpy_dtype())
        value = "false" if dtype == "pred" else "(0, 0)" if dtype.startswith("c") else "0"
        lines.append(f"  value.{len(lines)} = {dtype}[] constant({value})")
        lines.append(f"  value.{len(lines)} = {spell(shape)} broadcast(value.{len(lines) - 1}), dimensions={{}}")
    return f"value.{len(lines) - 1}"


def spell(shape) -> str:
    if shape.is_tuple():
        return f"({', '.join(map(spell, shape.tuple_shapes()))})"
    if not shape.is_array():
        return "token[]"
    return f"{xla_dtype(shape.numpy_dtype())}[{','.join(map(str, shape.dimensions()))}]"


def layouts(computation) -> list:
    """For each array among the parameters its dimensions from the slowest to the fastest, None where that is the order
    in which they are numbered."""

    def flat(shape) -> list:
        if shape.is_tuple():
            return [leaf for part in shape.tuple_shapes() for leaf in flat(part)]
        order = tuple(reversed(shape.layout().minor_to_major())) if shape.is_array() else ()
        return [None if order == tuple(range(len(order))) else order]

    return [leaf for shape in computation.program_shape().parameter_shapes() for leaf in flat(shape)]


def laid_out(array, order):
    """An array whose memory, read as it is numbered, is `array` in a layout; what the client has no word for."""
    import numpy as np

    if order is None:
        return array
    return np.ascontiguousarray(np.transpose(array, order)).reshape(array.shape)
