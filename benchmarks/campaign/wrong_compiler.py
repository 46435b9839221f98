"""A compiler that is wrong: a pass, the last of XLA:CPU's, that makes something else of every instruction that a fault
is of. Every worker executes this file first (`--preload`).

ASSAY_PLANTED names a folder. `fault` in it has the name of the fault (see conditions.py), or nothing; where there is a
folder `seen` in it, the modules that the pass sees are written into it. What the fault makes must be HLO: where it is
not, the places are halved until it is, and those that are left alone are right.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from conditions import Fault, Place, made, places
from fitted import fitted
from jax.extend import xla
from jaxlib import _hlo

from assay.hlo.module import Module
from assay.hlo.parse import parse_module
from assay.hlo.printer import print_for_compiler


def wrong(proto: bytes) -> bytes | None:
    folder = Path(os.environ["ASSAY_PLANTED"])
    name, seen = (folder / "fault").read_text(), folder / "seen"
    if not name and not seen.is_dir():
        return None
    options = _hlo.HloPrintOptions()
    options.print_large_constants = True
    text = _hlo.HloModule.from_serialized_hlo_module_proto(proto).to_string(options)
    if seen.is_dir():
        (seen / f"{len(list(seen.iterdir()))}.hlo").write_text(text)
    if not name:
        return None
    module, fault = parse_module(text), Fault.of(name)
    at = places(module, fault)
    if not at:
        return None
    try:
        return _serialized(module, fault, at)
    except Exception:  # whatever XLA's parser says: such a compiler would not have been built
        good = _legal(module, fault, at)
        return _serialized(module, fault, good) if good else None


def _legal(module: Module, fault: Fault, at: Sequence[Place]) -> list[Place]:
    """The places at which it can be made, all together."""
    try:
        _serialized(module, fault, at)
        return list(at)
    except Exception:
        if len(at) == 1:
            return []
        middle = len(at) // 2
        return _legal(module, fault, at[:middle]) + _legal(module, fault, at[middle:])


def _serialized(module: Module, fault: Fault, at: Sequence[Place]) -> bytes:
    text = print_for_compiler(fitted(made(module, fault, at), module))
    whole: bytes = _hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
    return whole


xla.register_hlo_module_transformation(wrong, name="planted", stage=xla.PipelineStage.POST_SCHEDULER, platforms="cpu")
