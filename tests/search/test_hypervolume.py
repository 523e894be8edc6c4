"""Hypervolume: against counted cells, and what a comparison makes of it."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilotune.search.front import Ranking, no_worse
from kilotune.search.hypervolume import GrowingFront, compared_objective, hypervolume, hypervolume_so_far
from kilotune.search.space import Constraint, Measurement, Objective
from tests.search.problems import FlatProblem

SIDE = 4


def fronts(dimensions: int) -> st.SearchStrategy[list[tuple[float, ...]]]:
    return st.lists(st.tuples(*[st.integers(-1, SIDE + 1).map(float)] * dimensions), max_size=9)


def counted(points: list[tuple[float, ...]], dimensions: int) -> float:
    """The share of the cells of a grid of whole numbers that lie behind some point."""
    cells = list(itertools.product(range(SIDE), repeat=dimensions))
    return sum(any(no_worse(point, tuple(map(float, cell))) for point in points) for cell in cells) / len(cells)


@given(st.integers(1, 4).flatmap(lambda dimensions: st.tuples(st.just(dimensions), fronts(dimensions))))
def test_it_is_the_share_of_cells_behind_a_point(drawn: tuple[int, list[tuple[float, ...]]]) -> None:
    dimensions, points = drawn
    assert hypervolume(points, (float(SIDE),) * dimensions) == pytest.approx(counted(points, dimensions))


@given(fronts(3))
def test_a_growing_front_keeps_what_nothing_dominates(points: list[tuple[float, ...]]) -> None:
    reference = (float(SIDE),) * 3
    growing = GrowingFront(reference)
    for number, point in enumerate(points):
        before = growing.volume
        entered = growing.add(point)
        known = [p for p in points[: number + 1] if max(p) < SIDE]
        kept = {p for p in known if not any(other != p and no_worse(other, p) for other in known)}
        assert growing.losses == tuple(sorted(kept))
        assert entered == (point in kept and point not in points[:number])
        assert growing.volume == pytest.approx(hypervolume(known, reference))
        assert growing.volume >= before


def test_losses_are_scaled_by_the_reference_point() -> None:
    assert hypervolume([(50.0, 1.0)], (100.0, 4.0)) == pytest.approx(0.5 * 0.75)
    assert hypervolume([(100.0, 0.0), (0.0, 4.0)], (100.0, 4.0)) == 0.0
    with pytest.raises(ValueError, match="above 0"):
        hypervolume([], (1.0, 0.0))


def test_the_curve_of_a_run_counts_feasible_candidates_within_the_reference_point() -> None:
    ranking = Ranking((Objective("cost"), Objective("loss")), (Constraint("weight", 1.0),))

    def measured(cost: float, loss: float, weight: float) -> Measurement:
        return Measurement({"cost": cost, "loss": loss, "weight": weight})

    runs = [
        (0.5, measured(1.0, 1.0, 2.0)),  # too heavy
        (1.0, measured(5.0, 5.0, 1.0)),
        (2.0, measured(11.0, 0.0, 1.0)),  # beyond the reference point
        (3.0, measured(6.0, 6.0, 1.0)),  # dominated
        (4.0, measured(0.0, 5.0, 1.0)),
    ]
    curve = hypervolume_so_far(runs, ranking, 9.0, (10.0, 10.0))
    assert [(step.evaluations, step.seconds, step.loss) for step in curve.steps] == [(2, 1.0, -25.0), (5, 4.0, -50.0)]
    assert (curve.evaluations, curve.seconds) == (5, 9.0)


def test_a_space_without_a_reference_point_is_compared_by_its_first_objective() -> None:
    assert compared_objective(FlatProblem(2, 2, 1)) == Objective("loss")
