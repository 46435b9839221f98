"""The `assay` command."""

from __future__ import annotations

import sys

import typer

from assay.cli import check, doctor, toolchain
from assay.errors import AssayError

app = typer.Typer(
    help="Tells whether XLA compiled a program correctly and, when it did not, which elements are wrong.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("check")(check.command)
app.command("doctor")(doctor.command)
app.add_typer(toolchain.app, name="toolchain")


def main() -> None:
    """Exit code 0: all agrees; 1: a finding; 2: the user's or our own error, told in one line."""
    try:
        app(standalone_mode=True)
    except AssayError as error:
        print(f"assay: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("assay: interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
