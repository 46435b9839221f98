"""Programs of the forms that could leave their result open keep what HLO asks: `benchmarks/validity.py` asks all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from assay.campaign.batch import lower
from assay.campaign.settings import Members, Settings
from assay.checking import api
from assay.checking.litmus import State, litmus
from assay.inputs.generate import generate
from assay.reference.policies import for_target
from assay.toolchain import Worker

FORMS = ("nextafter", "approx_top_k", "cumlogsumexp", "select_and_gather_add", "scatter_apply", "convert")


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with api.open_worker(api.Request(), lambda _: None) as (made, _):
        yield made


@pytest.mark.parametrize("form", FORMS)
def test_a_form_keeps_what_hlo_asks(form: str, worker: Worker, tmp_path: Path) -> None:
    """By the bounds of all executions where they decide it, else in a single one."""
    members = Members(Settings(seed=3, target="cpu", ops=(form,))).batch(0)
    seen = 0
    for member, program in zip(members, lower(members, False, worker, tmp_path, "cpu").programs, strict=True):
        assert program.module is not None
        arguments = generate(program.module, member.number, "normal")
        found = litmus(program.module, arguments, for_target("cpu"))
        if found.state is State.UNDECIDED:
            found = litmus(program.module, arguments, for_target("cpu"), execution=0)
        assert found.state is State.KEPT, found.words
        seen += form in {node.form for node in member.plan.walk()}
    assert seen >= 8
