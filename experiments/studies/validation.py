"""The finalists of a search on samples that were held out of it."""

from __future__ import annotations

from dataclasses import dataclass

from kilotune.experiments.problems.problem import HoldsOutData, Problem
from kilotune.search.result import Result
from kilotune.search.space import Metrics, Trial

MOST_FINALISTS = 50
"""Candidates of the front that are measured there, from its first."""


@dataclass(frozen=True)
class Validation:
    """Metrics on the samples held out: of the best, of the procedure's answer, and of the front's first candidates."""

    best: Metrics | None = None
    procedure: Metrics | None = None
    front: tuple[Metrics, ...] = ()


NOTHING_HELD_OUT = Validation()


def validated(problem: Problem, result: Result, procedure: Trial | None) -> Validation:
    """`NOTHING_HELD_OUT` where the search saw all samples."""
    if not isinstance(problem, HoldsOutData):
        return NOTHING_HELD_OUT
    alone = [trial for trial in (result.best, procedure) if trial is not None]
    measured = problem.validation_metrics([t.assignment for t in (*alone, *result.front[:MOST_FINALISTS])])
    if measured is None:
        return NOTHING_HELD_OUT
    best = measured[0] if result.best is not None else None
    return Validation(best, measured[len(alone) - 1] if procedure is not None else None, tuple(measured[len(alone) :]))
