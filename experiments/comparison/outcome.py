"""A finished (or interrupted) comparison as table, JSON, CSV and report take it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from kilotune.experiments.comparison.plan import Case, ComparisonPlan
from kilotune.experiments.presentation.wording import counted
from kilotune.experiments.problems.problem import Problem
from kilotune.search.comparison import Comparison, RunRecord
from kilotune.search.hypervolume import compared_objective
from kilotune.search.result import as_metric
from kilotune.search.space import Objective, reference_point


@dataclass(frozen=True)
class PaperResult:
    """What the paper's procedure reaches by itself: `loss` of the first objective, +inf when it breaks a limit."""

    loss: float
    evaluations: int


@dataclass(frozen=True, eq=False)
class CaseOutcome:
    """One space on one input. `studies`: the stored study of every run, by strategy and seed. `wanted`: how many runs the
    plan has; those that are there are in the comparison, also unfinished ones."""

    case: Case
    problem: Problem
    comparison: Comparison
    paper: PaperResult | None
    studies: dict[tuple[str, int], str]
    wanted: int
    verdict: str

    @property
    def title(self) -> str:
        """Short."""
        return self.case.title

    @property
    def objective(self) -> Objective:
        """What the runs are compared by."""
        return compared_objective(self.problem.space)

    @property
    def reference_point(self) -> dict[str, float] | None:
        """What the hypervolume is measured from, by metric; None where no front is asked for."""
        space = self.problem.space
        losses = reference_point(space)
        if losses is None:
            return None
        return {o.metric: as_metric(loss, o) or 0.0 for o, loss in zip(space.objectives, losses, strict=True)}

    @property
    def complete(self) -> bool:
        """Whether every run has used its budget or come to its end."""
        runs = [run for standing in self.comparison.standings for run in standing.runs]
        return len(runs) == self.wanted and all(run.complete for run in runs)

    @property
    def unfinished(self) -> str:
        """A sentence; empty when all runs are complete."""
        if self.complete:
            return ""
        done = sum(run.complete for standing in self.comparison.standings for run in standing.runs)
        return f"{done} of {counted(self.wanted, 'run')} are complete; the others are shown as far as they came."

    def best_run(self) -> RunRecord:
        """The run with the least loss, of the best standing where several have it."""
        runs = [run for standing in self.comparison.standings for run in standing.runs]
        return min(runs, key=lambda run: run.curve.loss)


@dataclass(frozen=True, eq=False)
class ComparisonOutcome:
    """All cases that have a run."""

    name: str
    plan: ComparisonPlan
    cases: tuple[CaseOutcome, ...]

    @property
    def complete(self) -> bool:
        """Whether nothing is missing."""
        return not self.unfinished and all(case.complete for case in self.cases)

    @property
    def feasible(self) -> bool:
        """Whether any run of any case found a candidate that meets the limits."""
        return any(math.isfinite(case.best_run().curve.loss) for case in self.cases)

    @property
    def unfinished(self) -> str:
        """A sentence on cases of which nothing is known yet; empty when there are none."""
        began, all_of_them = len(self.cases), len(self.plan.cases)
        return "" if began == all_of_them else f"{began} of {counted(all_of_them, 'case')} have runs."
