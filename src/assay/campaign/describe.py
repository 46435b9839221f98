"""A finding's hermetic test, tried where it was found, and the text of an issue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from assay.checking import api
from assay.errors import AssayError
from assay.programs.program import Array
from assay.reduce import Reduced
from assay.reduce.api import in_words
from assay.report.expected import Expected
from assay.report.issue_text import issue_text
from assay.report.prove import prove
from assay.report.pytest_file import pytest_file, slug
from assay.store.finding import ISSUE, Finding


def described(
    finding: Finding,
    artifacts: Mapping[str, bytes],
    reduced: Reduced,
    expected: Sequence[Expected],
    actual: Sequence[Array],
    request: api.Request,
) -> tuple[Finding, dict[str, bytes]]:
    """The finding with what its test showed in its note, and the artifacts with test and issue.

    A finding without a test is kept, and says why it has none: assay itself saw it three times.
    """
    where = finding.culprit.pass_name
    title = f"{finding.klass or finding.verdict} on {finding.target}{f', in {where}' if where else ''}"
    test, note = _test(title, finding, reduced, expected, request)
    versions: dict[str, str | None] = dict(finding.versions)
    text = issue_text(
        reduced.module,
        expected,
        actual,
        title=title,
        target=finding.target,
        versions=versions,
        test=test,
        happened="" if expected else str(finding.why),
        options=finding.options,
        flags=finding.flags,
        culprit=" ".join(part for part in (where, finding.culprit.opcode) if part),
        note="; ".join(in_words(expected, actual)),
    )
    more = {ISSUE: text.encode()}
    if test:
        more[f"test_{slug(title)}.py"] = test.encode()
    return replace(finding, note=note), {**artifacts, **more}


def _test(
    title: str, finding: Finding, reduced: Reduced, expected: Sequence[Expected], request: api.Request
) -> tuple[str, str]:
    """The test's text, empty where there is none, and what became of it."""
    if not expected:
        return "", "no test: the target gives no results"
    words = ", ".join(f"{name} {version}" for name, version in finding.versions.items() if name in NAMED)
    render = partial(
        pytest_file,
        reduced.module,
        reduced.arguments,
        expected,
        title=title,
        target=finding.target,
        toolchain=words,
        options=finding.options,
        flags=finding.flags,
    )
    failures = []
    for form in ("lax", "hlo"):
        try:
            text = render(form=form)
            proof = prove(text, request.toolchain)
        except AssayError as error:
            failures.append(f"{form}: {error}")
            continue
        if proof.fails:
            return text, f"the test in {proof}"
        failures.append(f"{form}: {proof}")
    return "", f"no test: {'; '.join(failures)}"


NAMED = ("jax", "jaxlib", "libtpu")
