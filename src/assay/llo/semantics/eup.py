"""The EUP: reciprocal, reciprocal root, powers, logarithms, tanh, pushed and popped through one queue.

The hardware's own bits are not public. Here each result is computed in float64 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from assay.llo.code import Words
from assay.llo.machine import ERF, Machine
from assay.llo.semantics.floats import operand, result
from assay.llo.semantics.table import op
from assay.llo.semantics.vector import lanes

Doubles = npt.NDArray[np.float64]
WHY = "kernels with known results; the value is the function's, correctly rounded, not the hardware's approximation"

FUNCTIONS: dict[str, tuple[str, Callable[[Doubles], Doubles]]] = {
    "vrcp.f32": ("1.0 / D(x)", lambda x: 1.0 / x),
    "vrsqrt.f32": ("1.0 / sqrt(D(x))", lambda x: 1.0 / np.sqrt(x)),
    "vexp2.f32": ("exp2_of(D(x))", np.exp2),
    "vlog2.f32": ("log2_of(D(x))", np.log2),
    "vtanh.f32": ("tanh_of(D(x))", np.tanh),
}


def rounded(function: Callable[..., Doubles], *bits: Words) -> Words:
    """A function in float64, rounded once."""
    return result(function(*(operand(b).astype(np.float64) for b in bits)).astype(np.float32))


for _name, (_c, _function) in FUNCTIONS.items():

    @op(
        _name,
        ".vut",
        "probe",
        WHY,
        f"{{ uint32_t *o_ = push(vm, Q_ERF, b, c); const uint32_t *x_ = V(a); "
        f"LANES {{ const uint32_t x = x_[i]; o_[i] = R((float)({_c})); }} }}",
    )
    def _push(m: Machine, r: Sequence[int], function: Callable[[Doubles], Doubles] = _function) -> None:
        m.push(ERF, r[3], r[4], rounded(function, m.v[r[2]]))

    lanes(f"{_name}.pop", "Vv", f"R((float)({_c}))", why=WHY)(lambda x, function=_function: rounded(function, x))

lanes("vpow.f32", "Vvv", "R((float)pow(D(x), D(y)))", "stages", "expanded by the decomposer into the EUP's functions")(
    lambda x, y: rounded(np.power, x, y)
)


@op("vpop.erf", "Vut", "probe", WHY, "POP(Q_ERF, a, b, V(dst));")
def _vpop(m: Machine, r: Sequence[int]) -> None:
    m.v[r[1]] = m.pop(ERF, r[2], r[3])
