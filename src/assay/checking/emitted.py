"""From a finding to a test that was tried: it fails where the compiler is wrong, and passes where it is right.

Forms of the program and inputs that are shorter to write are tried in turn, each with what the reference expects of it,
until a test does what it should; what a test is for is never taken on trust.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from assay.checking.bounds import Bounds, Settings, Step
from assay.checking.judge import Target
from assay.checking.weigh import weigh, weigh_again
from assay.errors import AssayError, InputError, Unsupported
from assay.hlo.module import Module
from assay.programs.program import Array
from assay.reference.value import joined
from assay.report.expected import Expected, expected_of
from assay.report.lax.values import array_text, drawn_texts
from assay.report.prove import Proof, prove
from assay.report.pytest_file import Form, pytest_file
from assay.toolchain import Toolchain

Expect = Callable[[Sequence[Array]], tuple[list[Expected], list[Array]]]
"""What the program must give on some arguments, with the elements that the compiler got wrong; and what it gave."""

LONG = 900
"""Characters of an argument from which on others are tried in its place."""
FEW = 6
"""NaNs and infinities that are kept in such an argument."""


@dataclass(frozen=True, slots=True)
class Emitted:
    """text: of the test. form: of the program in it. arguments: what it runs on. bad: where it fails, three times of
    three; good: where it passes likewise, None where no such toolchain was named.
    """

    text: str
    form: str
    arguments: tuple[Array, ...]
    expected: tuple[Expected, ...]
    bad: Proof
    good: Proof | None = None


class NoTest(AssayError):
    """No form of a finding is a test; the message says what each lacked."""


def emitted(
    module: Module,
    arguments: Sequence[Array],
    expect: Expect | None,
    *,
    title: str,
    bad: Toolchain | str | None,
    good: Toolchain | str | None = None,
    target: str = "cpu",
    toolchain: str = "",
    note: str = "",
    options: Mapping[str, str] | None = None,
    flags: Sequence[str] = (),
    forms: Sequence[Form] = ("lax", "hlo"),
    runs: int = 3,
    timeout_s: float = 300.0,
) -> Emitted:
    """The first test that fails `runs` times in `bad`, giving there what was seen, and passes `runs` times in `good`
    where that is given. expect: None for a crash or a hang, which the test then looks for in a process of its own.

    The options are those of `assay.report.pytest_file.pytest_file`. Raises NoTest where there is none, ToolchainError.
    """
    why: list[str] = []
    for values, spelled in simpler(module, arguments):
        expected, actual = (None, []) if expect is None else expect(values)
        if expected is not None and not any(e.failing for e in expected):
            why.append("the compiler is right on inputs that can be written down")
            continue
        for form in forms:
            write = partial(
                pytest_file,
                module,
                values,
                title=title,
                target=target,
                toolchain=toolchain,
                note=note,
                options=options,
                flags=flags,
                form=form,
                spelled=spelled,
            )
            try:
                text = write(expected)
                as_seen = None if expected is None else write(seen(expected, actual))
            except (Unsupported, InputError) as error:
                why.append(f"{form}: {error}")
                continue
            wrong = prove(text, bad, runs, timeout_s)
            if not wrong.fails:
                why.append(f"{form}: {wrong}")
                continue
            same = None if as_seen is None else prove(as_seen, bad, 1, timeout_s)
            if same is not None and not same.passes:
                why.append(f"{form}: {same}, for other results than were seen")
                continue
            right = None if good is None else prove(text, good, runs, timeout_s)
            if right is None or right.passes:
                return Emitted(text, form, tuple(values), tuple(expected or ()), wrong, right)
            why.append(f"{form}: {right}")
    raise NoTest(f"{module.name}: no test of it: {'; '.join(dict.fromkeys(why))}")


def seen(expected: Sequence[Expected], actual: Sequence[Array]) -> list[Expected]:
    """Bounds around what a compiler gave, that leave out what is right: a test with these passes where it fails for the
    reason for which it was written. At each element as far from the result as that from the nearest right one, halved.
    """
    found = []
    for e, array in zip(expected, actual, strict=True):
        wide = np.complex128 if np.iscomplexobj(e.low) else np.float64
        got = np.asarray(array).astype(wide)
        parts = zip(*(_parts(np.asarray(a).astype(wide)) for a in (got, e.low, e.high)), strict=True)
        whole = np.asarray(array).dtype.kind in "biu"
        ends = [_around(g, least, most, whole) for g, least, most in parts]
        low, high = (e_[0] if wide is np.float64 else joined(*e_) for e_ in zip(*ends, strict=True))
        found.append(Expected(got, low, high, e.failing))
    return found


def _parts(values: Array) -> tuple[Array, ...]:
    return (values.real, values.imag) if np.iscomplexobj(values) else (values,)


def _around(got: Array, low: Array, high: Array, whole: bool) -> tuple[Array, Array]:
    """whole: whether numbers are, so that what was seen is met or not."""
    with np.errstate(all="ignore"):
        gap = np.maximum(np.maximum(low - got, got - high), 0.0) / 2
        gap = np.where(np.isfinite(gap) & (not whole), gap, 0.0)
        inside = (low <= got) & (got <= high)
        return np.where(inside, low, got - gap), np.where(inside, high, got + gap)


def expecting(module: Module, target: Target, settings: Settings, step: Step = lambda _: None) -> Expect:
    """From the reference's bounds, as `judge` weighs them, and what the target gives. Raises what they raise."""

    def expect(arguments: Sequence[Array]) -> tuple[list[Expected], list[Array]]:
        outputs, _ = target.outputs(arguments, settings.options, {}, step, False)
        bounds = Bounds(module, arguments, settings, step)
        weighed = weigh(bounds, outputs)
        if weighed.outside:
            weighed = weigh_again(bounds, outputs, weighed)
        return expected_of(module, weighed.balls, outputs), outputs

    return expect


