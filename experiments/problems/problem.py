"""A space with its data at the front door, and how a request becomes one."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from kilotune.experiments.problems.family import Family, Offer
from kilotune.experiments.problems.memory.capacity_answer import CapacityAnswer
from kilotune.experiments.problems.registry import find_offer
from kilotune.experiments.studies.request import TuneRequest
from kilotune.search.result import Result
from kilotune.search.space import Assignment, Space, Trial

Metrics = dict[str, float]

HANDED_OVER = "handed_over"
"""In a request's options: the class of a space that was no name."""


class Problem(Protocol):
    """A space with its data, and what the front door wants to know about it besides."""

    @property
    def request(self) -> TuneRequest:
        """What was asked."""

    @property
    def space(self) -> Space:
        """The decision problem."""

    @property
    def name(self) -> str:
        """Of the model or the instance, for people."""

    @property
    def size(self) -> int | None:
        """Number of candidates, where it is known."""

    @property
    def measured_by(self) -> str:
        """What runs the candidates."""

    def test_metrics(self, assignment: Assignment) -> Metrics | None:
        """A candidate on data that no search sees; None where there are none."""

    def float_metrics(self) -> dict[str, Metrics]:
        """The exact model, by part of the data; empty where there is none."""

    def certificate(self) -> dict[str, Any] | None:
        """Why no candidate can beat the space's own bound, as JSON; None where that has no short proof."""

    def check_output(self, folder: Path) -> None:
        """ValueError when `export` would refuse that folder: to be known before a search, not after it."""

    def export(self, trial: Trial, folder: Path) -> dict[str, str]:
        """Write what a candidate is for into `folder`; the paths written, by what they are."""


@runtime_checkable
class LoadsForTest(Protocol):
    """Ability of a problem: the first `test_metrics` of a process loads for about a second, which nothing can end."""

    def is_loaded(self) -> bool:
        """Whether that is done."""


@runtime_checkable
class HasTargets(Protocol):
    """Ability: a candidate is a program that can be written for several targets."""

    def export_for(self, trial: Trial, folder: Path, target: str, level: str | None) -> dict[str, str]:
        """Like `Problem.export`; `level`: -O level on the device, None for the request's."""


@runtime_checkable
class Explains(Protocol):
    """Ability: what a candidate means is short enough to be shown."""

    def details(self, trial: Trial) -> dict[str, Any]:
        """For the result file, as JSON."""

    def lines(self, trial: Trial) -> list[str]:
        """For the terminal."""


@runtime_checkable
class AnswersCapacity(Protocol):
    """Ability: whether everything fits a capacity may be what was asked."""

    def capacity_answer(self, result: Result) -> CapacityAnswer | None:
        """By what a study has found; None where no capacity was given."""


@runtime_checkable
class BringsOffer(Protocol):
    """Ability: the problem is of no space on the list, and says itself what would stand there."""

    @property
    def offered(self) -> tuple[Family, Offer] | None:
        """None where it is on the list after all."""


def offer_of(problem: Problem) -> tuple[Family, Offer]:
    """The family of its space, and the entry there."""
    brought = problem.offered if isinstance(problem, BringsOffer) else None
    return brought or find_offer(problem.request.space)


def is_listed(problem: Problem) -> bool:
    """Whether its space has a name that a command can ask for."""
    return not isinstance(problem, BringsOffer) or problem.offered is None


def export_trial(
    problem: Problem, trial: Trial, folder: Path, target: str | None = None, level: str | None = None
) -> dict[str, str]:
    """Write what a candidate is for; a program for `target`, C without one. ValueError for a target where there is no
    program, and for a folder that holds something else."""
    if isinstance(problem, HasTargets):
        return problem.export_for(trial, folder, target or "c", level)
    if target or level:
        raise ValueError(
            f"A target and a level are for programs; the space {problem.request.space} decides about none."
        )
    return problem.export(trial, folder)


def build_problem(request: TuneRequest) -> Problem:
    """Load the input and make the space. InputError for an input that cannot be used, ValueError for an unknown space,
    for options that do not go with the input, or for a space that only Python has."""
    handed_over = request.options.get(HANDED_OVER)
    if handed_over is not None:
        raise ValueError(
            f"This study is of a {handed_over} that was handed over in Python, which no command can make: go on with it "
            f"there, by tune(..., study=NAME)."
        )
    family, _ = find_offer(request.space)
    return family.front_door.build_problem(request)
