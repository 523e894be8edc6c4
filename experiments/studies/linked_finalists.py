"""Finalists of a search with a limit on the flash of whole programs, linked: the best of those that keep it.

A search goes by an estimate of what code takes (`kilotune.evaluators.code_size`), which is some per cent of the whole off. So the best by
estimate are linked, one after the other, until one keeps the limit; those that the estimate lets through only since it is off, as it is
for those that were linked, are passed over at first, and where none has kept it, linked from the smallest on. Where the estimate lets
nothing through, those are linked that it alone refuses, by a little. Where none of all these keeps the limit, there is a search within
a stricter one (`kilotune.experiments.studies.stricter_search`), or bytes are given up from the smallest on, until a program does
(`kilotune.experiments.studies.linked_descent`).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from kilotune.experiments.problems.device_check import DeviceCheck
from kilotune.experiments.problems.problem import LimitsLinkedFlash, Problem
from kilotune.experiments.studies.command_time import made_in_time, unheard
from kilotune.experiments.studies.finished_finalists import record_new
from kilotune.experiments.studies.linked_descent import BEYOND_DEVICE, ESTIMATE, LinkedDescent, bytes_linked
from kilotune.experiments.studies.measured_finalists import (
    MeasuredFinalists,
    differs,
    keep_finalist,
    kept_finalist,
    with_best,
)
from kilotune.experiments.studies.stricter_search import stricter_finalist
from kilotune.search.front import Ranking
from kilotune.search.result import Result
from kilotune.search.space import Measurement, Trial, asks_for_front
from kilotune.search.study import Study

MOST_LINKED = 24
"""Finalists that are linked, a fifth of a second each: first such that are likely to keep the limit, then as many that are small."""

DOUBT = 0.05
"""By which share of the limit a program may be beyond it, when it is estimated as those that were linked, and yet is linked first.
Each that is linked in vain lowers that, down to as much below the limit: finalists lie at the limit of their estimates, and may all be
larger by chance (of LeNet's the first 24 were, so that the smallest of all was delivered, at 11 points of accuracy)."""

REFUSED = 0.15
"""By which share of the limit an estimate may be beyond it, and the program is yet linked, where no estimate is within it."""

MOST_CONSIDERED = 1000
"""Those of them that are looked at, whatever their estimates are."""


def linked_finalist(
    problem: Problem, study: Study, result: Result, is_over: Callable[[], bool], tell: Callable[[str], None] = unheard
) -> MeasuredFinalists | None:
    """Link finalists and keep with the study the first that keeps the limit: of a front the most precise one. None without such a limit;
    where `is_over` says that there is no time, what an earlier run has kept. None as well where no candidate keeps the other limits.
    """
    limit = problem.linked_limit_bytes if isinstance(problem, LimitsLinkedFlash) else None
    if limit is None or result.best is None:
        return None
    assert isinstance(problem, LimitsLinkedFlash)
    whole = asks_for_front(problem.space)
    linked = dict[int, int]()
    in_order = list(reversed(result.front)) if whole else _ranked(study, result.best)
    if not result.feasible and not (in_order := _refused(study, limit)):
        return None
    for trial in _likely(in_order, linked, limit):
        tell(f"linking finalists, {len(linked) + 1} so far")
        found = made_in_time(is_over, partial(bytes_linked, problem, trial))
        if found is None:
            break
        linked[trial.number] = found
        if found <= limit:
            first = in_order[0].number
            said = f"Trial {trial.number} links to {found} bytes, the best of {len(linked)} that were linked within {limit}"
            said += "." if trial.number == first else f": trial {first}, the best by estimate, takes {linked[first]}."
            if not whole:
                earlier = kept_finalist(problem, study, result).best or trial
                trial, further = _descended(problem, study, trial, earlier, linked, is_over, tell)
                said += further
            keep_finalist(study, trial, study.result().best or result.best)
            return MeasuredFinalists(with_best(result, trial, problem.space.objectives[0]), said)
    kept = kept_finalist(problem, study, result)
    if kept is not result:
        return MeasuredFinalists(kept)
    if linked and not whole and not is_over():
        reached, said = _smaller(problem, study, linked, limit, is_over, tell)
        if reached is not None:
            keep_finalist(study, reached, study.result().best or result.best)
            return MeasuredFinalists(with_best(result, reached, problem.space.objectives[0]), said)
    return MeasuredFinalists(result, _none_within(limit, linked, result.best), kept=False)


def _none_within(limit: int, linked: Mapping[int, int], best: Trial) -> str:
    """The sentence about so many finalists, none of which keeps the limit, and the best, which is shown."""
    if linked and min(linked.values()) >= BEYOND_DEVICE:
        return f"None of {len(linked)} finalists can be linked: the device has no room for any."
    least = f"the smallest of {len(linked)} takes {min(linked.values())}" if linked else "none was, for want of time"
    size = linked.get(best.number)
    shown = f"trial {best.number}, which is shown, {'may take more, too' if size is None else f'takes {size}'}"
    return f"No finalist was linked within {limit} bytes: {least}; {shown}."


def linked_as_built(problem: Problem, finalists: MeasuredFinalists, check: DeviceCheck | None) -> MeasuredFinalists:
    """The finalists once the best of them has been built for its device, which is linked there: where there was no time for others, that
    tells whether it keeps the limit."""
    limit = problem.linked_limit_bytes if isinstance(problem, LimitsLinkedFlash) else None
    best, built = finalists.result.best, None if check is None else check.measured
    if finalists.kept or limit is None or best is None or built is None or built.sizes.flash_bytes > limit:
        return finalists
    size = built.sizes.flash_bytes
    said = f"Trial {best.number} links to {size} bytes as it is built for the device, within {limit}; others were not linked."
    return replace(finalists, said=said, kept=True)


def _descended(
    problem: LimitsLinkedFlash,
    study: Study,
    first: Trial,
    earlier: Trial,
    linked: Mapping[int, int],
    is_over: Callable[[], bool],
    tell: Callable[[str], None],
) -> tuple[Trial, str]:
    """What a descent from the finalist comes to in time, one of the study's trials from now on, and a sentence where that is better.
    `earlier`: what was kept before, which stays where nothing is better."""
    descent = LinkedDescent(problem, study, first, linked, tell)
    descent.offer(earlier)
    made_in_time(is_over, descent.run)
    best = descent.best
    if best.number == first.number:
        return first, ""
    record_new(study, [best])
    best = study.book.trial_of(best.assignment) or best
    said = f" A descent from there, which linked {descent.linked}, comes to trial {best.number}, of {descent.bytes_of_best} bytes."
    return best, said


def _smaller(
    problem: Problem,
    study: Study,
    linked: dict[int, int],
    limit: int,
    is_over: Callable[[], bool],
    tell: Callable[[str], None],
) -> tuple[Trial | None, str]:
    """Where no finalist keeps the limit: the better of what a descent from the smallest reaches and of what another search finds within a
    stricter limit, one of the study's trials from now on, and a sentence; None where neither keeps it."""
    assert isinstance(problem, LimitsLinkedFlash)
    least = min(linked, key=lambda number: (linked[number], number))
    said = f"None of {len(linked)} finalists linked within {limit} bytes, the smallest to {linked[least]}."
    smallest = study.book.numbered(least)
    assert smallest is not None
    descent = LinkedDescent(problem, study, smallest, linked, tell)
    made_in_time(is_over, descent.reached)  # which takes seconds, so that there is a program
    found = stricter_finalist(problem, study, linked, limit, is_over, tell)
    if found is not None:
        earlier = descent.best if descent.is_within else found
        best, further = _descended(problem, study, found, earlier, linked, is_over, tell)
        return (
            best,
            f"{said} Trial {found.number}, of a search within a stricter limit, links to {linked[found.number]}.{further}",
        )
    if not descent.is_within:
        return None, ""
    made_in_time(is_over, descent.run)
    record_new(study, [descent.best])
    best = study.book.trial_of(descent.best.assignment) or descent.best
    said += f" A descent from it, which linked {descent.linked}, comes to trial {best.number}, of {descent.bytes_of_best} bytes."
    return best, said


def _refused(study: Study, limit: int) -> list[Trial]:
    """Those that no other limit than that of linked flash refuses, and by a little, the best first."""
    ranking = Ranking.of(study.space)
    others = tuple(constraint for constraint in ranking.constraints if constraint.metric != ESTIMATE)

    def is_near(measurement: Measurement) -> bool:
        return measurement.metrics.get(ESTIMATE, math.inf) <= (1.0 + REFUSED) * limit

    return _apart(study.book.best_first(Ranking(ranking.objectives, others), is_near), [])


def _ranked(study: Study, best: Trial) -> list[Trial]:
    """Those within the limits by estimate, the best first."""
    return _apart(study.book.best_first(Ranking.of(study.space)), [best])


def _apart(best_first: Iterable[Trial], chosen: list[Trial]) -> list[Trial]:
    """Those chosen, and of the trials the first ones, of those beside each other one."""
    for trial in best_first:
        if differs(trial, chosen):
            chosen.append(trial)
            if len(chosen) == MOST_CONSIDERED:
                break
    return chosen


def _likely(in_order: Sequence[Trial], linked: Mapping[int, int], limit: int) -> Iterator[Trial]:
    """Those that keep the limit by their estimate, as far as it is off for those that were linked so far; then the smallest."""
    estimates = {trial.number: trial.metrics.get(ESTIMATE, 0.0) for trial in in_order}
    for trial in in_order:
        off = statistics.median(size - estimates[number] for number, size in linked.items()) if linked else 0.0
        doubt = DOUBT * (1.0 - 2.0 * len(linked) / MOST_LINKED)
        if len(linked) < MOST_LINKED and estimates[trial.number] + off <= (1.0 + doubt) * limit:
            yield trial
    others = [trial for trial in in_order if trial.number not in linked]
    yield from sorted(others, key=lambda trial: estimates[trial.number])[:MOST_LINKED]
