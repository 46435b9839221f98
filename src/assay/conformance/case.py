"""One file: read through the worker, evaluated by the reference, compared as the file says.

An element passes *at the midpoint* where the reference's midpoint, rounded to the result's type, compares as the file
asks; *within the bound* where only some other value of its ball does, and the ball still says something. The first is
the rule; the second is what is left where the file's value is itself off by the roundings of a sum. Where radii leave
an element open, sampled runs stand in, as in every check.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from assay.checking.bounds import Bounds, Settings
from assay.conformance.comparisons import Comparison, comparison, ulps_apart
from assay.errors import AssayError, ProgramError, ReferenceLimit, Unsupported
from assay.hlo import attributes
from assay.hlo.module import Computation, Instruction, Module
from assay.hlo.shape import ArrayShape, TupleShape
from assay.oracle.evidence import says_nothing, typical_size
from assay.programs.load import load
from assay.reference.evaluator import estimate_bytes, evaluate
from assay.reference.policy import Policy
from assay.reference.sampled import midpoints
from assay.reference.value import Array, Ball, Token, flatten, round_to
from assay.toolchain import Worker, WorkerDied

STATUSES = ("passed", "within bound", "explained", "failed", "unsupported", "unreadable")
KINDS = ("expect_eq", "expect_almost_eq", "expect_close")

_CALL = re.compile(r"custom_call @check\.(\w+)\([^)]*\)\s*(?:\{([^}]*)\})?")
_SETTING = re.compile(r"\b(tolerance|min_ulp_difference|max_ulp_difference)\s*=\s*([-+.\w]+)")


@dataclass(frozen=True, slots=True)
class Checked:
    """One comparison of one file.

    actual: the reference's ball. expected: the file's values. passes, held: where an element passes at the midpoint,
    and where it does within the bound.
    """

    comparison: Comparison
    actual: Ball
    expected: Array
    passes: Array
    held: Array

    @property
    def value(self) -> Array:
        """The midpoint as the result's type holds it."""
        ball = self.actual
        return round_to(ball.dtype, ball.mid) if ball.dtype.is_float or ball.dtype.is_complex else ball.mid

    @property
    def failed(self) -> Array:
        return ~(self.passes | self.held)

    def nearest(self, wanted: Array) -> Array:
        """The values of the balls that lie nearest to `wanted`."""
        return nearest(self.actual, wanted)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is said of one file; `why` is one line for every status but `passed`.

    elements: that its checks compare. undecided: those of them that the reference leaves open; they pass by their
    midpoint, or fail. module: what was evaluated.
    """

    file: str
    status: str
    why: str = ""
    kinds: tuple[str, ...] = ()
    elements: int = 0
    undecided: int = 0
    seconds: float = 0.0
    checked: tuple[Checked, ...] = field(default=(), repr=False, compare=False)
    module: Module | None = field(default=None, repr=False, compare=False)


def judge(path: Path, name: str, worker: Worker, policy: Policy) -> Outcome:
    """The outcome of the file at `path`, called `name`; never `explained`, which is for `exceptions` to say."""
    start = time.monotonic()
    try:
        module = read(path, worker)
        checks = evaluate_checks(module, settings_of(path), policy)
    except Unsupported as missing:
        return Outcome(name, "unsupported", f"the reference does not model {missing}")
    except ReferenceLimit as limit:
        return Outcome(name, "unsupported", str(limit))
    except WorkerDied as death:
        return Outcome(name, "unreadable", f"the worker ended while it read the file: {death.detail}")
    except ProgramError as error:
        return Outcome(name, "unreadable", str(error).removeprefix(f"{path}: "))
    except AssayError as error:
        return Outcome(name, "failed", f"the reference gives no value: {error}")
    status = "passed"
    if any(c.failed.any() for c in checks):
        status = "failed"
    elif not all(c.passes.all() for c in checks):
        status = "within bound"
    why = "; ".join(filter(None, map(_reason, checks)))
    undecided = sum(0 if c.actual.und is None else int(np.count_nonzero(c.actual.und)) for c in checks)
    elements = sum(c.expected.size for c in checks)
    kinds = tuple(sorted({c.comparison.name for c in checks}))
    return Outcome(name, status, why, kinds, elements, undecided, time.monotonic() - start, checks, module)


def read(path: Path, worker: Worker) -> Module:
    """The module in a file, by the toolchain's own import. Raises ProgramError where it is none."""
    try:
        (program,) = load(str(path), worker)
    except ProgramError:
        raise
    except AssayError as error:
        raise ProgramError(f"{path}: {error}") from error
    assert program.module is not None
    return program.module


