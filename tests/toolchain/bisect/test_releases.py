"""The row of releases, and which jax goes with which libtpu."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from assay.errors import InputError, ToolchainError
from assay.toolchain.bisect import releases as module
from assay.toolchain.bisect.releases import JAX_OF_LIBTPU, MEASURED_PAIRS, Release, jax_for, number, position, row_of
from assay.toolchain.interpreters import Interpreter

INDEX = {
    "jaxlib": ["0.10.2", "0.9.0.1", "0.9.0", "0.4.36", "0.4.13", "0.4.12", "0.11.0rc1"],
    "jax": ["0.10.2", "0.9.0.1", "0.9.0", "0.4.37", "0.4.13", "0.4.12"],
    "libtpu": ["0.0.52", "0.0.42", "0.0.41", "0.0.1"],
}


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A package index; which distributions it was asked for."""
    asked: list[str] = []

    def fitting(name: str, minors: Sequence[str], pythons: Sequence[Interpreter]) -> list[str]:
        asked.append(name)
        return INDEX[name]

    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path))
    monkeypatch.setattr(module, "fitting_versions", fitting)
    monkeypatch.setattr(module, "find_interpreters", lambda: [Interpreter((3, 13, 0), "python")])
    return asked


def test_jaxlib_goes_by_releases_that_have_a_jax_of_their_number(index: list[str]) -> None:
    row = row_of("jaxlib")
    assert [r.version for r in row] == ["0.4.13", "0.9.0", "0.9.0.1", "0.10.2"]
    assert row[-1] == Release("0.10.2", "jax==0.10.2")


def test_libtpu_goes_with_a_jax_that_loads_it(index: list[str]) -> None:
    assert row_of("libtpu") == (
        Release("0.0.41", "jax==0.10.1,libtpu==0.0.41"),
        Release("0.0.42", "jax==0.10.2,libtpu==0.0.42"),
        Release("0.0.52", "jax==0.10.2,libtpu==0.0.52"),
    )


def test_the_index_is_asked_once_a_day(index: list[str], tmp_path: Path) -> None:
    assert row_of("libtpu") == row_of("libtpu")
    assert index == ["libtpu"]
    (tmp_path / "releases.json").write_text("{torn")
    assert len(row_of("libtpu")) == 3
    assert index == ["libtpu", "libtpu"]


def test_without_an_index_an_old_answer_or_what_is_installed_serves(
    index: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = row_of("libtpu")
    monkeypatch.setattr(module, "fitting_versions", lambda *_: [])
    monkeypatch.setattr(module, "FRESH_S", 0.0)
    assert row_of("libtpu") == row
    with pytest.raises(ToolchainError, match="does not answer"):
        row_of("jaxlib")
    for spec, jaxlib in (("jax==0.6.2", "0.6.2"), ("jax==0.4.37", "0.4.36")):
        folder = tmp_path / "toolchains" / spec.replace("==", "-")
        (folder / "bin").mkdir(parents=True)
        (folder / "bin" / "python").symlink_to("/bin/sh")
        (folder / "toolchain.json").write_text(f'{{"spec": "{spec}", "versions": {{"jaxlib": "{jaxlib}"}}}}')
    assert row_of("jaxlib") == (Release("0.4.36", "jax==0.4.37"), Release("0.6.2", "jax==0.6.2"))


@pytest.mark.parametrize(
    ("libtpu", "jax"),
    [
        ("0.0.11.1", "0.5.3"),  # measured
        ("0.0.42.1", "0.10.2"),  # measured
        ("0.0.47", "0.10.2"),  # between two that were
        ("0.0.60", "0.10.2"),  # newer than any that was
        ("0.0.33", "0.8.2"),  # by the jax whose own libtpu is the nearest that is not newer
        ("0.0.36", "0.9.1"),
        ("0.0.9", "0.5.1"),
    ],
)
def test_pairs(libtpu: str, jax: str) -> None:
    assert jax_for(libtpu) == jax


def test_the_table_of_pairs_is_in_order() -> None:
    both = [(number(libtpu), number(jax)) for libtpu, jax in JAX_OF_LIBTPU.items()]
    assert both == sorted(both)
    assert [jax for _, jax in both] == sorted(jax for _, jax in both)
    assert all(number(low) <= number(high) for low, high, _ in MEASURED_PAIRS)


def test_a_release_is_named_by_version_or_by_spec(index: list[str]) -> None:
    row = row_of("jaxlib")
    assert [position(row, "jaxlib", v) for v in ("0.9.0", "jax==0.9.0", "jaxlib==0.9.0")] == [1, 1, 1]
    tpu = row_of("libtpu")
    assert [position(tpu, "libtpu", v) for v in ("0.0.42", "jax==0.10.2,libtpu==0.0.42", "libtpu==0.0.42")] == [1, 1, 1]


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("0.9.5", "there is no jaxlib 0.9.5 to be had here; nearest: 0.9.0.1, 0.10.2"),
        ("0.1", "nearest: 0.4.13"),
        ("newest", "'newest' is not a release of jaxlib: write a version such as 0.10.2"),
    ],
)
def test_a_release_that_is_none_is_one_line(index: list[str], version: str, said: str) -> None:
    with pytest.raises(InputError, match=said.replace("(", r"\(")):
        position(row_of("jaxlib"), "jaxlib", version)
