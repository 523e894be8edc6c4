"""Progress on stderr: a live view on a terminal, plain lines elsewhere; results go to stdout."""

from __future__ import annotations

import math
import sys
import time
from contextlib import AbstractContextManager
from types import TracebackType

from rich.console import Console
from rich.live import Live

from kilotune.experiments.presentation.wording import rate_text
from kilotune.experiments.problems.problem import Problem
from kilotune.experiments.terminal.live_view import LiveView, SearchSubject
from kilotune.experiments.terminal.usage import going_on_for
from kilotune.search.result import Progress
from kilotune.search.space import Objective
from kilotune.search.study import Study

PLAIN_LINE_EVERY_S = 5.0
FIRST_PLAIN_LINE_S = 2.0
DRAWN_PER_S = 4


class ProgressDisplay(AbstractContextManager["ProgressDisplay"]):
    """Call it with every `Progress`. Silent when `quiet`."""

    def __init__(self, problem: Problem, study: Study, quiet: bool) -> None:
        self._objectives = study.space.objectives
        self._console = Console(stderr=True, quiet=quiet)
        self._view = LiveView(SearchSubject(problem.request.space, problem.name), study)
        self._live: Live | None = None
        if draws(self._console) and not quiet:
            self._live = live(self._view, self._console)
        self._next_line_s = FIRST_PLAIN_LINE_S
        self._started_s = time.monotonic()

    def __enter__(self) -> ProgressDisplay:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.transient = kind is None  # the summary says it all; after an error this is what is left
            self._live.stop()

    def __call__(self, progress: Progress) -> None:
        """Show where the search stands."""
        if self._live is not None:
            self._view.receive(progress)
        elif time.monotonic() - self._started_s >= self._next_line_s:
            self._next_line_s = time.monotonic() - self._started_s + PLAIN_LINE_EVERY_S
            self._console.print(describe(progress, self._objectives), highlight=False, markup=False, soft_wrap=True)


def draws(console: Console) -> bool:
    """Whether lines can be drawn again there. A pipe stays a pipe when the environment forces colours."""
    return sys.stderr.isatty() and console.is_terminal and not console.is_dumb_terminal


def live(view: object, console: Console) -> Live:
    """`view`, a renderable, drawn again and again by a thread of its own. What others write to stdout goes there."""
    return Live(
        console=console,
        refresh_per_second=DRAWN_PER_S,
        redirect_stdout=False,
        get_renderable=lambda: view,  # type: ignore[arg-type,return-value]
    )


def describe(progress: Progress, objectives: tuple[Objective, ...]) -> str:
    """`1234 trials, 567/s | best memory_bytes 794, disagreements 1 | bound 794, gap 0.0 % | 12 s left`."""
    parts = [f"{progress.trials} trials, {rate_text(progress.trials_per_s)}"]
    if progress.incumbent is not None:
        metrics = progress.incumbent.measurement.metrics
        values = ", ".join(f"{o.metric} {metrics.get(o.metric, math.nan):.6g}" for o in objectives)
        parts.append(f"{'best' if progress.feasible else 'nearest (breaks a limit)'} {values}")
    if progress.bound is not None and math.isfinite(progress.bound):
        gap = "" if progress.gap is None else f", gap {100 * progress.gap:.1f} %"
        parts.append(f"bound {progress.bound:.6g}{gap}")
    if progress.proved_s is not None and len(objectives) > 1:
        parts.append(f"proved after {progress.proved_s:.1f} s, going on for {going_on_for(objectives)}")
    if math.isfinite(progress.seconds_left):
        parts.append(f"{progress.seconds_left:.0f} s left")
    elif math.isfinite(progress.trials_left):
        parts.append(f"{progress.trials_left:.0f} trials left")
    return " | ".join(parts)
