"""A finding as the text of an issue for XLA: what is wrong, with which versions, a reproducer, expected and actual
values, which releases are right, and what avoids it.

What XLA's maintainers ask reporters for when it is missing: the versions, a program that runs by itself, the HLO, and
the flag or pass with which it goes away (openxla/xla issues 42732, 48714 to 48718, 49121, 49176).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from assay.hlo.module import Module
from assay.hlo.printer import print_for_compiler
from assay.reference.value import Array
from assay.report.expected import Expected, index_of
from assay.report.hlo_source import bare

ELEMENTS = 6
HLO_LINES = 120
NAMES = ("jax", "jaxlib", "libtpu", "numpy", "python")


def issue_text(
    module: Module,
    expected: Sequence[Expected],
    actual: Sequence[Array],
    *,
    title: str,
    target: str,
    versions: Mapping[str, str | None],
    test: str = "",
    happened: str = "",
    options: Mapping[str, str] | None = None,
    flags: Sequence[str] = (),
    culprit: str = "",
    wrong: Sequence[str] = (),
    right: Sequence[str] = (),
    avoided_by: str = "",
    note: str = "",
) -> str:
    """Markdown. The title is its first line.

    module: unoptimized. expected, actual: of each array among the outputs; both empty for a crash or a hang. versions:
    by distribution. test: an emitted test. happened: what was seen, in words, where it is no wrong value. culprit: what
    is to blame as far as is known. wrong, right: releases that were tried. avoided_by: a flag.
    """
    compiler = "XLA:CPU" if target == "cpu" else f"XLA:TPU ({target.removeprefix('tpu:')}, ahead of time)"
    release = versions.get("jaxlib") if target == "cpu" else versions.get("libtpu")
    seen = happened or "gives wrong results"
    lines = [f"# {title}", "", f"{compiler} of {_named(target)} {release or 'unknown'} {seen} for the program below."]
    lines += [note] if note else []
    lines += [f"To blame, as far as is known: {culprit}."] if culprit else []
    if test:
        lines += [
            "",
            "## Reproducer",
            "",
            "Fails where the compiler is wrong, passes where it is right (`pytest FILE`).",
        ]
        lines += ["", "```python", test.strip(), "```"]
    rows = [row for k, (e, a) in enumerate(zip(expected, actual, strict=True)) for row in _rows(module, k, e, a)]
    if rows:
        lines += [
            "",
            "## Expected and actual",
            "",
            "| output | element | expected | actual |",
            "|---|---|---|---|",
            *rows,
        ]
    lines += ["", "## Versions", "", *(f"- {name} {versions[name]}" for name in NAMES if versions.get(name))]
    lines += [f"- option `{name}={value}`" for name, value in (options or {}).items()]
    lines += [f"- flag `{flag}`" for flag in flags]
    if wrong or right:
        lines += [f"- wrong in: {', '.join(wrong) or 'none tried'}", f"- right in: {', '.join(right) or 'none tried'}"]
    lines += ["", f"Avoided by `{avoided_by}`."] if avoided_by else []
    return "\n".join([*lines, *_hlo(module), ""])


def _named(target: str) -> str:
    return "jaxlib" if target == "cpu" else "libtpu"


def _rows(module: Module, output: int, expected: Expected, actual: Array) -> list[str]:
    """The worst elements that were seen to be wrong."""
    dims = module.results[output].dims
    found = []
    for place in (expected.failing or ())[:ELEMENTS]:
        low, high = (end.reshape(-1)[place] for end in (expected.low, expected.high))
        same = low == high or (low != low and high != high)
        wanted = _number(low) if same else f"{_number(low)} to {_number(high)}"
        got = np.asarray(actual).reshape(-1)[place]
        found.append(f"| {output} | {list(index_of(place, dims))} | {wanted} | {_number(got)} |")
    more = len(expected.failing or ()) - len(found)
    return [*found, f"| {output} | {more} more | | |"] if more > 0 else found


def _number(value: Any) -> str:
    if isinstance(value, np.bool_):
        return str(bool(value)).lower()
    if isinstance(value, np.integer):
        return str(int(value))
    return f"{complex(value):.9g}" if np.iscomplexobj(value) else f"{float(value):.9g}"


def _hlo(module: Module) -> list[str]:
    text = print_for_compiler(bare(module)).strip()
    if text.count("\n") > HLO_LINES or len(text) > 200 * HLO_LINES:
        return []
    return ["", "<details><summary>HLO before optimization</summary>", "", "```", text, "```", "", "</details>"]
