"""A finished (or interrupted) comparison as table, JSON, CSV and report take it."""

from __future__ import annotations

from dataclasses import dataclass

from kilotune.experiments.problem import Problem
from kilotune.search.comparison import Comparison, RunRecord


@dataclass(frozen=True, eq=False)
class CaseOutcome:
    """One space on one input. `studies`: the stored study of every run, by strategy and seed."""

    title: str
    problem: Problem
    comparison: Comparison
    studies: dict[tuple[str, int], str]

    def best_run(self) -> RunRecord:
        """Of the best standing, the run with the least loss."""
        return min(self.comparison.standings[0].runs, key=lambda run: (run.curve.loss, run.seed))


@dataclass(frozen=True, eq=False)
class ComparisonOutcome:
    """All cases. `budget` as it was asked for; its seconds are CPU seconds of a run."""

    name: str
    cases: tuple[CaseOutcome, ...]
    strategies: tuple[str, ...]
    repeats: int
    budget: str
