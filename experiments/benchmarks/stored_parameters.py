"""How little flash holds a model's parameters, by what the search may decide about them.

    python -m kilotune.experiments.benchmarks.stored_parameters [--trials N] [--seeds N] [--flips SHARE ...]
        [--rounding NAME ...] [--limit SHARE] [--generated] [MODEL ...]

For each bundled classifier and each setting, at the float model's training accuracy (`--drop 0`): the least memory that a search of N
trials finds, its test accuracy beside the float model's, and what the program takes on a simulated Uno: linked flash and cycles.
`--flips` permits, one after the other, so many expected flips besides, as a share of the training samples (1: any number).
`--rounding`: how programs divide, one after the other, as `tune --rounding` has them.
`--limit`: instead of the least memory the best precision within such a share of the flash of *8/16*.
`--generated` takes the models of `small_models` that are generated, which have 2000 test samples and more, on the host alone:
shares are chosen there.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from kilotune.codegen.emit.c import emit_c
from kilotune.codegen.emit.shape import PLAIN, SHAPES
from kilotune.codegen.fixed.arithmetic import Rounding
from kilotune.evaluators.architectures.avr.run import AvrTarget
from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.evaluators.simulated import of_emitted, quantised
from kilotune.experiments.benchmarks.small_models import generated_models, write_small_model
from kilotune.experiments.problems.fixed_point.model import ANY
from kilotune.experiments.problems.fixed_point.problem import ModelProblem, build_problem, resolve_input
from kilotune.experiments.requests.request import TuneRequest
from kilotune.search.budget import Budget
from kilotune.search.procedure import run_procedure
from kilotune.search.space import Trial
from kilotune.search.study import Study

BUNDLED = ("bonsai-digits", "fastgrnn16-digits", "fastgrnn32-digits", "lenet-digits", "protonn-digits")
ALL = {"narrow": True, "finer": True, "truer": True, "codebook": True}
SETTINGS: Mapping[str, Mapping[str, bool]] = {
    "8/16": {},
    "narrower": {"narrow": True},
    "finer": {"finer": True},
    "truer": {"truer": True},
    "codebook": {"codebook": True},
    "all": ALL,
    "fitted": {**ALL, "fitted": True},
}
SAMPLES = 5
ROUNDINGS = (*(rounding.value for rounding in Rounding), ANY)


def on_uno(problem: ModelProblem, trial: Trial) -> tuple[int, float]:
    """Linked flash bytes and mean cycles of a program on a simulated Uno, in the smaller of plain and compact code."""
    batch, task = problem.lower(trial.assignment), problem.space.task
    placement = problem.space.evaluator.footprint.placed(batch.bits[0]).offsets
    found = []
    for shape in (PLAIN, "compact"):
        source = emit_c(batch, task.parameters, placement, shape=SHAPES[shape])
        sizes, run = AvrTarget("atmega328p").run(of_emitted(source), quantised(source, task.features[:SAMPLES]))
        found.append((sizes.flash_bytes, float(run.cycles.mean())))
    return min(found)


def test_loss(problem: ModelProblem, trial: Trial) -> float:
    """Points of test accuracy below the float model."""
    test = problem.test_metrics(trial.assignment) or {}
    return float(problem.float_metrics()["test"]["accuracy_percent"] - test["accuracy_percent"])


def searched(name: str, options: Mapping[str, object], trials: int, seed: int) -> tuple[ModelProblem, Trial | None]:
    """The problem of a model, and the best that a search finds."""
    problem = build_problem(TuneRequest("shiftry", name, "refine", options=dict(options)))
    result = Study(problem.space, "refine", seed=seed).run(InProcessExecutor(problem.space), Budget(trials=trials))
    return problem, result.best if result.feasible else None


@cache
def flash_of_8_and_16(place: str, trials: int) -> float:
    """The least flash of 8 and 16 bits at full training accuracy."""
    _, best = searched(place, {"accuracy_drop": 0.0}, trials, 1)
    assert best is not None
    return best.metrics["flash_bytes"]


def row(name: str, what: str, problem: ModelProblem, found: Sequence[Trial], device: bool) -> str:
    """A line of a Markdown table: means over seeds, of test data the mean and the worst."""
    if not found:
        return f"| {name} | {what} | nothing feasible |"
    metrics = {key: np.mean([t.measurement.metrics[key] for t in found]) for key in found[0].measurement.metrics}
    losses = [test_loss(problem, trial) for trial in found]
    line = f"| {name} | {what} | {metrics['flash_bytes']:.0f} | {metrics['ram_bytes']:.0f} | {metrics['expected_flips']:.2f} "
    line += f"| {-np.mean(losses):+.2f} | {-max(losses):+.2f} |"
    if device:
        sizes, cycles = zip(*(on_uno(problem, trial) for trial in found), strict=True)
        line += f" {np.mean(sizes):.0f} | {np.mean(cycles):.0f} |"
    return line


def rows(name: str, place: str, given: argparse.Namespace) -> Iterator[str]:
    """All rows of a model."""
    device = not given.generated
    for share, what, rounding in itertools.product(given.flips, given.settings, given.rounding):
        found, problem = [], None
        for seed in range(1, given.seeds + 1):
            options: dict[str, object] = {"accuracy_drop": 0.0, "rounding": rounding, **SETTINGS[what]}
            if given.limit is not None:
                options["flash_limit_bytes"] = int(given.limit * flash_of_8_and_16(place, given.trials))
            samples = len(build_problem(TuneRequest("shiftry", place, "refine")).space.task.features)
            if share < 1.0:
                options["permitted_flips"] = share * samples
            problem, best = searched(place, options, given.trials, seed)
            found += [best] if best is not None else []
        assert problem is not None
        label = what if share == 1.0 else f"{what}, flips {share:g}"
        label += "" if given.limit is None else f", limit {given.limit:g}"
        label += "" if rounding == ROUNDINGS[0] else f", {rounding}"
        if what == "8/16" and (share, rounding) == (given.flips[0], given.rounding[0]):
            answer = run_procedure(problem.space)
            yield row(name, "procedure", problem, [answer] if answer is not None else [], device)
        yield row(name, label, problem, found, device)


def main() -> None:
    """Print a row a model and setting."""
    arguments = argparse.ArgumentParser(description="How little flash holds a model's parameters.")
    arguments.add_argument("models", nargs="*")
    arguments.add_argument("--trials", type=int, default=12000)
    arguments.add_argument("--seeds", type=int, default=1)
    arguments.add_argument("--flips", type=float, nargs="+", default=[1.0])
    arguments.add_argument("--rounding", nargs="+", choices=ROUNDINGS, default=ROUNDINGS[:1])
    arguments.add_argument("--limit", type=float)
    arguments.add_argument("--settings", nargs="+", choices=list(SETTINGS), default=list(SETTINGS))
    arguments.add_argument("--generated", action="store_true")
    given = arguments.parse_args()
    device = " linked | cycles |" if not given.generated else ""
    print(f"| model | setting | flash | RAM | expected flips | test to float | worst |{device}")
    with tempfile.TemporaryDirectory(prefix="kilotune-stored-") as folder:
        small = {model.name: model for model in generated_models()} if given.generated else {}
        for name in given.models or small or BUNDLED:
            place = write_small_model(small[name], Path(folder)) if name in small else resolve_input(name)
            for line in rows(name, str(place), given):
                print(line, flush=True)


if __name__ == "__main__":
    main()
