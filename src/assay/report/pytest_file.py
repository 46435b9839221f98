"""A finding as one file of pytest that needs jax, numpy and pytest alone.

It fails where the compiler is wrong and passes where it is right; `assay.report.prove` says whether it does. The
program is source of jax.lax where it has such a form, else HLO text. Arguments are arguments, never constants.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np

from assay.errors import AssayError, InputError, Unsupported
from assay.hlo.module import Module
from assay.hlo.shape import DTYPES, ArrayShape, DType, leaves
from assay.reference.value import Array
from assay.report.expected import Expected, index_of
from assay.report.hlo_source import hlo_source
from assay.report.lax import lax_source
from assay.report.lax.source import INLINE
from assay.report.lax.values import UNPACK, array_text, dtype_text, identical, number_text
from assay.report.runners import Helpers, ahead_of_time, compiles, on_cpu
from assay.report.wrap import wrapped
from assay.targets.tpu_aot import GENERATIONS
from assay.toolchain.worker.options import option_values

Form = Literal["auto", "lax", "hlo"]

LINES = 60
COLUMNS = 120
ELEMENTS = 6
"""Elements that are compared one by one, where all of them would be too long to write down."""


@dataclass(frozen=True, slots=True)
class Style:
    """whole: characters of an output's values up to which all are compared. inline: of an expression that stands in its
    user. apart: empty lines between functions. hlo: lines of HLO text; longer text is compressed.
    """

    whole: int
    inline: int
    apart: int = 2
    hlo: int = 30


STYLES = (Style(1200, INLINE), Style(120, INLINE), Style(120, 92, apart=1, hlo=0), Style(120, 92, apart=0, hlo=0))
"""From the most readable to the shortest."""


def pytest_file(
    module: Module,
    arguments: Sequence[Array],
    expected: Sequence[Expected] | None,
    *,
    title: str,
    target: str = "cpu",
    toolchain: str = "",
    note: str = "",
    options: Mapping[str, str] | None = None,
    flags: Sequence[str] = (),
    form: Form = "auto",
    spelled: Mapping[int, str] | None = None,
) -> str:
    """The file's text, of at most 60 lines of at most 120 characters.

    module: unoptimized. arguments: one for each array parameter. expected: one for each array among the outputs; None
    for a crash or a hang: the program then has to end well in a process of its own, whatever it gives.
    target: `cpu` or `tpu:v5e`. toolchain: in words, the versions that are wrong. options: of the compilation. flags: of
    the process. form: of the program; `auto` is lax where there is such a form and it fits, else hlo. spelled: NumPy
    text of some arguments by number, without their type. Raises Unsupported where there is no form, InputError where
    the file would be longer, or a text gives another argument.
    """
    if len(arguments) != len(module.arrays):
        raise InputError(f"{module.name} takes {len(module.arrays)} arrays, {len(arguments)} were given")
    order = _Order(
        module,
        arguments,
        expected,
        title,
        target,
        toolchain,
        note,
        dict(options or {}),
        tuple(flags),
        dict(spelled or {}),
    )
    failures: list[AssayError] = []
    forms = ("lax", "hlo") if form == "auto" else (form,)
    for each, style in product(forms, STYLES):
        try:
            text = "\n".join(_lines(order, each, style)) + "\n"
        except Unsupported as error:
            failures.append(error)
            continue
        found = text.splitlines()
        if len(found) <= LINES and max(map(len, found)) <= COLUMNS:
            return text
        longest = max(map(len, found))
        failures.append(
            InputError(
                f"the test of {module.name} has {len(found)} lines, the longest of {longest} characters; {LINES} and "
                f"{COLUMNS} are allowed: reduce the program and its inputs first"
            )
        )
    raise next((error for error in reversed(failures) if isinstance(error, InputError)), failures[0])


@dataclass(frozen=True, slots=True)
class _Order:
    module: Module
    arguments: Sequence[Array]
    expected: Sequence[Expected] | None
    title: str
    target: str
    toolchain: str
    note: str
    options: Mapping[str, str]
    flags: tuple[str, ...]
    spelled: Mapping[int, str]

    @property
    def generation(self) -> str | None:
        return self.target.removeprefix("tpu:") if self.target.startswith("tpu:") else None


def _lines(order: _Order, form: str, style: Style) -> list[str]:
    helpers, program = _program(order, form, style)
    body = _test(order, form, style.whole)
    text = "\n".join([*helpers.lines, program, *body])
    docstring = _docstring(order, together=style.apart < 2)
    unpack = "unpack(" in text
    imports = {*helpers.imports, *(("base64", "zlib") if unpack else ()), *(("os",) if order.flags else ())}
    imports |= {"zlib", "base64"} if "zlib." in program else set()
    imports |= {"subprocess", "sys"} if order.expected is None else set()
    lines = [*docstring, *(f"import {name}" for name in sorted(imports)), *([""] if imports else [])]
    lines += ["import jax"]
    lines += ["import jax.numpy as jnp"] if re.search(r"\bjnp\.", text) else []
    lines += ["import numpy as np"]
    lines += ["import pytest"] if "pytest." in text else []
    lines += ["from jax import lax"] if re.search(r"\blax\.", text) else []
    between = [""] * max(style.apart, 1)
    lines += [*helpers.froms, "", *_settings(order), *between]
    for block in (helpers.lines, UNPACK if unpack else (), program.splitlines()):
        lines += [*_apart(block, style.apart), *between] if block else []
    return lines + body


def _apart(block: Sequence[str], lines: int) -> list[str]:
    """Functions with so many empty lines between them."""
    return re.sub(r"\n{2,}", "\n" * (lines + 1), "\n".join(block)).splitlines()


def _docstring(order: _Order, together: bool) -> list[str]:
    """together: whether in one paragraph."""
    words = [order.title.strip().rstrip(".") + "."]
    words += [f"Wrong with {order.toolchain}, {order.target}."] if order.toolchain else []
    words += [order.note.strip()] if order.note.strip() else []
    lines = _filled([" ".join(words)] if together else words)
    return [f'"""{lines[0]}"""', ""] if len(lines) == 1 else [f'"""{lines[0]}', *lines[1:], '"""', ""]


def _filled(paragraphs: Sequence[str], width: int = 112) -> list[str]:
    safe = [p.replace("\\", "/").replace('"""', "'''").rstrip('"') for p in paragraphs]
    return [line for p in safe for line in textwrap.wrap(p, width, break_long_words=True)]


