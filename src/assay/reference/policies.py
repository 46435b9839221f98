"""Policies by name and by target: `for_target("cpu", "0.12.0.1")`, `named("strict", "cpu", "0.12.0.1")`.

A target has a policy of its own; `strict` is that policy without the liberty to skip a declared rounding. The figures
are in policy_cpu.py, policy_gpu.py and policy_tpu.py.
"""

from __future__ import annotations

from dataclasses import replace
from difflib import get_close_matches

from assay.errors import AssayError, InputError
from assay.reference.policy import Policy
from assay.reference.policy_cpu import XLA_CPU, XLA_CPU_OLDER
from assay.reference.policy_gpu import GPU
from assay.reference.policy_tpu import TPU_V5E, TPU_V6E

_V5E = ("tpu", "tpu:v5e", "tpu:v4", "tpu:v5p")
_V6E = ("tpu:v6e", "tpu:tpu7x")
TARGETS = {"cpu": "xla-cpu", "gpu": "gpu", **dict.fromkeys(_V5E, "tpu-v5e"), **dict.fromkeys(_V6E, "tpu-v6e")}
"""Which policy applies to a target when none is asked for. v4 and v5p are taken for a v5e, tpu7x for a v6e."""

NAMES = ("strict", "xla-cpu", "tpu-v5e", "tpu-v6e", "gpu")


def for_target(target: str, jax: str | None = None) -> Policy:
    """The policy of a target's ordinary compilation by the compiler of a jax version, the loosest one where it is not
    known.

    Raises AssayError for a target that has none.
    """
    if target not in TARGETS:
        raise AssayError(f"no numerics policy for the target {target!r}; there is one for {', '.join(TARGETS)}")
    return _policy(TARGETS[target], jax)


def named(name: str, target: str, jax: str | None = None) -> Policy:
    """The policy that a user asks for; `strict` is the target's own, every declared rounding in place. Raises
    InputError for a name that there is not.
    """
    if name not in NAMES:
        near = [known for known in NAMES if name and known.startswith(name)] or get_close_matches(name, NAMES, 1)
        guess = f"; did you mean {near[0]}?" if near else ""
        raise InputError(f"no policy {name!r}; there is {', '.join(NAMES)}{guess}")
    return strict(for_target(target, jax)) if name == "strict" else _policy(name, jax)


def strict(policy: Policy) -> Policy:
    """Every declared rounding happens; routines, subnormals and accumulation as before."""
    return replace(policy, name="strict", excess_precision=False)


STRICT = strict(XLA_CPU_OLDER)


def _policy(name: str, jax: str | None) -> Policy:
    if name == "gpu":
        return GPU
    if name in ("tpu-v5e", "tpu-v6e"):
        return TPU_V5E if name == "tpu-v5e" else TPU_V6E
    if jax is not None and _release(jax) >= (0, 12):
        return XLA_CPU
    return XLA_CPU_OLDER


def _release(version: str) -> tuple[int, ...]:
    """`0.12.0.1` -> (0, 12)."""
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
