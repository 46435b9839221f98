"""Typed views of the attributes an instruction carries as text.

Each function takes an instruction and gives the attribute in a form to compute with; a missing attribute has XLA's
default, or raises HloTypeError where XLA has none; so does one that is not in the form that hlo_parser.cc reads.
Parsing is cached by text: a module repeats few distinct attributes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, TypeVar

from assay.errors import HloTypeError, Unsupported
from assay.hlo.module import Instruction, Module
from assay.hlo.reader import referred
from assay.hlo.scan import Fault, inside, items, pairs, unquote
from assay.hlo.shape import ArrayShape

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WindowDim:
    """One dimension of a window (xla_data.proto, WindowDimension)."""

    size: int
    stride: int = 1
    pad_low: int = 0
    pad_high: int = 0
    base_dilation: int = 1
    window_dilation: int = 1
    reversed: bool = False


@dataclass(frozen=True, slots=True)
class DotDims:
    lhs_batch: tuple[int, ...]
    rhs_batch: tuple[int, ...]
    lhs_contracting: tuple[int, ...]
    rhs_contracting: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ConvolutionDims:
    """`dim_labels`: where batch, feature and the spatial dimensions lie in lhs, rhs and output."""

    lhs_batch: int
    lhs_feature: int
    lhs_spatial: tuple[int, ...]
    rhs_input_feature: int
    rhs_output_feature: int
    rhs_spatial: tuple[int, ...]
    output_batch: int
    output_feature: int
    output_spatial: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GatherDims:
    offset_dims: tuple[int, ...]
    collapsed_slice_dims: tuple[int, ...]
    start_index_map: tuple[int, ...]
    index_vector_dim: int
    slice_sizes: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ScatterDims:
    update_window_dims: tuple[int, ...]
    inserted_window_dims: tuple[int, ...]
    scatter_dims_to_operand_dims: tuple[int, ...]
    index_vector_dim: int
    input_batching_dims: tuple[int, ...] = ()
    scatter_indices_batching_dims: tuple[int, ...] = ()


_REQUIRED = object()


def _missing(instruction: Instruction, key: str) -> HloTypeError:
    return HloTypeError(f"{instruction.name}: {instruction.opcode} needs the attribute `{key}`")


def _read(instruction: Instruction, key: str, read: Callable[[str], T], default: object = _REQUIRED) -> Any:
    text = instruction.attributes.get(key)
    if text is None:
        if default is _REQUIRED:
            raise _missing(instruction, key)
        return default
    try:
        return read(text)
    except (Fault, ValueError, IndexError) as error:
        raise HloTypeError(f"{instruction.name}: {instruction.opcode} has {key}={text[:80]}: {error}") from None


@lru_cache(maxsize=4096)
def _ints(text: str) -> tuple[int, ...]:
    return tuple(int(item) for item in items(inside(text)))


@lru_cache(maxsize=1024)
def _flag(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError("neither true nor false")
    return text == "true"


def int_list(instruction: Instruction, key: str, *, required: bool = False) -> tuple[int, ...]:
    """`dimensions={0,1}` -> (0, 1); () where it is missing and not required."""
    found: tuple[int, ...] = _read(instruction, key, _ints, _REQUIRED if required else ())
    return found


def integer(instruction: Instruction, key: str, default: int | None = None) -> int:
    """`index=2` -> 2. Raises HloTypeError where it is missing and there is no default."""
    found: int = _read(instruction, key, int, _REQUIRED if default is None else default)
    return found


def number(instruction: Instruction, key: str, default: float | None = None) -> float:
    """`epsilon=0.001` -> 0.001. Raises HloTypeError where it is missing and there is no default."""
    found: float = _read(instruction, key, float, _REQUIRED if default is None else default)
    return found


def flag(instruction: Instruction, key: str, default: bool = False) -> bool:
    """`is_stable=true` -> True."""
    found: bool = _read(instruction, key, _flag, default)
    return found


def word(instruction: Instruction, key: str, default: str | None = None) -> str:
    """`direction=LT` -> "LT", `infeed_config="a"` -> "a". Raises HloTypeError where it is missing without a default."""
    found: str = _read(instruction, key, unquote, _REQUIRED if default is None else default)
    return found


# ---------------------------------------------------------------- windows, slices, padding


@lru_cache(maxsize=4096)
def _window(text: str) -> tuple[WindowDim, ...]:
    fields: dict[str, list[str]] = {}
    for part in inside(text).split():
        key, _, value = part.partition("=")
        if key not in ("size", "stride", "pad", "lhs_dilate", "rhs_dilate", "rhs_reversal"):
            raise ValueError(f"unknown window field `{key}`")
        fields[key] = value.split("x")
    rank = len(next(iter(fields.values()), ()))
    if any(len(values) != rank for values in fields.values()):
        raise ValueError("its fields have different numbers of dimensions")
    sizes = fields.get("size", ["1"] * rank)
    pads = [pad.split("_") for pad in fields.get("pad", ["0_0"] * rank)]
    return tuple(
        WindowDim(
            size=int(sizes[i]),
            stride=int(fields["stride"][i]) if "stride" in fields else 1,
            pad_low=int(pads[i][0]),
            pad_high=int(pads[i][1]),
            base_dilation=int(fields["lhs_dilate"][i]) if "lhs_dilate" in fields else 1,
            window_dilation=int(fields["rhs_dilate"][i]) if "rhs_dilate" in fields else 1,
            reversed="rhs_reversal" in fields and fields["rhs_reversal"][i] == "1",
        )
        for i in range(rank)
    )


def window(instruction: Instruction) -> tuple[WindowDim, ...]:
    """One WindowDim a dimension; () where there is no window, as in a convolution without spatial dimensions."""
    found: tuple[WindowDim, ...] = _read(instruction, "window", _window, ())
    return found


_SLICE = re.compile(r"\[\s*(-?\d+)\s*:\s*(-?\d+)\s*(?::\s*(-?\d+)\s*)?\]")


@lru_cache(maxsize=4096)
def _slices(text: str) -> tuple[tuple[int, int, int], ...]:
    found = []
    for item in items(inside(text)):
        match = _SLICE.fullmatch(item)
        if match is None:
            raise ValueError(f"`{item}` is not [start:limit:stride]")
        found.append((int(match.group(1)), int(match.group(2)), int(match.group(3) or 1)))
    return tuple(found)


def slices(instruction: Instruction) -> tuple[tuple[int, int, int], ...]:
    """`slice={[0:4], [2:8:3]}` -> ((0, 4, 1), (2, 8, 3)): start, limit, stride of each dimension."""
    found: tuple[tuple[int, int, int], ...] = _read(instruction, "slice", _slices)
    return found


@lru_cache(maxsize=4096)
def _padding(text: str) -> tuple[tuple[int, int, int], ...]:
    found = []
    for part in text.split("x") if text else ():
        low, high, *interior = part.split("_")
        found.append((int(low), int(high), int(interior[0]) if interior else 0))
    return tuple(found)


def padding(instruction: Instruction) -> tuple[tuple[int, int, int], ...]:
    """`padding=0_1x2_0_3` -> ((0, 1, 0), (2, 0, 3)): low, high and interior of each dimension."""
    found: tuple[tuple[int, int, int], ...] = _read(instruction, "padding", _padding)
    return found


# ---------------------------------------------------------------- dimension numbers


def dot_dims(instruction: Instruction) -> DotDims:
    """The dimension numbers of dot, ragged-dot and scaled-dot."""
    return DotDims(
        lhs_batch=int_list(instruction, "lhs_batch_dims"),
        rhs_batch=int_list(instruction, "rhs_batch_dims"),
        lhs_contracting=int_list(instruction, "lhs_contracting_dims"),
        rhs_contracting=int_list(instruction, "rhs_contracting_dims"),
    )


_LABELS = re.compile(r"([0-9?a-z]*)_([0-9?a-z]*)->([0-9?a-z]*)")


@lru_cache(maxsize=1024)
def _convolution_dims(text: str) -> ConvolutionDims:
    match = _LABELS.fullmatch(text)
    if match is None:
        raise ValueError("expected lhs_rhs->output, such as b01f_01io->b01f")
    lhs, rhs, output = match.groups()
    for labels, letters in ((lhs, "bf"), (rhs, "io"), (output, "bf")):
        spatial = "".join(str(i) for i in range(len(labels) - 2))
        if sorted(labels.replace("?", "")) != sorted(letters + spatial[: len(labels.replace("?", "")) - 2]):
            raise ValueError(f"`{labels}` should have {letters[0]}, {letters[1]} and each spatial dimension once")
    if not len(lhs) == len(rhs) == len(output):
        raise ValueError("lhs, rhs and output have different ranks")
    digits = [str(i) for i in range(len(lhs) - 2)]

    def spatial_of(labels: str) -> tuple[int, ...]:
        return tuple(labels.index(d) for d in digits if d in labels)

    return ConvolutionDims(
        lhs_batch=lhs.index("b"),
        lhs_feature=lhs.index("f"),
        lhs_spatial=spatial_of(lhs),
        rhs_input_feature=rhs.index("i"),
        rhs_output_feature=rhs.index("o"),
        rhs_spatial=spatial_of(rhs),
        output_batch=output.index("b"),
        output_feature=output.index("f"),
        output_spatial=spatial_of(output),
    )


def convolution_dims(instruction: Instruction) -> ConvolutionDims:
    """`dim_labels=b01f_01io->b01f` as positions."""
    found: ConvolutionDims = _read(instruction, "dim_labels", _convolution_dims)
    return found


def gather_dims(instruction: Instruction) -> GatherDims:
    """The dimension numbers and slice sizes of a gather."""
    return GatherDims(
        offset_dims=int_list(instruction, "offset_dims", required=True),
        collapsed_slice_dims=int_list(instruction, "collapsed_slice_dims", required=True),
        start_index_map=int_list(instruction, "start_index_map", required=True),
        index_vector_dim=integer(instruction, "index_vector_dim"),
        slice_sizes=int_list(instruction, "slice_sizes", required=True),
        operand_batching_dims=int_list(instruction, "operand_batching_dims"),
        start_indices_batching_dims=int_list(instruction, "start_indices_batching_dims"),
    )


def scatter_dims(instruction: Instruction) -> ScatterDims:
    """The dimension numbers of a scatter."""
    return ScatterDims(
        update_window_dims=int_list(instruction, "update_window_dims", required=True),
        inserted_window_dims=int_list(instruction, "inserted_window_dims", required=True),
        scatter_dims_to_operand_dims=int_list(instruction, "scatter_dims_to_operand_dims", required=True),
        index_vector_dim=integer(instruction, "index_vector_dim"),
        input_batching_dims=int_list(instruction, "input_batching_dims"),
        scatter_indices_batching_dims=int_list(instruction, "scatter_indices_batching_dims"),
    )


# ---------------------------------------------------------------- words, names, configuration


@lru_cache(maxsize=1024)
def _words(text: str) -> tuple[str, ...]:
    return tuple(items(inside(text)))


def precision(instruction: Instruction) -> tuple[str, ...]:
    """`operand_precision={highest,default}` -> ("highest", "default"); () where missing, which means all default."""
    found: tuple[str, ...] = _read(instruction, "operand_precision", _words, ())
    return found


def called(instruction: Instruction) -> tuple[str, ...]:
    """The names of all computations that the instruction calls, in printed order; a while's condition is first."""
    return referred(instruction) if instruction.attributes else ()