def _program(order: _Order, form: str, style: Style) -> tuple[Helpers, str]:
    """What the test needs beside it, and the text of the program: a function, or HLO in a constant."""
    if form == "hlo":
        if order.generation is not None:
            raise Unsupported("HLO text in a test for a TPU that is not there", "jax compiles its own programs for it")
        options = [(name, option_values(value)[0]) for name, value in order.options.items()]
        return on_cpu(repr(options).replace("'", '"')), hlo_source(order.module, budget=style.hlo)
    source = lax_source(order.module, inline=style.inline).rstrip()
    if order.generation is None:
        return Helpers(), source
    topology, options_text = GENERATIONS[order.generation], _compile_options(order)
    if order.expected is None:
        return compiles(topology, options_text), source
    return ahead_of_time(order.module, topology, options_text), source


def _compile_options(order: _Order) -> str:
    if not order.options:
        return ""
    options = {name: option_values(value)[0] for name, value in order.options.items()}
    return "compiler_options=" + repr(options).replace("'", '"')


def _settings(order: _Order) -> list[str]:
    """Of jax and of the process; read when a device is first asked for."""
    variable = "XLA_FLAGS" if order.generation is None else "LIBTPU_INIT_ARGS"
    lines = []
    if order.flags:
        lines.append(f'os.environ["{variable}"] = os.environ.get("{variable}", "") + " {" ".join(order.flags)}"')
    if order.generation is None:
        lines.append('jax.config.update("jax_platforms", "cpu")')
    else:
        lines += [
            'if not (TPU := os.path.exists("/dev/accel0") or os.path.exists("/dev/vfio/0")):',
            '    jax.config.update("jax_platforms", "cpu")',
            '    os.environ.update(TPU_SKIP_MDS_QUERY="1", ALLOW_MULTIPLE_LIBTPU_LOAD="1")',
        ]
    shapes = [s for c in order.module.computations for i in c.instructions for s in leaves(i.shape)]
    if any(isinstance(s, ArrayShape) and s.dtype.part.bits == 64 for s in shapes):
        lines.append('jax.config.update("jax_enable_x64", True)')
    return lines


def _test(order: _Order, form: str, whole: int) -> list[str]:
    given = ", ".join(_argument(order, k) for k in range(len(order.arguments)))
    arguments = wrapped(f"    arguments = ({given}{',' if len(order.arguments) == 1 else ''})")
    lines = [f"def test_{slug(order.title)}():"]
    if order.generation is not None:
        lines.append('    pytest.importorskip("libtpu")')
    if order.expected is None:
        return [*lines, *_ENDS_WELL, *arguments, f"    {_run(order, form)}"]
    lines += [*arguments, *wrapped(f"    outputs = jax.tree_util.tree_leaves({_run(order, form)})")]
    checked = 0
    for number, (shape, expected) in enumerate(zip(order.module.results, order.expected, strict=True)):
        found = _compared(number, shape, expected, whole)
        checked += bool(found)
        lines += found
    if not checked:
        raise InputError(f"{order.module.name}: nothing of its outputs is decided, so a test could not fail")
    return lines


