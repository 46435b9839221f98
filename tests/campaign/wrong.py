"""A compiler that is wrong on purpose, as every worker of a campaign executes it first: subtractions are additions, in
the optimized module, unless WRONG says otherwise.
"""

import os

from jax.extend import xla
from jaxlib import _hlo


def wrong(proto):
    module = _hlo.HloModule.from_serialized_hlo_module_proto(proto)
    options = _hlo.HloPrintOptions()
    options.print_large_constants = True
    text = module.to_string(options)
    if " subtract(" not in text:
        return None
    if os.environ.get("WRONG") == "abort":
        os.abort()
    return _hlo.hlo_module_from_text(text.replace(" subtract(", " add(")).as_serialized_hlo_module_proto()


if os.environ.get("WRONG"):
    xla.register_hlo_module_transformation(wrong, name="wrong", stage=xla.PipelineStage.PRE_SCHEDULER, platforms="cpu")
