"""What there is to be seen: every study of the store with what is known about its best, newest first."""

from __future__ import annotations

import itertools
import json
import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from kilotune.experiments.dashboard.heartbeats import Heartbeats
from kilotune.experiments.dashboard.trial_reader import TrialReader, measured
from kilotune.experiments.problems.building import build_problem
from kilotune.experiments.requests.request import TuneRequest
from kilotune.experiments.studies.moved_input import missing_input, stored_request
from kilotune.search.front import Front, Ranking
from kilotune.search.result import Status, as_metric, relative_gap, status_words
from kilotune.search.store import Store
from kilotune.search.stored_rows import BestTrial, StudyRow

PATIENCE_S = 0.4
"""How long a visitor waits for what is still being read; the page asks again for the rest."""


READ_AT_ONCE = 10_000
"""Trials, of tens of millions maybe; between them a page is answered."""


@dataclass(frozen=True)
class StudyObjective:
    """What a study searches for; a sentence where that cannot be told."""

    ranking: Ranking | None
    trouble: str = ""


@dataclass(frozen=True)
class Entry:
    """One study. `best` and `bound` are of the metric `leading`; None: unknown."""

    row: StudyRow
    running: int  # processes
    changed: float  # Unix time
    leading: str | None = None
    best: float | None = None
    feasible: bool = False
    bound: float | None = None
    gap: float | None = None
    proved: bool = False
    trouble: str = ""

    @property
    def comparison(self) -> str | None:
        """The one that the study is a run of."""
        name = self.row.request.get("comparison")
        return name if isinstance(name, str) else None

    @property
    def input(self) -> str:
        """Its last part: the rest is the same for most."""
        return PurePath(str(self.row.request.get("input") or "")).name

    @property
    def status(self) -> str:
        """In words."""
        return standing_words(self.row, self.running, self.proved, None if self.leading is None else self.feasible)


def standing_words(row: StudyRow, running: int, proved: bool, feasible: bool | None) -> str:
    """`feasible`: whether the best keeps the limits, None where that is not known; when it does not, what is proved is that
    nothing does."""
    if not running and row.status != Status.RUNNING.value and (proved or row.outcome in ("proved", "exhausted")):
        return "proved" if feasible is None else "proved optimal" if feasible else "proved: nothing keeps the limits"
    return status_words(row.status, running)


