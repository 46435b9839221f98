"""Small products run in one thread, large ones as before, and nothing is left changed."""

from __future__ import annotations

import numpy as np
import pytest
from xla_cpu import hlo_text, reference

from assay.reference import threads


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What a library with eight threads is told."""
    said = [8]
    monkeypatch.setattr(threads, "_openblas", lambda: (lambda: said[-1], said.append))
    return said


def test_a_small_product_takes_one_thread(told: list[int]) -> None:
    x = np.ones((4, 5), np.float32)
    reference(hlo_text(lambda x: x @ x.T, x), [x])
    assert told == [8, 1, 8]


def test_a_large_one_takes_them_all(told: list[int]) -> None:
    with threads.threads_for(threads.SMALL):
        assert told == [8]


def test_they_are_back_after_an_error(told: list[int]) -> None:
    with pytest.raises(ZeroDivisionError), threads.threads_for(1):
        raise ZeroDivisionError
    assert told == [8, 1, 8]


def test_the_library_of_the_wheels_is_found() -> None:
    if "openblas" not in str(np.show_config(mode="dicts")).lower():
        pytest.skip("this NumPy uses another library")
    found = threads._openblas()
    assert found is not None
    get, set_ = found
    before = get()
    assert before >= 1
    with threads.threads_for(1):
        assert get() == 1
    assert get() == before
    set_(before)
