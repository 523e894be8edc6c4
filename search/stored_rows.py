"""What a store holds of a study and of a trial, and how their cells are written and read."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kilotune.search import stored_cells
from kilotune.search.result import Status
from kilotune.search.schema import candidate_hash
from kilotune.search.space import Measurement
from kilotune.search.strategy import Outcome

STATUSES = tuple(status.value for status in Status)
OUTCOMES = tuple(outcome.value for outcome in Outcome)


@dataclass(frozen=True, order=True)
class BestTrial:
    """The best trial of a study, by the ranking of its space: `search.front.Front` has the smaller number of equal ones."""

    rank: tuple[float, ...]
    number: int

    @property
    def text(self) -> str:
        """What `from_cell` reads."""
        return _METRICS.encode([self.number, *self.rank])

    @classmethod
    def from_cell(cls, cell: Any) -> BestTrial | None:
        """None for an empty one, and for a damaged one: the trials say which is the best."""
        try:
            number, *rank = stored_cells.numbers_of(cell, "best")
        except (stored_cells.CellError, ValueError):
            return None
        return cls(tuple(rank), int(number)) if rank and number >= 0 else None


@dataclass(frozen=True)
class StudyRow:
    """What is stored about a study besides its trials. `decisions` is None for a space that is not flat."""

    name: str
    space: str
    fingerprint: str
    strategy: str
    seed: int
    budget: str = "unlimited"
    decisions: Sequence[Sequence[Any]] | None = None
    request: Mapping[str, Any] = field(default_factory=dict)
    status: str = "running"
    outcome: str | None = None
    bound: float | None = None  # loss of the first objective
    elapsed_s: float = 0.0
    created: float = field(default_factory=time.time)
    trials: int = 0
    best: BestTrial | None = None


@dataclass(frozen=True)
class TrialRow:
    """A stored trial; `candidate` is the text of the space's encoding."""

    number: int
    candidate: str
    metrics: Mapping[str, float]
    failure: str | None
    elapsed_s: float
    censored: bool = False

    @property
    def measurement(self) -> Measurement:
        """What was measured."""
        return Measurement(self.metrics, self.failure, self.censored)


def trial_values(study_id: int, trial: TrialRow, names_id: int) -> dict[str, Any]:
    """The columns of a trial of that study, whose metrics' names are stored under `names_id`. TypeError when a metric is no number."""
    return {
        "study_id": study_id,
        "number": trial.number,
        "candidate_hash": candidate_hash(trial.candidate, trial.censored),
        "candidate": trial.candidate,
        "names_id": names_id,
        "metrics": _METRICS.encode(list(trial.metrics.values())),
        "failure": trial.failure,
        "elapsed_s": trial.elapsed_s,
        "censored": int(trial.censored),
    }


PLAIN_COLUMNS = (
    *("name", "space", "fingerprint", "strategy", "seed", "budget"),
    *("status", "outcome", "bound", "elapsed_s", "created"),
)
"""The columns of a study that are written as they are."""


def study_row(row: Mapping[Any, Any]) -> StudyRow:
    """A study as the database holds it. CellError for a cell of the wrong kind."""
    return StudyRow(
        name=stored_cells.text_of(row["name"], "name"),
        space=stored_cells.text_of(row["space"], "space"),
        fingerprint=stored_cells.text_of(row["fingerprint"], "fingerprint"),
        strategy=stored_cells.text_of(row["strategy"], "strategy"),
        seed=stored_cells.count_of(row["seed"], "seed"),
        budget=stored_cells.text_of(row["budget"], "budget"),
        decisions=None if row["decisions"] is None else stored_cells.list_of(row["decisions"], "decisions"),
        request=stored_cells.object_of(row["request"], "request"),
        status=stored_cells.choice_of(row["status"], "status", STATUSES),
        outcome=None if row["outcome"] is None else stored_cells.choice_of(row["outcome"], "outcome", OUTCOMES),
        bound=stored_cells.number_or_none_of(row["bound"], "bound"),
        elapsed_s=stored_cells.number_of(row["elapsed_s"], "elapsed_s"),
        created=stored_cells.number_of(row["created"], "created"),
        trials=stored_cells.count_of(row["trials"], "trials"),
        best=BestTrial.from_cell(row["best"]),
    )


class MetricsReader:
    """Reads the metrics of stored trials, whose names are many times the same."""

    def __init__(self) -> None:
        self._names: dict[Any, tuple[str, ...]] = {}  # by the cell

    def metrics(self, row: Any) -> dict[str, float]:
        """Those of a row with the columns `metrics`, `failure` and `names`, the cell of `schema.METRIC_NAMES`. CellError for cells of
        the wrong kind or that do not belong together, and for a trial that has neither metrics nor a failure."""
        names = self._names.get(row.names)
        if names is None:
            names = self._names[row.names] = stored_cells.names_of(row.names, "names")
        numbers = stored_cells.numbers_of(row.metrics, "metrics")
        if len(numbers) != len(names):
            raise stored_cells.CellError("metrics", f"as many numbers as there are names, {len(names)}", row.metrics)
        if not names and row.failure is None:
            raise stored_cells.CellError("metrics", "at least one number, as the trial did not fail", row.metrics)
        return dict(zip(names, numbers, strict=True))

    def trial(self, row: Any) -> TrialRow:
        """The trial of a row with its columns and its `names`. CellError, as `metrics` and for the other cells."""
        return TrialRow(
            stored_cells.count_of(row.number, "number"),
            stored_cells.text_of(row.candidate, "candidate"),
            self.metrics(row),
            stored_cells.text_or_none_of(row.failure, "failure"),
            stored_cells.number_of(row.elapsed_s, "elapsed_s"),
            bool(row.censored),
        )


def _plain_number(value: Any) -> Any:
    if hasattr(value, "item"):  # a NumPy scalar
        return value.item()
    raise TypeError(f"a metric must be a number, not {value!r}")


_METRICS = json.JSONEncoder(default=_plain_number, separators=(",", ":"))
