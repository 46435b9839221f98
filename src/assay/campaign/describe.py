"""A finding's hermetic test, tried where it was found, and the text of an issue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial

from assay.checking import api
from assay.checking.emitted import NoTest, emitted, expecting
from assay.errors import AssayError, InputError, Unsupported
from assay.isolate.executable import BELOW
from assay.oracle.verdict import Verdict
from assay.programs.program import Array
from assay.reduce import Reduced, Still
from assay.reduce.api import in_words
from assay.reduce.still import program_of
from assay.report.expected import Expected
from assay.report.issue_text import issue_text
from assay.report.prove import prove
from assay.report.pytest_file import Form, pytest_file, slug
from assay.store.finding import ISSUE, Finding
from assay.toolchain import WorkerDied

SIMULATED = "what its kernels do was seen in a simulator of LLO: no TPU ran them"
CHIP = "the test takes a TPU to fail, and was tried on none: without one it runs the optimized HLO, and passes"
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
        if _simulated(finding):
            test, note = _for_a_chip(title, finding, reduced, expected, still.request.toolchain)
        else:
            test, note = _test(title, finding, reduced, still)
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
        note="; ".join((*in_words(expected, actual), *([SIMULATED] if _simulated(finding) else ()))),
    )
    more = {ISSUE: text.encode()}
    if test:
        more[f"test_{slug(title)}.py"] = test.encode()
    return replace(finding, note=note), {**artifacts, **more}


def _simulated(finding: Finding) -> bool:
    """Whether it is kernels that are wrong, and no chip that ran them."""
    return finding.through == "llo" and finding.culprit.pass_name.startswith(BELOW)


FORMS: tuple[Form, ...] = ("lax", "hlo")


def _for_a_chip(
    title: str, finding: Finding, reduced: Reduced, expected: Sequence[Expected], toolchain: str | None
) -> tuple[str, str]:
    """The test of what only kernels get wrong, which passes here, and what there is to say of it. Raises AssayError
    where there is none.
    """
    if not expected:
        raise NoTest("what stops a kernel in the simulator shows on a TPU alone")
    why: list[str] = []
    for form in FORMS:
        try:
            text = pytest_file(
                reduced.module,
                reduced.arguments,
                expected,
                title=title,
                target=finding.target,
                toolchain=_named(finding),
                options=finding.options,
                flags=finding.flags,
                form=form,
            )
        except (Unsupported, InputError) as error:
            why.append(f"{form}: {error}")
            continue
        proof = prove(text, toolchain, 1)
        if proof.passes:
            return text, CHIP
        why.append(f"{form}: {proof}")
    raise NoTest("; ".join(why))


def _named(finding: Finding) -> str:
    return ", ".join(f"{name} {version}" for name, version in finding.versions.items() if name in NAMED)


def _test(title: str, finding: Finding, reduced: Reduced, still: Still) -> tuple[str, str]:
    """The test's text, and what became of it. Raises AssayError where there is none."""
    options, flags, target = finding.options, finding.flags, finding.target
    common = partial(
        emitted,
        reduced.module,
        reduced.arguments,
        title=title,
        bad=still.request.toolchain,
        target=target,
        toolchain=_named(finding),
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
