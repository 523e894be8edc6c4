"""Finalists of a search for the least time, run on the simulated device: which is fastest there, and not only by prediction.

A search for thousands of candidates goes by predicted cycles. These are a few per cent off, and the best of thousands is one that they
flatter: a program may come out slower on the device than the paper's. So some that differ are run there, the paper's among them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from kilotune.experiments.presentation.wording import counted
from kilotune.experiments.problems.device_check import DeviceCheck
from kilotune.experiments.problems.problem import LimitsLinkedFlash, Problem, RunsOnDevice
from kilotune.experiments.studies.chosen_builds import ALL_LEVELS, chooses_build
from kilotune.experiments.studies.command_time import made_in_time, unheard
from kilotune.search.front import Ranking
from kilotune.search.result import Result, relative_gap
from kilotune.search.space import Objective, Trial, asks_for_front
from kilotune.search.study import Study

FINALIST = "fastest"
"""Where a study's stored request holds which trial was chosen after the search, and which was the best before: their numbers."""

TIMED = ("cycles", "latency_ms")

PRECISION = "expected_flips"
"""The metric of what changes of classes are expected by."""

MOST_FINALISTS = 6

MOST_BUILT = 3
"""Those of them, the fastest ones, that are built at other levels and in other shapes, too, where that was left open."""

MOST_CYCLES = 5_000_000
"""Predicted cycles of all finalists together, so that running 60 samples of each takes seconds: on a simulated ATmega328P a program of
200 thousand cycles takes 0.2 s, on a simulated Cortex-M4 one of 70 thousand 0.2 to 0.4 s, compiling included."""

LEAST_DISTANCE = 2
"""Decisions in which finalists differ at the least: those next to the best are as fast as it is, and flattered by as much."""


@dataclass(frozen=True)
class MeasuredFinalists:
    """The result, whose best is the finalist that the device has chosen; `said`: a sentence about it, where that is not the best by
    prediction; `kept`: whether a limit that only the device can tell of is kept, where there is one; `check`: its run, where it was run."""

    result: Result
    said: str | None = None
    kept: bool = True
    check: DeviceCheck | None = None


def measured_finalists(
    problem: Problem,
    study: Study,
    result: Result,
    paper: Trial | None,
    is_over: Callable[[], bool],
    tell: Callable[[str], None] = unheard,
) -> MeasuredFinalists:
    """Run the finalists of a search for the least time, and keep with the study which was fastest.

    None are run where time is no objective or a whole front is asked for, without a device, where the least predicted time is proved, and
    where `is_over` says so before two have been: the result is that of `kept_finalist` then.
    """
    best, space, unmeasured = result.best, problem.space, MeasuredFinalists(kept_finalist(problem, study, result))
    whole = asks_for_front(space)
    if space.objectives[0].metric not in TIMED or whole or best is None or not result.feasible or result.proved:
        return unmeasured
    if not isinstance(problem, RunsOnDevice) or problem.device is None:
        return unmeasured
    found: dict[int, tuple[float, Trial, DeviceCheck]] = {}
    for trial in _finalists(study, best, paper):
        tell(f"running finalists on the device, {len(found) + 1} so far")
        check = made_in_time(is_over, partial(problem.check_on_device, trial))
        if check is not None and check.measured is not None and check.measured.fits:
            found[trial.number] = check.measured.cycles, trial, check
    if len(found) < 2 or best.number not in found:
        return unmeasured
    if chooses_build(problem):  # the order of programs may be another one where they are built in another way
        for _, trial, _ in sorted(found.values(), key=lambda one: one[0])[:MOST_BUILT]:
            check = made_in_time(is_over, partial(problem.check_on_device, trial, ALL_LEVELS))
            if check is not None and check.measured is not None and check.measured.fits:
                found[trial.number] = check.measured.cycles, trial, check
    cycles, fastest, run = min(found.values(), key=lambda one: (one[0], one[1].number != best.number))
    keep_finalist(study, fastest, best)
    if fastest.number == best.number:
        return MeasuredFinalists(result, check=run)
    said = (
        f"Of {counted(len(found), 'finalist')} on the device trial {fastest.number} is the fastest, with {cycles:.0f} cycles; "
        f"trial {best.number}, the fastest by prediction, takes {found[best.number][0]:.0f}."
    )
    return MeasuredFinalists(with_best(result, fastest, space.objectives[0]), said, check=run)


def keep_finalist(study: Study, chosen: Trial, best: Trial, *, also_if_proved: bool = False) -> None:
    """Keep with the study which trial was chosen after the search, and which was the best before. `also_if_proved`: what it was chosen by
    is nothing that the proof is about."""
    beside = {"proved": True} if also_if_proved else {}
    study.keep_in_request(FINALIST, {"trial": chosen.number, "best": best.number, **beside})


def kept_finalist(problem: Problem, study: Study, result: Result) -> Result:
    """The result with the finalist as its best that was chosen earlier, by the device or on made-up inputs; as it is where the search has
    found a better one since, which was not compared, or has proved its own. A limit that only the device can tell of is another matter:
    what was found to keep it stays, whatever the search has found or proved by estimates. So does precision between candidates of the
    same losses where something is proved."""
    kept = study.stored_request().get(FINALIST)
    limited = isinstance(problem, LimitsLinkedFlash) and problem.linked_limit_bytes is not None
    if not isinstance(kept, dict) or result.best is None:
        return result
    if not limited and kept.get("best") != result.best.number:
        return result
    if result.proved and not (limited or kept.get("proved")):
        return result
    known = study.book.numbered(kept["trial"])
    return result if known is None else with_best(result, known, problem.space.objectives[0])


def with_best(result: Result, best: Trial, objective: Objective) -> Result:
    """The result with another trial as its best, which keeps all limits, on the device where the search could only estimate it."""
    gap = None if result.bound is None else relative_gap(best.metrics[objective.metric], result.bound)
    return replace(result, best=best, feasible=True, gap=gap)


def _finalists(study: Study, best: Trial, paper: Trial | None) -> Iterator[Trial]:
    """The best, the paper's answer, and those of the least predicted time that differ from one another."""
    ranking = Ranking.of(study.space)
    answer = None if paper is None else study.book.trial_of(paper.assignment)
    answers = [] if answer is None or ranking.violation(answer.measurement) else [answer]
    chosen: list[Trial] = []
    left = float(MOST_CYCLES)
    for trial in itertools.chain((best, *answers), study.book.best_first(ranking)):
        if trial in chosen or not (trial in answers or differs(trial, chosen)):
            continue
        left -= trial.metrics.get("cycles", 0.0)
        if left < 0.0 or len(chosen) == MOST_FINALISTS:
            return
        chosen.append(trial)
        yield trial


def apart(best_first: Iterable[Trial], most: int, *chosen: Trial) -> list[Trial]:
    """Those chosen, and of the trials the first ones, of those beside each other one; `most` together."""
    found = list(chosen)
    for trial in best_first:
        if len(found) == most:
            break
        if differs(trial, found):
            found.append(trial)
    return found


def differs(trial: Trial, chosen: Sequence[Trial]) -> bool:
    """Whether a trial differs from each of those chosen in LEAST_DISTANCE decisions."""
    return all(
        sum(option != other.assignment.get(name) for name, option in trial.assignment.items()) >= LEAST_DISTANCE
        for other in chosen
    )
