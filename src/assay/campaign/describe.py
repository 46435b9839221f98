"""A finding's hermetic test, tried where it was found, and the text of an issue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial

from assay.checking import api
from assay.checking.emitted import emitted, expecting
from assay.errors import AssayError
from assay.oracle.verdict import Verdict
from assay.programs.program import Array
from assay.reduce import Reduced, Still
from assay.reduce.api import in_words
from assay.reduce.still import program_of
from assay.report.expected import Expected
from assay.report.issue_text import issue_text
from assay.report.pytest_file import slug
from assay.store.finding import ISSUE, Finding
from assay.toolchain import WorkerDied

NO_TPU = "no test: what is wrong shows in the simulator of LLO, and else on a TPU alone"
NAMED = ("jax", "jaxlib", "libtpu")


def described(
    finding: Finding,
    artifacts: Mapping[str, bytes],
    reduced: Reduced,
    expected: Sequence[Expected],
    actual: Sequence[Array],
    still: Still,
) -> tuple[Finding, dict[str, bytes]]:
    """The finding with what became of its test in its note, and the artifacts with test and issue.

    A finding without a test is kept, and says why it has none: assay itself saw it three times.
    """
    where = finding.culprit.pass_name
    title = f"{finding.klass or finding.verdict} on {finding.target}{f', in {where}' if where else ''}"
    try:
        test, note = _test(title, finding, reduced, still) if finding.through == "hlo" else ("", NO_TPU)
    except (AssayError, WorkerDied) as error:
        test, note = "", f"no test: {error}"
    text = issue_text(
        reduced.module,
        expected,
        actual,
        title=title,
        target=finding.target,
        versions=dict(finding.versions),
        test=test,
        happened="" if expected else finding.why,
        options=finding.options,
        flags=finding.flags,
        culprit=" ".join(part for part in (where, finding.culprit.opcode) if part),
        note="; ".join(in_words(expected, actual)),
    )
    more = {ISSUE: text.encode()}
    if test:
        more[f"test_{slug(title)}.py"] = test.encode()
    return replace(finding, note=note), {**artifacts, **more}


def _test(title: str, finding: Finding, reduced: Reduced, still: Still) -> tuple[str, str]:
    """The test's text, and what became of it. Raises AssayError where there is none."""
    words = ", ".join(f"{name} {version}" for name, version in finding.versions.items() if name in NAMED)
    options, flags, target = finding.options, finding.flags, finding.target
    common = partial(
        emitted,
        reduced.module,
        reduced.arguments,
        title=title,
        bad=still.request.toolchain,
        target=target,
        toolchain=words,
        options=options,
        flags=flags,
    )
    if finding.verdict in (Verdict.CRASH, Verdict.HANG):
        made = common(expect=None)
        return made.text, f"the test in {made.bad}"
    program = program_of(reduced.module, reduced.arguments, still.request)
    worker = still.workers.get()
    try:
        with closing(api.target_for(program, still.request, worker, still.settings)) as there:
            made = common(expect=expecting(reduced.module, there, still.settings))
    finally:
        still.workers.put(worker)
    return made.text, f"the test in {made.bad}"
