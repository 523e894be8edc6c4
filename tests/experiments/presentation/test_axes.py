"""Axes: what is far off is left out, and what is alone has room."""

from __future__ import annotations

import pytest

from kilotune.experiments.presentation.axes import axis_of, focused_range, near, ticks_of


def test_stragglers_do_not_flatten_a_curve() -> None:
    """SeeDot's search: the best goes from 98.9 to 99.9 %, and a third of the candidates are near 10 %."""
    low, high = focused_range([98.9, 99.9], [10.0] * 20 + [98.9, 99.5, 99.9] * 10, [99.9])
    assert low > 97.5
    assert high < 101


def test_dots_that_are_near_are_seen() -> None:
    low, high = focused_range([1408.0, 3308.0], [1300.0, 1408.0, 3500.0], [])
    assert low < 1300
    assert high > 3500


def test_a_level_far_off_flattens_nothing_and_one_that_is_near_is_seen() -> None:
    assert focused_range([700.0, 800.0], [], [32256.0])[1] < 900
    assert focused_range([700.0, 800.0], [], [650.0])[0] < 650
    assert near(650, [700, 800])
    assert not near(32256, [700, 800])
    assert near(32256, [700, 700])


def test_a_curve_that_never_moves_is_seen_among_its_dots() -> None:
    low, high = focused_range([320.0, 320.0], [*range(350, 600)], [288.0])
    assert low < 288
    assert high > 550


def test_an_axis_ends_at_what_is_possible() -> None:
    """Accuracies went to 100.1 %, and a single 0 stood between -1 and 1."""
    low, high = focused_range([98.5, 100.0], [], [], percent=True)
    assert low < 98.5
    assert 100 < high < 100.05
    assert focused_range([98.5, 100.0], [], [])[1] > 100.05
    assert focused_range([50.0, 130.0], [], [], percent=True)[1] > 130  # of another kind: a gap
    assert -0.05 < focused_range([0.0, 0.0], [], [])[0] < 0
    assert focused_range([-3.0, 5.0], [], [])[0] < -3


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], {}),
        ([5, 5.0], {"range": [4, 6], "dtick": 1}),
        ([0.0], {"range": [-0.04, 1], "dtick": 1}),
        ([-3.0], {"range": [-4, -2], "dtick": 1}),
        ([0.5], {"range": [0.475, 0.525]}),
        ([762.0], {"range": [762 * 0.95, 762 * 1.05]}),
        ([5, 9], {"dtick": 1}),
        ([5, 900], {}),
        ([5, 9.5], {}),
    ],
)
def test_an_axis_of(values: list[float], expected: dict[str, object]) -> None:
    assert (
        axis_of(values) == pytest.approx(expected)
        if not expected.get("range")
        else axis_of(values)
        == {
            **expected,
            "range": pytest.approx(expected["range"]),
        }
    )


def test_whole_numbers_have_ticks_of_their_own_only_where_they_are_few() -> None:
    assert ticks_of([1, 2], 0, 3) == {"dtick": 1}
    assert ticks_of([1, 2], 0, 300) == {}
