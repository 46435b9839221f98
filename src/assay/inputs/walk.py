"""The walks over a flat module: forward, what each value may be; backward, what the parameters should be.

`forward` starts at the parameters and follows the order of the nodes. Loops come round until nothing changes; what
keeps growing is widened to the end of its type, so that each node is looked at a bounded number of times.
`narrowed` starts at nodes that are not as they should be and walks back, last node first, once for each node.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from assay.inputs.flat import Flat, Node
from assay.inputs.idioms import Fact, facts
from assay.inputs.rules import RULES, Rule, View
from assay.inputs.rules.rule import Needs
from assay.inputs.span import ANY_NUMBER, INF, Span, held, limits, rounded, signed_alike, whole

ROUNDS = 3
"""How often a loop comes round when inputs are planned."""


INDEXED = frozenset(("gather", "scatter", "dynamic-slice", "dynamic-update-slice"))
STEPS = 4
"""How far from an instruction a comparison of its operand is looked for."""
SUMMING = frozenset(("dot", "convolution", "reduce", "reduce-window", "scatter", "ragged-dot"))
ADDING = frozenset(("add", "subtract"))
"""What does not underflow: a sum of numbers of a type is zero or not smaller than its smallest."""
EXACT = frozenset(
    (
        "abs", "all-gather", "bitcast", "broadcast", "clamp", "collective-permute", "concatenate", "constant", "copy",
        "iota", "maximum", "minimum", "negate", "pad", "reshape", "reverse", "slice", "sort", "transpose",
    )
)  # fmt: skip
"""What hands its operands' values on as they are, or but for the sign."""
KEEPING = frozenset(
    (
        "clamp", "maximum", "minimum", "select", "convert", "broadcast", "reshape", "bitcast", "transpose", "copy",
        "concatenate", "slice", "pad",
    )
)  # fmt: skip


