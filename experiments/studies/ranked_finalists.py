"""Finalists of a search for classifiers, ranked again: by inputs that none of them was chosen by.

What a search ranks first is partly lucky on the training samples: it flips a few less there than the next hundred, and not elsewhere. So
of those that are as good in all that comes before precision the one is taken that is likely to change the fewest classes of made-up
inputs (`kilotune.evaluators.fixed_point.fewest_flips`). The paper's procedure's answer is none of these: what is taken is compared with it
on further inputs (`confirmed_finalists`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial

from kilotune.evaluators.fixed_point.fewest_flips import MOST_RANKED
from kilotune.experiments.problems.problem import Problem, RanksByFlips
from kilotune.experiments.studies.command_time import made_in_time, unheard
from kilotune.experiments.studies.finished_finalists import finishes_finalists, is_whole
from kilotune.experiments.studies.measured_finalists import (
    FINALIST,
    PRECISION,
    TIMED,
    MeasuredFinalists,
    keep_finalist,
    with_best,
)
from kilotune.search.front import Rank, Ranking
from kilotune.search.result import Result
from kilotune.search.space import Trial, asks_for_front
from kilotune.search.study import Study


def losses_in_common(study: Study, result: Result) -> int | None:
    """How many losses, the first ones, candidates must have in common to be told apart by flips on new inputs: those before precision, and
    where the best has been proved to be expected to flip the fewest samples, these as well. None where they are not told apart: some
    limit is not kept, a front is asked for, or time, which the device tells."""
    names = [objective.metric for objective in study.space.objectives]
    whole = asks_for_front(study.space)
    if whole or names[0] in TIMED or not result.feasible or PRECISION not in names:
        return None
    before = names.index(PRECISION)
    return 1 if before == 0 and result.proved else before


def ranked_finalist(
    problem: Problem,
    study: Study,
    result: Result,
    paper: Trial | None,
    is_over: Callable[[], bool],
    tell: Callable[[str], None] = unheard,
) -> MeasuredFinalists | None:
    """The result with that candidate as its best, which may be the best of the search. None where candidates are finished, which compares
    them, and where there is nothing to choose or no time for it. `paper`: the procedure's answer. Nothing is kept (`keep_ranked`), since
    another comparison follows."""
    best, common = result.best, losses_in_common(study, result)
    if best is None or common is None or not isinstance(problem, RanksByFlips) or finishes_finalists(problem):
        return None
    alike = list(itertools.islice(_alike(study, best, common, paper), MOST_RANKED))
    if len(alike) < 2:
        return None
    tell("running the best candidates on made-up inputs")
    found = made_in_time(is_over, partial(problem.fewest_flips, alike))
    if found is None:
        return None
    chosen = alike[found.place]
    if chosen.number == best.number:
        return MeasuredFinalists(result)
    said = (
        f"Of the {found.programs} best candidates trial {chosen.number} is likely to change the class of the fewest inputs like the "
        f"training samples, by {found.inputs} made-up ones; trial {best.number} is the best by the samples."
    )
    return MeasuredFinalists(with_best(result, chosen, study.space.objectives[0]), said)


def keep_ranked(study: Study, ranked: MeasuredFinalists, result: Result, is_over: Callable[[], bool]) -> bool:
    """Keep with the study what was chosen, instead of the best of the search. False where an earlier run had time for all comparisons and
    this one had not: what that run has kept stays."""
    chosen, best = ranked.result.best, study.result().best or result.best
    assert chosen is not None
    assert best is not None
    earlier = FINALIST in study.stored_request()
    if earlier and is_over():
        return False
    if earlier or chosen.number != best.number:
        keep_finalist(study, chosen, best, also_if_proved=True)
    return True


def _alike(study: Study, best: Trial, common: int, paper: Trial | None) -> Iterator[Trial]:
    """The best and those of the same first losses, so many, the most precise first, one of each precision; without the procedure's answer
    and what is as precise, unless that is the best."""
    ranking = Ranking.of(study.space)

    def precision(trial: Trial) -> Rank:
        """Under limits margins tell apart what flips nothing."""
        return ranking.losses(trial.measurement)[: max(2, common + 1)]

    answer = None if paper is None else study.book.trial_of(paper.assignment)
    known = set[Rank]() if answer is None or precision(answer) == precision(best) else {precision(answer)}
    for trial in study.book.best_first(ranking, is_whole):
        precise = precision(trial)
        if precise[:common] != precision(best)[:common]:
            return
        if precise not in known:
            known.add(precise)
            yield trial
