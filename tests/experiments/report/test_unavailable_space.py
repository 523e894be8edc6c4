"""A study whose space cannot be built: how much of it is shown."""

from __future__ import annotations

import pytest

from kilotune.experiments.presentation.section import Table
from kilotune.experiments.report.unavailable_space import MOST_ROWS, LastTrials, sections_of_rows
from kilotune.search.space import Measurement, Trial
from kilotune.search.stored_rows import StudyRow


@pytest.mark.parametrize(
    ("count", "first", "words"), [(3, 0, "All 3 trials"), (MOST_ROWS + 100, 100, f"The last {MOST_ROWS} of 600 trials")]
)
def test_the_last_trials_are_shown_and_all_are_counted(count: int, first: int, words: str) -> None:
    trials = LastTrials()
    for numbers in (range(2), range(2, count)):  # they come as the study grows
        trials.take(Trial(number, {}, Measurement({"loss": 0.5}), 1.0) for number in numbers)
    sections = sections_of_rows(StudyRow("s", "flat", "f", "local", 1), trials, "why.")
    (table,) = (block for section in sections for block in section.blocks if isinstance(block, Table))
    assert [row[0] for row in table.rows] == list(range(first, count))
    assert words in table.caption
