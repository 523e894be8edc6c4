"""SeeDot's Figures 8 and 9 and Table 1 on real data: its programs against 8-bit weights in floats, math.h's e**x, and LeNets in floats.

    python -m kilotune.experiments.papers.seedot_floats figure-8 BUNDLES [--models NAME ...]
    python -m kilotune.experiments.papers.seedot_floats figure-9 BUNDLES [--models NAME ...]
    python -m kilotune.experiments.papers.seedot_floats table-1 BUNDLES [--models NAME ...]

BUNDLES is a folder of bundles, such as `papers.paper_models` trains. SeeDot's programs are the answers of its brute force over maxscale
(Section 5.3.2) on the first training samples; accuracies are of all test samples; outputs on the simulated boards are compared.

- Figure 8 (Arduino Uno, 16 bits): hybrid programs have one scale for each matrix of weights and compute in floats. The paper wrote them by
  hand, after TensorFlow Lite's post-training quantisation; ours are the float code generator's, with the scale taken out of the sums.
- Figure 9 (MKR1000, 32 bits; models with e**x, so ProtoNN): the same program with math.h's e**x instead of tables. Its classes are compared
  with those of the reference simulator with that function.
- Table 1 (MKR1000; models named lenet-...): 16 and 32 bits against floats. The paper's LeNets are of CIFAR-10.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from kilotune.codegen.emit.c import emit_c
from kilotune.codegen.fixed.arithmetic import quantise
from kilotune.codegen.fixed.exponential import by_library
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.evaluators.fixed_point.reference import run_reference
from kilotune.evaluators.on_device import measure_artefact
from kilotune.evaluators.simulated import of_emitted
from kilotune.experiments.papers.fixed_point_baselines import float_accuracy, hybrid_on_board, on_board
from kilotune.experiments.papers.seedot_tables import brute_force
from kilotune.experiments.problems.fixed_point.device_runs import measure_float
from kilotune.experiments.problems.fixed_point.model import TunedModel

UNO_SAMPLES, WIDE_SAMPLES, LENET_SAMPLES = 600, 60, (200, 200)
"""Training samples of the brute force: 16 bits on the Uno, 32 on the MKR1000, 16 and 32 of LeNets."""

EXPONENTIAL_SAMPLES = 20
"""Test samples of which the classes with math.h's e**x are compared."""

PAPER = {
    "figure-8": "paper: over TensorFlow Lite's hybrid code 6.4x (Bonsai) and 5.5x (ProtoNN) on average",
    "figure-9": "paper: tables for e**x make ProtoNN 3.8x to 9.4x as fast as math.h does",
    "table-1": "paper (CIFAR-10): 50K parameters 16 bits 2.45 points lost, 2.5x; 32 bits 0.00, 3.3x; 105K 16 bits 1.16, floats do not fit",
}


def figure_8(path: Path) -> dict[str, Any]:
    """`seedot`, `hybrid` and `float` of one bundle on the Uno."""
    problem, answer = brute_force(path, "uno", 16, UNO_SAMPLES)
    test = problem.bundle.test
    assert test is not None
    return {
        "model": path.name,
        "seedot": on_board(problem, answer, test),
        "hybrid": hybrid_on_board(problem, test),
        "float": _float(problem),
    }


def figure_9(path: Path) -> dict[str, Any]:
    """`seedot`, `library` (the same with math.h's e**x) and `float` of one bundle on the MKR1000."""
    problem, answer = brute_force(path, "mkr1000", 32, WIDE_SAMPLES)
    assert problem.bundle.test is not None
    return {
        "model": path.name,
        "seedot": on_board(problem, answer, problem.bundle.test),
        "library": _by_library(problem, problem.lower(answer)),
        "float": _float(problem),
    }


def table_1(path: Path) -> dict[str, Any]:
    """`16`, `32` and `float` of one bundle on the MKR1000."""
    row: dict[str, Any] = {"model": path.name}
    for bits, samples in zip((16, 32), LENET_SAMPLES, strict=True):
        problem, answer = brute_force(path, "mkr1000", bits, samples)
        assert problem.bundle.test is not None
        row[str(bits)] = on_board(problem, answer, problem.bundle.test)
        row["float"] = _float(problem)
        row["parameters"] = sum(values.size for values in problem.bundle.parameters.values())
    return row


def _float(problem: TunedModel) -> dict[str, Any]:
    bundle, found = problem.bundle, measure_float(problem)
    assert bundle.test is not None
    accuracy = {"accuracy": float_accuracy(bundle, bundle.parameters, bundle.test)}
    return accuracy if found is None else {**accuracy, "flash": found.sizes.flash_bytes, "cycles": found.cycles}


def _by_library(problem: TunedModel, batch: FixedBatch) -> dict[str, Any]:
    """The program with math.h's e**x on some test samples; `equal`: of how many the class is the reference simulator's."""
    test, board, parameters = problem.bundle.test, problem.options.board, problem.bundle.parameters
    assert test is not None
    assert board is not None
    other = dataclasses.replace(batch, functions=tuple(by_library(table) for table in batch.functions))
    source = emit_c(other, parameters)
    features = test.features[:EXPONENTIAL_SAMPLES]
    given = quantise(features, source.interface.input_bits, source.interface.input_scale)
    found = measure_artefact(board, of_emitted(source), given, f"-{problem.level}")
    same = found.run.outputs.reshape(-1) == run_reference(other, parameters, features)[0, :, 0]
    return {
        "flash": found.sizes.flash_bytes,
        "cycles": found.cycles,
        "equal": int(same.sum()),
        "compared": len(features),
    }