def computation(instruction: Instruction, key: str) -> str:
    """The name of the computation that `key` refers to. Raises HloTypeError where it is missing or is not one name."""
    found: str = _read(instruction, key, _one_name)
    return found


def _one_name(text: str) -> str:
    if text.startswith("{"):
        names = items(inside(text))
        if len(names) != 1:
            raise ValueError("expected one computation")
        return names[0]
    return text


def branches(instruction: Instruction) -> tuple[str, ...]:
    """The computations of a conditional: by index, or true then false where the selector is a pred."""
    if "branch_computations" in instruction.attributes:
        found: tuple[str, ...] = _read(instruction, "branch_computations", _words)
        return found
    return computation(instruction, "true_computation"), computation(instruction, "false_computation")


@lru_cache(maxsize=4096)
def _pairs(text: str) -> MappingProxyType[str, str]:
    return MappingProxyType({key: unquote(value) for key, value in pairs(inside(text)).items()})


def frontend(instruction: Instruction) -> dict[str, str]:
    """`frontend_attributes={a="1",b={c}}` -> {"a": "1", "b": "{c}"}."""
    return dict(_read(instruction, "frontend_attributes", _pairs, {}))


_METADATA = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*"|\{[^{}]*\}|\S+)')


def metadata(instruction: Instruction) -> dict[str, str]:
    """`metadata={op_name="jit(f)/add" stack_frame_id=3}` -> {"op_name": "jit(f)/add", "stack_frame_id": "3"}."""
    text = instruction.attributes.get("metadata", "{}")
    return {key: unquote(value) for key, value in _METADATA.findall(text[1:-1])}


