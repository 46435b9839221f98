"""Which opcode has which form."""

from assay.report.lax.calls import CALLS
from assay.report.lax.ops import OPS
from assay.report.lax.source import Form

FORMS: dict[str, Form] = {**OPS, **CALLS}
