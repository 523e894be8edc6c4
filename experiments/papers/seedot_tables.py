"""SeeDot's Figures 6, 7 and 12 on real data: 16 bits on an Arduino Uno and 32 on an MKR1000 against floats, wide integers and `ap_fixed`.

    python -m kilotune.experiments.papers.seedot_tables BUNDLES [--models NAME ...]

BUNDLES is a folder of bundles, such as `papers.paper_models` trains. The program of each width is the answer of the paper's brute force
over maxscale (Section 5.3.2), on the first training samples; accuracies are of all test samples. On the simulated boards outputs are
compared with the simulator's bit for bit. Wide: the same program in 32 bits on the Uno, which stands for MATLAB's code of large widths in
Figure 7. `ap_fixed`: the best of all places of the point, on the test samples, as in Figure 12. Speed-ups are of cycles.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import numpy as np

from kilotune.evaluators.devices import find_device
from kilotune.experiments.papers.fixed_point_baselines import float_accuracy, on_board, uniform, with_fewer_samples
from kilotune.experiments.problems.fixed_point.device_runs import measure_float
from kilotune.experiments.problems.fixed_point.model import TunedModel
from kilotune.experiments.problems.fixed_point.problem import build_problem
from kilotune.experiments.requests.request import TuneRequest
from kilotune.search.procedure import run_procedure
from kilotune.search.space import Assignment
from kilotune.spaces.seedot.space import SeeDotSpace
from kilotune.spaces.shiftry.candidates import ShiftryCandidates

BUILDS = (("uno", 16, 600), ("mkr1000", 32, 60), ("uno", 32, 60))
"""Board, bits, and training samples of the brute force: programs of 32 bits run in a slow simulator."""

PAPER = (
    "paper: SeeDot over floats on the Uno 3.1x (Bonsai) and 2.9x (ProtoNN), on the MKR1000 4.9x and 8.3x; over MATLAB's fixed point with "
    "sparse matrices 11.6x and 15.6x; accuracy lost on the Uno 0.345 and 1.855 points, on the MKR1000 0.127 and 0.051 (where any is lost); "
    "ap_fixed loses 17.26 points at 8 bits (Bonsai) and 39.69 at 16 (ProtoNN)"
)


def measured(path: Path) -> dict[str, Any]:
    """What one bundle reaches: `float`, `ap_fixed 8` and `16` (accuracies), and for each of BUILDS the program and the float's cycles."""
    bundle = build_problem(TuneRequest("seedot", str(path), "exhaustive")).bundle
    assert bundle.test is not None
    row: dict[str, Any] = {"model": path.name, "float": float_accuracy(bundle, bundle.parameters, bundle.test)}
    formats = build_problem(TuneRequest("shiftry", str(path), "refine")).space
    assert isinstance(formats, ShiftryCandidates)
    row |= {f"ap_fixed {bits}": uniform(formats, bundle.test, bits) for bits in (8, 16)}
    for board, bits, samples in BUILDS:
        problem, answer = brute_force(path, board, bits, samples)
        floats = measure_float(problem)
        row[f"{board} {bits}"] = {
            **on_board(problem, answer, bundle.test),
            "float_cycles": None if floats is None else floats.cycles,
        }
    return row


def brute_force(path: Path, board: str, bits: int, samples: int) -> tuple[TunedModel, Assignment]:
    """The problem of a bundle on a board at one width, with that many training samples, and the answer of the search over maxscale."""
    options = {"device": find_device(board).as_json()}
    problem = build_problem(TuneRequest("seedot", str(path), "exhaustive", options=options))
    few = with_fewer_samples(problem.bundle, samples)
    assert few.train is not None
    assert isinstance(problem.space, SeeDotSpace)
    targets = few.train.targets.astype(np.float64)
    task = dataclasses.replace(problem.space.task, features=few.train.features, targets=targets)
    space = SeeDotSpace(task, dataclasses.replace(problem.space.options, bitwidths=(bits,)))
    answer = run_procedure(space)
    assert answer is not None
    return dataclasses.replace(problem, bundle=few, space=space), answer.assignment


def lines(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The table in Markdown, and means by kind of model."""
    accuracies = ("float", "uno 16", "mkr1000 32", "ap_fixed 16", "ap_fixed 8")
    columns = (*accuracies, "uno: flash, cycles", "over float", "over wide", "MKR1000 over float")
    yield "| model | " + " | ".join(columns) + " |"
    yield "|---" * (len(columns) + 1) + "|"
    for row in rows:
        uno = row["uno 16"]
        cost = f"{uno['flash']}, {uno['cycles']:.0f}" if "cycles" in uno else "does not fit"
        cells = [
            *(f"{_accuracy(row, what):.2f}" for what in accuracies),
            cost,
            *(_times(value) for value in speed_ups(row)),
        ]
        yield f"| {row['model']} | " + " | ".join(cells) + " |"
    yield ""
    for kind in dict.fromkeys(row["model"].split("-")[0] for row in rows):
        chosen = [row for row in rows if row["model"].startswith(f"{kind}-")]
        known = [[x for x in found if x is not None] for found in zip(*map(speed_ups, chosen), strict=True)]
        means = [geometric_mean(found) if found else None for found in known]
        lost = [np.mean([row["float"] - _accuracy(row, what) for row in chosen]) for what in accuracies[1:]]
        yield (
            f"{kind}: over float, over wide, MKR1000 over float: {', '.join(map(_times, means))} (geometric means); points lost on "
            f"average, Uno, MKR1000, ap_fixed 16 and 8: {', '.join(f'{value:.2f}' for value in lost)}"
        )
    yield PAPER


def speed_ups(row: Mapping[str, Any]) -> tuple[float | None, ...]:
    """On the Uno over floats and over 32 bits, on the MKR1000 over floats; None where one of the two does not run."""
    uno, wide, larger = (row[f"{board} {bits}"] for board, bits, _ in (BUILDS[0], BUILDS[2], BUILDS[1]))
    pairs = ((uno.get("float_cycles"), uno), (wide.get("cycles"), uno), (larger.get("float_cycles"), larger))
    return tuple(None if base is None or "cycles" not in own else base / own["cycles"] for base, own in pairs)


def _accuracy(row: Mapping[str, Any], what: str) -> float:
    found = row[what]
    return float(found["accuracy"] if isinstance(found, Mapping) else found)


def _times(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}x"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundles", type=Path)
    parser.add_argument("--models", nargs="+", default=[], metavar="NAME")
    given = parser.parse_args()
    paths = sorted(file.parent for file in given.bundles.glob("*/model.sd"))
    rows = []
    for path in paths:
        if not given.models or path.name in given.models:
            rows.append(measured(path))
            print(f"{path.name} is measured", file=sys.stderr, flush=True)
    print("\n".join(lines(rows)))


if __name__ == "__main__":
    main()
