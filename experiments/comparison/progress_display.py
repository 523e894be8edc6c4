"""A comparison while it runs, on stderr: a few lines that are redrawn on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from types import TracebackType

from rich.console import Group
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.text import Text

from kilotune.experiments.comparison.plan import ComparisonPlan, RunKey
from kilotune.experiments.comparison.run_news import RunFinished, RunNews
from kilotune.experiments.presentation.wording import counted
from kilotune.experiments.terminal.live_display import LiveDisplay


class ComparisonDisplay(AbstractContextManager["ComparisonDisplay"]):
    """Call it with all news of runs. Silent when `quiet`."""

    def __init__(self, plan: ComparisonPlan, missing: int, jobs: int, quiet: bool) -> None:
        self._plan, self._missing, self._jobs = plan, missing, jobs
        self._all = sum(1 for _ in plan.runs())
        self._running: dict[RunKey, RunNews] = {}
        self._finished = 0
        self._display = LiveDisplay(quiet)

    def __enter__(self) -> ComparisonDisplay:
        self._display.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._display.__exit__(kind, error, trace)

    def announce(self, text: str) -> None:
        """A line that stays above what is redrawn; none where there is nothing to say."""
        if text:
            self._display.line(text)

    def say(self, text: str) -> None:
        """A line about what is done besides the runs."""
        if self._display.is_redrawn:
            self._display.draw(Text(text))
        else:
            self._display.line(text)

    def __call__(self, news: RunNews | RunFinished) -> None:
        """Show where the runs stand."""
        if isinstance(news, RunFinished):
            self._running.pop(news.run, None)
            self._finished += 1
        else:
            self._running[news.run] = news
        now_s = self._display.elapsed_s()
        if self._display.is_redrawn:
            self._display.draw(self.drawn(now_s))
        else:
            running = self._running.values()
            self._display.line_if_due(lambda: " | ".join([self._overall(now_s), *map(self._describe, running)]))

    def drawn(self, now_s: float) -> Group:
        """What a terminal shows: all runs, then a line for each running one, or several where it is narrow."""
        bar = Padding(ProgressBar(total=self._all, completed=self._done, width=40), 0)  # by itself it ends no line
        lines = [Text(self._describe(one)) for one in self._running.values()]
        return Group(Text(self._overall(now_s)), bar, *lines)

    @property
    def _done(self) -> int:
        return self._all - self._missing + self._finished

    def _overall(self, now_s: float) -> str:
        left = self._missing - self._finished
        pace = ""
        if self._finished >= self._jobs:
            pace = f", about {_time(now_s / self._finished * left)} left"
        elif self._plan.limits.seconds != float("inf"):
            rounds = math.ceil(left / self._jobs)  # of the last, some workers have nothing to do
            pace = f", at most {_time(self._plan.limits.seconds * rounds)} left"
        return f"{self._done} of {counted(self._all, 'run')}{pace}"

    def _describe(self, news: RunNews) -> str:
        case = self._plan.cases[news.run.case]
        best = "nothing yet" if news.best is None else f"{'' if news.feasible else 'infeasible '}{news.best:.6g}"
        bound = "" if news.bound is None else f", bound {news.bound:.6g}"
        return (
            f"{case.title}, {news.run.strategy}, seed {news.run.seed}: {best}{bound} "
            f"after {counted(news.trials, 'trial')}, {news.seconds:.1f} CPU-s"
        )


def _time(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{seconds:.0f} s" if seconds < 90 else f"{minutes} min" if minutes < 120 else f"{seconds / 3600:.1f} h"