SECONDS = 120
"""After which a program hangs."""

_ENDS_WELL = (
    "    try:",
    f"        done = subprocess.run([sys.executable, __file__], capture_output=True, text=True, timeout={SECONDS})",
    "    except subprocess.TimeoutExpired:",
    "        done = None",
    '    assert done is not None, "no end"',
    "    assert done.returncode >= 0, done.stderr[-2000:]  # else a signal ended it",
    "    done.check_returncode()",
    "",
    "",
    'if __name__ == "__main__":',
)


def _run(order: _Order, form: str) -> str:
    """The expression of what the program gives."""
    if form == "hlo":
        return "run(HLO, *arguments)"
    if order.generation is not None:
        return "(jax.jit(program) if TPU else on_cpu)(*arguments)"
    compiled = f".lower(*arguments).compile({_compile_options(order)})" if order.options else ""
    text = f"jax.jit(program){compiled}(*arguments)"
    return text if order.expected is not None else f"jax.block_until_ready({text})"


def _argument(order: _Order, number: int) -> str:
    array, shape = order.arguments[number], order.module.arrays[number]
    if number not in order.spelled:
        return array_text(array, shape.dtype)
    text = order.spelled[number]
    if not identical(eval(text, {"np": np}).astype(array.dtype), array):
        raise InputError(f"argument {number} of {order.module.name} is not {text}")
    return f"{text}.astype({dtype_text(shape.dtype)})"


def slug(title: str) -> str:
    """A function's name."""
    words = re.findall(r"[a-z0-9]+", title.lower())
    text = "_".join(words)[:50].rstrip("_")
    return text or "program"


def _compared(number: int, shape: ArrayShape, expected: Expected, whole: int) -> list[str]:
    """Lines that compare one output; none where the compiler was right about it."""
    if expected.failing == ():
        return []
    got = f"np.asarray(outputs[{number}]{_readable(shape.dtype)})"
    held = _held(shape.dtype)
    if expected.exact:
        want = array_text(_stored(expected.low, held), held)
        if len(want) <= whole:
            return wrapped(f"    np.testing.assert_array_equal({got}, {want})")
    rows = _rows(shape, expected, held)
    if not rows:
        return []
    if shape.dtype.is_complex:
        got = f"np.stack([{got}.real, {got}.imag], -1)"
    return [
        f"    got = {got}",
        *wrapped(f"    for at, low, high in [{', '.join(rows)}]:"),
        '        assert low <= got[at] <= high or (low != low and got[at] != got[at]), f"{got[at]} at {at}"',
    ]


def _rows(shape: ArrayShape, expected: Expected, held: DType) -> list[str]:
    """`(index, low, high)` of the elements to compare: those that fail, else the first that are decided."""
    low, high = (np.asarray(end).reshape(-1) for end in (expected.low, expected.high))
    if shape.dtype.is_complex:
        low, high = (end.astype(np.complex128).view(np.float64) for end in (low, high))
    dims = (*shape.dims, 2) if shape.dtype.is_complex else shape.dims
    places: Sequence[int] = range(low.size) if expected.failing is None else expected.failing
    if shape.dtype.is_complex and expected.failing is not None:
        places = [2 * place + part for place in expected.failing for part in (0, 1)]
    rows: list[str] = []
    for place in places:
        if low[place] == -np.inf and high[place] == np.inf:
            continue
        ends = [_end(end[place : place + 1], held) for end in (low, high)]
        rows.append(f"({index_of(place, dims)}, {ends[0]}, {ends[1]})")
        if len(rows) == ELEMENTS * (1 + shape.dtype.is_complex):
            break
    return rows


def _end(end: Array, held: DType) -> str:
    part = held.part
    number = number_text(_stored(end, part)[0], part)
    return {'"nan"': "np.nan", '"-nan"': "np.nan", '"inf"': "np.inf", '"-inf"': "-np.inf"}.get(number, number)


def _stored(values: Array, held: DType) -> Array:
    assert held.numpy is not None
    with np.errstate(all="ignore"):
        return np.asarray(values).astype(held.numpy)


def _held(dtype: DType) -> DType:
    """The type in which a test compares: NumPy's own, which holds every value of `dtype`."""
    if dtype.is_float and dtype.bits < 32 and dtype.name != "f16":
        return DTYPES["f32"]
    if dtype.is_integer and dtype.bits < 8:
        return DTYPES["s8" if dtype.kind == "signed" else "u8"]
    return dtype


def _readable(dtype: DType) -> str:
    held = _held(dtype)
    return "" if held is dtype else f", np.{held.numpy}"
