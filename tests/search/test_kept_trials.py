"""Trials in little memory are the trials that were put in, and a long search keeps nothing else of them."""

from __future__ import annotations

import gc
import math
import tracemalloc
from collections.abc import Sequence
from functools import partial

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.search import run, trial_book
from kilotune.search.budget import Budget
from kilotune.search.kept_trials import KeptTrial, KeptTrials
from kilotune.search.packed_column import LARGEST, packed
from kilotune.search.space import Assignment, Measurement
from kilotune.search.study import Study
from tests.search.test_racing import CONSTRAINTS, OBJECTIVES, RacingProblem

VALUES = st.one_of(
    st.floats(),
    st.integers(),  # beyond what a double holds as well
    st.sampled_from([0, 0.0, -0.0, LARGEST, LARGEST + 1, math.nan, True]),
)
MEASUREMENTS = st.builds(
    Measurement,
    st.dictionaries(st.sampled_from(["flash_bytes", "ram_bytes", "cycles"]), VALUES),
    st.none() | st.sampled_from(["Stopped after 2 of 10 blocks.", "Overflow."]),
    st.booleans(),
)
MOST_BYTES = 150
"""A trial: 125 and 46 are seen in blocks of 256, where trials that are kept as objects take 1290 and 560."""

TRIALS = st.lists(st.tuples(st.integers(0, 5).map(str), st.integers(0, 10**9), MEASUREMENTS, st.floats(0.0, 1e6)))


def shown(kept: KeptTrial | None) -> str | None:
    """With 1 and 1.0 and -0.0 and True told apart, which are equal."""
    return (
        None if kept is None else repr((kept.number, dict(kept.measurement.metrics), kept.measurement, kept.elapsed_s))
    )


@given(TRIALS, st.integers(1, 5) | st.just(1000))
def test_what_is_read_is_what_was_put_in(trials: list[tuple[str, int, Measurement, float]], block: int) -> None:
    kept, expected = KeptTrials(block), dict[str, KeptTrial]()
    for key, *trial in trials:
        kept.put(key, *trial)
        expected[key] = KeptTrial(*trial)
    assert len(kept) == len(expected)
    for key in map(str, range(6)):
        assert (key in kept) == (key in expected)
        assert shown(kept.get(key)) == shown(expected.get(key))
        assert kept.number(key) == (expected[key].number if key in expected else None)
    read = list(kept.by_number())
    assert [one.number for _, one in read] == sorted(one.number for one in expected.values())
    assert {key: shown(one) for key, one in read} == {key: shown(one) for key, one in expected.items()}
    assert sorted(kept.numbers()) == sorted(one.number for one in expected.values())


def test_not_a_number_is_kept_as_well() -> None:
    kept = KeptTrials()
    kept.put("a", 0, Measurement({"loss": math.nan}), 0.0)
    found = kept.get("a")
    assert found is not None
    assert math.isnan(found.measurement.metrics["loss"])


@given(st.lists(st.floats(allow_subnormal=True), min_size=1) | st.lists(st.integers(-LARGEST, LARGEST), min_size=1))
@example([-0.0, 0.0, 1.0])
def test_a_packed_column_reads_as_the_numbers_did(numbers: list[float]) -> None:
    whole = isinstance(numbers[0], int)
    column = packed(np.array(numbers, dtype=np.int64 if whole else np.float64))
    assert list(map(repr, column.all())) == list(map(repr, numbers))
    assert [repr(column.at(row)) for row in range(len(numbers))] == list(map(repr, numbers))


@pytest.mark.parametrize(
    ("numbers", "bytes_each"),
    [
        (np.full(4096, 3.5), 0),
        (np.arange(4096) % 200 + 5000.0, 1),
        (np.arange(4096) + (1 << 40), 2),
        (np.arange(4096) % 200 / 7.0, 1),
        (np.arange(4096) % 1000 / 7.0, 2),
        (np.arange(4096) * 1000.0, 4),
        (np.arange(4096) / 7.0, 8),
    ],
)
def test_a_packed_column_takes_few_bytes(numbers: np.ndarray, bytes_each: int) -> None:
    column = packed(numbers)
    table = 0 if column.table is None else len(column.table)
    assert column.all() == numbers.tolist()
    assert (bytes_each and column.codes.itemsize) == bytes_each
    assert table <= 1000


class Weighed(RacingProblem):
    """Notes what memory is taken after 1000 and after 5000 measured candidates."""

    measured = 0
    taken: tuple[int, ...] = ()

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        if self.measured >= 1000 + 2000 * len(self.taken):
            gc.collect()
            self.taken = (*self.taken, self.measured, tracemalloc.get_traced_memory()[0])
        self.measured += len(batch)
        return super().evaluate(batch)


@pytest.mark.parametrize("strategy", ["random", "local"])
def test_a_long_search_takes_little_memory_a_trial(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "MOST_UNRANKED", 256)
    monkeypatch.setattr(trial_book, "KeptTrials", partial(KeptTrials, 256))
    space = Weighed(12, 4, 1, pairs=5, objectives=OBJECTIVES, constraints=CONSTRAINTS)
    tracemalloc.start()
    try:
        Study(space, strategy, 1).run(InProcessExecutor(space), Budget(trials=5500))
    finally:
        tracemalloc.stop()
    first, at_first, last, at_last = space.taken
    assert (at_last - at_first) / (last - first) < MOST_BYTES
