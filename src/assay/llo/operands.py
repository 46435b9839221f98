"""What a kernel takes and gives: shapes with layouts, from the HLO that it was made of."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from assay.errors import InputError
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.parse import parse_module
from assay.hlo.shape import ArrayShape, leaves
from assay.llo.aliasing import shared_memory

_SCHEDULED = re.compile(r"\d+-TLP-hlo\.txt")
BESIDE = "opt.hlo"


@dataclass(frozen=True, slots=True)
class Operands:
    """Of the kernel that an HLO instruction runs. shared: number of an output -> of the input in whose memory it lies.

    alone: the instruction as a module of its own, its operands parameters. memory: whether it is only memory, which
    others write.
    """

    name: str
    inputs: tuple[ArrayShape, ...]
    outputs: tuple[ArrayShape, ...]
    shared: Mapping[int, int]
    alone: Module
    memory: bool


def scheduled_module(folder: Path, hlo: Path | None = None) -> Module:
    """The module whose kernels are dumped in `folder`: libtpu's own `*-TLP-hlo.txt`, or opt.hlo, or the file `hlo`.

    Raises InputError, which says what is needed, where there is none; HloSyntaxError where it does not parse.
    """
    if hlo is None:
        beside = sorted(path for path in folder.glob("*-TLP-hlo.txt") if _SCHEDULED.fullmatch(path.name))
        hlo = next((path for path in (*beside, folder / BESIDE, folder.parent / BESIDE) if path.is_file()), None)
    if hlo is None:
        raise InputError(
            f"{folder}: LLO has no layouts of a kernel's operands, and no HLO lies beside it (*-TLP-hlo.txt, "
            f"{BESIDE}): name the optimized HLO with --hlo"
        )
    try:
        return parse_module(hlo.read_text(), source=str(hlo))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{hlo}: cannot be read: {error}") from error


def operands_of(module: Module, name: str, same: Mapping[str, str] | None = None) -> Operands:
    """Of the kernel `name`, an instruction of `module`, or of another that runs it by `same` (see `files.Dump`).

    Raises InputError where there is none.
    """
    names = [name, *(other for other, kernel in (same or {}).items() if kernel == name)]
    for computation in module.computations:
        for wanted in names:
            if wanted in computation.by_name:
                return _operands(module, computation, computation.by_name[wanted])
    raise InputError(f"{module.name} has no instruction {name}: is this the HLO that the kernel was made of?")


def _operands(module: Module, computation: Computation, instruction: Instruction) -> Operands:
    given = computation.operands(instruction)
    inputs = _arrays(given)
    parameters = tuple(
        Instruction(f"operand.{number}", "parameter", operand.shape, parameter_number=number)
        for number, operand in enumerate(given)
    )
    root = replace(instruction, operands=tuple(parameter.name for parameter in parameters))
    entry = Computation("kernel.entry", (*parameters, root), root.name)
    alone = Module(instruction.name, (*module.computations, entry), entry.name)
    return Operands(
        instruction.name,
        inputs,
        tuple(_arrays((instruction,))),
        shared_memory(instruction, len(inputs), tuple(operand.shape for operand in given)),
        alone,
        instruction.attributes.get("custom_call_target", "").strip('"') == "AllocateBuffer",
    )


def _arrays(instructions: Sequence[Instruction]) -> tuple[ArrayShape, ...]:
    return tuple(leaf for one in instructions for leaf in leaves(one.shape) if isinstance(leaf, ArrayShape))
