"""Expected flips beside the flips of samples that neither training nor the search has seen."""

from __future__ import annotations

import numpy as np

from kilotune.codegen.bundle import load_bundle
from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.evaluators.fixed_point.measuring import FixedPointEvaluator
from kilotune.experiments.models.catalogue import resolve_model
from kilotune.experiments.problems.fixed_point.model import task_of
from kilotune.search.budget import Budget
from kilotune.search.study import Study
from kilotune.spaces.shiftry.candidates import ShiftryOptions
from kilotune.spaces.shiftry.space import ShiftrySpace


def test_as_many_flips_are_expected_as_new_samples_show_where_the_models_own_samples_show_few() -> None:
    """The perceptron is right on all of its training samples, whose margins are wide: by these, next to nothing would flip."""
    bundle = load_bundle(resolve_model("mlp-digits"))
    task, test_task = task_of(bundle, bundle.train), task_of(bundle, bundle.test)
    space = ShiftrySpace(task, ShiftryOptions(accuracy_drop=0.5))
    study = Study(space, "refine", 0)
    study.run(InProcessExecutor(space), Budget(trials=150))
    close = [trial.assignment for trial in study.trials() if trial.metrics.get("disagreements", np.inf) <= 6]
    assert len(close) > 50
    batch = space.lower(close)

    def flips(evaluator: FixedPointEvaluator, metric: str) -> float:
        of_samples = [metrics[metric] for metrics in evaluator.measure(batch)]
        return float(np.mean(of_samples)) / len(evaluator.task.features)

    happened = flips(space.evaluator.on(test_task), "disagreements")
    by_own_samples = flips(FixedPointEvaluator(task, trained_on=False), "expected_flips")
    assert by_own_samples < happened / 5
    assert happened / 3 < flips(space.evaluator, "expected_flips") < 3 * happened
