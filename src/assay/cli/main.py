"""The `assay` command."""

from __future__ import annotations

import sys
import traceback


def main() -> None:
    """Exit code 0: all agrees; 1: a finding; 2: the user's or our own error, told in one line."""
    try:
        # Imported here so that a Ctrl-C meanwhile ends as it does later.
        from assay.cli.app import app

        sys.exit(app(standalone_mode=False) or 0)
    except KeyboardInterrupt:
        print("assay: interrupted", file=sys.stderr)
        sys.exit(130)
    except Exception as error:
        sys.exit(_told(error))


def _told(error: Exception) -> int:
    """Says what went wrong; never with exit code 1, which means a finding."""
    from assay.errors import AssayError

    usage = getattr(error, "format_message", None)  # of typer's, which has click in it or beside it
    if type(error).__name__ == "NoArgsIsHelpError":
        print(getattr(error, "message", ""), file=sys.stderr)
    elif usage is not None:
        context = getattr(error, "ctx", None)
        command = "assay" if context is None else context.command_path
        print(f"assay: {' '.join(usage().split()).rstrip('.')}; see {command} --help", file=sys.stderr)
    elif type(error).__name__ == "Abort":
        print("assay: interrupted", file=sys.stderr)
        return 130
    elif isinstance(error, AssayError):
        print(f"assay: {error}", file=sys.stderr)
    elif isinstance(error, OSError):
        print(f"assay: {error.filename or 'output'}: {error.strerror}", file=sys.stderr)
    else:
        traceback.print_exception(error)
        print("assay: this is a fault of assay itself; please report it with the lines above", file=sys.stderr)
    return 2


if __name__ == "__main__":
    main()