def backend_config(instruction: Instruction) -> object | None:
    """The backend's configuration: what its JSON says, or its text where it is not JSON; None where there is none."""
    text = instruction.attributes.get("backend_config")
    if text is None:
        return None
    value = unquote(text)
    try:
        return json.loads(value)  # type: ignore[no-any-return]
    except ValueError:
        return value


_REVERSED = re.compile(r'output_reverse_dimensions\\?"\s*:\s*\[\s*[\\"\d]')


def output_reverse_dimensions(instruction: Instruction) -> tuple[int, ...]:
    """The dimensions in which an instruction of libtpu, a fusion or another, writes its result backwards; () for most.

    libtpu's jellyfish-reverse-decomposer takes a reverse away and has this of what made its operand:
    `backend_config={"window_config":{"output_reverse_dimensions":["0"],..},..}` (libtpu 0.0.52). The numbers are those
    of the shape, whatever its layout: a reverse of dimensions 0 and 2 of {1,2,0} becomes ["0","2"]. Raises Unsupported
    for a tuple, of which it was not seen.
    """
    if _REVERSED.search(instruction.attributes.get("backend_config", "")) is None:
        return ()
    config = backend_config(instruction)
    found = config.get("window_config", {}).get("output_reverse_dimensions", ()) if isinstance(config, dict) else ()
    if found and not isinstance(instruction.shape, ArrayShape):
        raise Unsupported("output_reverse_dimensions", f"of {instruction.name}, which is a tuple")
    return tuple(int(dimension) for dimension in found)


