"""The running search as a few lines of a terminal: drawn from the last report, with a clock that goes on between reports."""

from __future__ import annotations

import datetime
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.progress_bar import ProgressBar
from rich.segment import Segment
from rich.text import Text

from kilotune.experiments.presentation.wording import counted, gap_text, number, rate_text
from kilotune.experiments.problems.metric_names import metric_label
from kilotune.experiments.problems.registry import metric_words
from kilotune.experiments.terminal.budget_usage import extreme, going_on_for
from kilotune.experiments.terminal.sparkline import ASCII_BLOCKS, BLOCKS, best_so_far_at, sparkline
from kilotune.search.result import Progress, Status
from kilotune.search.space import Constraint
from kilotune.search.study import Study

OTHER_METRICS = 4
"""The most metrics of the incumbent that are shown besides objectives and limits."""
WIDEST_SPARKLINE = 24
LABEL_CELLS = 7


@dataclass(frozen=True)
class SearchSubject:
    """What is being searched, for the first line."""

    space: str
    input: str


class LiveView:
    """A Rich renderable. `receive` takes reports, from the thread of the search; another one may draw at any time."""

    def __init__(self, asked: SearchSubject, study: Study, clock: Callable[[], float] = time.monotonic) -> None:
        self._asked, self._study, self._clock = asked, study, clock
        self._known = len(study.book)
        self._last: tuple[Progress, float] | None = None  # and when it came
        self._improvements: tuple[tuple[float, float], ...] = ()  # (seconds of this run, first objective)
        self._started_s = clock()
        self._doing = "finishing"  # once the search is over

    def receive(self, progress: Progress) -> None:
        """A new report."""
        if progress.feasible and progress.incumbent is not None:
            value = progress.incumbent.measurement.metrics[self._study.space.objectives[0].metric]
            if not self._improvements or self._improvements[-1][1] != value:
                self._improvements += ((progress.elapsed_s, value),)
        self._last = (progress, self._clock())

    def conclude(self, doing: str) -> None:
        """What is being done after the search."""
        self._doing = doing

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        yield from self.lines(width, options.ascii_only)
        if self._last is None:
            return
        progress, since_s = self._last[0], self._since_s()
        share, words = done(progress, since_s), f" {clock_text(progress, since_s)}"
        if share is None:
            yield Text(words.strip())
            return
        bar = ProgressBar(total=1.0, completed=share, width=max(4, min(40, width - len(words))))
        yield from console.render(bar, options)
        yield Segment(words[: width - 4])
        yield Segment.line()

    def lines(self, width: int, ascii_only: bool = False) -> list[Text]:
        """All but the bar, each at most `width` cells."""
        study, asked, dot = self._study, self._asked, " - " if ascii_only else " · "
        head = [Text(f"{asked.space} on {asked.input}", style="bold"), Text(study.strategy), Text(f"seed {study.seed}")]
        lines = packed("", [*head, Text(study.name, style="dim")], width, dot)
        if self._last is None:
            waited_s = self._clock() - self._started_s
            doing = f"replaying {counted(self._known, 'trial')}" if self._known else "starting"
            return [*lines, Text(f"{doing}, {duration(waited_s)}")]
        progress = self._last[0]
        for name, items in (
            ("best" if progress.feasible else "nearest", self._best(progress, width, ascii_only)),
            ("also", self._others(progress)),
            ("limits", self._limits(progress, ascii_only)),
            ("bound", self._bound(progress)),
        ):
            if items:
                lines += packed(name, items, width, dot)
        if study.status is not Status.RUNNING:
            lines.append(_fitting(f"{study.status.value}: {self._doing}", width, "bold"))
        elif study.stopped:
            lines.append(_fitting("stopping; Ctrl-C again: at once", width, "bold"))
        return lines

    def _best(self, progress: Progress, width: int, ascii_only: bool) -> list[Text]:
        if progress.incumbent is None:
            return [Text("none yet")]
        metrics = progress.incumbent.measurement.metrics
        values = (
            f"{metric_label(o.metric)} {number(metrics.get(o.metric, math.nan))}" for o in self._study.space.objectives
        )
        items = [Text(value, style="bold") for value in values]
        if len(self._improvements) > 1:
            cells = min(WIDEST_SPARKLINE, max(4, width // 3))
            reached = best_so_far_at(self._improvements, progress.elapsed_s + self._since_s(), cells)
            items.insert(1, Text(sparkline(reached, ASCII_BLOCKS if ascii_only else BLOCKS).strip(), style="cyan"))
        return items

    def _others(self, progress: Progress) -> list[Text]:
        if progress.incumbent is None:
            return []
        space, metrics = self._study.space, progress.incumbent.measurement.metrics
        told = {o.metric for o in space.objectives} | {c.metric for c in space.constraints}
        shown = [(text, metrics[name]) for name, text in metric_words() if name in metrics and name not in told]
        return [Text(f"{text} {number(value)}") for text, value in shown[:OTHER_METRICS]]

    def _limits(self, progress: Progress, ascii_only: bool) -> list[Text]:
        if progress.incumbent is None:
            return []
        metrics = progress.incumbent.measurement.metrics
        return [limit_text(c, metrics.get(c.metric, math.nan), ascii_only) for c in self._study.space.constraints]

    def _bound(self, progress: Progress) -> list[Text]:
        known = progress.bound is not None and math.isfinite(progress.bound)
        items = [Text(number(progress.bound) if known and progress.bound is not None else "none known")]
        if progress.gap is not None and math.isfinite(progress.gap):
            items.append(Text(f"gap {gap_text(progress.gap)}", style="green" if progress.gap == 0 else ""))
        objectives = self._study.space.objectives
        if progress.proved_s is not None and len(objectives) > 1:
            proved = f"proved {extreme(objectives[0])} after {progress.proved_s:.1f} s"
            items.append(Text(f"{proved}; going on for {going_on_for(objectives)}", style="green"))
        return [*items, Text(counted(progress.trials, "trial")), Text(rate_text(progress.trials_per_s))]

    def _since_s(self) -> float:
        """Since the last report; none once the search is over."""
        if self._last is None or self._study.status is not Status.RUNNING:
            return 0.0
        return self._clock() - self._last[1]


def limit_text(constraint: Constraint, value: float, ascii_only: bool = False) -> Text:
    """`flash bytes 714 ≤ 1024 kept` or `... broken`: in words, for those who see no colours."""
    kept = constraint.violation({constraint.metric: value}) == 0.0
    sign = (">=" if ascii_only else "≥") if constraint.at_least else ("<=" if ascii_only else "≤")
    wanted = f"{sign} {number(constraint.limit)}"
    text = f"{metric_label(constraint.metric)} {number(value)} {wanted} {'kept' if kept else 'broken'}"
    return Text(text, style="green" if kept else "bold red")


def packed(name: str, items: Sequence[Text], width: int, dot: str) -> list[Text]:
    """`name   item · item · item`, in as many lines as it takes; an item that is wider than a line is cut."""
    indent = LABEL_CELLS + 1 if name else 0
    lines, line = list[Text](), Text.assemble((name.ljust(indent), "dim"))
    empty = True
    for item in items:
        if not empty and line.cell_len + len(dot) + item.cell_len > width:
            lines.append(line)
            line, empty = Text(" " * indent), True
        line = line.append("" if empty else dot, style="dim").append_text(item)
        empty = False
    lines.append(line)
    for each in lines:
        each.truncate(width, overflow="ellipsis")
    return lines


def done(progress: Progress, since_s: float) -> float | None:
    """Which share of the budget is spent, `since_s` after the report; None without a budget."""
    shares = []
    if math.isfinite(progress.seconds_left):
        elapsed_s = progress.elapsed_s + since_s
        shares.append(elapsed_s / max(progress.elapsed_s + progress.seconds_left, 1e-9))
    if math.isfinite(progress.trials_left):
        shares.append(progress.new_trials / max(progress.new_trials + progress.trials_left, 1))
    return min(1.0, max(shares)) if shares else None


def clock_text(progress: Progress, since_s: float) -> str:
    """`0:42, 0:18 left`; how long trials will take is guessed from their rate."""
    left_s = max(0.0, progress.seconds_left - since_s)
    guessed_s = math.inf
    if math.isfinite(progress.trials_left) and progress.trials_per_s > 0:
        guessed_s = max(0.0, progress.trials_left / progress.trials_per_s - since_s)
    elapsed = duration(progress.elapsed_s + since_s)
    if guessed_s < left_s:
        return f"{elapsed}, about {duration(guessed_s)} left"
    return f"{elapsed}, {duration(left_s)} left" if math.isfinite(left_s) else elapsed


def duration(seconds: float) -> str:
    """`0:42`, `1:02:03`, `2 days, 3:04:05`."""
    if seconds < 3600:
        return f"{int(seconds) // 60}:{int(seconds) % 60:02}"
    return str(datetime.timedelta(seconds=int(seconds)))


def _fitting(text: str, width: int, style: str) -> Text:
    line = Text(text, style=style)
    line.truncate(width, overflow="ellipsis")
    return line
