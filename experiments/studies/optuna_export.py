"""A study as an Optuna study, for optuna-dashboard and other tools: a journal file, which takes trials by the thousand."""

from __future__ import annotations

import math
import tempfile
import warnings
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.storages import BaseStorage, JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState

from kilotune.experiments.artefacts.output_file import check_output_file
from kilotune.experiments.artefacts.whole_file import mode_of, put_new
from kilotune.search.space import FlatSpace, Option, Space, Trial
from kilotune.search.study import Study

TRIALS_AT_ONCE = 1000


def export_optuna(study: Study, path: Path) -> int:
    """Write all trials into the journal file `path`, which must not exist; how many there were. ValueError when it does."""
    if mode_of(path) is not None:
        raise ValueError(f"{path} exists already: choose a new file.")
    check_output_file("--output", path)
    # Optuna writes a journal line by line, with a lock beside it: in a folder that nobody else writes into
    with tempfile.TemporaryDirectory(prefix=".kilotune-", dir=path.parent) as scratch:
        journal = Path(scratch) / "journal.log"
        choices = choices_of(study.space, study.each_trial())
        copy_study(study, study.each_trial(), choices, JournalStorage(JournalFileBackend(str(journal))))
        try:
            put_new(journal, path)
        except FileExistsError:
            raise ValueError(f"{path} exists already: choose a new file.") from None
    return len(study.book)


def copy_study(
    study: Study, trials: Iterable[Trial], choices: Mapping[str, BaseDistribution], storage: BaseStorage
) -> optuna.Study:
    """An Optuna study of these trials, which are all or some of the study's. `choices`: see `add_trials`."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    space = study.space
    written = optuna.create_study(
        study_name=study.name,
        storage=storage,
        directions=[objective.direction.value for objective in space.objectives],
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        written.set_metric_names([objective.metric for objective in space.objectives])
    written.set_user_attr("kilotune", {"space": space.name, "strategy": study.strategy, "seed": study.seed})
    add_trials(written, space, trials, choices)
    return written


def add_trials(
    written: optuna.Study, space: Space, trials: Iterable[Trial], choices: Mapping[str, BaseDistribution]
) -> None:
    """`choices`: of `choices_of`, for all trials that the Optuna study will ever hold."""
    left = iter(trials)
    while at_once := list(islice(left, TRIALS_AT_ONCE)):
        written.add_trials([_frozen(space, trial, choices) for trial in at_once])


def choices_of(space: Space, trials: Iterable[Trial]) -> Mapping[str, BaseDistribution]:
    """Options by decision. Where they depend on earlier answers, all that were ever chosen: Optuna knows no trees."""
    if isinstance(space, FlatSpace):
        return {d.name: CategoricalDistribution(d.options) for d in space.decisions}
    chosen: dict[str, dict[Option, None]] = {}
    for trial in trials:
        for name, option in trial.assignment.items():
            chosen.setdefault(name, {})[option] = None
    return {name: CategoricalDistribution(tuple(options)) for name, options in chosen.items()}


def _frozen(space: Space, trial: Trial, choices: Mapping[str, BaseDistribution]) -> FrozenTrial:
    metrics = trial.metrics
    values = [metrics.get(objective.metric, math.nan) for objective in space.objectives]
    complete = trial.measurement.failure is None and not any(math.isnan(value) for value in values)
    notes = dict(metrics) | ({} if trial.measurement.failure is None else {"failure": trial.measurement.failure})
    # an outsider of a flat space answers what Optuna was not told of
    answers = {name: option for name, option in trial.assignment.items() if name in choices}
    return optuna.trial.create_trial(
        state=TrialState.COMPLETE if complete else TrialState.PRUNED if trial.measurement.censored else TrialState.FAIL,
        values=values if complete else None,
        params=answers,
        distributions={name: choices[name] for name in answers},
        user_attrs={"number": trial.number, **{name: _finite(value) for name, value in notes.items()}},
        system_attrs={"constraints": [_finite(c.violation(metrics)) for c in space.constraints]},
    )


def _finite(value: float | str) -> float | str | None:
    return None if isinstance(value, float) and not math.isfinite(value) else value
