"""The commands and what they are called."""

from __future__ import annotations

import typer

from assay.cli import (
    bisect,
    check,
    compile,
    doctor,
    findings,
    fuzz,
    isolate,
    llo,
    passes,
    policies,
    reduce,
    replay,
    summarize,
    templates,
    toolchain,
)

app = typer.Typer(
    help="Tells whether XLA compiled a program correctly and, when it did not, which elements are wrong.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("check")(check.command)
app.command("compile")(compile.command)
app.command("bisect")(bisect.command)
app.command("passes")(passes.command)
app.command("isolate")(isolate.command)
app.command("reduce")(reduce.command)
app.command("summarize")(summarize.command)
app.command("fuzz")(fuzz.command)
app.command("replay")(replay.command)
app.command("doctor")(doctor.command)
app.command("policies")(policies.command)
app.add_typer(findings.app, name="findings")
app.add_typer(llo.app, name="llo")
app.add_typer(templates.app, name="templates")
app.add_typer(toolchain.app, name="toolchain")