class Overview:
    """Reads what is new when somebody asks, in a thread of its own: building a space takes a while, its input included."""

    def __init__(
        self,
        store: Store,
        heartbeats: Heartbeats,
        build: Callable[[TuneRequest], Any] = build_problem,
        wanted: Callable[[StudyRow], bool] = lambda row: True,
    ) -> None:
        """`wanted`: which of the store's studies are looked at."""
        self._store, self._heartbeat, self._build, self._wanted = store, heartbeats, build, wanted
        self._goals: dict[str, StudyObjective] = {}  # by what a request says of the problem
        self._fronts: dict[tuple[str, float], tuple[TrialReader, Front]] = {}  # by name and creation
        self._whole: dict[tuple[str, float], int] = {}  # how many trials these had when all were read that there were
        self._told: dict[tuple[str, float], tuple[BestTrial, Front]] = {}  # with the best only, which the store knows
        self._changed: dict[tuple[str, float], tuple[int, float]] = {}  # trials, and when we saw that number first
        self._unreadable: dict[tuple[str, float], tuple[int, str]] = {}  # trials when they could not be read, and why
        self.damaged: tuple[str, ...] = ()
        """Sentences about studies that could not be read last time, and are left out."""
        self._lock = threading.Lock()
        self._working = threading.Lock()

    def _rows(self) -> list[StudyRow]:
        """The rows of the studies that are looked at and can be read."""
        damaged: list[str] = []
        rows = self._store.studies(damaged=lambda error: damaged.append(str(error)))
        self.damaged = tuple(damaged)
        return [row for row in rows if self._wanted(row)]

    def entries(self) -> tuple[list[Entry], bool]:
        """Newest first; whether all has been read."""
        rows, running = self._rows(), self._heartbeat.running()
        self._notice(rows)
        whole = True
        if any(self._is_stale(row) for row in rows):
            reader = threading.Thread(target=self._read, args=(rows,), daemon=True, name="kilotune-overview")
            reader.start()
            reader.join(PATIENCE_S)
            whole = not any(self._is_stale(row) for row in rows)
        return [self._entry(row, running.get(row.name, 0)) for row in reversed(rows)], whole

    def all_entries(self) -> list[Entry]:
        """Newest first, when all has been read."""
        rows, running = self._rows(), self._heartbeat.running()
        self._notice(rows)
        self._read(rows)
        return [self._entry(row, running.get(row.name, 0)) for row in reversed(rows)]

    def _notice(self, rows: list[StudyRow]) -> None:
        now, there = time.time(), {}
        for row in rows:
            key = (row.name, row.created)
            seen = self._changed.get(key)
            first = row.created + row.elapsed_s  # the earliest that is possible
            there[key] = (row.trials, first) if seen is None else seen if seen[0] == row.trials else (row.trials, now)
        self._changed = there

    def _is_stale(self, row: StudyRow) -> bool:
        goal = self._goals.get(_problem_key(row.request))
        if goal is None:
            return True
        if goal.ranking is None or self._why_unreadable(row):
            return False
        if self._front_of_best(row) is not None:
            return False
        return self._whole.get((row.name, row.created), -1) < row.trials

    def _front_of_best(self, row: StudyRow) -> Front | None:
        """With the best trial, where the store knows which it is and that was read."""
        best, front = self._told.get((row.name, row.created), (None, None))
        return front if best is not None and best == row.best else None

    def _why_unreadable(self, row: StudyRow) -> str:
        """What was wrong with its trials; empty where nothing was, and where there are more of them now."""
        trials, why = self._unreadable.get((row.name, row.created), (-1, ""))
        return why if trials == row.trials else ""

    def _read(self, rows: list[StudyRow]) -> None:
        if not self._working.acquire(blocking=False):
            return
        try:
            for row in reversed(rows):
                goal = self._goal(row)
                if goal.ranking is not None and self._is_stale(row):
                    try:
                        self._follow(row, goal.ranking)
                    except Exception as error:  # a broken study must not take the others with it
                        self._unreadable[row.name, row.created] = (row.trials, f"{error}" or type(error).__name__)
            there = {(row.name, row.created) for row in rows}
            for kept in (self._fronts, self._whole, self._told, self._unreadable):
                for gone in set(kept) - there:
                    del kept[gone]
        finally:
            self._working.release()

    def _goal(self, row: StudyRow) -> StudyObjective:
        key = _problem_key(row.request)
        if key not in self._goals:
            self._goals[key] = _goal(row.request, self._build)
        return self._goals[key]

    def _follow(self, row: StudyRow, ranking: Ranking) -> None:
        """All that is new of its trials, or only the best one, where that ranks today as it did when it was noted."""
        best = row.best
        if best is not None:
            trial = next(measured(self._store, row.name, best.number), None)
            if trial is not None and (ranking.rank(trial.measurement), trial.number) == (best.rank, best.number):
                front = Front(ranking)
                front.add(trial)
                self._told[row.name, row.created] = (best, front)
                return
        reading, front = self._fronts.get((row.name, row.created)) or (TrialReader(), Front(ranking))
        trials = reading.new(row.trials, lambda first: measured(self._store, row.name, first))
        while some := list(itertools.islice(trials, READ_AT_ONCE)):
            with self._lock:
                front.update(some)
        with self._lock:
            self._fronts[row.name, row.created] = (reading, front)
            self._whole[row.name, row.created] = row.trials

    def _entry(self, row: StudyRow, running: int) -> Entry:
        changed = self._changed[row.name, row.created][1]
        goal = self._goals.get(_problem_key(row.request))
        known = self._front_of_best(row) or self._fronts.get((row.name, row.created), (None, None))[1]
        unreadable = self._why_unreadable(row)
        if unreadable or goal is None or goal.ranking is None or known is None:
            return Entry(row, running, changed, trouble=unreadable or _trouble(row, goal))
        leading = goal.ranking.objectives[0]
        with self._lock:
            best, feasible, loss = known.best, known.feasible, known.best_rank[1]
        bound = -math.inf if row.bound is None else row.bound
        if row.outcome in ("proved", "exhausted") and feasible:
            bound = loss
        value = None if best is None else best.measurement.metrics.get(leading.metric)
        gap = relative_gap(loss if feasible else math.inf, bound)
        proved = gap == 0 and len(goal.ranking.objectives) == 1  # a bound says nothing of the other objectives
        return Entry(row, running, changed, leading.metric, value, feasible, as_metric(bound, leading), gap, proved)


def _goal(request: Mapping[str, Any], build: Callable[[TuneRequest], Any]) -> StudyObjective:
    if "space" not in request:
        return StudyObjective(None, "It was made by a program that stored no request: its space cannot be built here.")
    try:
        return StudyObjective(Ranking.of(build(TuneRequest.from_json(request)).space))
    except Exception as error:  # a broken study must not take the others with it
        return StudyObjective(None, f"{error}" or type(error).__name__)


def _trouble(row: StudyRow, goal: StudyObjective | None) -> str:
    """Why it cannot be told what the study searches for; empty where it can, or is not known yet."""
    if goal is None or not goal.trouble:
        return ""
    try:
        missing = missing_input(stored_request(row), row.name)
    except ValueError:
        missing = None
    return goal.trouble if missing is None else str(missing)


def _problem_key(request: Mapping[str, Any]) -> str:
    """Many studies search the same problem: strategies and seeds of a comparison."""
    return json.dumps({name: request.get(name) for name in ("space", "input", "options")}, sort_keys=True)
