"""Whether the precision that a search ranks by holds on data that it has not seen.

    python -m kilotune.experiments.benchmarks.precision record FILE [--generated] [--seeds N] [--trials N] [MODEL ...]
    python -m kilotune.experiments.benchmarks.precision show FILE ...

`record`: local search from the paper's procedure (`refine`), on the bundled classifiers and small ones that are trained here, ranked by the
flips to be expected and, as it was before, by the disagreements on the training samples; within 2 and 0.5 points of the float
model's training accuracy, and within 1 and 1.4 times the least flash that the model can have. `show`: test disagreements with the
float model of the best found, of what is taken of the best ones on made-up inputs (`ranked`), and of what is delivered (the procedure's
answer, where that is not surely more precise), against those of the procedure's answer in the same setting, a pair a model and seed.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from kilotune.codegen.bundle import Bundle, load_bundle
from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.evaluators.fixed_point.fewest_flips import FewestFlips, fewest_flips
from kilotune.evaluators.fixed_point.fresh_inputs import Finalist, PairedFlips, paired_flips
from kilotune.evaluators.fixed_point.measuring import FixedPointEvaluator, Task
from kilotune.experiments.benchmarks.small_models import generated_models, public_models, write_small_model
from kilotune.experiments.models.catalogue import resolve_model
from kilotune.experiments.problems.fixed_point.model import task_of
from kilotune.experiments.studies.command_time import never
from kilotune.experiments.studies.confirmed_finalists import chosen_finalist
from kilotune.experiments.studies.measured_finalists import MeasuredFinalists
from kilotune.experiments.studies.ranked_finalists import ranked_finalist
from kilotune.search.budget import Budget
from kilotune.search.procedure import run_procedure
from kilotune.search.result import Result
from kilotune.search.space import Trial
from kilotune.search.statistics import SIGNIFICANCE, paired_test, sign_test_p
from kilotune.search.study import Study
from kilotune.spaces.shiftry.candidates import ShiftryOptions
from kilotune.spaces.shiftry.space import ShiftrySpace

BUNDLED = (
    "protonn-digits",
    "bonsai-digits",
    "fastgrnn16-digits",
    "fastgrnn32-digits",
    "lenet-digits",
    "protonn-cancer",
)
METRICS = ("disagreements", "expected_flips")
DROPS = (2.0, 0.5)
SHARES_OF_LEAST_FLASH = (1.0, 1.4)
RESAMPLES = 10_000


class RankedBy(ShiftrySpace):
    """Shiftry's space with another metric for precision."""

    def __init__(self, task: Task, options: ShiftryOptions, metric: str) -> None:
        super().__init__(task, options)
        self._metric = metric

    @property
    def precision_metric(self) -> str:
        """The metric."""
        return self._metric

    @cached_property
    def least_flash_bytes(self) -> int:
        """No candidate has less."""
        return int(self.evaluator.footprint.flash_bytes(self.smallest_bits({}))[0]) + self.least_table_bytes


class Comparable:
    """A space as a problem whose candidates can be compared on made-up inputs."""

    def __init__(self, space: RankedBy) -> None:
        self.space = space

    def paired_flips(self, first: Trial, second: Trial) -> PairedFlips | None:
        """Whose class either changes."""
        one, other = (Finalist(self.space.evaluator, self.space.lower([t.assignment])) for t in (first, second))
        return paired_flips(one, other)

    def fewest_flips(self, trials: Sequence[Trial]) -> FewestFlips | None:
        """Which is likely to flip the fewest inputs."""
        programs = [Finalist(self.space.evaluator, self.space.lower([trial.assignment])) for trial in trials]
        return fewest_flips(programs, [trial.metrics[METRICS[1]] for trial in trials])


def ranked_and_delivered(space: RankedBy, study: Study, result: Result, answer: Trial) -> tuple[Trial, Trial]:
    """What is taken on made-up inputs of a study that found something, and what `tune` delivers."""
    problem: Any = Comparable(space)
    ranked = ranked_finalist(problem, study, result, answer, never) or MeasuredFinalists(result)
    chosen = chosen_finalist(problem, study, result, answer, never)
    taken, best = ranked.result.best, chosen.result.best
    assert taken is not None
    assert best is not None
    return taken, best


def settings(task: Task) -> Iterator[tuple[str, ShiftryOptions]]:
    """By the words of the table."""
    least = RankedBy(task, ShiftryOptions(), METRICS[0]).least_flash_bytes
    for drop in DROPS:
        yield f"--drop {drop}", ShiftryOptions(accuracy_drop=drop)
    for share in SHARES_OF_LEAST_FLASH:
        yield f"--limit flash: {share} x the least", ShiftryOptions(flash_limit_bytes=int(share * least))


