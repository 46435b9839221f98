"""A compiler that is wrong: a pass, the last of XLA:CPU's, that makes another computation of one fusion.

Every worker executes this file first (`--preload`). ASSAY_PLANTED names a JSON file: the fingerprint of the fusion's
computation, and the kind of fault and the instruction of it to make that of. Wherever the computation stands, in the
whole graph or in a piece of it, it is compiled wrongly, and the HLO that assay sees is right.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from jax.extend import xla
from jaxlib import _hlo
from kinds import KINDS

sys.path.insert(0, str(Path(__file__).parents[1] / "passes"))
from carry import edited

from assay.hlo.fingerprint import computation_fingerprint
from assay.hlo.graph import reachable
from assay.hlo.parse import parse_module
from assay.hlo.printer import print_for_compiler


def wrong(proto: bytes) -> bytes | None:
    planted = json.loads(Path(os.environ["ASSAY_PLANTED"]).read_text())
    options = _hlo.HloPrintOptions()
    options.print_large_constants = True
    module = parse_module(_hlo.HloModule.from_serialized_hlo_module_proto(proto).to_string(options))
    changed = module
    for computation in reachable(module):
        if planted["instruction"] not in computation.by_name:
            continue
        if computation_fingerprint(module, computation.name) == planted["computation"]:
            made = edited(changed, KINDS[planted["kind"]], computation.name, planted["instruction"])
            changed = made if made is not None else changed
    if changed is module:
        return None
    serialized: bytes = _hlo.hlo_module_from_text(print_for_compiler(changed)).as_serialized_hlo_module_proto()
    return serialized


xla.register_hlo_module_transformation(wrong, name="planted", stage=xla.PipelineStage.POST_SCHEDULER, platforms="cpu")
