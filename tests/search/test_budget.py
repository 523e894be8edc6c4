"""Budgets are read as they are written, or refused in a sentence."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilotune.search.budget import Budget


@pytest.mark.parametrize(
    ("text", "seconds", "trials"),
    [
        ("2h", 7200, math.inf),
        ("90s", 90, math.inf),
        ("15m", 900, math.inf),
        ("1h30m", 5400, math.inf),
        ("0.5s", 0.5, math.inf),
        ("500trials", math.inf, 500),
        ("2h,500trials", 7200, 500),
        (" 500 trials , 2H ", 7200, 500),
        ("1trial", math.inf, 1),
    ],
)
def test_reads_what_people_write(text: str, seconds: float, trials: float) -> None:
    assert Budget.parse(text) == Budget(seconds, trials)


@pytest.mark.parametrize("text", ["", "2", "h", "2 weeks", "1h,2h", "5trials,5trials", "0s", "0trials", "-3s", "1h,"])
def test_refuses_the_rest_and_says_what_it_expected(text: str) -> None:
    with pytest.raises(ValueError, match=r"^Budget '.*'.*\.$"):
        Budget.parse(text)


@given(
    st.one_of(st.just(math.inf), st.integers(1, 10**6).map(lambda n: n / 4)),
    st.one_of(st.just(math.inf), st.integers(1, 10**9)),
)
def test_prints_as_it_is_read(seconds: float, trials: float) -> None:
    budget = Budget(seconds, trials)
    if budget != Budget():
        assert Budget.parse(str(budget)) == budget
