"""Lines of Python source that are no longer than a repository likes."""

from __future__ import annotations

WIDTH = 118


def wrapped(line: str, width: int = WIDTH, strings: bool = True) -> list[str]:
    """A line of Python with double-quoted strings, broken after commas inside parentheses; a string that is longer than
    a line, in pieces that Python joins again, where `strings` says so. What has no such place stays as long as it is.
    """
    if len(line) <= width:
        return [line]
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    found: list[str] = []
    current = ""
    for atom in _atoms(line):
        if current.strip() and len(current) + len(atom.rstrip()) > width:
            found.append(current.rstrip())
            current = indent + atom.lstrip()
        else:
            current += atom
        while strings and len(current) > width and (quote := current.find('"')) >= 0 and quote < width - 2:
            if current.find('"', quote + 1) < width - 1:  # that string ends in time
                break
            found.append(current[: width - 1] + '"')
            current = indent + '"' + current[width - 1 :]
    return [*found, current.rstrip()]


def _atoms(line: str) -> list[str]:
    """The line in pieces between which it may be broken."""
    atoms: list[str] = []
    quoted, depth, start = False, 0, 0
    for place, character in enumerate(line):
        if character == '"':
            quoted = not quoted
        elif not quoted:
            depth += (character in "([{") - (character in ")]}")
            if character == " " and depth > 0 and line[place - 1] == ",":
                atoms.append(line[start:place] + " ")
                start = place + 1
    return [*atoms, line[start:]]
