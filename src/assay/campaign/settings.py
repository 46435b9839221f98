"""What a campaign is: the same settings and seed are the same campaign, wherever and however often it is begun."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from importlib import metadata
from random import Random
from typing import Any

from assay.campaign.batch import Member
from assay.generate import Grammar, for_target, generated
from assay.generate.draw import generator
from assay.generate.form import REGISTRY
from assay.generate.grammar import limited
from assay.generate.programs import from_template
from assay.generate.template import Template
from assay.generate.template_file import find, names, parse

ORDINARY = ("normal", "small-integers", "normal", "stamps")
SPECIAL = ("edges", "log-uniform", "wild", "edges", "ties")
"""Classes of the values that programs are run on: of each of these two lists one, by turns. A compilation takes several
times as long as a run and the evaluation of what is right.
"""
WIDE_EVERY = 6
"""One batch in so many has 64-bit types."""
TEMPLATED_EVERY = 8
"""One program in so many is of a template of the library, where none is named and all operations may occur."""
MUTANTS = 0.3
"""The share of programs that are changed forms of ones that reached something new."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Of one target. batch: programs in one compilation; epoch: batches between two looks at what was reached.
    operations: of a program, from and to. ops: where not empty, the forms or families that may occur. templates: where
    not empty, what programs are made of, each a name and the text of its TOML. through: as in `assay check`.
    """

    seed: int
    target: str
    toolchain: str | None = None
    batch: int = 16
    epoch: int = 32
    operations: tuple[int, int] = (2, 12)
    ops: tuple[str, ...] = ()
    templates: tuple[tuple[str, str], ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    preload: str = ""
    through: str = "hlo"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def grammar(settings: Settings, wide: bool) -> Grammar:
    made = for_target(settings.target, wide, jax=_jax(settings.toolchain))
    known = frozenset(REGISTRY.forms) | {form.family for form in REGISTRY.forms.values()}
    return limited(made, settings.ops, known) if settings.ops else made


def _jax(toolchain: str | None) -> str:
    """The version of jax that traces: not every operation is in every release."""
    found = re.search(r"jax==([\d.]+)", toolchain or "")
    return found[1] if found else metadata.version("jax")


def is_wide(batch: int) -> bool:
    """Whether a batch has 64-bit types."""
    return batch % WIDE_EVERY == WIDE_EVERY - 1


@dataclass(slots=True)
class Members:
    """Makes the programs of a campaign by their numbers.

    corpus: choices of programs that reached something new, each with the epoch from which on it is changed.
    """

    settings: Settings
    corpus: Sequence[tuple[int, tuple[int, ...]]] = ()
    _templates: list[Template] = field(init=False)
    _narrow: Grammar = field(init=False)
    _wide: Grammar = field(init=False)

    def __post_init__(self) -> None:
        self._narrow, self._wide = grammar(self.settings, False), grammar(self.settings, True)
        self._templates = [parse(text, name, name) for name, text in self.settings.templates]

    def batch(self, batch: int) -> list[Member]:
        size = self.settings.batch
        return [self.member(number) for number in range(batch * size, (batch + 1) * size)]

    def member(self, number: int) -> Member:
        """Program number so and so; it depends on the seed, and on the corpus of earlier epochs."""
        settings = self.settings
        batch = number // settings.batch
        key = f"{settings.seed}/{number}"
        own = generator("campaign", key)
        low, high = settings.operations
        operations = own.randint(low, high)
        grammar = self._wide if is_wide(batch) else self._narrow
        if (template := self._template(own, number)) is not None:
            made = from_template(template, grammar, key)
        else:
            # What is no changed program begins with a pair of operations, each pair in its turn (see `generate.tour`).
            choices = _changed(own, self._parents(batch // settings.epoch)) or (0, number)
            made = generated(grammar, key, operations, choices)
        name = template.name if template is not None else ""
        inputs = tuple(classes[number % len(classes)] for classes in (ORDINARY, SPECIAL))
        return Member(number, made.plan, inputs, made.choices, operations, name)

    def _template(self, own: Random, number: int) -> Template | None:
        if self._templates:
            return own.choice(self._templates)
        if self.settings.ops or number % TEMPLATED_EVERY:
            return None
        return own.choice(library())

    def _parents(self, epoch: int) -> list[tuple[int, ...]]:
        return [choices for since, choices in self.corpus if since <= epoch]


@lru_cache(maxsize=1)
def library() -> list[Template]:
    return [find(name) for name in names()]


def _changed(own: Random, parents: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Choices to begin with: none, or those of an earlier program, some changed, cut or crossed with another's."""
    if not parents or own.random() > MUTANTS:
        return ()
    made = list(own.choice(parents))
    kind = own.randrange(3)
    if kind == 0:
        for _ in range(own.randint(1, 4)):
            made[own.randrange(len(made))] = own.randrange(1 << 16)
    elif kind == 1:
        del made[own.randrange(len(made)) :]
    else:
        other = own.choice(parents)
        made[own.randrange(len(made)) :] = other[own.randrange(len(other)) :]
    return tuple(made)
