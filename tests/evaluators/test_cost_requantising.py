"""What becomes of sums in quantised programs is counted, and its cycles are found where those of all else are known."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.fixed.quantised import lower_quantised
from kilotune.codegen.trained.conversion import convert
from kilotune.codegen.trained.endings import Returns
from kilotune.codegen.trained.tflite_models import read_tflite
from kilotune.evaluators.cost_counts import CostFeatures
from kilotune.evaluators.cost_features import FEATURES, NUMBERS
from kilotune.evaluators.devices import shipped_cost_table
from kilotune.experiments.benchmarks.cost_fit import Observation
from kilotune.experiments.benchmarks.kept_integers import FITTED, fitted
from tests.codegen.trained.quantised_files import RandomNetworks


def test_every_integer_that_is_rescaled_is_counted(tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    met = set()
    for number in range(6):
        path = RandomNetworks(random).network(4).write(tmp_path / f"{number}.tflite")
        made = convert(read_tflite(path, keep_quantisation=True), "made", Returns.VALUE)
        expected = 0
        for operation, times in ir.executions(made.program.body):
            count = (
                3
                if isinstance(operation, ir.QuantisedSum)
                else int(isinstance(operation, ir.QuantisedProduct | ir.QuantisedSoftmax))
            )
            if isinstance(operation, ir.Product) and operation.completion is not None:
                count = 1
            if count:
                met.add(type(operation))
            expected += count * times * operation.out.size
        if ir.is_quantised(made.program):
            counted = CostFeatures(made.program, made.parameters).terms(lower_quantised(made.program)).matrix()[0]
            assert counted[NUMBERS["rescaled.fixed"]] == expected
    assert len(met) > 1


def test_their_cycles_are_found_beside_known_ones() -> None:
    table, random = shipped_cost_table("avr"), np.random.default_rng(0)
    assert table is not None
    wanted = dict(zip(FITTED, (400.0, 650.0, 8.0), strict=True))
    vector, seen = table.vector(), []
    for name, cycles in wanted.items():
        vector[NUMBERS[name]] = cycles
    for _ in range(30):
        counts = np.zeros(len(FEATURES))
        for name in (*FITTED, "program", "start.MatMul", "element.MatMul.short", "store.8.pointer"):
            counts[NUMBERS[name]] = random.integers(0, 90)
        seen.append(Observation("plain", counts, float(counts @ vector)))
    found = fitted(seen, table)
    np.testing.assert_allclose([found[name] for name in FITTED], list(wanted.values()), atol=0.01)
