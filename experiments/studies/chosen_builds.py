"""How the programs of a study are built for its device, where that is chosen after the search: kept with it, for its exports."""

from __future__ import annotations

import time
from collections.abc import Iterable

from kilotune.codegen.emit.levels import TRIED_LEVELS
from kilotune.experiments.problems.device_check import DeviceCheck
from kilotune.experiments.problems.problem import ChoosesBuild, Problem, in_shape
from kilotune.experiments.studies.command_time import made_in_time
from kilotune.search.space import Trial
from kilotune.search.study import Study

BUILDS = "builds"
"""Where a study's stored request holds the -O level and the code shape of programs that were measured, by the numbers of their trials."""

MOST_CHOOSING_S = 15.0
"""Seconds in which an export runs builds where none was kept: of large programs each takes some."""

ALL_LEVELS = tuple(f"-{level}" for level in TRIED_LEVELS)


def chooses_build(problem: Problem) -> bool:
    """Whether it was left open how programs are built for the device."""
    return isinstance(problem, ChoosesBuild) and problem.chooses_build


def not_compared(problem: Problem, check: DeviceCheck) -> str | None:
    """A sentence where builds were to be compared and only the search's was run, for want of time; else None."""
    if not chooses_build(problem) or check.measured is None or check.chosen_for is not None:
        return None
    return "The budget left no time to build it in other ways, and exports build it as it was measured: a larger --budget compares builds."


def built_as(problem: Problem, check: DeviceCheck | None) -> Problem:
    """The problem with programs built as the one that was measured; itself where none was, and where nothing is to be chosen."""
    if check is None or check.measured is None or not isinstance(problem, ChoosesBuild) or not problem.chooses_build:
        return problem
    return problem.built(check.measured.level.lstrip("-"), check.measured.shape)


def keep_builds(problem: Problem, study: Study, checks: Iterable[tuple[Trial | None, DeviceCheck | None]]) -> None:
    """Keep with the study how the programs of trials were built that were measured."""
    if not chooses_build(problem):
        return
    found = {
        str(trial.number): [check.measured.level.lstrip("-"), check.measured.shape]
        for trial, check in checks
        if trial is not None and check is not None and check.measured is not None
    }
    if found:
        study.keep_in_request(BUILDS, {**study.stored_request().get(BUILDS, {}), **found})


def built_for(
    problem: Problem, study: Study, trial: Trial, level: str | None = None, shape: str | None = None
) -> Problem:
    """The problem with programs built as was chosen for that trial; chosen now where nothing has been, if the device's tools are there. A
    `shape` that is asked for is that of its programs, and where a `level` is, too, nothing is chosen. ValueError for a shape where there
    are no programs. Where running its builds would take more than `MOST_CHOOSING_S` seconds, they are as the search measured them."""
    open_ = level is None or shape is None
    return in_shape(_built_for(problem, study, trial) if open_ else problem, shape)


def _built_for(problem: Problem, study: Study, trial: Trial) -> Problem:
    if not isinstance(problem, ChoosesBuild) or not problem.chooses_build:
        return problem
    kept = study.stored_request().get(BUILDS, {}).get(str(trial.number))
    if kept is not None:
        return problem.built(*kept)
    until = time.monotonic() + MOST_CHOOSING_S
    return built_as(
        problem, made_in_time(lambda: time.monotonic() > until, lambda: problem.check_on_device(trial, ALL_LEVELS))
    )
