"""`add(%pair#0, %pair#1)`: elements of tuples named where they are used, without an instruction of their own.

So libtpu's dumps from 0.0.50 on print a get-tuple-element. A module of ours always has the instruction, put before its
first use, so that nothing else needs to know the short form.
"""

from __future__ import annotations

import re

from assay.hlo.module import Instruction
from assay.hlo.reader import Reader
from assay.hlo.scan import NAME
from assay.hlo.shape import TupleShape

_ELEMENT = re.compile(rf"({NAME})((?:#\d++)++)")


def named_element(reader: Reader, text: str, names: dict[str, Instruction]) -> Instruction | None:
    """The instruction that `pair#1` stands for, made and put into `names` where this is its first use.

    `names` holds the instructions of the computation so far; an element is found there under its short form. None where
    `text` is no such form, the tuple is not known, or has no such element.
    """
    match = _ELEMENT.fullmatch(text)
    if match is None:
        return None
    source = names.get(match[1])
    short = match[1]
    for index in match[2][1:].split("#"):
        if source is None or not isinstance(source.shape, TupleShape) or int(index) >= len(source.shape.elements):
            return None
        short = f"{short}#{index}"
        if short not in names:
            name = reader.new_instruction(f"{source.name}.element.{index}")
            shape = source.shape.elements[int(index)]
            names[short] = Instruction(name, "get-tuple-element", shape, (source.name,), {"index": index})
        source = names[short]
    return source
