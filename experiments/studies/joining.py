"""How a command comes by its study: a new one under a free name, or the stored one of that name when it searched what is asked for."""

from __future__ import annotations

import contextlib
import datetime
import re
import secrets
from collections.abc import Callable

from kilotune.experiments.problems.placing import kept_placing
from kilotune.experiments.problems.problem import Problem
from kilotune.experiments.requests.request import TuneRequest
from kilotune.experiments.studies.command_time import CommandTime
from kilotune.experiments.studies.moved_input import stored_problem, with_moved_input
from kilotune.experiments.studies.placing_finalists import knowing_placing
from kilotune.search.budget import Budget
from kilotune.search.store import NameTakenError, Store, StoreError
from kilotune.search.stored_rows import StudyRow
from kilotune.search.study import Study


def dated_name(stem: str) -> str:
    """stem-date-time-four hexadecimal digits by chance: commands that begin in the same second, with whatever stores, write into folders of
    these names. What is no letter, digit, "_" or "-" of the stem is "_"."""
    plain = re.sub(r"[^\w-]", "_", stem)
    return f"{plain}-{datetime.datetime.now():%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def check_study_name(name: str) -> str:
    """The name itself. ValueError for one that is no file name: results are written under it."""
    if not re.fullmatch(r"[\w-][\w.-]*", name):
        raise ValueError(f"--study {name!r}: expected letters, digits, '_', '-' and '.', not beginning with '.'.")
    return name


def join(store: Store, name: str | None, problem: Problem, budget: Budget) -> Study:
    """A new study of a problem, or the stored one of that name when the same was asked of it. StoreError when something else
    was."""
    request = problem.request
    if name is None:
        return begin_unnamed(store, problem, budget)
    if not store.studies(check_study_name(name)):
        with contextlib.suppress(NameTakenError):  # by another command meanwhile
            return begin(store, name, problem, budget)
    existing = store.study(name)
    if (existing.strategy, existing.seed) != (request.strategy, request.seed):
        raise StoreError(
            f"Study {name!r} was started with strategy {existing.strategy} and seed {existing.seed}: "
            f"ask for these, or choose another name."
        )
    return _resumed(store, existing, problem)


def begin_unnamed(
    store: Store, problem: Problem, budget: Budget, check: Callable[[str], object] = lambda name: None
) -> Study:
    """A new study of a problem under a `dated_name` of its space. `check` may raise what forbids it."""
    while True:
        name = dated_name(problem.request.space)
        check(name)
        with contextlib.suppress(NameTakenError):
            return begin(store, name, problem, budget)


def begin(store: Store, name: str, problem: Problem, budget: Budget) -> Study:
    """A new study of a problem. NameTakenError where there is one of that name."""
    request = problem.request
    return Study.create(
        store,
        name,
        problem.space,
        request.strategy,
        request.seed,
        budget=budget,
        request=request.as_json(),
        procedure_first=request.procedure_first,
    )


def _resumed(store: Store, row: StudyRow, problem: Problem) -> Study:
    """As it began, whatever a new one would begin with today."""
    first = TuneRequest.from_json(row.request).procedure_first
    return Study.resume(store, row.name, problem.space, procedure_first=first)


def resume(
    store: Store, name: str, moved_to: str | None = None, time: CommandTime | None = None
) -> tuple[Problem, Study, StudyRow]:
    """A stored study as it was asked for, within a command's time or in whatever it takes. `moved_to`: where its input is now,
    which the study keeps. StoreError when there is something else than the study searched. Its strategy is not needed until it goes
    on: `Study.make_strategy` says whether it can be had."""
    row = store.study(name)
    if moved_to is not None:
        row = with_moved_input(store, row, moved_to)
    problem = stored_problem(row) if time is None else time.read(name, lambda: stored_problem(row))
    study = _resumed(store, row, problem)
    return knowing_placing(problem, kept_placing(study)), study, row
