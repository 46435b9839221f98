"""Chains of snapshots written by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from assay.checking.bounds import Settings
from assay.hlo.module import Module
from assay.hlo.parse import parse_module
from assay.isolate.judgement import Inputs
from assay.reference.policies import for_target

SETTINGS = Settings(for_target("cpu"))


def module(body: str, name: str = "m") -> Module:
    return parse_module(f"HloModule {name}\n{body}")


def write(folder: Path, steps: Sequence[tuple[str, str]]) -> Path:
    """One file for each (pass, HLO): the first is the unoptimized program's."""
    (folder / "module_0000.m.before_optimizations.txt").write_text(f"HloModule m\n{steps[0][1]}")
    names = [name for name, _ in steps[1:]]
    for number, (name, body) in enumerate(steps[1:]):
        following = [*names, "pipeline-end"][number + 1]
        path = folder / f"module_0000.m.{number:04d}.pipe.after_{name}.before_{following}.txt"
        path.write_text(f"HloModule m\n{body}")
    return folder


def drawn(*shapes: tuple[int, ...], seed: int = 0) -> Inputs:
    rng = np.random.default_rng(seed)
    return Inputs("drawn", tuple(rng.standard_normal(shape).astype(np.float32) for shape in shapes))
