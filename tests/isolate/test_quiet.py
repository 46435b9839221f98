"""No pass is blamed for a right program: every snapshot of real models, on XLA:CPU and on the real XLA:TPU compiler."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from assay.checking.api import Request
from assay.isolate.api import Options, passes

MODELS = Path(__file__).resolve().parents[3] / "shared" / "hlo"
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NAMES = (
    "attention_bf16",
    "embedding_scatter",
    "moe_routing",
    "physics_step",
    "recurrent_scan",
    "resnet_block",
    "transformer_train",
    "unet_block",
)
needs_models = pytest.mark.skipif(not MODELS.is_dir(), reason="no collection of models beside the repository")
needs_libtpu = pytest.mark.skipif(importlib.util.find_spec("libtpu") is None, reason="no libtpu in this Python")
ALL = Options(walk_all=True)


def quiet(source: Path, target: str, least: float) -> None:
    report = passes(str(source), Request(target=target), ALL)
    for case in report.cases:
        assert case.culprit is None, case.culprit
        assert case.count("differs") == 0
        assert case.share >= least, {look.why for look in case.looks}


@pytest.mark.slow
@needs_models
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", NAMES)
def test_models_on_cpu(name: str) -> None:
    quiet(MODELS / f"{name}.cpu.before.hlo", "cpu", 1.0)


@pytest.mark.slow
@pytest.mark.tpu
@needs_models
@needs_libtpu
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("generation", ["v5e", "v6e"])
@pytest.mark.parametrize("name", NAMES)
def test_models_on_tpu(name: str, generation: str) -> None:
    quiet(MODELS / f"{name}.tpu-v5e-2x2.before.hlo", f"tpu:{generation}", 0.95)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["shift_rows.py", "train_step.py:step"])
def test_examples(name: str) -> None:
    report = passes(str(EXAMPLES / name), Request(), ALL)
    assert all(case.culprit is None or case.culprit.passes[-1] == "code generation" for case in report.cases)
    assert all(case.count("differs") == 0 and case.share == 1.0 for case in report.cases)
