"""An exported study is an Optuna study: the same trials, the same best, the same feasible ones."""

from __future__ import annotations

from pathlib import Path

import optuna
import pytest

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.experiments.studies.optuna_export import export_optuna
from kilotune.search.budget import Budget
from kilotune.search.space import Constraint, Objective, Space
from kilotune.search.study import Study
from tests.search.problems import FlatProblem, TreeProblem

pytestmark = pytest.mark.slow

OBJECTIVES = (Objective("loss"), Objective("cost"))


@pytest.mark.parametrize(
    "space",
    [FlatProblem(8, 4, 1, pairs=5), TreeProblem(6, 4, 3), FlatProblem(8, 4, 1, objectives=OBJECTIVES)],
    ids=["flat", "tree", "two objectives"],
)
def test_every_trial_and_the_best_arrive(space: Space, tmp_path: Path) -> None:
    study = Study(space, "random", 2, name="mine")
    result = study.run(InProcessExecutor(space), Budget(trials=1500))
    path = tmp_path / "study.log"
    assert export_optuna(study, path) == result.evaluations
    storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(path)))
    loaded = optuna.load_study(study_name="mine", storage=storage)
    assert [d.name.lower() for d in loaded.directions] == [o.direction.value for o in space.objectives]
    for theirs, ours in zip(loaded.trials, study.trials(), strict=True):
        assert theirs.params == dict(ours.assignment)
        assert theirs.values == [ours.measurement.metrics[o.metric] for o in space.objectives]
    if len(space.objectives) == 1:
        assert result.best is not None
        assert loaded.best_trial.values == [result.best.measurement.metrics[space.objectives[0].metric]]


def test_infeasible_trials_are_marked(tmp_path: Path) -> None:
    space = FlatProblem(8, 4, 1, constraints=(Constraint("cost", -1.0),))
    study = Study(space, "random", 2, name="mine")
    study.run(InProcessExecutor(space), Budget(trials=200))
    path = tmp_path / "study.log"
    export_optuna(study, path)
    storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(path)))
    loaded = optuna.load_study(study_name="mine", storage=storage)
    violations = [t.system_attrs["constraints"][0] for t in loaded.trials]
    assert violations == [max(0.0, t.measurement.metrics["cost"] + 1.0) for t in study.trials()]
    assert 0 < sum(v > 0 for v in violations) < 200
    with pytest.raises(ValueError, match="exists already"):
        export_optuna(study, path)
