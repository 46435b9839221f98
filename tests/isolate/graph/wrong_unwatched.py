"""A compiler whose fault goes away where one looks: it is wrong unless the sine is an output (jax >= 0.10.2)."""

import re

from jax.extend import xla
from jaxlib import _hlo


def wrong(proto):
    options = _hlo.HloPrintOptions()
    options.print_large_constants = True
    text = _hlo.HloModule.from_serialized_hlo_module_proto(proto).to_string(options)
    if " sine(" not in text or re.search(r" copy\(%?sine\)", text):
        return None
    return _hlo.hlo_module_from_text(text.replace(" sine(", " cosine(")).as_serialized_hlo_module_proto()


xla.register_hlo_module_transformation(wrong, name="wrong", stage=xla.PipelineStage.POST_SCHEDULER, platforms="cpu")


def cases():
    return iter(())
