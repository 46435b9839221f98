from __future__ import annotations

from assay.oracle.verdict import CLASS_MEANING, EXIT_CODE, MEANING, MismatchClass, Verdict, most_severe


def test_every_word_has_a_meaning_and_an_exit_code() -> None:
    assert set(MEANING) == set(EXIT_CODE) == set(Verdict)
    assert set(CLASS_MEANING) == set(MismatchClass)
    assert {v.value for v in Verdict if EXIT_CODE[v] == 1} == {"mismatch", "crash", "hang", "nondeterministic"}
    assert [v.value for v in Verdict if EXIT_CODE[v] == 0] == ["agree"]


def test_a_finding_outranks_doubt_and_doubt_outranks_agreement() -> None:
    assert most_severe([Verdict.AGREE, Verdict.UNVERIFIED, Verdict.NONDETERMINISTIC]) is Verdict.NONDETERMINISTIC
    assert most_severe([Verdict.AGREE, Verdict.INVALID]) is Verdict.INVALID
    assert most_severe([Verdict.AGREE] * 3) is Verdict.AGREE
    assert most_severe([]) is Verdict.UNVERIFIED
