"""The title of a front: how much it covers, or that no point counts."""

from __future__ import annotations

from kilotune.experiments.terminal.front_table import _title
from kilotune.search.space import Measurement, Objective, Trial

OBJECTIVES = (Objective("flash_bytes"), Objective("disagreements"))


def point(flash: float, flips: float) -> Trial:
    return Trial(0, {}, Measurement({"flash_bytes": flash, "disagreements": flips}))


def test_a_front_says_its_share_of_what_is_better_than_the_reference() -> None:
    title = _title((point(25.0, 2.0), point(50.0, 1.0)), OBJECTIVES, (100.0, 4.0))
    assert title.startswith("front: 2 points, hypervolume 50.00 % of what is better than")


def test_where_each_point_is_as_dear_as_the_reference_in_something_it_says_so() -> None:
    """Of three objectives all points may be so, and 0 % would look like a front of nothing."""
    title = _title((point(25.0, 4.0), point(100.0, 1.0)), OBJECTIVES, (100.0, 4.0))
    assert title.startswith("front: 2 points, hypervolume 0, as none is better in each objective than")
