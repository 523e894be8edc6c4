"""What a command says of its budget: every second of it on one clock."""

from __future__ import annotations

import math

import pytest

from kilotune.experiments.terminal.budget_usage import usage_sentence
from kilotune.search.budget import Budget
from kilotune.search.result import Course, Result, Status
from kilotune.search.space import Measurement, Objective, Trial


def trial(number: int, peak_bytes: float) -> Trial:
    """A measured one."""
    return Trial(number, {"place": number}, Measurement({"peak_bytes": peak_bytes}))


def said(
    found_s: tuple[float, ...],
    search_s: float,
    used_s: float,
    asked: Budget,
    proved_s: float | None = None,
    replay_s: float = 0.0,
    gained: float = 1.0,
    shown: Trial | None = None,
) -> str:
    """Of a search that took so long and found something better at those of its seconds, by so many bytes each time."""
    improvements = tuple((at_s, trial(number, 100.0 - gained * number)) for number, at_s in enumerate(found_s))
    count = len(found_s)
    course = Course(asked, search_s, count, proved_s, improvements, replay_s)
    best = shown or improvements[-1][1]
    proved = proved_s is not None
    result = Result("s", Status.FINISHED, None, best, True, (best,), None, None, proved, count, count, search_s, course)
    return usage_sentence(result, [Objective("peak_bytes")], asked, used_s)


@pytest.mark.parametrize(
    ("found_s", "search_s", "used_s", "proved_s", "sentence"),
    [
        pytest.param(
            (1.3,),
            1.3,
            7.1,
            None,
            "Used 7.1 of 5 s (the search began after 5.8 s): the best came after 7.1 s, in the last tenth of the search; "
            "there was none within the budget, and a "
            "search goes on for a first one.",
            id="nothing within the budget: 5.8 s were for the input",
        ),
        pytest.param(
            (0.5, 1.0),
            2.0,
            5.0,
            1.5,
            "Used 5.0 of 5 s (the search began after 3.0 s): proved least peak bytes after 4.5 s; the best came after "
            "4.0 s, the last tenth of the search "
            "brought nothing.",
            id="proved",
        ),
        pytest.param(
            (0.5, 1.7),
            2.0,
            5.0,
            None,
            "Used 5.0 of 5 s (the search began after 3.0 s): the best came after 4.7 s, the last tenth of the search brought nothing.",
            id="the last tenth is the search's: from 4.8 s on, where the command's was from 4.5 s",
        ),
    ],
)
def test_all_seconds_are_counted_from_the_beginning_of_the_command(
    found_s: tuple[float, ...], search_s: float, used_s: float, proved_s: float | None, sentence: str
) -> None:
    assert said(found_s, search_s, used_s, Budget(seconds=5.0), proved_s) == sentence


def test_a_budget_of_trials_has_no_end_in_seconds() -> None:
    text = said((0.5,), 2.0, 3.0, Budget(math.inf, 1))
    assert text == (
        "Used 1 of 1 trial (the search began after 1.0 s): the best came after 1.5 s, the last tenth of the search brought "
        "nothing."
    )
    assert said((0.5,), 2.0, 2.9, Budget(math.inf, 1)).startswith("Used 1 of 1 trial: the best came after 1.4 s")


def test_a_replay_is_no_part_of_what_was_used() -> None:
    text = said((0.5,), 2.0, 5.0, Budget(seconds=5.0), replay_s=29.53)
    assert text == (
        "Used 5.0 of 5 s (after 29.5 s of going through what was known; the search began after 3.0 s): the best came after 3.5 s, "
        "the last tenth of the search brought nothing."
    )
    assert "going through" not in said((0.5,), 2.0, 5.0, Budget(seconds=5.0), replay_s=0.4)


@pytest.mark.parametrize(
    ("gained", "brought"), [(1.0, "peak bytes 100 -> 99"), (-1.0, "a candidate that keeps more of the limits")]
)
def test_a_best_that_takes_more_than_one_beyond_the_limits_brought_these(gained: float, brought: str) -> None:
    assert said((0.5, 1.99), 2.0, 2.0, Budget(seconds=2), gained=gained).endswith(f"which brought {brought}.")


def test_a_value_that_the_table_does_not_show_is_said_to_be_of_another_trial() -> None:
    """What a descent by linked bytes comes to is no trial of the search, whose own best is worth another number."""
    text = said((0.5, 1.99), 2.0, 2.0, Budget(seconds=2), shown=trial(7, 60.0))
    assert text == (
        "Used 2.0 of 2 s: the search's own best, trial 1, came after 2.0 s, in the last tenth of the search, which brought peak bytes "
        "100 -> 99 (trial 7, which is shown, was chosen after the search)."
    )


def test_where_nothing_was_measured_nothing_was_found() -> None:
    """And not `nothing better than what was known`, since nothing is."""
    course = Course(Budget(seconds=2.0), 2.0, 0, None, (), 0.0)
    result = Result("s", Status.FINISHED, None, None, False, (), None, None, False, 0, 0, 2.0, course)
    assert (
        usage_sentence(result, [Objective("peak_bytes")], Budget(seconds=2.0), 2.0)
        == "Used 2.0 of 2 s: nothing was found."
    )
