"""Whether a cut is the kernel of the whole program: its final bundles, line by line.

Names of values and the numbers of allocations are the compiler's counters, and what comments say has no meaning; they
are left out. Physical registers, slots, order and addresses count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import zip_longest

from assay.errors import AssayError
from assay.llo.files import FINAL, KernelFiles
from assay.llo.listing import read

_COMMENT = re.compile(r"/\*.*?\*/", re.S)
_NUMBERED = re.compile(r"%[\w.]+|#allocation\d+\w*")
_REGISTER = re.compile(r"%\w+?_((?:vm|[vsp])\d+)$")
_TAG = re.compile(r"tag = '[^']*'")


def difference(whole: KernelFiles, alone: KernelFiles) -> str:
    """Empty where the two are one kernel; else the first line that differs, or why that cannot be told."""
    try:
        texts = [read(files.stage(FINAL).path) for files in (whole, alone)]
    except AssayError as error:
        return str(error)
    lines = [list(_lines(text)) for text in texts]
    for number, (a, b) in enumerate(zip_longest(*lines), 1):
        if a != b:
            return f"line {number} of {len(lines[0])} and {len(lines[1])}: {a or 'nothing'}, alone {b or 'nothing'}"
    return ""


def _lines(text: str) -> Iterator[str]:
    names: dict[str, str] = {}

    def plain(found: re.Match[str]) -> str:
        name = found[0]
        register = _REGISTER.match(name)
        return f"%{register[1]}" if register else names.setdefault(name, f"{name[0]}{len(names)}")

    for line in _COMMENT.sub("", text).split("\n"):
        line = _TAG.sub("", line).strip()
        if line and not line.startswith("//"):
            yield _NUMBERED.sub(plain, line)
