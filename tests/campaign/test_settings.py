"""The programs of a campaign follow from its settings and their numbers alone."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from assay.campaign.replay import settings_of
from assay.campaign.settings import Members, Settings, grammar
from assay.errors import InputError
from assay.generate import generated
from assay.generate.source import function
from assay.generate.template_file import text_of

SETTINGS = Settings(seed=3, target="cpu")


def texts(members: Members, batch: int) -> list[str]:
    return [function(member.plan, member.name) for member in members.batch(batch)]


def test_the_same_number_is_the_same_program() -> None:
    assert texts(Members(SETTINGS), 2) == texts(Members(SETTINGS), 2)
    assert texts(Members(SETTINGS), 2) != texts(Members(replace(SETTINGS, seed=4)), 2)


def test_choices_make_the_program_again() -> None:
    """Also where it was made of another one's: what a finding keeps is enough."""
    corpus = [(0, member.choices) for member in Members(SETTINGS).batch(0)]
    changed = Members(SETTINGS, corpus)
    batch = changed.batch(3)
    assert texts(changed, 3) != texts(Members(SETTINGS), 3), "no program was changed"
    for member in batch:
        if member.template:
            continue
        again = generated(grammar(SETTINGS, False), "another key", member.operations, member.choices)
        assert function(again.plan, member.name) == function(member.plan, member.name)


def test_a_corpus_waits_for_its_epoch() -> None:
    corpus = [(1, member.choices) for member in Members(SETTINGS).batch(0)]
    assert texts(Members(SETTINGS, corpus), SETTINGS.epoch - 1) == texts(Members(SETTINGS), SETTINGS.epoch - 1)
    assert texts(Members(SETTINGS, corpus), SETTINGS.epoch) != texts(Members(SETTINGS), SETTINGS.epoch)


def test_some_programs_are_of_templates_and_all_where_one_is_named() -> None:
    some = [member.template for member in Members(SETTINGS).batch(0)]
    assert 0 < sum(map(bool, some)) < len(some) / 2
    named = replace(SETTINGS, templates=(("softmax_variants", text_of("softmax_variants")),))
    assert {member.template for member in Members(named).batch(0)} == {"softmax_variants"}
    assert len(set(texts(Members(named), 0))) > 8
    assert settings_of(json.loads(json.dumps(named.as_dict()))) == named, "as a store has them"


def test_only_the_operations_asked_for() -> None:
    members = Members(replace(SETTINGS, ops=("add", "transpose")))
    forms = {node.form for member in members.batch(0) for node in member.plan.walk()}
    assert forms <= {"", "add", "transpose", "constant", "literal", "iota"}
    assert {"add", "transpose"} <= forms


def test_an_operation_that_there_is_not() -> None:
    with pytest.raises(InputError, match="transpoze: no such operation; did you mean transpose"):
        Members(replace(SETTINGS, ops=("transpoze",)))