def measured(space: RankedBy, test: FixedPointEvaluator, trial: Trial) -> dict[str, Any]:
    """What the table and whoever doubts it need of a candidate. `test_flipped`: which test samples change class."""
    batch = space.lower([trial.assignment])
    train, unseen = trial.metrics, test.measure(batch)[0]
    flipped = test.simulator.run(batch)[0, :, 0] != test.float_outputs[:, 0]
    return {
        **{name: train[name] for name in ("memory_bytes", "flash_bytes", "accuracy_percent", *METRICS)},
        "test_disagreements": unseen["disagreements"],
        "test_expected_flips": unseen["expected_flips"],
        "test_accuracy_percent": unseen["accuracy_percent"],
        "test_flipped": np.flatnonzero(flipped).tolist(),
    }


def p_of_difference(row: dict[str, Any], who: str = "best") -> float:
    """Whether the best found, or another one of the row, and the procedure's answer change the class of test samples equally often:
    McNemar's exact test, two-sided, on those that only one of them changes."""
    best, paper = (set(row[one]["test_flipped"]) for one in (who, "procedure"))
    fewer, more = sorted((len(best - paper), len(paper - best)))
    return min(1.0, 2.0 * sign_test_p(fewer, more))


def rows_of(name: str, bundle: Bundle, seeds: int, trials: int, metrics: Sequence[str]) -> Iterator[dict[str, Any]]:
    """A row a setting, metric and seed."""
    task, test_task = task_of(bundle, bundle.train), task_of(bundle, bundle.test)
    for words, options in settings(task):
        for metric in metrics:
            space = RankedBy(task, options, metric)
            test = space.evaluator.on(test_task)
            answer = run_procedure(space)
            for seed in range(seeds):
                study = Study(space, "refine", seed)
                result = study.run(InProcessExecutor(space), Budget(trials=trials))
                if answer is None or result.best is None or not result.feasible:
                    continue
                taken, chosen = ranked_and_delivered(space, study, result, answer)
                yield {
                    "model": name,
                    "setting": words,
                    "metric": metric,
                    "seed": seed,
                    "test_samples": len(test_task.features),
                    "best": measured(space, test, result.best),
                    "ranked": measured(space, test, taken),
                    "delivered": measured(space, test, chosen),
                    "procedure": measured(space, test, answer),
                }


def record(path: Path, models: Sequence[str], generated: bool, seeds: int, trials: int, metrics: Sequence[str]) -> None:
    """Appends the rows of the models to `path`, model by model."""
    with tempfile.TemporaryDirectory(prefix="kilotune-precision-") as folder:
        small = {model.name: model for model in (generated_models() if generated else public_models())}
        for name in models or [*([] if generated else BUNDLED), *small]:
            place = write_small_model(small[name], Path(folder)) if name in small else resolve_model(name)
            with path.open("a") as file:
                for row in rows_of(name, load_bundle(place), seeds, trials, metrics):
                    file.write(json.dumps(row) + "\n")
            print(name, flush=True)


def same_bytes(row: dict[str, Any]) -> bool:
    """Whether the best found may be compared with the procedure's answer: at as many bytes, or under the same limit."""
    return "limit" in row["setting"] or row["best"]["memory_bytes"] == row["procedure"]["memory_bytes"]


def interval(differences: Sequence[float], seed: int = 0) -> tuple[float, float]:
    """Where the mean lies, 95 %, by the bootstrap over models, each of which is the mean over its seeds."""
    values = np.array(differences)
    draws = np.random.default_rng(seed).integers(0, len(values), (RESAMPLES, len(values)))
    low, high = np.quantile(values[draws].mean(axis=1), [0.025, 0.975])
    return float(low), float(high)


def line(rows: Sequence[dict[str, Any]], who: str = "best") -> str:
    """Wins, ties and losses of the best found, or of what is delivered, and test disagreements in per cent of the samples."""
    pairs = [row for row in rows if same_bytes(row)]
    if not pairs:
        return f"fewer bytes in all {len(rows)}"
    best, paper = (
        [100.0 * row[one]["test_disagreements"] / row["test_samples"] for row in pairs] for one in (who, "procedure")
    )
    by_model: dict[str, list[float]] = defaultdict(list)
    for row, x, y in zip(pairs, best, paper, strict=True):
        by_model[row["model"]].append(x - y)
    low, high = interval([float(np.mean(of_model)) for of_model in by_model.values()])
    tested = paired_test(best, paper)
    p = "-" if tested.p is None else f"{tested.p:.2g}"
    mean = float(np.mean([np.mean(of_model) for of_model in by_model.values()]))
    lost = [row for row, x, y in zip(pairs, best, paper, strict=True) if x > y]
    worst = max((row[who]["test_disagreements"] - row["procedure"]["test_disagreements"] for row in lost), default=0)
    return (
        f"{tested.wins} / {tested.ties} / {tested.losses}, p {p}, fewer bytes {len(rows) - len(pairs)}; "
        f"test disagreements {np.mean(best):.2f} %, procedure {np.mean(paper):.2f} %, "
        f"difference {mean:+.2f} [{low:+.2f}, {high:+.2f}]; worst loss {worst:.0f} samples"
    )


