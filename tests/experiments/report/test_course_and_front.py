"""Figures of a search's course and of its front, of spaces that are made for them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from kilotune.experiments.notebook.tuning import tune
from kilotune.search.flat_state import FlatState
from kilotune.search.space import Assignment, Decision, Direction, Measurement, Objective


class TwoGoals:
    """To be large against to be small, where they contradict each other."""

    name, fingerprint, constraints = "two-goals", "1", ()
    objectives = (Objective("worth", Direction.MAXIMIZE), Objective("price", Direction.MINIMIZE))
    decisions = (Decision("x", tuple(range(12))), Decision("waste", (0, 1, 2)))

    def start(self) -> FlatState:
        return FlatState(self.decisions, -1e9)

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        return [Measurement({"worth": 3.0 * a["x"], "price": a["x"] ** 2 + a["waste"]}) for a in batch]  # type: ignore[operator]


def test_the_line_of_the_front_goes_across_what_its_points_beat() -> None:
    """Also where the first objective is to be large: a corner of the line is no better than the points beside it."""
    tuned = tune(TwoGoals(), strategy="exhaustive", budget="500trials")
    (front,) = [t for t in tuned.figures["Pareto front"].data if t.name == "Pareto front"]
    points = list(zip(front.x, front.y, strict=True))
    assert len(points) == 12
    assert front.line.shape == "hv"  # from a point across to the next one's x, and only there to its y
    for (x, y), (next_x, _) in itertools.pairwise(points):
        corner = {"worth": next_x, "price": y}
        assert all(o.loss(corner) >= o.loss({"worth": x, "price": y}) for o in TwoGoals.objectives)


class Levels:
    """Every candidate is as good in the first objective; the second falls."""

    name, fingerprint, constraints = "levels", "1", ()
    objectives = (Objective("disagreements", Direction.MINIMIZE), Objective("memory_bytes", Direction.MINIMIZE))
    decisions = (Decision("x", tuple(range(40))),)

    def start(self) -> FlatState:
        return FlatState(self.decisions, -1e9)

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        return [Measurement({"disagreements": 0.0, "memory_bytes": 3308.0 - 50 * a["x"]}) for a in batch]  # type: ignore[operator]


def test_the_course_is_that_of_what_improves() -> None:
    """Not of an objective that is as good with the first candidate as it can be."""
    tuned = tune(Levels(), strategy="exhaustive", budget="500trials")
    figure = tuned.figures["How the search went"]
    (curve,) = [trace for trace in figure.data if trace.name == "best so far"]
    assert figure.layout.yaxis.title.text == "memory bytes"
    assert list(curve.y[:3]) == [3308.0, 3258.0, 3208.0]
    assert min(curve.y) == 3308.0 - 50 * 39


def test_objectives_that_both_improve_are_both_drawn() -> None:
    tuned = tune(TwoGoals(), strategy="random", seed=1, budget="500trials")
    drawn = {f.layout.yaxis.title.text for n, f in tuned.figures.items() if n.startswith("How the search went")}
    assert drawn == {"worth", "price"}


class Alike:
    """All candidates are measured as the same point."""

    name, fingerprint, constraints = "alike", "1", ()
    objectives = TwoGoals.objectives
    decisions = (Decision("x", tuple(range(60))),)

    def start(self) -> FlatState:
        return FlatState(self.decisions, -1e9)

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        return [Measurement({"worth": 762.0, "price": 0.0}) for _ in batch]


def test_a_front_of_one_point_has_it_on_an_axis_with_room() -> None:
    layout = tune(Alike(), strategy="exhaustive", budget="500trials").figures["Pareto front"].layout
    assert layout.xaxis.range == (762 * 0.95, 762 * 1.05)
    assert layout.yaxis.range == (-0.04, 1)  # nothing is below 0
    assert layout.yaxis.dtick == 1  # no halves of whole numbers
