"""Policies as a table of words, one row a liberty, made from the data: for `assay policies` and the documentation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log2

from assay.hlo.shape import DTYPES
from assay.reference.policies import TARGETS
from assay.reference.policy import Policy

Row = tuple[str, ...]


def rows(policies: Sequence[Policy]) -> list[Row]:
    """The name of each liberty, then what each policy says of it."""
    return [(name, *map(say, policies)) for name, say in _ROWS.items()]


def markdown(policies: Sequence[Policy]) -> str:
    """The same as a table of a documentation page."""
    head = ["| | " + " | ".join(f"`{_name(p)}`" for p in policies) + " |", "|---" * (len(policies) + 1) + "|"]
    return "\n".join([*head, *("| " + " | ".join(row) + " |" for row in rows(policies))]) + "\n"


def _name(policy: Policy) -> str:
    return policy.name.split()[0]


def _targets(policy: Policy) -> str:
    own = [target for target, name in TARGETS.items() if name == _name(policy)]
    if not own:
        return "any target, by --policy"
    listed = " and ".join([", ".join(own[:-1]), own[-1]] if own[:-1] else own)
    return f"{listed}, unless --policy says otherwise"


def _excess(policy: Policy) -> str:
    return "may skip declared roundings" if policy.excess_precision else "every declared rounding happens"


def _subnormals(policy: Policy) -> str:
    return "may be flushed, as operands and as results" if policy.flush_subnormals else "kept"


def _operands(policy: Policy) -> str:
    said = []
    for precision, losses in policy.products.items():
        if loss := losses.get("f32"):
            said.append(f"{precision}: {_power(loss.error)} of the sum of terms' sizes")
    return "; ".join(said) or "whole"


def _accumulate(policy: Policy) -> str:
    narrow = sorted({to for name, to in policy.accumulate.items() if DTYPES[name].bits == 16})
    return f"16-bit and 8-bit types in {', '.join(narrow)}" if narrow else "in the result's type"


def _confidence(policy: Policy) -> str:
    return f"{policy.confidence:g} sqrt(n) u times their terms' sizes"


def _division(policy: Policy) -> str:
    ulps = policy.division_ulps("f32")
    if ulps is None:
        return "rounds correctly, or is a product with the reciprocal"
    beyond = "; a divisor beyond 2**126 leaves it open" if policy.flushes_reciprocals else ""
    return f"{ulps:g} ulps and a rounding{beyond}"


def _functions(opcode: str) -> Callable[[Policy], str]:
    def say(policy: Policy) -> str:
        ulps = policy.routine_ulps(opcode, "f32") or 0.0
        more = [f"{ulps + 0.5:.3g} ulps"]
        if fixed := policy.absolute.get(opcode, {}).get("f32"):
            more.append(f"{fixed:g} ulps of 1")
        if edge := policy.near_overflow.get(opcode, {}).get("f32"):
            more.append(f"{edge:g} near overflow")
        if slope := policy.per_octave.get(opcode, {}).get("f32"):
            more.append(f"{slope:g} an octave")
        return ", ".join(more)

    return say


def _power(value: float) -> str:
    """2**-6 -> `2^-6`."""
    return f"2^{round(log2(value))}"


def _nan(policy: Policy) -> str:
    return "propagates" if policy.nan_minmax == "propagate" else "may be dropped for the other operand"


def _unknown(policy: Policy) -> str:
    return ", ".join(sorted(policy.unknown)) or "-"


_SHOWN = ("exponential", "log", "log-plus-one", "tanh", "sine", "erf", "rsqrt", "sqrt", "cbrt", "power")

_ROWS: dict[str, Callable[[Policy], str]] = {
    "applies to": _targets,
    "excess precision": _excess,
    "subnormals": _subnormals,
    "f32 operands of dots": _operands,
    "sums of products": _accumulate,
    "sums, except with probability 3e-14": _confidence,
    "f32 division": _division,
    "exp(a) exp(b) as exp(a + b)": lambda p: "allowed" if p.merges_exponentials else "no",
    "NaN in minimum and maximum": _nan,
    **{f"f32 {opcode}": _functions(opcode) for opcode in _SHOWN},
    "not judged": _unknown,
}
