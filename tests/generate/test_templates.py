"""Templates: those that come with assay give the types they say; what is wrong in a file is said in a line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jax
import pytest
from printed import assert_typed
from typer.testing import CliRunner

from assay.cli.app import app
from assay.errors import InputError
from assay.generate import for_target, from_template
from assay.generate.template_file import find, names, parse


@pytest.mark.parametrize("wide", [False, True], ids=["narrow", "wide"])
@pytest.mark.parametrize("name", names())
def test_a_template_gives_the_types_that_it_says(name: str, wide: bool) -> None:
    grammar = for_target("cpu", wide, jax.__version__)
    for seed in range(4):
        assert_typed(from_template(find(name), grammar, f"{name}/{seed}").plan, wide)


def test_there_are_twenty() -> None:
    assert len(names()) >= 20
    assert all(find(name).about for name in names())


def test_the_same_key_gives_the_same_program_and_choices_give_it_again() -> None:
    grammar = for_target("cpu")
    for name in names():
        first = from_template(find(name), grammar, "7")
        assert from_template(find(name), grammar, "7") == first
        assert from_template(find(name), grammar, "other", first.choices) == first


def test_settings_alone_hold_for_what_is_generated() -> None:
    template = parse(
        "[grammar]\nops = ['add', 'neg']\ndtypes = ['s32']\nsizes = [5]\noperations = 6\n", "mine", "mine.toml"
    )
    for seed in range(20):
        plan = from_template(template, for_target("cpu"), str(seed)).plan
        forms = {node.form for node in plan.walk()}
        assert forms <= {"", "add", "neg", "constant", "literal", "iota"}
        assert all(re.fullmatch(r"s32\[(5(,5)*)?\]", str(node.type)) for node in plan.walk())


STEP = "[[steps]]\nname = 'x'\ntype = 'f32[n]'\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "nothing to make programs of"),
        ("about = ", "not TOML"),
        ("results = ['x']\n[dim]\nn = [1]\n" + STEP, "dim means nothing here; did you mean dims?"),
        ("results = ['y']\n[dims]\nn = [1]\n" + STEP, "there is no step 'y'"),
        ("[dims]\nn = [1]\n" + STEP, "results"),
        ("results = ['x']\n" + STEP, "'n' is no size"),
        ("results = ['x']\n[dims]\nn = 'many'\n" + STEP, "dims.n is to be a list of sizes"),
        ("results = ['x']\n[dims]\nn = [1]\n" + STEP + "operations = [3, 1]\n", "[least, most]"),
        ("results = ['x']\n[dims]\nn = [1]\n" + STEP + "text = '{y} + 1'\n", "no earlier step 'y'"),
        ("results = ['x']\n[dims]\nn = [1]\n" + STEP + "text = 'jnp.zeros($m)'\n", "$m: no dimension"),
        ("results = ['x']\n[dims]\nn = [1]\n" + STEP + "text = 'jnp.zeros('\n", "no Python"),
        ("results = ['x']\n[dims]\nn = [1]\n" + STEP + STEP, "the name is taken"),
        ("results = ['x']\n[dims]\nn = [1]\n" + STEP.replace("f32", "f23"), "f23 is no element type"),
        ("results = ['x']\n[dims]\nn = [1]\n" + STEP.replace("[n]", "[n - 2]"), "negative dimension"),
        ("results = ['x']\n[dims]\nn = [1]\n" + STEP.replace("[n]", "[__import__(0)]"), "is no size"),
        ("[grammar]\nops = ['scater']\n", "'scater' is not known; did you mean"),
        ("[grammar]\nweights = {gather = 'much'}\n", "'gather' is not known"),
        ("[grammar]\nweights = {add = 'much'}\n", "number of at least 0"),
        ("[grammar]\ndepth = 50\n", "integer from 0 to 4"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(text: str, says: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(text, "mine", "mine.toml")
    assert says in str(caught.value)
    assert str(caught.value).startswith("mine.toml: ")
    assert "\n" not in str(caught.value)


def test_the_command(tmp_path: Any) -> None:
    runner = CliRunner()
    listed = runner.invoke(app, ["templates", "list"])
    assert listed.exit_code == 0
    assert all(name in listed.output for name in names())
    assert "[[steps]]" in runner.invoke(app, ["templates", "show", "attention"]).output
    assert "def program(" in runner.invoke(app, ["templates", "show", "attention", "--seed", "3"]).output
    missing = runner.invoke(app, ["templates", "show", "atention"])
    assert isinstance(missing.exception, InputError)
    assert "did you mean attention?" in str(missing.exception)
    bad = tmp_path / "bad.toml"
    bad.write_text("results = ['x']\n[[steps]]\nname = 'x'\ntype = 'f32[3]'\ntext = 'jnp.zeros(4)[9, 9]'\n")
    refused = runner.invoke(app, ["templates", "check", str(bad), "--count", "1"])
    assert isinstance(refused.exception, InputError)
    assert "does not lower" in str(refused.exception)
    good = runner.invoke(app, ["templates", "check", "softmax_variants", "--count", "2"])
    assert good.exit_code == 0, good.exception
    assert "2 programs" in good.output


def test_the_template_of_the_documentation_is_one() -> None:
    page = (Path(__file__).parents[2] / "docs" / "generate.md").read_text()
    text = page.split("```toml\n")[1].split("```")[0]
    assert_typed(
        from_template(parse(text, "page", "docs/generate.md"), for_target("cpu", jax=jax.__version__), "1").plan
    )