def simpler(module: Module, arguments: Sequence[Array]) -> Iterator[tuple[list[Array], dict[int, str]]]:
    """The arguments, where they can be written down; then others in place of those that are too long for that, each
    with its text by number where it has one: the same rounded to small whole numbers, whole numbers in a row, and drawn
    ones of the same range. A few NaNs and infinities stay where they are.
    """
    yield list(arguments), {}
    pairs = list(zip(arguments, module.arrays, strict=True))
    long = [k for k, (array, shape) in enumerate(pairs) if len(array_text(array, shape.dtype)) > LONG]
    if not long:
        return
    rounded = [_rounded(array) if k in long else array for k, array in enumerate(arguments)]
    if not all(map(np.array_equal, rounded, arguments)):
        yield rounded, {}
    for kind in range(6):
        spelled: dict[int, str] = {}
        values = list(arguments)
        for k in long:
            array, shape = pairs[k]
            text = _other(array, kind, [*drawn_texts(shape.dims, shape.dtype)])
            if text is None:
                break
            spelled[k] = _with_specials(array, text)
            values[k] = eval(spelled[k], {"np": np}).astype(array.dtype)
        else:
            yield values, spelled


def _floats(array: Array) -> Array | None:
    """In float32, where it is of a real floating type."""
    integral = array.dtype.kind in "iub" or np.issubdtype(array.dtype, np.complexfloating)
    return None if integral or "int" in array.dtype.name else array.astype(np.float32)


def _rounded(array: Array) -> Array:
    values = _floats(array)
    if values is None:
        return array
    return np.where(np.isfinite(values), np.rint(np.clip(values, -4, 4)), values).astype(array.dtype)


def _with_specials(array: Array, text: str) -> str:
    """`text` with the first few NaNs and infinities of `array` in their places."""
    values = _floats(array)
    if values is None:
        return text
    flat = values.reshape(-1)
    shape = ", ".join(map(str, array.shape))
    for name, where in (("np.nan", np.isnan(flat)), ("np.inf", flat == np.inf), ("-np.inf", flat == -np.inf)):
        places = np.flatnonzero(where)[:FEW].tolist()
        if places:
            text = f"np.where(np.isin(np.arange({array.size}), {places}).reshape({shape}), {name}, {text})"
    return text


def _other(array: Array, kind: int, drawn: list[str]) -> str | None:
    """One of several arrays of the same shape, as NumPy text without its type."""
    shape = ", ".join(map(str, array.shape))
    if array.dtype.kind in "iu" and array.size:
        low, high = int(array.min()), int(array.max()) + 1
        if kind == 0:
            return f"({low} + np.arange({array.size}) % {high - low}).reshape({shape})"
        return f"np.random.default_rng({kind}).integers({low}, {high}, ({shape},))"
    if array.dtype == np.bool_:
        return f"np.random.default_rng({kind}).integers(0, 2, ({shape},))"
    if kind == 0:
        return f"(np.arange({array.size}) % 17 - 8).reshape({shape})"
    return drawn[kind - 1] if kind <= len(drawn) else None
