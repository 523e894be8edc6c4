"""A search in the user's Python computes on one thread of NumPy's BLAS, and leaves the user's as they were."""

from __future__ import annotations

import os

import numpy as np  # noqa: F401  # whose BLAS is asked
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import kilotune
from kilotune.search.result import Progress


def threads() -> set[int]:
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one core: one thread whatever is asked for")
@pytest.mark.parametrize(("given", "wanted"), [(None, 1), ("2", 2)])
def test_a_search_has_one_thread_unless_the_user_says_otherwise(
    given: str | None, wanted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENBLAS_NUM_THREADS")
    if given:
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", given)
    seen: list[tuple[set[int], str | None]] = []

    def look(_: Progress) -> bool:
        seen.append((threads(), os.environ.get("OPENBLAS_NUM_THREADS")))
        return False

    with threadpool_limits(limits=2, user_api="blas"):
        study = kilotune.tune("shiftry", input="worked-example", budget="30trials", progress=look)
        study.resume(budget="40trials", progress=look)
        assert seen
        assert all(one == ({wanted}, given or "1") for one in seen)
        assert threads() == {2}
    assert os.environ.get("OPENBLAS_NUM_THREADS") == given
