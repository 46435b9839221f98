"""A watched run as one HTML page: the listing, and beside each instruction how often it ran and what it made last."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from assay.llo.listing import spelled
from assay.llo.lowering.regions import PHIS
from assay.llo.program import Kernel
from assay.llo.trace import Did, Trace, summary
from assay.report.llo_run import RunReport

_STYLE = """
body { font: 13px/1.45 system-ui, sans-serif; margin: 1.5em; color: #1a1a1a; }
h1 { font-size: 1.25em; } p { margin: .3em 0; }
table { border-collapse: collapse; }
th { text-align: right; font-weight: 600; position: sticky; top: 0; background: #fff; }
th, td { padding: 0 .7em; white-space: nowrap; } td { text-align: right; font-variant-numeric: tabular-nums; }
td.text, th.text { text-align: left; font-family: ui-monospace, monospace; white-space: pre; }
tr.part td { text-align: left; background: #eef2f7; font-weight: 600; padding-top: .35em; }
tr.idle td { color: #a0a0a0; } tr.stop td { background: #ffd9d6; } tr:hover td { background: #fff7d6; }
td.kind { color: #777; }
"""
_HEAD = "<tr><th>line</th><th class=text>instruction</th><th>times</th><th></th><th>least</th><th>greatest</th>" + (
    "<th>mean</th><th>std</th><th>finite</th></tr>"
)


def page(report: RunReport, kernel: Kernel, trace: Trace) -> str:
    """The page; it needs nothing but itself."""
    title = f"{report.kernel}, {report.stage}"
    words = [
        f"{report.target}, {report.inputs}; {report.steps} records executed",
        f"stopped: {report.words}" if report.stop is not None else "ran to its end",
        *(
            f"output {number}: {shape.dtype}[{','.join(map(str, shape.dims))}], "
            f"{wild} elements depend on memory that nobody wrote"
            for number, ((shape, _), wild) in enumerate(zip(report.outputs, report.unwritten, strict=True))
        ),
        "Values are those that an instruction made last, in the first of two runs; a vector has 8 x 128 lanes, not all "
        "of which need mean anything. s32 where the words do not look like floats.",
    ]
    rows = "\n".join(_rows(kernel, trace, report.stop.line if report.stop is not None else 0))
    body = "\n".join(f"<p>{escape(line)}</p>" for line in words)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style></head>\n<body><h1>{escape(title)}</h1>\n{body}\n"
        f"<table><thead>{_HEAD}</thead><tbody>\n{rows}\n</tbody></table></body></html>\n"
    )


def _rows(kernel: Kernel, trace: Trace, stopped: int) -> Iterator[str]:
    did = iter(trace.did)
    for part in kernel.regions:
        listed = [next(did) for _ in part.instructions]
        if listed:
            times = _entered(listed)
            ran = "" if times is None else f": ran {times} times" if times != 1 else ": ran once"
            yield _part(f"region {part.number} {part.kind}{ran}")
            yield from (_row(one, stopped) for one in listed)
    for bundle in kernel.bundles:
        listed = [next(did) for _ in bundle.instructions]
        if listed:
            times = _entered(listed)
            ran = "" if times in (None, 1) else f": ran {times} times"
            starts = "".join(f", region {number} starts" for number in bundle.starts)
            yield _part(f"bundle {bundle.number:#x}{starts}{ran}")
            yield from (_row(one, stopped) for one in listed)


def _entered(listed: list[Did]) -> int | None:
    """How often a part ran: as often as whatever in it is not predicated; None where nothing tells."""
    told = [d.times for d in listed if d.instruction.predicate is None and d.counted]
    return max(told, default=None)


def _part(text: str) -> str:
    return f"<tr class=part><td></td><td colspan=8>{escape(text)}</td></tr>"


def _row(did: Did, stopped: int) -> str:
    instruction = did.instruction
    cells = [""] * 6
    if did.vector is not None:
        s = summary(did.vector, instruction.opcode)
        numbers = [f"{x:.6g}" for x in (s.least, s.greatest, s.mean, s.std)]
        cells = [s.kind, *numbers, str(s.finite)]
    elif did.mask is not None:
        cells[0] = f"{int((did.mask != 0).sum())} of {did.mask.size} lanes on"
    elif did.scalar is not None:
        signed = did.scalar - (did.scalar >> 31 << 32)
        cells[0] = "true" if instruction.dst is not None and instruction.dst.kind == "P" and did.scalar else f"{signed}"
        if instruction.dst is not None and instruction.dst.kind == "P" and not did.scalar:
            cells[0] = "false"
    idle = did.counted and not did.times and instruction.opcode not in PHIS
    name = "stop" if instruction.line == stopped else "idle" if idle else ""
    times = str(did.times) if did.counted else ""
    kind, *rest = cells
    values = "".join(f"<td>{escape(cell)}</td>" for cell in rest)
    text = escape(spelled(instruction, registers=True))
    opening = f"<tr class={name}>" if name else "<tr>"
    return (
        f"{opening}<td>{instruction.line}</td><td class=text>{text}</td><td>{times}</td>"
        f"<td class=kind>{escape(kind)}</td>{values}</tr>"
    )
