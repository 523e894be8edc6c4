"""A search within a stricter limit on the flash of whole programs, where no finalist of the first links within the one asked for.

Where the estimate that a search goes by is too low for the kind of programs that it has settled at, all its finalists are too large, and
those of other kinds, such as narrower parameters and the code that unpacks them, are many changes away. So the search is made anew,
twice at most, for as many bytes fewer as the smallest finalist is beyond the limit, as a user would.
"""

from __future__ import annotations

from functools import partial

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.experiments.problems.problem import NarrowsLinkedFlash
from kilotune.experiments.studies.finished_finalists import NEW, record_new
from kilotune.experiments.studies.linked_programs import Linking
from kilotune.experiments.studies.measured_finalists import apart
from kilotune.search.budget import Budget
from kilotune.search.front import Ranking
from kilotune.search.space import Assignment, Trial
from kilotune.search.study import Study

MOST_TRIALS = 4000
"""Trials of a stricter search; it has no more than the first search had."""

SEARCHES = 2
"""The second one for as many bytes fewer again as the smallest finalist of the first is beyond."""

MOST_LINKED = 12
"""Finalists of a stricter search that are linked."""


def stricter_finalist(linking: Linking) -> Trial | None:
    """The best of such a search that links within the limit, one of the study's trials from now on, with its bytes among those of the
    study's own finalists; None where there is none, in time, or where the problem cannot be searched so."""
    problem, study, limit = linking.problem, linking.study, linking.limit
    if not isinstance(problem, NarrowsLinkedFlash):
        return None
    goal, beyond = limit, min(linking.sizes.values()) - limit
    for _ in range(SEARCHES):
        goal -= beyond
        if goal <= 0:
            return None
        linking.tell(
            f"searching within {goal} bytes, since none of {len(linking.sizes)} finalists links within {limit}"
        )
        finalists = linking.in_time(partial(_searched, problem, study, goal))
        sizes = list[int]()
        for trial in finalists or ():
            size = linking.bytes_of(trial)
            if size is None:
                return None
            if size <= limit:
                record_new(study, [trial])
                known = study.book.trial_of(trial.assignment) or trial
                linking.sizes[known.number] = size
                return known
            sizes.append(size)
        if not sizes:
            return None
        beyond = min(sizes) - limit
    return None


def _searched(problem: NarrowsLinkedFlash, study: Study, goal: int) -> list[Trial]:
    """The best within so many bytes by estimate, measured as those of the study are."""
    try:
        stricter = problem.within_linked(goal)
    except (ValueError, OSError):  # the input is read again, and may have changed
        return []
    again = Study(stricter.space, stricter.request.strategy, study.seed)
    trials = min(MOST_TRIALS, study.result().evaluations)
    again.run(InProcessExecutor(stricter.space), Budget(trials=trials), handle_interrupts=False)
    best = _beside_each_other_first(list(again.book.best_first(Ranking.of(stricter.space))))
    known = [study.book.trial_of(trial.assignment) for trial in best]
    return [
        trial if trial is not None and trial.metrics else _measured(study, one.assignment)
        for one, trial in zip(best, known, strict=True)
    ]


def _beside_each_other_first(best_first: list[Trial]) -> list[Trial]:
    """The first ones, of those beside each other one, which often compute the same; these after them where there are not so many."""
    first = apart(best_first, MOST_LINKED)
    return [*first, *(trial for trial in best_first if trial not in first)][:MOST_LINKED]


def _measured(study: Study, candidate: Assignment) -> Trial:
    (measurement,) = study.space.evaluate([candidate])
    return Trial(NEW, candidate, measurement)
