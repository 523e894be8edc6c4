"""The best placement of earlier runs, found with few checks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kilotune.search.space import Measurement, Trial
from kilotune.spaces.memory.earlier_placements import best_that_holds


def trial(number: int, peak: int) -> Trial:
    return Trial(number, {"trial": str(number)}, Measurement({"peak_bytes": float(peak)}), 0.0)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3) | st.none()), max_size=8))
def test_the_best_is_found_where_no_trial_is_better_than_it_measured(cases: list[tuple[int, int | None]]) -> None:
    """Each case: what was measured, and by how much the checked placement is worse (None: there is none)."""
    checked: list[int] = []

    def check(one: Trial) -> tuple[int, int] | None:
        checked.append(one.number)
        measured, worse = cases[one.number]
        return None if worse is None else (measured + worse, one.number)

    best = best_that_holds([trial(k, peak) for k, (peak, _) in enumerate(cases)], "peak_bytes", check)
    costs = {k: peak + worse for k, (peak, worse) in enumerate(cases) if worse is not None}
    assert (best is None) == (not costs)
    if best is not None:
        assert costs[best] == min(costs.values())
        assert all(cases[k][0] <= costs[best] for k in checked)
    assert len(checked) == len(set(checked))


def test_of_true_measurements_one_is_checked_and_failures_come_last() -> None:
    checked: list[int] = []
    failed = Trial(0, {}, Measurement(failure="no placement"), 0.0)

    def check(one: Trial) -> tuple[int, int] | None:
        checked.append(one.number)
        return int(one.metrics["peak_bytes"]), one.number

    assert best_that_holds([failed, trial(1, 7), trial(2, 5), trial(3, 5)], "peak_bytes", check) == 2
    assert checked == [2]
