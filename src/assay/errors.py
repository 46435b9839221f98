"""Every error that assay raises on purpose.

The invariant: a message says what is wrong, where, and what to do about it, in one line, so that the command line can
print it as it is and exit with 2. A finding about the compiler is never an exception.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class AssayError(Exception):
    """Base of all of assay's own errors: the user's input, the machine, or assay itself; never the compiler under
    test.
    """


class HloSyntaxError(AssayError):
    """HLO text that does not parse, with the 1-based line and column of the first character that is not understood."""

    def __init__(self, message: str, line: int, column: int, source: str = "HLO text") -> None:
        super().__init__(f"{source}:{line}:{column}: {message}")
        self.message = message
        self.line = line
        self.column = column
        self.source = source


class LloSyntaxError(AssayError):
    """A dump of LLO that does not parse, with the 1-based line that is not understood."""

    def __init__(self, message: str, line: int, source: str) -> None:
        super().__init__(f"{source}:{line}: {message}")
        self.message = message
        self.line = line
        self.source = source


class HloTypeError(AssayError):
    """HLO that parses but whose shapes, operands or attributes contradict each other."""


class Unsupported(AssayError):
    """An opcode, custom call or attribute that the reference does not model. `name` is what is not modelled."""

    def __init__(self, name: str, detail: str = "") -> None:
        super().__init__(f"{name}: {detail}" if detail else name)
        self.name = name


class ReferenceLimit(AssayError):
    """The reference would need more memory or time than the limit that was set."""


class ProgramError(AssayError):
    """A program file that cannot be read, traced or fed: missing function, wrong arguments, a function that raises."""


class InputError(AssayError):
    """Arguments that do not fit the program: wrong count, shape or dtype, or indices out of any possible range."""


class ToolchainError(AssayError):
    """A toolchain that is unknown, cannot be installed here, or does not start."""


class StoreError(AssayError):
    """A store of findings that cannot be opened, read or written; what was being written is not in it."""


class WorkerError(AssayError):
    """A request that a worker refused: the program was rejected, or an exception was raised in it."""


def guessed(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """What ends a message about a name that is not known: the one that was meant, where one is near."""
    near = get_close_matches(name, known, 1)
    return f"; did you mean {near[0]}?" if near else otherwise