def speed_up(row: Mapping[str, Any], base: str, own: str) -> float | None:
    """How many times as fast one program is as another; None where one of the two does not run."""
    cycles = [row[name].get("cycles") for name in (base, own)]
    return None if None in cycles else cycles[0] / cycles[1]


def lines_8(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Figure 8 as a table in Markdown, and means by kind of model."""
    accuracies = "float | hybrid | SeeDot"
    yield f"| model | {accuracies} | hybrid: flash, cycles | equal | float: flash, cycles | SeeDot over hybrid | over float |"
    yield "|---" * 9 + "|"
    for row in rows:
        times = (speed_up(row, "hybrid", "seedot"), speed_up(row, "float", "seedot"))
        yield (
            f"| {row['model']} | {_accuracies(row, 'float', 'hybrid', 'seedot')} | {_cost(row['hybrid'])} | {_equal(row['hybrid'])} |"
            f" {_cost(row['float'])} | {' | '.join(map(_times, times))} |"
        )
    yield from _means(rows, "hybrid", "seedot", "SeeDot over hybrid")
    yield from _means(rows, "hybrid", "float", "float over hybrid")
    yield PAPER["figure-8"]


def lines_9(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Figure 9 as a table in Markdown, and the means."""
    costs = "SeeDot: flash, cycles | with math.h: flash, cycles | equal | float: flash, cycles"
    yield f"| model | float | SeeDot | {costs} | SeeDot over float | math.h over float | tables over math.h |"
    yield "|---" * 10 + "|"
    for row in rows:
        pairs = (("float", "seedot"), ("float", "library"), ("library", "seedot"))
        yield (
            f"| {row['model']} | {_accuracies(row, 'float', 'seedot')} | {_cost(row['seedot'])} | {_cost(row['library'])} |"
            f" {_equal(row['library'])} | {_cost(row['float'])} | {' | '.join(_times(speed_up(row, *pair)) for pair in pairs)} |"
        )
    yield from _means(rows, "library", "seedot", "tables over math.h")
    yield PAPER["figure-9"]


def lines_1(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Table 1 in Markdown."""
    yield "| model | parameters | bits | float | accuracy | flash, cycles | float: flash, cycles | speed-up |"
    yield "|---" * 8 + "|"
    for row in rows:
        for bits in ("16", "32"):
            yield (
                f"| {row['model']} | {row['parameters']} | {bits} | {_accuracies(row, 'float', bits)} | {_cost(row[bits])} |"
                f" {_cost(row['float'])} | {_times(speed_up(row, 'float', bits))} |"
            )
    yield PAPER["table-1"]


def _means(rows: Sequence[Mapping[str, Any]], base: str, own: str, what: str) -> Iterator[str]:
    for kind in dict.fromkeys(row["model"].split("-")[0] for row in rows):
        found = [speed_up(row, base, own) for row in rows if row["model"].startswith(f"{kind}-")]
        known = [value for value in found if value is not None]
        if known:
            yield f"{kind}: {what} {geometric_mean(known):.1f}x (geometric mean of {len(known)}; {min(known):.1f}x to {max(known):.1f}x)"


def _accuracies(row: Mapping[str, Any], *names: str) -> str:
    return " | ".join(f"{row[name]['accuracy']:.2f}" for name in names)


def _cost(cell: Mapping[str, Any]) -> str:
    return f"{cell['flash']}, {cell['cycles']:.0f}" if "cycles" in cell else "does not fit"


def _equal(cell: Mapping[str, Any]) -> str:
    return f"{cell['equal']} of {cell['compared']}" if "equal" in cell else "-"


def _times(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}x"


MeasureRow = Callable[[Path], dict[str, Any]]
ShowRows = Callable[[Sequence[Mapping[str, Any]]], Iterator[str]]

FIGURES: dict[str, tuple[str, MeasureRow, ShowRows]] = {
    "figure-8": ("bonsai- protonn- fastgrnn-", figure_8, lines_8),
    "figure-9": ("protonn-", figure_9, lines_9),
    "table-1": ("lenet-", table_1, lines_1),
}
"""How names of models begin, what measures one, and what prints all."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figure", choices=list(FIGURES))
    parser.add_argument("bundles", type=Path)
    parser.add_argument("--models", nargs="+", default=[], metavar="NAME")
    given = parser.parse_args()
    kinds, measured, shown = FIGURES[given.figure]
    rows = []
    for path in sorted(file.parent for file in given.bundles.glob("*/model.sd")):
        if path.name in given.models or (not given.models and path.name.startswith(tuple(kinds.split()))):
            rows.append(measured(path))
            print(f"{path.name} is measured", file=sys.stderr, flush=True)
    print("\n".join(shown(rows)))


if __name__ == "__main__":
    main()
