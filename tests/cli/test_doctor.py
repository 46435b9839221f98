"""What `assay doctor` says of what is not here."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from assay import doctor
from assay.cli.app import app
from assay.llo import native
from assay.toolchain import Toolchain

BARE = Toolchain("host", "python", (("jax", "0.10.2"), ("jaxlib", "0.10.2")))
KEPT = Toolchain("jax==0.10.2,libtpu==0.0.52", "python", (("jax", "0.10.2"), ("libtpu", "0.0.52")))


@pytest.mark.parametrize(("kept", "advice"), [([], "pip install 'assay-xla[tpu]'"), ([BARE, KEPT], KEPT.spec)])
def test_without_libtpu_it_says_what_does_not_work_and_how_to_get_it(monkeypatch, kept, advice):
    monkeypatch.setattr(doctor, "host", lambda: BARE)
    monkeypatch.setattr(doctor.environments, "installed", lambda: kept)
    monkeypatch.delenv("TPU_LIBRARY_PATH", raising=False)
    found = doctor._tpu()
    assert (found.ok, found.extra) == (False, True)
    assert "nothing can be compiled for a TPU" in found.seen
    assert advice in found.advice


@pytest.mark.parametrize(("extra", "code", "mark"), [(True, 0, "not here"), (False, 2, "missing")])
def test_what_assay_works_without_is_no_error(monkeypatch, extra, code, mark):
    monkeypatch.setattr("assay.cli.doctor.examine", lambda: [doctor.Finding("it", False, "none", "get it", extra)])
    ran = CliRunner().invoke(app, ["doctor"])
    assert ran.exit_code == code
    assert mark in ran.output


def test_the_simulator_without_a_compiler_is_slow_and_no_error(monkeypatch):
    monkeypatch.setattr(native, "missing", lambda: "no C compiler (cc) was found")
    found = doctor._simulator()
    assert (found.ok, found.extra) == (False, True)
    assert "50 times slower: no C compiler" in found.seen
