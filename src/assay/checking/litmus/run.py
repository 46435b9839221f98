"""The test itself: which instructions ask what, what the rules say of them, and what of it reaches the outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from assay.checking.bounds import deadline
from assay.checking.litmus import bodies, elements, indices, orders, statics
from assay.checking.litmus.look import KEPT, Look, Said, Site, State, Static, Valued
from assay.checking.litmus.spans import Spans
from assay.contracts import Contract, asked_of
from assay.errors import ReferenceLimit, Unsupported
from assay.hlo.attributes import called
from assay.hlo.module import Computation, Instruction, Module
from assay.reference.context import CHOICES, Context, mark
from assay.reference.evaluator import evaluate
from assay.reference.policies import STRICT
from assay.reference.policy import Policy
from assay.reference.value import Array, Ball, Token, Value, flatten, union
from assay.report.result import CaseResult

STATIC: dict[str, Static] = {
    "neutral-init":        bodies.init_by_structure,
    "associative-body":    bodies.associative_by_structure,
    "commutative-body":    bodies.commutative_by_structure,
    "strict-weak-order":   orders.by_structure,
    "transitive-select":   bodies.select_by_structure,
    "sorted-indices":      indices.says_sorted,
    "unique-indices":      indices.says_unique,
    "scatter-order":       indices.order_matters,
    "nonzero-divisor":     elements.integers_alone,
    "natural-exponent":    elements.integers_alone,
    "convert-in-range":    elements.narrows,
    "nan-bits":            elements.reads_float_bits,
    "uniform-interval":    elements.uniform,
    "no-random-numbers":   statics.random_numbers,
    "random-algorithm":    statics.random_algorithm,
    "dot-algorithm":       statics.dot_algorithm,
    "written-before-read": statics.allocated,
    "known-call":          statics.known_call,
}  # fmt: skip

VALUED: dict[str, Valued] = {
    "neutral-init":      bodies.init,
    "associative-body":  bodies.associative,
    "commutative-body":  bodies.commutative,
    "strict-weak-order": orders.compares,
    "sorted-indices":    indices.ascending,
    "unique-indices":    indices.unique,
    "scatter-order":     indices.any_order,
    "nonzero-divisor":   elements.divisor,
    "natural-exponent":  elements.exponent,
    "shift-within":      elements.shift,
    "convert-in-range":  elements.convert,
    "nan-bits":          elements.nan_bits,
    "positive-definite": elements.definite,
    "uniform-interval":  elements.interval,
}  # fmt: skip

LOOP = "loop-ends"
"""Decided by the evaluation itself."""

_COSTLY = frozenset(("neutral-init", "associative-body", "commutative-body", "strict-weak-order", "positive-definite"))
VISITS = 64
"""Times that a costly rule looks at one instruction; in a loop there may be more."""

_GRAPHS = frozenset(("call", "fusion", "while", "conditional", "async-start"))


@dataclass(frozen=True, slots=True)
class Telling:
    """A precondition that is broken or undecided. count: elements, 0 where it is not a matter of single ones. reaches:
    whether something of the outputs depends on it; None where that is not known.
    """

    contract: Contract
    computation: str
    instruction: str
    opcode: str
    state: State
    why: str
    count: int = 0
    reaches: bool | None = None

    @property
    def words(self) -> str:
        counted = f", {self.count} elements" if self.count else ""
        harmless = "; no output depends on it" if self.reaches is False else ""
        return (
            f"{self.instruction} ({self.opcode}): {self.state}: {self.contract.precondition}: {self.why}{counted}"
            f" ({self.contract.strength}){harmless}"
        )


@dataclass(frozen=True, slots=True)
class Litmus:
    """tellings: what is not kept. kept: how many are. tainted: for each array among the outputs which elements depend
    on something broken or undecided, or are undecided anyway, which no check compares; None where none does. followed:
    whether that is known at all. outputs: of the evaluation, tuples flattened; None where there was none.
    """

    tellings: tuple[Telling, ...]
    kept: int
    tainted: tuple[Array | None, ...] = field(default=(), repr=False, compare=False)
    followed: bool = True
    outputs: tuple[Ball | Token, ...] | None = field(default=None, repr=False, compare=False)

    @property
    def state(self) -> State:
        """BROKEN or UNDECIDED where that may reach an output."""
        found = {telling.state for telling in self.tellings if telling.reaches is not False}
        return next((state for state in (State.BROKEN, State.UNDECIDED) if state in found), State.KEPT)

    def excuses(self, outside: Sequence[Array | None]) -> bool | None:
        """Whether wrong elements, a mask for each output array, may all come of what is broken or undecided: then they
        show nothing. None where what depends on what is not known.
        """
        if not self.tellings:
            return False
        if not self.followed:
            return None
        wrong = [mask for mask in outside if mask is not None and mask.any()]
        if not wrong:
            return False
        pairs = zip(outside, self.tainted, strict=True)
        free = [mask if taint is None else mask & ~taint for mask, taint in pairs if mask is not None]
        return not any(bool(mask.any()) for mask in free)

    def clears(self, case: CaseResult) -> bool | None:
        """Whether a mismatch stands: some output's worst element depends on nothing that is broken or undecided. None
        where that is not known, as of a crash, which has no elements.
        """
        peaks: list[Array] = []
        for output in case.outputs:
            mask = np.zeros(output.shape, np.bool_)
            if output.outside and output.peak is not None:
                mask[output.peak] = True
            peaks.append(mask)
        if not any(mask.any() for mask in peaks):
            return None if self.tellings else True
        excused = self.excuses(peaks)
        return None if excused is None else not excused

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(telling.words for telling in self.tellings)


def litmus(
    module: Module,
    arguments: Sequence[Array] | None = None,
    policy: Policy = STRICT,
    *,
    execution: int | None = None,
    trips: int = 1_000_000,
    timeout_s: float = 600.0,
    memory_limit: int = 8 << 30,
) -> Litmus:
    """What `module` asks without checking and does not keep, on these arguments (as of `evaluate`) or, with None, as
    far as the module alone tells.

    execution: None for whatever executions the policy allows, which may leave much open; a number for one of them, in
    which each rounding is drawn, and in number 0 is to the nearest; ties and orders are taken one way. trips: of loops,
    all together; a program that takes more is undecided. Raises InputError where arguments do not fit.
    """
    run = _Run(module, arguments, policy, execution, trips, timeout_s, memory_limit)
    return run.test()


def litmus_dict(found: Litmus) -> dict[str, Any]:
    """As JSON has it, schema 1."""
    return {
        "schema": 1,
        "state": str(found.state),
        "kept": found.kept,
        "not_kept": [
            {
                "contract": telling.contract.name,
                "strength": str(telling.contract.strength),
                "precondition": telling.contract.precondition,
                "source": telling.contract.source,
                "computation": telling.computation,
                "instruction": telling.instruction,
                "opcode": telling.opcode,
                "state": str(telling.state),
                "why": telling.why,
                "count": telling.count,
                "reaches": telling.reaches,
            }
            for telling in found.tellings
        ],
    }


@dataclass(slots=True)
class _Asked:
    """A precondition of an instruction, and what is known of it so far. said: None while the values must say."""

    contract: Contract
    site: Site
    inside: bool
    said: Said | None = None
    broken: int = 0
    doubtful: int = 0
    whole: bool = False  # something was told of the instruction, not of elements
    why: str = ""
    visits: int = 0

    @property
    def key(self) -> tuple[str, str]:
        return self.site.computation.name, self.site.instruction.name

    @property
    def place(self) -> tuple[str, Computation, Instruction]:
        return self.contract.name, self.site.computation, self.site.instruction

    @property
    def state(self) -> State:
        if self.said is not None:
            return self.said.state
        return State.BROKEN if self.broken else State.UNDECIDED if self.doubtful else State.KEPT

    def look(self, operands: Sequence[Value]) -> Look | None:
        """What the rule says of one visit; None where it has looked often enough."""
        self.visits += 1
        if self.contract.name in _COSTLY and self.visits > VISITS:
            self.doubtful, self.whole = self.doubtful + 1, True
            self.why = self.why or f"looked at {VISITS} times, and it runs more often"
            return None
        return VALUED[self.contract.name](self.site, operands)

    def note(self, look: Look) -> None:
        broken, doubtful = int(np.count_nonzero(look.broken)), int(np.count_nonzero(look.doubtful))
        if broken or doubtful:
            if not self.why or (broken and not self.broken):
                self.why = look.why
            self.whole = self.whole or not look.elementwise
        self.broken += broken
        self.doubtful += doubtful

    def told(self, reaches: bool | None) -> Telling:
        place, state = self.site, self.state
        count = 0 if self.said is not None or self.whole else (self.broken or self.doubtful)
        why = self.said.why if self.said is not None else self.why
        instruction = place.instruction
        return Telling(
            self.contract, place.computation.name, instruction.name, instruction.opcode, state, why, count, reaches
        )


@dataclass(slots=True)
class _Run:
    module: Module
    arguments: Sequence[Array] | None
    policy: Policy
    execution: int | None
    trips: int
    timeout_s: float
    memory_limit: int

    def test(self) -> Litmus:
        asked = list(self._asked())
        for one in asked:
            rule = STATIC.get(one.contract.name)
            if rule is not None:
                one.said = _ruled(rule, one.site)
            if one.said is None and (one.inside or self.arguments is None):
                why = "in a computation applied to elements" if one.inside else "it takes inputs to tell"
                one.said = Said(State.UNDECIDED, why)
        plain = self._evaluated(asked)
        if self.arguments is not None:
            spans = Spans(self.module, self.arguments)
            for one in asked:
                if one.state is State.UNDECIDED and not one.inside and spans.keeps(*one.place):
                    one.said = KEPT
        groups = {state: [one for one in asked if one.state is state] for state in State}
        told: list[Telling] = []
        before = [] if plain is None else _undecided(plain)
        tainted: list[Array | None] = [None] * len(before)
        followed = plain is not None or not (groups[State.BROKEN] or groups[State.UNDECIDED])
        for state in (State.BROKEN, State.UNDECIDED):
            group = groups[state]
            reaches: bool | None = None
            if group and plain is not None:
                marks = self._reach(group)
                followed = followed and marks is not None
                if marks is not None:
                    tainted = [union(old, new) for old, new in zip(tainted, marks, strict=True)]
                    reaches = _more(marks, before)
            told += [one.told(reaches) for one in group]
        outputs = None if plain is None else tuple(plain)
        return Litmus(tuple(told), len(groups[State.KEPT]), tuple(tainted), followed, outputs)

    def _asked(self) -> Iterator[_Asked]:
        """All that is asked by what the entry reaches, a loop's or branch's graph or a body applied to elements."""
        trial = Context(self.module, self.policy, _no_call)
        for computation, inside in _reached(self.module):
            for instruction in computation.instructions:
                for contract in asked_of(instruction.opcode):
                    yield _Asked(contract, Site(self.module, computation, instruction, trial), inside)

    def _evaluated(self, asked: Sequence[_Asked]) -> list[Ball | Token] | None:
        """The outputs; None where there are no arguments or they cannot be had, so that what needs values is open."""
        if self.arguments is None:
            return None
        loops = {c for one in asked if one.contract.name == LOOP for c in called(one.site.instruction)}
        pending = [one for one in asked if one.said is None and one.contract.name != LOOP]

        def note(one: _Asked, operands: Sequence[Value], value: Value) -> Value | None:
            if (look := one.look(operands)) is not None:
                one.note(look)
            return None

        try:
            return self._watched(pending, note, loops)
        except (Unsupported, ReferenceLimit) as error:
            for one in asked:
                if one.said is None and not one.broken:
                    one.said = Said(State.UNDECIDED, str(error))
            return None

    def _reach(self, group: Sequence[_Asked]) -> list[Array | None] | None:
        """For each output array what is undecided when the results of these are; None where it cannot be told."""

        def marked(one: _Asked, operands: Sequence[Value], value: Value) -> Value | None:
            if one.whole or one.said is not None:
                return _open(value)
            look = VALUED[one.contract.name](one.site, operands)
            return _marked(value, look.broken | look.doubtful, look.part)

        if any(one.inside for one in group):
            return None  # what is applied to elements is not visited
        try:
            found = self._watched(group, marked, set())
        except (Unsupported, ReferenceLimit):
            return None
        return _undecided(found)

    def _watched(
        self,
        asked: Sequence[_Asked],
        act: Callable[[_Asked, Sequence[Value], Value], Value | None],
        loops: set[str],
    ) -> list[Ball | Token]:
        """One evaluation; `act` is called at every visit of what is asked, and may give another value."""
        by_key: dict[tuple[str, str], list[_Asked]] = {}
        needed: dict[str, set[str]] = {}
        for one in asked:
            by_key.setdefault(one.key, []).append(one)
            needed.setdefault(one.site.computation.name, set()).update(one.site.instruction.operands)
        held: dict[tuple[str, str], Value] = {}
        visits = 0

        def see(computation: Computation, instruction: Instruction, value: Value) -> Value | None:
            nonlocal visits
            if computation.name in loops and instruction.name == computation.root_name:
                visits += 1
                if visits > self.trips:
                    raise ReferenceLimit(f"loops take more than {self.trips} trips")
            key = (computation.name, instruction.name)
            other: Value | None = None
            for one in by_key.get(key, ()):
                operands = [held[computation.name, name] for name in instruction.operands]
                found = act(one, operands, value if other is None else other)
                other = other if found is None else found
            if instruction.name in needed.get(computation.name, ()):
                held[key] = value if other is None else other
            return other

        assert self.arguments is not None
        result = evaluate(
            self.module,
            self.arguments,
            self.policy,
            rng=None if self.execution is None else np.random.default_rng(self.execution),
            alike=False,
            nearest=self.execution == 0,
            resolved=None if self.execution is None else CHOICES[self.execution % 2],
            on_value=see,
            memory_limit=self.memory_limit,
            deadline=deadline(self.timeout_s),
        )
        return flatten(result.value)


def _undecided(leaves: Sequence[Ball | Token]) -> list[Array | None]:
    """For each array its undecided elements, None where there are none."""
    return [leaf.und if leaf.und is not None and leaf.und.any() else None for leaf in leaves if isinstance(leaf, Ball)]


def _more(marks: Sequence[Array | None], before: Sequence[Array | None]) -> bool | None:
    """Whether marking left more undecided than there was; None where there was some, which may come of the same."""
    for new, old in zip(marks, before, strict=True):
        if new is not None and (old is None or bool((new & ~old).any())):
            return True
    return None if any(old is not None for old in before) else False


def _ruled(rule: Static, site: Site) -> Said | None:
    try:
        return rule(site)
    except Unsupported as error:
        return Said(State.UNDECIDED, str(error))


def _open(value: Value) -> Value:
    """All of it undecided."""
    if isinstance(value, tuple):
        return tuple(map(_open, value))
    return replace(value, und=np.ones(value.dims, np.bool_)) if isinstance(value, Ball) else value


def _marked(value: Value, mask: Array, part: int | None = None) -> Value:
    """Some elements undecided, of each array where there are several, or of one of them."""
    if isinstance(value, tuple):
        return tuple(_marked(one, mask) if part in (None, i) else one for i, one in enumerate(value))
    return mark(value, np.broadcast_to(mask, value.dims)) if isinstance(value, Ball) else value


def _no_call(name: str, arguments: Sequence[Value]) -> Value:
    raise Unsupported(name, "called from a computation applied to elements")


def _reached(module: Module) -> list[tuple[Computation, bool]]:
    """The computations that the entry reaches, and whether each is applied to elements alone."""
    graphs: dict[str, None] = {}
    applied: dict[str, None] = {}
    queue = [(module.entry_name, False)]
    while queue:
        name, inside = queue.pop()
        if name in graphs or (inside and name in applied):
            continue
        (applied if inside else graphs)[name] = None
        for instruction in module.by_name[name].instructions:
            for callee in called(instruction) if instruction.attributes else ():
                queue.append((callee, inside or instruction.opcode not in _GRAPHS))
    found = [(module.by_name[name], False) for name in graphs]
    return found + [(module.by_name[name], True) for name in applied if name not in graphs]
