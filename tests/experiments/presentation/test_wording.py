"""Numbers as tables and sentences show them."""

from __future__ import annotations

import pytest

from kilotune.experiments.presentation.wording import gap_text, number


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1344.5, "1344.5"),
        (1344.0, "1344"),
        (999.96, "1000"),
        (384.125, "384.1"),
        (0.98765, "0.9877"),
        (12544.25, "12544"),
    ],
)
def test_what_is_not_whole_does_not_look_whole_below_ten_thousand(value: float, shown: str) -> None:
    assert number(value) == shown


@pytest.mark.parametrize(
    ("gap", "shown"), [(0.0, "0.0 %"), (0.0003, "under 0.1 %"), (0.0005, "0.1 %"), (0.2183, "21.8 %")]
)
def test_only_no_gap_looks_like_none(gap: float, shown: str) -> None:
    assert gap_text(gap) == shown