@dataclass(slots=True)
class Walk:
    """A flat module with its rules looked up, and what is known beside them."""

    flat: Flat
    rules: list[Rule]
    facts: Mapping[int, Fact]
    users: list[list[int]]
    needing: list[tuple[int, Node, Needs]]
    floats: list[tuple[int, Node]]

    @staticmethod
    def of(flat: Flat) -> Walk:
        users: list[list[int]] = [[] for _ in flat.nodes]
        for number, node in enumerate(flat.nodes):
            for k in node.operands:
                users[k].append(number)
        rules = [RULES.get(node.opcode, RULES["unknown"]) for node in flat.nodes]
        pairs = list(zip(flat.nodes, rules, strict=True))
        needing = [(k, node, rule.needs) for k, (node, rule) in enumerate(pairs) if rule.needs is not None]
        floats = [(k, node) for k, node in enumerate(flat.nodes) if node.dtype.is_float and node.operands]
        return Walk(flat, rules, facts(flat), users, needing, floats)

    def forward(self, parameters: Sequence[Span], likely: bool = False, attempt: int = 0, grid: bool = False) -> View:
        """The span of every node, where each parameter's array is within its own. likely: see `View`."""
        nodes = self.flat.nodes
        view = View(nodes, [ANY_NUMBER] * len(nodes), self.flat.moving, likely, attempt, grid)
        given = dict(zip(self.flat.parameters, parameters, strict=True))
        spans = view.spans
        late = set(self.flat.phis)
        for number, node in enumerate(nodes):
            if number in given:
                spans[number] = given[number]
            elif number in late:
                known = [k for k in node.operands if k < number]
                span = spans[known[0]] if known else whole(node.dtype)
                for k in known[1:]:
                    span = span.join(spans[k])
                spans[number] = span
            else:
                spans[number] = self.value(view, number)
        if late:
            self.come_round(view, given)
        return view

    def moved(self, view: View, parameters: Sequence[Span], changed: Mapping[int, Span]) -> View:
        """As `forward`, from a view that is right but for the parameters in `changed`."""
        if self.flat.phis:
            return self.forward(parameters, view.likely, view.attempt, view.grid)
        after = replace(view, spans=list(view.spans))
        for number, span in changed.items():
            after.spans[number] = span
        self.again(after, dict.fromkeys(self.flat.parameters, ANY_NUMBER), set(changed))
        return after

    def value(self, view: View, number: int) -> Span:
        node = self.flat.nodes[number]
        try:
            span = self.rules[number].forward(view, node)
            if view.likely:
                span = held(node.dtype, span)
            elif not self.exact(node):
                near = rounded(node.dtype, span)
                adds = node.opcode in ADDING or (node.opcode == "reduce" and node.kind == "add")
                span = signed_alike(node.dtype, near, span) if adds else near
        except (AssertionError, IndexError, ValueError, ZeroDivisionError, OverflowError):
            return whole(node.dtype)  # a malformed instruction is for the evaluator to complain of
        fact = self.facts.get(number)
        if fact is None:
            return span
        met = Span(*span[:3], True).meet(fact(view))
        return span if met.empty else Span(met.low, met.high, met.gap, span.nan)

    def exact(self, node: Node) -> bool:
        """Whether no element of a float result is another number than one of an operand, but for its sign."""
        return (
            node.opcode in EXACT
            and node.dtype.is_float
            and all(self.flat.nodes[k].dtype == node.dtype for k in node.operands)
        )

    def come_round(self, view: View, given: Mapping[int, Span]) -> None:
        """Lets loops come round until their values stay as they are."""
        nodes, spans = self.flat.nodes, view.spans
        phis = [k for k in self.flat.phis if any(operand > k for operand in nodes[k].operands)]
        widened: dict[int, int] = {}
        for _ in range(ROUNDS if view.likely else 16 + 4 * len(phis)):
            changed = set()
            for number in phis:
                span = spans[number]
                for k in nodes[number].operands:
                    span = span.join(spans[k])
                if span != spans[number]:
                    widened[number] = widened.get(number, 0) + 1
                    if not view.likely and widened[number] > 1:
                        span = _widened(spans[number], span, whole(nodes[number].dtype))
                    spans[number] = span
                    changed.add(number)
            if not changed:
                break
            self.again(view, given, changed)
        if not view.likely:
            # Once more, without widening: what a counter cannot reach falls away.
            changed = set()
            for number in phis:
                span = spans[nodes[number].operands[0]]
                for k in nodes[number].operands[1:]:
                    span = span.join(spans[k])
                if span != spans[number] and span.within(spans[number]):
                    spans[number] = span
                    changed.add(number)
            if changed:
                self.again(view, given, changed)

    def again(self, view: View, given: Mapping[int, Span], changed: set[int]) -> None:
        """Everything that depends on what changed, each node once."""
        nodes, spans, users = self.flat.nodes, view.spans, self.users
        late = {k for k in self.flat.phis if any(operand > k for operand in nodes[k].operands)}
        pending = [user for k in changed for user in users[k] if user > k]
        heapq.heapify(pending)
        last = -1
        while pending:
            number = heapq.heappop(pending)
            if number == last or number in given or number in late:
                continue  # a loop's turn comes in the next round
            last = number
            if nodes[number].opcode == "phi":
                span = spans[nodes[number].operands[0]]
                for k in nodes[number].operands[1:]:
                    span = span.join(spans[k])
            else:
                span = self.value(view, number)
            if span != spans[number]:
                spans[number] = span
                for user in users[number]:
                    if user > number:
                        heapq.heappush(pending, user)

    def sums(self) -> list[int]:
        """For each node the greatest number of long sums on a way to it, loops taken once."""
        found: list[int] = []
        for number, node in enumerate(self.flat.nodes):
            before = max((found[k] for k in node.operands if k < number), default=0)
            found.append(before + (node.opcode in SUMMING))
        return found

    def masked(self) -> list[bool]:
        """For each node whether every way to the result goes through a value that a select may throw away."""
        found = [False] * len(self.flat.nodes)
        roots = set(self.flat.roots)
        for number in range(len(found) - 1, -1, -1):
            users = self.users[number]
            found[number] = (
                number not in roots
                and bool(users)
                and all(found[user] or self.chooses(user, number) for user in users if user > number)
            )
        return found

    def chooses(self, user: int, number: int) -> bool:
        """Whether `user` is a select between `number` and something else."""
        node = self.flat.nodes[user]
        return node.opcode == "select" and number in node.operands[1:] and node.operands[0] != number

    def guarded(self, number: int, by: int) -> bool:
        """Whether what `by` makes of `number` is thrown away where a comparison of the same value says so, as in
        where(x > 0, log(x), 0): x may then be anything."""
        nodes = self.flat.nodes
        near, last = {number}, [number]
        for _ in range(STEPS):
            last = [k for n in last for k in nodes[n].operands if k not in near and self.flat.moving[k]]
            near.update(last)
        seen, todo = {by}, [by]
        for _ in range(2 * STEPS):
            following = []
            for n in todo:
                for user in self.users[n]:
                    if self.chooses(user, n):
                        if not self.compared(nodes[user].operands[0]) & near:
                            return False
                    elif user not in seen:
                        following.append(user)
                        seen.add(user)
                if n in self.flat.roots:
                    return False
            todo = following
            if not todo:
                return len(seen) > 0
        return False

    def compared(self, number: int) -> set[int]:
        """What a predicate compares."""
        nodes = self.flat.nodes
        found: set[int] = set()
        todo = [number]
        for _ in range(4 * STEPS):
            if not todo:
                break
            node = nodes[todo.pop()]
            if node.opcode == "compare":
                found.update(node.operands)
            elif node.opcode in ("and", "or", "not", "broadcast", "reshape", "copy", "bitcast", "is-finite"):
                todo += node.operands
        return found

    # ---- what is wrong, and where it comes from

    def unmet(self, view: View, hard_only: bool = False) -> list[tuple[int, Span, int]]:
        """Nodes that are not as some instruction needs them: node, what is comfortable, and who asks.

        A need that is met, be it with no comfort, is not listed. A result that leaves its type though its operands
        are finite asks for itself to be smaller.
        """
        found = []
        spans = view.spans
        for number, node, needs in self.needing:
            try:
                for operand, hard, soft in needs(view, node):
                    k = node.operands[operand]
                    if not spans[k].within(hard):
                        found.append((k, hard if hard_only else soft, number))
            except (AssertionError, IndexError, KeyError, ValueError):
                continue  # a malformed instruction is for the evaluator to complain of
        for number, node in self.floats:
            low, high, _, nan = spans[number]
            infinite = low == -INF or high == INF
            if (infinite or nan) and self.begins(view, node):
                ends = limits(node.dtype)
                if hard_only:
                    found.append((number, ends, number))
                elif infinite or max(-low, high) >= ends.high:
                    found.append((number, Span(max(ends.low, -ends.high) / 2, ends.high / 2), number))
        return found

    def wishes(self, view: View) -> list[tuple[int, Span, int]]:
        """Indices that are in range because something keeps them there: better the parameters are, for all that is
        beyond comes to the same."""
        found = []
        for number, node in enumerate(self.flat.nodes):
            needs = self.rules[number].needs
            if node.opcode not in INDEXED or needs is None:
                continue
            try:
                for operand, hard, soft in needs(view, node):
                    k = node.operands[operand]
                    if self.flat.nodes[k].opcode in KEEPING and view.spans[k].within(hard):
                        found.append((k, soft, number))
            except (AssertionError, IndexError, KeyError, ValueError):
                continue
        return found

    def begins(self, view: View, node: Node) -> bool:
        """Whether the operands are finite, so that what is not begins here."""
        return all(view.spans[k].finite or not self.flat.nodes[k].dtype.is_float for k in node.operands)

    def narrowed(self, view: View, wanted: Sequence[tuple[int, Span, int]]) -> tuple[dict[int, Span], int]:
        """What is asked of each parameter so that `wanted` holds, and how many demands came to nothing.

        Of demands on one node that exclude each other, those that come first stay.
        """
        nodes = self.flat.nodes
        asked: dict[int, Span] = {}
        pending: list[int] = []
        lost = 0

        def ask(number: int, span: Span) -> None:
            nonlocal lost
            if not self.flat.moving[number]:
                lost += 1
                return
            old = asked.get(number)
            new = span if old is None else old.meet(span)
            if new.empty or span.empty:
                lost += 1
                return
            if old is None:
                heapq.heappush(pending, -number)
            asked[number] = new

        for number, span, _ in wanted:
            ask(number, span)
        reached: dict[int, Span] = {}
        parameters = set(self.flat.parameters)
        while pending:
            number = -heapq.heappop(pending)
            want = asked.pop(number)
            if number in parameters:
                reached[number] = want
                continue
            node = nodes[number]
            if view.spans[number].within(want) and not (node.opcode in KEEPING and node.dtype.is_integer):
                continue
            try:
                demands = list(self.rules[number].narrow(view, node, want))
            except (AssertionError, IndexError, KeyError, ValueError, ZeroDivisionError, OverflowError):
                demands = []
            for operand, span in demands:
                k = node.operands[operand]
                if k < number and nodes[k].dtype.kind != "pred" and not nodes[k].dtype.is_complex:
                    ask(k, span)
        return reached, lost


def _widened(old: Span, new: Span, ends: Span) -> Span:
    low = old.low if new.low >= old.low else 0 if new.low >= 0 else ends.low
    high = old.high if new.high <= old.high else 0 if new.high <= 0 else ends.high
    return Span(low, high, 0.0, new.nan)