def settings_of(path: Path) -> dict[str, dict[str, float]]:
    """Tolerances that a file's calls state themselves, by kind: HLO does not keep them. Raises Unsupported where two
    calls of one kind differ.
    """
    found: dict[str, dict[str, float]] = {}
    for kind, attributes_ in _CALL.findall(path.read_text(errors="replace")):
        settings = {key: _number(text) for key, text in _SETTING.findall(attributes_)}
        if found.setdefault(kind, settings) != settings:
            raise Unsupported(f"check.{kind}", "with different tolerances in one file")
    return found


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ProgramError(f"{text} is not a tolerance") from None


_PATIENCE = 120.0  # seconds for one file


def evaluate_checks(module: Module, settings: dict[str, dict[str, float]], policy: Policy) -> tuple[Checked, ...]:
    """The comparisons that a module makes: by radii, and, where one fails, with sampled bounds where radii say too
    little. Raises ProgramError where it makes none or takes arguments, Unsupported for what the reference
    does not model.
    """
    if module.entry.parameters:
        raise ProgramError(f"main takes {len(module.entry.parameters)} arguments; a conformance file has none")
    calls = list(_calls(module.entry))
    if not calls:
        raise ProgramError("nothing in it calls check.expect_eq, check.expect_almost_eq or check.expect_close")
    how = []
    for call, kind in calls:
        made = comparison(kind, settings.get(kind, {}))
        pair = module.entry.operands(call)
        if made is None or len(pair) != 2 or not all(isinstance(operand.shape, ArrayShape) for operand in pair):
            raise Unsupported(f"check.{kind}", "of anything but two arrays")
        actual, expected = (f"{s.dtype}{list(s.dims)}" for o in pair if isinstance(s := o.shape, ArrayShape))
        if actual != expected:
            raise ProgramError(f"check.{kind} compares {actual} with {expected}")
        how.append(made)
    bounds = Bounds(handing_over(module), (), Settings(policy, reference_timeout_s=_PATIENCE))
    if (need := estimate_bytes(bounds.module)) > bounds.settings.memory_limit:
        raise ReferenceLimit(f"the reference needs {need / 2**30:.1f} GiB or more")
    found = compared(how, bounds.plain())
    if any(c.failed.any() and c.actual.und is not None for c in found):
        found = compared(how, _without_doubt(bounds.module, bounds.plain(), policy))
    return compared(how, bounds.sharp()[0]) if any(c.failed.any() for c in found) else found


def _without_doubt(module: Module, leaves: Sequence[Ball | Token], policy: Policy) -> list[Ball | Token]:
    """Undecided elements with the value of a run that takes each decision as the midpoints have it."""
    return [
        Ball(ball.dtype, np.where(ball.und, plain.mid, ball.mid), ball.rad, ball.und)
        if isinstance(ball, Ball) and isinstance(plain, Ball) and ball.und is not None
        else ball
        for ball, plain in zip(leaves, midpoints(module, [], policy), strict=True)
    ]


def compared(how: Sequence[Comparison], leaves: Sequence[Ball | Token]) -> tuple[Checked, ...]:
    """Of the operands of the calls, one after another."""
    balls = [leaf for leaf in leaves if isinstance(leaf, Ball)]
    return tuple(
        compare(made, actual, expected.mid) for made, actual, expected in zip(how, balls[::2], balls[1::2], strict=True)
    )


