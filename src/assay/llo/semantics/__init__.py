"""What every opcode means, one file a unit; importing any part of it makes the table whole."""

import assay.llo.semantics.control
import assay.llo.semantics.eup
import assay.llo.semantics.f8
import assay.llo.semantics.memory
import assay.llo.semantics.mxu
import assay.llo.semantics.mxu_wide
import assay.llo.semantics.narrow
import assay.llo.semantics.pack
import assay.llo.semantics.scalar
import assay.llo.semantics.vector
import assay.llo.semantics.vector_v6e
import assay.llo.semantics.xlu  # noqa: F401