def told_apart(rows: Sequence[dict[str, Any]], who: str = "best") -> str:
    """How many of the pairs differ by more than luck, and what they are expected to flip of the test samples, which does not tie."""
    pairs = [row for row in rows if same_bytes(row) and "test_flipped" in row[who]]
    counts = {"fewer": [0, 0], "more": [0, 0]}
    expected = [0, 0, 0]
    for row in pairs:
        x, y = (row[one]["test_disagreements"] for one in (who, "procedure"))
        if x != y:
            side = counts["fewer" if x < y else "more"]
            side[0], side[1] = side[0] + 1, side[1] + (p_of_difference(row, who) < SIGNIFICANCE)
        x, y = (round(row[one]["test_expected_flips"], 3) for one in (who, "procedure"))
        expected[(x > y) - (x < y) + 1] += 1
    told = ", ".join(
        f"{side} in {n} ({sure} of them told apart by McNemar's test)" for side, (n, sure) in counts.items()
    )
    return f"test disagreements {told}; expected flips of test samples fewer / equal / more: " + " / ".join(
        map(str, expected)
    )


def show(paths: Sequence[Path]) -> None:
    """A line a setting and metric, then the pairs that were lost."""
    rows = [json.loads(text) for path in paths for text in path.read_text().splitlines()]
    print(f"{len({row['model'] for row in rows})} models, {len({row['seed'] for row in rows})} seeds")
    for metric in METRICS:
        of_metric = [row for row in rows if row["metric"] == metric]
        if not of_metric:
            continue
        print(f"\nranked by {metric}: wins / ties / losses against the procedure")
        for words in dict.fromkeys(row["setting"] for row in of_metric):
            print(f"  {words}: {line([row for row in of_metric if row['setting'] == words])}")
        print(f"  all: {line(of_metric)}")
        if metric == METRICS[1]:
            for who in ("ranked", "delivered"):
                for words in dict.fromkeys(row["setting"] for row in of_metric):
                    print(f"  {who}, {words}: {line([row for row in of_metric if row['setting'] == words], who)}")
                print(f"  {who}, all: {line(of_metric, who)}")
            print(f"  ranked: {told_apart(of_metric, 'ranked')}")
        print(f"  {told_apart(of_metric)}")
    ranked = [row for row in rows if row["metric"] == METRICS[1] and same_bytes(row)]
    worse = sum(row["best"]["expected_flips"] > row["procedure"]["expected_flips"] for row in ranked)
    print(f"\nexpected flips of the training samples, by which they are ranked: more in {worse} of {len(ranked)}")
    print("\nlost, ranked by expected_flips: test disagreements, expected flips on the training samples")
    for row in rows:
        best, paper = row["best"], row["procedure"]
        if row["metric"] == METRICS[1] and same_bytes(row) and best["test_disagreements"] > paper["test_disagreements"]:
            flips = f"{best['expected_flips']:.2f}, procedure {paper['expected_flips']:.2f}"
            counts = f"{best['test_disagreements']:.0f} of {row['test_samples']}, procedure {paper['test_disagreements']:.0f}"
            print(f"  {row['model']} {row['setting']} seed {row['seed']}: {counts}; {flips}")


def main() -> None:
    """Record or show."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record")
    recording.add_argument("file", type=Path)
    recording.add_argument("models", nargs="*")
    recording.add_argument("--generated", action="store_true", help="the generated models rather than the public ones")
    recording.add_argument("--seeds", type=int, default=5)
    recording.add_argument("--trials", type=int, default=600)
    recording.add_argument("--metrics", nargs="+", choices=METRICS, default=METRICS)
    showing = commands.add_parser("show")
    showing.add_argument("files", nargs="+", type=Path)
    given = parser.parse_args()
    if given.command == "record":
        record(given.file, given.models, given.generated, given.seeds, given.trials, given.metrics)
    else:
        show(given.files)


if __name__ == "__main__":
    main()
