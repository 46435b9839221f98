"""A name for what a module says, the same for modules that say the same.

Kept: opcodes, shapes with layouts, the values of constants, attributes, backend_config, what is called, the module's
configuration. Ignored: names and ids, metadata, origin, statistics, stack-frame tables, the order of instructions
that do not depend on each other, computations that nothing calls, and how text is spaced. Instructions are numbered
by a walk from the root, so a value used twice differs from a value computed twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b

from assay.errors import AssayError
from assay.hlo.attribute_names import REFERENCES
from assay.hlo.graph import post_order, reachable
from assay.hlo.literal import Literal, literal_array
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.printer import print_shape
from assay.hlo.reader import NAMES, referred
from assay.hlo.scan import Fault, without_comments
from assay.hlo.shape import ArrayShape, Layout, Shape, TupleShape
from assay.hlo.shape_text import entry_shapes

_IGNORED = frozenset(("metadata", "origin", "statistics"))

# What hlo_parser.cc takes where the attribute is not written, so that one who writes it says the same.
_DEFAULTS = {
    ("topk", "is_stable"): "true",
    ("topk", "largest"): "true",
    ("sort", "is_stable"): "false",
    ("gather", "indices_are_sorted"): "false",
    ("scatter", "indices_are_sorted"): "false",
    ("scatter", "unique_indices"): "false",
    ("convolution", "feature_group_count"): "1",
    ("convolution", "batch_group_count"): "1",
    ("custom-call", "custom_call_has_side_effect"): "false",
}


def fingerprint(module: Module, known: Mapping[str, str] | None = None) -> str:
    """32 hexadecimal digits for the module: its configuration and all that its entry computation does. known: the
    fingerprints of what the entry calls, where many modules share computations.
    """
    entry = _computation(module.entry, computation_fingerprints(module) if known is None else known)
    configuration = {k: v for k, v in module.attributes.items() if k != "entry_computation_layout"}
    lines = [f"{k}={_spaced_alike(v)}" for k, v in sorted(configuration.items())]
    lines += [_shape(s) for s in _entry_shapes(module)]
    return _digest([*lines, entry])


def computation_fingerprint(module: Module, name: str) -> str:
    """32 hexadecimal digits for one computation of the module and all that it calls."""
    return computation_fingerprints(module, name)[name]


def _entry_shapes(module: Module) -> list[Shape]:
    text = module.attributes.get("entry_computation_layout")
    if text is not None:
        try:
            return entry_shapes(text)
        except Fault:
            pass  # not in a form known here: then what the parameters say stands for it
    return [*(p.shape for p in module.entry.parameters), module.entry.root.shape]


def computation_fingerprints(module: Module, name: str | None = None) -> dict[str, str]:
    """Those of the computation (the entry by default) and of all that it calls, directly or not, by name."""
    found: dict[str, str] = {}
    for computation in reachable(module, name):
        found[computation.name] = _computation(computation, found)
    return found


def _computation(computation: Computation, callees: Mapping[str, str]) -> str:
    order = post_order(computation)
    number = {instruction.name: i for i, instruction in enumerate(order)}
    lines = [f"{k}={v}" for k, v in sorted(computation.attributes.items())]
    lines.append(f"root={number[computation.root_name]}")
    lines += [_instruction(instruction, number, callees) for instruction in order]
    return _digest(lines)


def _instruction(instruction: Instruction, number: Mapping[str, int], callees: Mapping[str, str]) -> str:
    parts = [
        instruction.opcode,
        _shape(instruction.shape),
        ",".join([str(number[operand]) for operand in instruction.operands]),
    ]
    if instruction.literal is not None:
        parts.append(_value(instruction.shape, instruction.literal))
    if instruction.parameter_number is not None:
        parts.append(str(instruction.parameter_number))
    for key, value in sorted(instruction.attributes.items()):
        if key == "control-predecessors":
            parts.append(f"{key}={sorted(number.get(name, -1) for name in NAMES.findall(value))}")
        elif key in REFERENCES:
            called = referred(replace(instruction, attributes={key: value}))
            parts.append(f"{key}={','.join(callees[name] for name in called)}")
        elif key not in _IGNORED and _DEFAULTS.get((instruction.opcode, key)) != value:
            parts.append(f"{key}={_spaced_alike(value)}")
    return "\0".join(parts)


def _value(shape: Shape, literal: Literal) -> str:
    if isinstance(shape, ArrayShape):
        try:
            return literal_array(shape, literal).tobytes().hex()
        except AssayError:
            pass  # no NumPy type for it: its text stands for it
    return _spaced_alike(literal.text)


@lru_cache(maxsize=8192)
def _shape(shape: Shape) -> str:
    return print_shape(_with_layout(shape))


def _with_layout(shape: Shape) -> Shape:
    """An array without a layout has the descending one, as in XLA's parser."""
    if isinstance(shape, TupleShape):
        return TupleShape(tuple(map(_with_layout, shape.elements)))
    if isinstance(shape, ArrayShape) and shape.layout is None:
        return replace(shape, layout=Layout(tuple(reversed(range(shape.rank)))))
    return shape


def _spaced_alike(text: str) -> str:
    if '"' in text:
        return text
    return "".join(without_comments(text).split())


def _digest(lines: list[str]) -> str:
    return blake2b("\n".join(lines).encode(), digest_size=16).hexdigest()
