"""A compiler that is wrong: a pass, the last of XLA:CPU's, that makes something else of every instruction that a fault
is of. Every worker executes this file first (`--preload`).

ASSAY_PLANTED names a folder. In `told` of it there is what to do, as JSON: `all`, the name of the fault of the compiler
(see conditions.py), or none; or, of a batch, `results`, the number of the program that each result is of, and `faults`,
by the number of a program the fault that it is compiled with: programs of a batch have nothing to do with each other,
so each may have a wrong compiler of its own. Where there is a folder `seen`, the modules that the pass sees are written
into it.

What a fault makes must be HLO: where it is not, the places are halved until it is, and those that are left alone are
right.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from conditions import Fault, Place, made, places
from fitted import fitted
from jax.extend import xla
from jaxlib import _hlo
from owners import owners

from assay.hlo.module import Module
from assay.hlo.parse import parse_module
from assay.hlo.printer import print_for_compiler

Edit = tuple[Fault, Place]


def wrong(proto: bytes) -> bytes | None:
    folder = Path(os.environ["ASSAY_PLANTED"])
    told, seen = json.loads((folder / "told").read_text()), folder / "seen"
    if not told and not seen.is_dir():
        return None
    options = _hlo.HloPrintOptions()
    options.print_large_constants = True
    text = _hlo.HloModule.from_serialized_hlo_module_proto(proto).to_string(options)
    if seen.is_dir():
        (seen / f"{len(list(seen.iterdir()))}.hlo").write_text(text)
    if not told:
        return None
    module = parse_module(text)
    edits = list(_edits(module, told))
    if not edits:
        return None
    try:
        return _serialized(module, edits)
    except Exception:  # whatever XLA's parser says: such a compiler would not have been built
        good = _legal(module, edits)
        return _serialized(module, good) if good else None


def _edits(module: Module, told: dict[str, object]) -> Iterator[Edit]:
    if "all" in told:
        fault = Fault.of(str(told["all"]))
        yield from ((fault, place) for place in places(module, fault))
        return
    results, faults = told["results"], told["faults"]
    assert isinstance(results, list)
    assert isinstance(faults, dict)
    of = owners(module, results)
    for number, name in faults.items():
        fault = Fault.of(name)
        yield from ((fault, place) for place in places(module, fault) if of.get(place) == int(number))


def _legal(module: Module, edits: Sequence[Edit]) -> list[Edit]:
    """Those that can be made, all together."""
    try:
        _serialized(module, edits)
        return list(edits)
    except Exception:
        if len(edits) == 1:
            return []
        middle = len(edits) // 2
        return _legal(module, edits[:middle]) + _legal(module, edits[middle:])


def _serialized(module: Module, edits: Sequence[Edit]) -> bytes:
    changed = module
    for fault in dict.fromkeys(fault for fault, _ in edits):
        changed = made(changed, fault, [place for other, place in edits if other == fault])
    text = print_for_compiler(fitted(changed, module))
    whole: bytes = _hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
    return whole


xla.register_hlo_module_transformation(wrong, name="planted", stage=xla.PipelineStage.POST_SCHEDULER, platforms="cpu")
