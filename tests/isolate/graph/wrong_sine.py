"""A compiler that takes the cosine for the sine: where it is fused with an exponential, or with WRONG_SINE=everywhere
wherever it stands (jax >= 0.10.2).
"""

import os
import re

from jax.extend import xla
from jaxlib import _hlo


def wrong(proto):
    options = _hlo.HloPrintOptions()
    options.print_large_constants = True
    text = _hlo.HloModule.from_serialized_hlo_module_proto(proto).to_string(options)
    computations = re.split(r"(?m)(?<=^})", text)
    everywhere = os.environ.get("WRONG_SINE") == "everywhere"
    made = "".join(
        c.replace(" sine(", " cosine(") if everywhere or (" exponential(" in c and not c.startswith("ENTRY")) else c
        for c in computations
    )
    return None if made == text else _hlo.hlo_module_from_text(made).as_serialized_hlo_module_proto()


xla.register_hlo_module_transformation(wrong, name="wrong", stage=xla.PipelineStage.POST_SCHEDULER, platforms="cpu")


def cases():
    return iter(())
