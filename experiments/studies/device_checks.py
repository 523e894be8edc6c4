"""The programs that a search ends with on its device: the best one, built as it is delivered, the procedure's and those of the front."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kilotune.experiments.problems.device_check import DeviceCheck
from kilotune.experiments.problems.problem import Problem, RunsOnDevice
from kilotune.experiments.studies.chosen_builds import ALL_LEVELS, built_as, chooses_build, keep_builds
from kilotune.experiments.studies.command_time import made_in_time
from kilotune.experiments.studies.measured_finalists import MeasuredFinalists
from kilotune.search.space import Trial, asks_for_front
from kilotune.search.study import Study


@dataclass(frozen=True)
class DeviceChecks:
    """`best`, of the `procedure` and of the first points of the `front`, None for what was not run. `problem`: builds programs as the best
    one is built, and so was the procedure's."""

    problem: Problem
    best: DeviceCheck | None = None
    procedure: DeviceCheck | None = None
    front: tuple[DeviceCheck | None, ...] = ()


def checked_programs(
    problem: Problem,
    study: Study,
    finalists: MeasuredFinalists,
    paper: Trial | None,
    most_checked: int,
    is_over: Callable[[], bool],
) -> DeviceChecks:
    """All of them, of the front no more than `most_checked`, until `is_over` says so. Where it was left open how programs are built, each
    point of a front that was asked for is built as is best for it, and what was chosen is kept with the study where any are."""
    result = finalists.result
    if not isinstance(problem, RunsOnDevice):
        return DeviceChecks(problem, front=(None,) * len(result.front[:most_checked]))

    def on_device(asked: Problem, trial: Trial | None, levels: tuple[str, ...] = ()) -> DeviceCheck | None:
        assert isinstance(asked, RunsOnDevice)
        return None if trial is None else made_in_time(is_over, lambda: asked.check_on_device(trial, levels))

    best = _compared(finalists.check) or on_device(problem, result.best, ALL_LEVELS)
    best = best or on_device(problem, result.best) or finalists.check
    delivered = built_as(problem, best)
    procedure = on_device(delivered, paper)
    whole = asks_for_front(problem.space)
    each = whole and chooses_build(problem)
    points = result.front[:most_checked]
    front = tuple(on_device(problem, t, ALL_LEVELS) if each else on_device(delivered, t) for t in points)
    if most_checked:  # a report only looks
        keep_builds(problem, study, [*zip(points, front, strict=True), (result.best, best)])
    return DeviceChecks(delivered, best, procedure, front)


def _compared(check: DeviceCheck | None) -> DeviceCheck | None:
    """The run of a finalist that has been built in all ways."""
    return check if check is not None and check.chosen_for is not None else None
