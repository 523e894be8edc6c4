"""What is to be used of a study: chosen once, after its search, and kept with it. Reports, exports and pages read it and choose nothing."""

from __future__ import annotations

from dataclasses import dataclass

from kilotune.experiments.problems.placing import FinalistPlacing, kept_placing
from kilotune.experiments.problems.problem import LimitsLinkedFlash, Problem
from kilotune.experiments.studies.linked_finalists import linked_in_vain, none_within
from kilotune.experiments.studies.measured_finalists import MeasuredFinalists, kept_finalist
from kilotune.search.result import Result
from kilotune.search.space import Trial
from kilotune.search.study import Study


@dataclass(frozen=True)
class Delivery:
    """`finalists`: the result with the chosen one as its best; `placing`: what was found of candidates on a board, where they are hardware
    and some were tried, or should have been."""

    finalists: MeasuredFinalists
    placing: FinalistPlacing | None = None


def kept_delivery(problem: Problem, study: Study, result: Result) -> Delivery:
    """What the last run that chose anything has kept. Where the flash of whole programs is limited and none has, it is not known whether
    the best keeps that."""
    kept = kept_finalist(problem, study, result)
    limit = problem.linked_limit_bytes if isinstance(problem, LimitsLinkedFlash) else None
    finalists = MeasuredFinalists(kept)
    if limit is not None and kept is result and result.best is not None:
        finalists = MeasuredFinalists(kept, _none_linked(study, limit, result.best), kept=False)
    return Delivery(finalists, kept_placing(study))


def _none_linked(study: Study, limit: int, best: Trial) -> str:
    """Whether that was tried, and what goes on with it."""
    in_vain = linked_in_vain(study)
    if in_vain:
        return f"{none_within(limit, in_vain, best)} `tune resume {study.name}` searches and links on."
    return f"No finalist has been linked within {limit} bytes yet: `tune resume {study.name}` links some."
