"""What programs of decision trees take on simulated devices, beside the cost model; and the costs that fit best.

`python -m kilotune.experiments.benchmarks.forest_costs fit uno` prints costs for `codegen.forest.costs.COSTS`, `check uno` how far they are
off on other forests. What is assembler on the device is counted instead of fitted, and reported by itself.
"""

from __future__ import annotations

import math
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import nnls

from kilotune.codegen.forest.costs import COSTS, CodeCosts, Counts, ForestCosts
from kilotune.codegen.forest.emission import emit_forest
from kilotune.codegen.forest.importing import read_forest
from kilotune.codegen.forest.integers import counted, feature_formats, integer_forest, leaf_formats
from kilotune.codegen.forest.plan import STORED, plan_forest
from kilotune.evaluators.architectures.registry import architecture_of
from kilotune.evaluators.device import Device
from kilotune.evaluators.devices import find_device
from kilotune.evaluators.on_device import measure_artefact
from kilotune.evaluators.simulated import of_emitted

SAMPLES = 60
EMPTY = CodeCosts({}, {})


@dataclass(frozen=True)
class ForestRun:
    """One program, measured. `name`: of the forest, and which comparisons are code. `counted`: bytes and cycles of one in assembler, with
    nothing that makes ranks."""

    name: str
    flash: Counts
    cycles: Counts
    array_bytes: int
    flash_bytes: int
    mean_cycles: float
    counted: tuple[float, float] | None


def estimators(seed: int) -> Iterator[tuple[Any, np.ndarray, np.ndarray]]:
    """Fitted estimators of scikit-learn with their samples and targets."""
    from sklearn.datasets import load_breast_cancer, load_digits, load_wine
    from sklearn.ensemble import (
        ExtraTreesClassifier,
        GradientBoostingClassifier,
        RandomForestClassifier,
        RandomForestRegressor,
    )
    from sklearn.tree import DecisionTreeClassifier

    digits, cancer, wine = load_digits(), load_breast_cancer(), load_wine()
    for model, data in (
        (RandomForestClassifier(8, max_depth=7, random_state=seed), digits),
        (ExtraTreesClassifier(6, max_depth=6, random_state=seed), digits),
        (DecisionTreeClassifier(max_depth=9, random_state=seed), digits),
        (GradientBoostingClassifier(n_estimators=4, random_state=seed), digits),
        (RandomForestClassifier(7, max_depth=6, random_state=seed), wine),
        (GradientBoostingClassifier(n_estimators=15, random_state=seed), cancer),
        (RandomForestRegressor(8, max_depth=6, random_state=seed), wine),
    ):
        yield model.fit(data.data, data.target), data.data, data.target
    wide = np.concatenate(
        [digits.data, digits.data[:, ::-1] - digits.data], axis=1
    )  # more than registers and loads of an AVR reach
    for model in (
        RandomForestClassifier(8, max_depth=7, random_state=seed),
        ExtraTreesClassifier(6, max_depth=6, random_state=seed),
    ):
        yield model.fit(wide, digits.target), wide, digits.target


def runs(device: Device, seed: int) -> Iterator[ForestRun]:
    """All forests in every format of leaves, with nothing as code, what a third and a sixteenth of all samples meet, and everything."""
    from skl2onnx import to_onnx

    for model, rows, _ in estimators(seed):
        samples = rows.astype(np.float32)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{type(model).__name__}.onnx"
            path.write_bytes(to_onnx(model, samples[:1]).SerializeToString())
            forest = read_forest(path)
        features = samples.astype(np.float64)
        given = feature_formats(forest, features)[0]
        for leaves in leaf_formats(forest).values():
            made = integer_forest(forest, given, leaves)
            integers = made.quantise(features[:: max(1, len(features) // SAMPLES)][:SAMPLES])
            made = counted(made, integers)
            costs = ForestCosts(
                plan_forest(made, [STORED] * len(made.trees)), EMPTY, architecture_of(device.processor).name == "avr"
            )
            for share in (math.inf, 1 / 3, 1 / 16, 0.0):
                least = [share * len(integers)] * len(made.trees)
                artefact = of_emitted(emit_forest(plan_forest(made, least)))
                measured = measure_artefact(device, artefact, integers.astype(artefact.input_type))
                flash, cycles, array_bytes = costs.counts(least)
                name = f"{forest.name}, {leaves.stored_bits} bits, share {share:.2g}"
                known = costs.of(least) if costs.in_assembler else None
                yield ForestRun(name, flash, cycles, _linked(costs, array_bytes), measured.sizes.flash_bytes, measured.cycles,
                                None if known is None else (known[0] - costs.rank_bytes, known[1]))  # fmt: skip


def _linked(costs: ForestCosts, array_bytes: int) -> int:
    """Bytes of arrays in a program that never calls what makes ranks of features."""
    return array_bytes - costs.rank_bytes


def fitted(found: list[ForestRun]) -> CodeCosts:
    """The costs of programs in C with the least relative error of the squares, none of them below 0."""
    found = [run for run in found if run.counted is None]
    flash = _fit(
        [run.flash for run in found],
        [run.flash_bytes - run.array_bytes for run in found],
        [run.flash_bytes for run in found],
    )
    cycles = _fit([run.cycles for run in found], [run.mean_cycles for run in found], [run.mean_cycles for run in found])
    return CodeCosts(flash, cycles)


def _fit(counts: list[Counts], wanted: list[float], sizes: list[float]) -> Counts:
    names = sorted({name for row in counts for name in row})
    weights = 1.0 / np.asarray(sizes)
    matrix = np.array([[float(row.get(name, 0)) for name in names] for row in counts])
    found, _ = nnls(matrix * weights[:, None], np.asarray(wanted) * weights)
    return {name: round(float(value), 1) for name, value in zip(names, found, strict=True)}


def errors(found: list[ForestRun], costs: CodeCosts) -> Iterator[tuple[str, float, float]]:
    """(name, error of bytes, error of cycles), in per cent of what was measured."""
    for run in found:
        if run.counted is not None:
            flash, cycles = run.counted
            yield f"{run.name}, assembler", 100 * (flash / run.flash_bytes - 1), 100 * (cycles / run.mean_cycles - 1)
            continue
        flash = run.array_bytes + sum(costs.flash[name] * count for name, count in run.flash.items())
        cycles = sum(costs.cycles[name] * count for name, count in run.cycles.items())
        yield run.name, 100 * (flash / run.flash_bytes - 1), 100 * (cycles / run.mean_cycles - 1)


def main(arguments: list[str]) -> None:
    """Fit, or check."""
    what, device = arguments[0], find_device(arguments[1])
    found = list(runs(device, seed=0 if what == "fit" else 7))
    costs = fitted(found) if what == "fit" else COSTS[architecture_of(device.processor).name]
    if what == "fit":
        print(f"flash = {costs.flash}\ncycles = {costs.cycles}")
    table = list(errors(found, costs))
    for name, flash, cycles in table:
        print(f"{name:50} flash {flash:6.1f} %  cycles {cycles:6.1f} %")
    for kind, chosen in (("C", False), ("assembler", True)):
        rows = [row for row, run in zip(table, found, strict=True) if (run.counted is not None) == chosen]
        for place, label in ((1, "flash"), (2, "cycles")) if rows else ():
            off = [abs(float(row[place])) for row in rows]
            print(f"{kind}, {label}: median {np.median(off):.1f} %, largest {max(off):.1f} % of {len(off)} programs")


if __name__ == "__main__":
    main(sys.argv[1:])
