"""A study whose space cannot be built: its input is gone or has changed, or its plug-in is not installed."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable

from kilotune.experiments.presentation.section import Paragraph, Section, Table
from kilotune.experiments.problems.metric_names import metric_label
from kilotune.search.space import Trial
from kilotune.search.stored_rows import StudyRow

MOST_ROWS = 500
NO_REQUEST = "it was made by a program that stored no request for `tune`."


def trouble_of(error: Exception) -> str:
    """Why the space cannot be built, as a sentence."""
    if isinstance(error, FileNotFoundError) and error.filename:
        return f"{error.filename}: expected the input of the study, found no such file."
    return str(error) or type(error).__name__


class LastTrials:
    """The last trials of a study, and how many there were."""

    def __init__(self) -> None:
        self.kept: deque[Trial] = deque(maxlen=MOST_ROWS)
        self.count = 0

    def take(self, trials: Iterable[Trial]) -> None:
        """Those that come after the ones before."""
        for trial in trials:
            self.kept.append(trial)
            self.count += 1


def sections_of_rows(row: StudyRow, trials: LastTrials, trouble: str) -> tuple[Section, ...]:
    """Its trials as they are stored. `trouble`: why the space cannot be built, a sentence."""
    wrong = Paragraph(f"The space of this study cannot be built: {trouble}")
    kept = Paragraph("Its trials are all there. Which of them is best is not known without the space.")
    return (Section("What is wrong", (wrong, kept)), Section("Trials", (_trial_table(row, trials),)))


def _trial_table(row: StudyRow, trials: LastTrials) -> Table:
    shown = trials.kept
    names = list(dict.fromkeys(name for trial in shown for name in trial.measurement.metrics))
    failed = any(trial.measurement.failure for trial in shown)
    rows = [
        (
            trial.number,
            round(trial.elapsed_s, 3),
            *(_known(trial.measurement.metrics.get(name)) for name in names),
            *((trial.measurement.failure or "",) if failed else ()),
        )
        for trial in shown
    ]
    columns = ("trial", "seconds", *(metric_label(name) for name in names), *(("failure",) if failed else ()))
    which = "All" if len(shown) == trials.count else f"The last {len(shown)} of"
    return Table(
        columns, rows, f"{which} {trials.count} trials of {row.space}, strategy {row.strategy}, seed {row.seed}."
    )


def _known(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else value
