"""An option comes as text; the compiler says which type it wants, each in its own words."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from assay.toolchain.worker import options
from assay.toolchain.worker.options import compile_with, dumping
from assay.toolchain.worker.wire import Refused

XLA = "INVALID_ARGUMENT: While setting option {name}, expected another type"
LIBTPU = "UNIMPLEMENTED: TPU flag type mismatch: '{name}' is a enum"


@pytest.fixture(autouse=True)
def _no_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "compile_options", SimpleNamespace)


def settled(wanted: dict[str, Any], given: dict[str, str], complaint: str) -> Any:
    """What the compiler is given in the end, by one that takes exactly `wanted`, type and all."""

    def compile_once(settings: Any) -> dict[str, Any]:
        for name, value in settings.env_option_overrides:
            if name not in wanted:
                raise RuntimeError(f"INVALID_ARGUMENT: No such compile option: '{name}'")
            if (type(value), value) != (type(wanted[name]), wanted[name]):
                raise RuntimeError(complaint.format(name=name))
        return dict(settings.env_option_overrides)

    return compile_with(compile_once, given, directly=False)


@pytest.mark.parametrize("complaint", [XLA, LIBTPU])
@pytest.mark.parametrize("value", [True, False, 3, 0.5, "auto", "3", "true", 1, "0"])
def test_the_type_is_found_for_each_option_by_itself(value: Any, complaint: str) -> None:
    wanted = {"first": value, "second": "level", "third": 7}
    given = {"first": str(value).lower(), "second": "level", "third": "7"}
    assert settled(wanted, given, complaint) == wanted


@pytest.mark.parametrize("complaint", [XLA, LIBTPU])
def test_what_is_no_value_of_an_option_and_what_is_no_option(complaint: str) -> None:
    with pytest.raises(Refused, match="first") as refused:
        settled({"first": True}, {"first": "maybe"}, complaint)
    assert refused.value.kind == "BadOption"
    with pytest.raises(Refused, match="no option second") as refused:
        settled({"first": True}, {"first": "true", "second": "1"}, complaint)
    assert refused.value.kind == "UnknownOption"


def test_another_error_comes_through() -> None:
    def fails(_: Any) -> None:
        raise RuntimeError("INTERNAL: a check failed")

    with pytest.raises(RuntimeError, match="a check failed"):
        compile_with(fails, {"first": "1"}, directly=False)


def test_a_dump_yields_to_what_is_asked_for() -> None:
    assert dumping(None, {"a": "1"}) == {"a": "1"}
    asked = {"xla_dump_hlo_pass_re": "algsimp", "xla_dump_large_constants": "", "b": ""}
    assert dumping("D", asked) == {
        "xla_dump_to": "D", "xla_dump_hlo_as_text": "true", "xla_dump_hlo_pass_re": "algsimp", "b": "",
    }  # fmt: skip