_IOTA = re.compile(r"\[([\d,\s]+)\]<=\[([\d,\s]+)\](?:T\(([\d,\s]+)\))?")


@lru_cache(maxsize=1024)
def _groups(text: str) -> tuple[tuple[int, ...], ...]:
    match = _IOTA.fullmatch(text)
    if match is None:
        return tuple(_ints(group) for group in items(inside(text)))
    shape, sizes, order = (tuple(int(d) for d in part.split(",")) if part else () for part in match.groups())
    # [groups, members]<=[sizes]T(order): count up in `sizes`, transpose by `order`, reshape (replica_group.h).
    strides = [1] * len(sizes)
    for i in reversed(range(len(sizes) - 1)):
        strides[i] = strides[i + 1] * sizes[i + 1]
    flat = [0]
    for d in order or range(len(sizes)):
        flat = [base + k * strides[d] for base in flat for k in range(sizes[d])]
    members = shape[-1]
    return tuple(tuple(flat[i : i + members]) for i in range(0, len(flat), members))


def replica_groups(instruction: Instruction) -> tuple[tuple[int, ...], ...]:
    """`replica_groups={{0,1},{2,3}}` or `[2,2]<=[4]`, as lists of members; () where all take part in one group."""
    found: tuple[tuple[int, ...], ...] = _read(instruction, "replica_groups", _groups, ())
    return found


@lru_cache(maxsize=1024)
def _pairs_of_ints(text: str) -> tuple[tuple[int, int], ...]:
    found = []
    for group in items(inside(text)):
        source, target = _ints(group)
        found.append((source, target))
    return tuple(found)


def source_target_pairs(instruction: Instruction) -> tuple[tuple[int, int], ...]:
    """`source_target_pairs={{0,1},{1,0}}` -> ((0, 1), (1, 0))."""
    found: tuple[tuple[int, int], ...] = _read(instruction, "source_target_pairs", _pairs_of_ints)
    return found


def without(module: Module, names: Collection[str]) -> Module:
    """The module with these attributes on none of its instructions."""

    def bare(instruction: Instruction) -> Instruction:
        return replace(instruction, attributes={k: v for k, v in instruction.attributes.items() if k not in names})

    computations = (replace(c, instructions=tuple(map(bare, c.instructions))) for c in module.computations)
    return replace(module, computations=tuple(computations))
