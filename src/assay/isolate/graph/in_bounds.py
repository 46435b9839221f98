"""Indices that are promised to be inside: a kernel that got others would read what belongs to nobody, rightly.

Known: libtpu marks the indices of a gather or scatter whose bounds it need not look at (`AssumeGatherIndicesInBound`),
or that are fields of one word (`GatherScatterIndicesBitpacked`); the kernel then does not clamp them, as the HLO of its
instruction does.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from assay.hlo.attributes import gather_dims, scatter_dims, word
from assay.hlo.module import Computation, Instruction, Module
from assay.reference.evaluator import evaluate
from assay.reference.policy import Policy
from assay.reference.value import Array, Ball, Value

MARKS = frozenset(("AssumeGatherIndicesInBound", "GatherScatterIndicesBitpacked"))


def marked(module: Module) -> dict[tuple[str, str], tuple[Array, int]]:
    """(computation, name of indices that come through a mark) -> (the largest index of each component, the dimension of
    the components).
    """
    found = {}
    for computation in module.computations:
        for instruction in computation.instructions:
            if instruction.opcode in ("gather", "scatter"):
                indices = instruction.operands[len(instruction.operands) // 2]
                if _comes_through(computation, indices):
                    found[computation.name, indices] = _most(computation, instruction)
    return found


def inside(module: Module, arguments: Sequence[Array], policy: Policy) -> bool:
    """Whether all indices that come through a mark are inside, for these arguments. Raises what `evaluate` raises."""
    wanted = marked(module)
    kept = True

    def watch(computation: Computation, instruction: Instruction, value: Value) -> None:
        nonlocal kept
        limits = wanted.get((computation.name, instruction.name))
        if limits is not None and isinstance(value, Ball):
            most, axis = limits
            indices = value.mid if axis < value.mid.ndim else value.mid[..., None]
            indices = np.moveaxis(indices, min(axis, indices.ndim - 1), -1)
            kept &= bool(((indices >= 0) & (indices <= most)).all())

    if wanted:
        evaluate(module, arguments, policy, flushed=True, on_value=watch)
    return kept


def _comes_through(computation: Computation, name: str) -> bool:
    seen: set[str] = set()
    todo = [name]
    while todo:
        instruction = computation.by_name[todo.pop()]
        if word(instruction, "custom_call_target", "") in MARKS:
            return True
        if instruction.name not in seen:
            seen.add(instruction.name)
            todo += instruction.operands
    return False


def _most(computation: Computation, instruction: Instruction) -> tuple[Array, int]:
    whole = computation.by_name[instruction.operands[0]].array.dims
    if instruction.opcode == "gather":
        dims = gather_dims(instruction)
        most = [whole[d] - dims.slice_sizes[d] for d in dims.start_index_map]
        return np.array(most), dims.index_vector_dim
    scatter = scatter_dims(instruction)
    updates = computation.by_name[instruction.operands[-1]].array.dims
    windowed = [d for d in range(len(whole)) if d not in (*scatter.inserted_window_dims, *scatter.input_batching_dims)]
    window = dict.fromkeys(range(len(whole)), 1)
    window.update(zip(windowed, (updates[d] for d in scatter.update_window_dims), strict=True))
    return np.array([whole[d] - window[d] for d in scatter.scatter_dims_to_operand_dims]), scatter.index_vector_dim
