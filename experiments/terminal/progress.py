"""The progress of a search on stderr: a live view on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from types import TracebackType

from kilotune.experiments.presentation.wording import counted, gap_text, rate_text
from kilotune.experiments.problems.problem import Problem
from kilotune.experiments.terminal.budget_usage import going_on_for
from kilotune.experiments.terminal.live_display import LiveDisplay
from kilotune.experiments.terminal.live_view import LiveView, SearchSubject
from kilotune.search.result import Progress
from kilotune.search.space import Objective
from kilotune.search.study import Study


class ProgressDisplay(AbstractContextManager["ProgressDisplay"]):
    """Call it with every `Progress`. Silent when `quiet`."""

    def __init__(self, problem: Problem, study: Study, quiet: bool) -> None:
        self._objectives = study.space.objectives
        self._view = LiveView(SearchSubject(problem.request.space, problem.name), study)
        self._display = LiveDisplay(quiet, self._view, is_erased=True)  # the summary says it all

    def __enter__(self) -> ProgressDisplay:
        self._display.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._display.__exit__(kind, error, trace)

    def __call__(self, progress: Progress) -> None:
        """Show where the search stands."""
        if self._display.is_redrawn:
            self._view.receive(progress)
        else:
            self._display.line_if_due(lambda: describe(progress, self._objectives))

    def conclude(self, doing: str) -> None:
        """Say what is being done after the search."""
        if self._display.is_redrawn:
            self._view.conclude(doing)
        else:
            self._display.line_if_due(lambda: f"after the search: {doing}")


def describe(progress: Progress, objectives: tuple[Objective, ...]) -> str:
    """`1234 trials, 567/s | best memory_bytes 794, disagreements 1 | bound 794, gap 0.0 % | 12 s left`."""
    parts = [f"{counted(progress.trials, 'trial')}, {rate_text(progress.trials_per_s)}"]
    if progress.incumbent is not None:
        metrics = progress.incumbent.measurement.metrics
        values = ", ".join(f"{o.metric} {metrics.get(o.metric, math.nan):.6g}" for o in objectives)
        parts.append(f"{'best' if progress.feasible else 'nearest (breaks a limit)'} {values}")
    if progress.bound is not None and math.isfinite(progress.bound):
        gap = "" if progress.gap is None else f", gap {gap_text(progress.gap)}"
        parts.append(f"bound {progress.bound:.6g}{gap}")
    if progress.proved_s is not None and len(objectives) > 1:
        parts.append(f"proved after {progress.proved_s:.1f} s, going on for {going_on_for(objectives)}")
    if math.isfinite(progress.seconds_left):
        parts.append(f"{progress.seconds_left:.0f} s left")
    elif math.isfinite(progress.trials_left):
        parts.append(f"{counted(progress.trials_left, 'trial')} left")
    return " | ".join(parts)