def _calls(entry: Computation) -> Iterator[tuple[Instruction, str]]:
    for instruction in entry.instructions:
        if instruction.opcode == "custom-call":
            target = attributes.word(instruction, "custom_call_target")
            if target.startswith("check."):
                yield instruction, target.removeprefix("check.")


def handing_over(module: Module) -> Module:
    """The module with the operands of its checks as results, and without the checks."""
    entry = module.entry
    calls = [call for call, _ in _calls(entry)]
    operands = tuple(name for call in calls for name in call.operands)
    shape = TupleShape(tuple(entry.by_name[name].shape for name in operands))
    gone = {call.name for call in calls}
    kept = tuple(i for i in entry.instructions if i.name not in gone)
    root = Instruction("checked", "tuple", shape, operands)
    changed = Computation(entry.name, (*kept, root), root.name, entry.attributes)
    others = tuple(changed if c is entry else c for c in module.computations)
    return Module(module.name, others, module.entry_name, module.attributes, module.tables)


def inputs_of(module: Module, policy: Policy) -> tuple[Ball, ...]:
    """What `@inputs` gives, in order; empty where the import has inlined it."""
    for computation in module.computations:
        if re.fullmatch(r"inputs(\.\d+)?", computation.name):
            alone = Module(module.name, module.computations, computation.name)
            leaves = flatten(evaluate(alone, [], policy).value)
            return tuple(leaf for leaf in leaves if isinstance(leaf, Ball))
    return ()


def compare(how: Comparison, actual: Ball, expected: Array) -> Checked:
    """Which elements of `actual` compare as the file asks."""
    dtype = actual.dtype
    if not (dtype.is_float or dtype.is_complex):
        passes = how.holds(actual.mid, expected, dtype)
        return Checked(how, actual, expected, passes, np.zeros_like(passes))
    passes = how.holds(round_to(dtype, actual.mid), expected, dtype)
    held = np.zeros_like(passes)
    if not passes.all() and actual.rad is not None:
        held = ~passes & how.holds(round_to(dtype, nearest(actual, expected)), expected, dtype)
        empty = says_nothing(actual, typical_size(actual))
        held = held if empty is None else held & ~empty
        held = held if actual.und is None else held & ~actual.und
    return Checked(how, actual, expected, passes, held)


def nearest(ball: Ball, wanted: Array) -> Array:
    """The value of each element's ball that lies nearest to `wanted`; the midpoint where either is not finite."""
    if ball.rad is None:
        return ball.mid
    with np.errstate(all="ignore"):
        way = np.where(np.isfinite(ball.mid) & np.isfinite(wanted), wanted - ball.mid, 0.0)
        distance = np.abs(way)
        share = np.where(distance > ball.rad, ball.rad / np.where(distance > 0, distance, 1.0), 1.0)
        moved: Array = np.where(distance <= ball.rad, np.where(distance > 0, wanted, ball.mid), ball.mid + way * share)
    return moved


def _reason(checked: Checked) -> str:
    """What does not pass at the midpoint, in words."""
    off = ~checked.passes
    if not off.any():
        return ""
    failed = checked.failed
    show = failed if failed.any() else off
    at = tuple(int(i) for i in np.argwhere(show)[0])
    dtype, value = checked.actual.dtype, checked.value
    count = int(np.count_nonzero(show))
    where = f"{count} of {show.size} not {checked.comparison.words}, first at {list(at)}: "
    where += f"{value[at]} where the file has {checked.expected[at]}"
    if dtype.is_float or dtype.is_complex:
        rad = 0.0 if checked.actual.rad is None else float(checked.actual.rad[at])
        apart = int(ulps_apart(value[at], checked.expected[at], dtype))
        where += f" ({apart} ulps apart; bound ± {rad:.3g})"
    if failed.any() and checked.actual.und is not None and checked.actual.und[at]:
        where += ", undecided"
    return where
