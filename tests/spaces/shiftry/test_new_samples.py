"""Expected flips beside the flips of samples that neither training nor the search has seen."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from kilotune.codegen.bundle import load_bundle
from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.evaluators.fixed_point.measuring import FixedPointEvaluator
from kilotune.experiments.benchmarks.small_models import generated_models, write_small_model
from kilotune.experiments.models.catalogue import resolve_model
from kilotune.experiments.problems.fixed_point.model import task_of
from kilotune.search.budget import Budget
from kilotune.search.study import Study
from kilotune.spaces.shiftry.candidates import ShiftryOptions
from kilotune.spaces.shiftry.fitted_space import CODES, FITTED, FittedSpace
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


def test_fresh_inputs_say_of_a_fitted_program_what_new_samples_show(tmp_path: Path) -> None:
    """Codes that were fitted to the training samples and inputs like them flip less there than on the 2000 test samples."""
    model = next(model for model in generated_models() if model.name == "mlp-generated-8")
    bundle = load_bundle(write_small_model(model, tmp_path))
    task, test_task = task_of(bundle, bundle.train), task_of(bundle, bundle.test)
    space = FittedSpace(ShiftrySpace(task, ShiftryOptions(narrow=True)))
    narrow = {
        d.name: next((o for o in d.options if str(o).startswith("int4@")), d.options[0])
        for d in space.formats.decisions
    }
    fitted = space.lower([{**narrow, CODES: FITTED}])
    share = len(task.features) / len(test_task.features)
    happened = share * space.evaluator.on(test_task).measure(fitted)[0]["disagreements"]
    expected = space.evaluate([{**narrow, CODES: FITTED}])[0].metrics["expected_flips"]
    on_samples = space.evaluator.measure(fitted)[0]["expected_flips"]
    assert on_samples < 0.7 * happened
    assert max(on_samples, happened / 2.2) < expected < 1.6 * happened
