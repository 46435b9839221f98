"""An HLO module as a string constant of Python: readable where it is short, else compressed."""

from __future__ import annotations

import base64
import zlib
from dataclasses import replace

from assay.hlo.attributes import without
from assay.hlo.graph import reachable
from assay.hlo.module import Module
from assay.hlo.printer import print_for_compiler
from assay.report.wrap import wrapped

DROPPED = ("metadata", "sharding", "origin", "frontend_attributes")


def hlo_source(module: Module, name: str = "HLO", budget: int = 30) -> str:
    """`HLO = ...`, in at most `budget` lines where that can be. Of the module only what can bear on the compilation is
    kept: no metadata, and no computation that nothing calls.
    """
    text = print_for_compiler(bare(module)).strip()
    lines = [piece for line in text.splitlines() if line.strip() for piece in wrapped(line, strings=False)]
    if len(lines) + 2 <= budget and max(map(len, lines)) <= 118 and "\\" not in text and '"""' not in text:
        return "\n".join([f'{name} = """', *lines, '"""'])
    data = base64.b85encode(zlib.compress(text.encode(), 9)).decode()
    packed = wrapped(f'{name} = zlib.decompress(base64.b85decode("{data}")).decode()')
    return "\n".join(packed)


def bare(module: Module) -> Module:
    kept = without(replace(module, computations=reachable(module)), DROPPED)
    attributes = {k: v for k, v in module.attributes.items() if k in ("entry_computation_layout", "replica_count")}
    return replace(kept, attributes=attributes, tables="")
