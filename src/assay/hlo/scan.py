"""Finding one's way in HLO text: balanced values, lists split at their commas, faults at an offset.

Everything here is a regular expression with possessive repeats, so that a long value is passed over at the speed of C
and a value that does not match fails without trying again in other ways.
"""

from __future__ import annotations

import re


class Fault(Exception):
    """Something at `offset` of the text being read is not understood. The parser turns it into line and column."""

    def __init__(self, offset: int, message: str) -> None:
        super().__init__(message)
        self.offset = offset
        self.message = message


STRING = r'"(?:[^"\\]++|\\.)*+"'
COMMENT = r"/\*(?:[^*]++|\*(?!/))*+\*/"
NAME = r"[\w.-]++"


def nested(opening: str, closing: str, depth: int) -> str:
    """A pattern for a bracketed value with strings in it, nested up to `depth` deep."""
    plain = rf'[^{opening}{closing}"]++|{STRING}'
    pattern = rf"{opening}(?:{plain})*+{closing}"
    for _ in range(depth):
        pattern = rf"{opening}(?:{plain}|{pattern})*+{closing}"
    return pattern


BRACES = nested(r"\{", r"\}", 24)
PARENS = nested(r"\(", r"\)", 8)
BRACKETS = nested(r"\[", r"\]", 3)

# One attribute's value: up to the next comma or closing bracket that belongs to what is around it.
VALUE = rf'(?:[^,{{}}\[\]()"\n]++|{STRING}|{BRACES}|{PARENS}|{BRACKETS})++'

SPACE = re.compile(rf"(?:\s++|{COMMENT}|//[^\n]*+)*+")
COMMENTS = re.compile(COMMENT)
_ITEM = re.compile(rf'\s*+((?:[^,{{}}\[\]()"]++|{STRING}|{BRACES}|{PARENS}|{BRACKETS})*+)(,|$)')
_PAIR = re.compile(
    rf'\s*+([^\s=,{{}}"]++)\s*+=\s*+((?:[^,{{}}\[\]()"]++|{STRING}|{BRACES}|{PARENS}|{BRACKETS})*+)(,|$)'
)


def without_comments(text: str) -> str:
    """`text` without its `/*index=5*/` marks."""
    return COMMENTS.sub("", text) if "/*" in text else text


def items(text: str) -> list[str]:
    """`1, {2, 3}, "a,b"` -> ["1", "{2, 3}", '"a,b"']: split at the commas that stand in no bracket or string.

    Raises Fault where the brackets do not match.
    """
    text = without_comments(text).strip()
    found: list[str] = []
    position = 0
    while position < len(text):
        match = _ITEM.match(text, position)
        if match is None:
            raise Fault(position, f"unbalanced brackets in `{text[position : position + 60]}`")
        found.append(match.group(1).rstrip())
        position = match.end()
    return found


def pairs(text: str) -> dict[str, str]:
    """`a=1, b={2, 3}` -> {"a": "1", "b": "{2, 3}"}. Raises Fault where it is not such a list."""
    found: dict[str, str] = {}
    position, end = 0, len(text.rstrip())
    while position < end:
        match = _PAIR.match(text, position, end)
        if match is None:
            raise Fault(position, f"expected `name=value`, there is `{text[position : position + 60]}`")
        found[match.group(1)] = match.group(2).rstrip()
        position = match.end()
    return found


def inside(text: str, opening: str = "{", closing: str = "}") -> str:
    """The text between the outer brackets. Raises Fault where there are none."""
    text = text.strip()
    if not (text.startswith(opening) and text.endswith(closing) and len(text) >= 2):
        raise Fault(0, f"expected `{opening}...{closing}`, there is `{text[:60]}`")
    return text[1:-1]


def unquote(text: str) -> str:
    r"""A C string literal's value: `"a\"b"` -> `a"b`; a text without quotes as it is."""
    if not (len(text) >= 2 and text[0] == '"' and text[-1] == '"'):
        return text
    body = text[1:-1]
    return _ESCAPE.sub(_unescape, body) if "\\" in body else body


# absl::CUnescape: one-letter escapes, up to three octal digits, \x with hexadecimal digits.
_ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]+)|(.))", re.DOTALL)
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


def _unescape(match: re.Match[str]) -> str:
    octal, hexadecimal, letter = match.groups()
    if octal:
        return chr(int(octal, 8))
    if hexadecimal:
        return chr(int(hexadecimal, 16))
    return _LETTERS.get(letter, letter)
