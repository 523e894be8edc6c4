"""Fit what reading packed parameters takes, to differences between simulator runs with and without.

    python -m kilotune.experiments.benchmarks.unpacking TARGET           # the rows, for the shipped table
    python -m kilotune.experiments.benchmarks.unpacking TARGET --check   # errors of predicted cycles of other candidates

TARGET: avr, cortex-m0plus, cortex-m4. Every bundled model runs with 8 bits everywhere, then with its parameters stored in random widths of
1 to 8 bits; only the difference is fitted, so the rows of what is not packed stay what they are.
"""

from __future__ import annotations

import json
import sys

import numpy as np
from scipy.optimize import nnls

from kilotune.codegen.emit.c import emit_c
from kilotune.codegen.fixed.encoding import LAYOUTS
from kilotune.evaluators.cost_counts import CostFeatures
from kilotune.evaluators.cost_features import FEATURES, NUMBERS
from kilotune.evaluators.devices import shipped_cost_table
from kilotune.experiments.benchmarks.cost_model import MODELS, SAMPLES, Runner, runner_of
from kilotune.experiments.problems.fixed_point.problem import build_problem, resolve_input
from kilotune.experiments.requests.request import TuneRequest
from kilotune.search.space import Assignment
from kilotune.spaces.shiftry.formats import DEMOTED_BITS, parse_format
from kilotune.spaces.shiftry.space import ShiftrySpace

DRAWN = 12
"""Candidates a model."""


def narrowed(space: ShiftrySpace, random: np.random.Generator | None) -> Assignment:
    """Eight bits everywhere, or with `random` parameters in random widths at the scale of their largest value."""
    chosen = {}
    for decision in space.decisions:
        widths = {parse_format(str(o)).bits for o in decision.options}
        offered = sorted(w for w in widths if w <= DEMOTED_BITS)
        width = DEMOTED_BITS if random is None else int(random.choice(offered))
        chosen[decision.name] = next(o for o in decision.options if parse_format(str(o)).bits == width)
    return chosen


def observe(runner: Runner, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Counts [candidates, features], and cycles, of packed candidates; cycles of the model without."""
    counts, cycles, plain = [], [], []
    for model in MODELS:
        problem = build_problem(TuneRequest("shiftry", str(resolve_input(model)), "random", options={"narrow": True}))
        space = problem.space
        assert isinstance(space, ShiftrySpace)
        task, random = space.task, np.random.default_rng(seed)
        features = task.features[:SAMPLES]
        whole = space.lower([narrowed(space, None)])
        before = runner(emit_c(whole, task.parameters), features)
        for _ in range(DRAWN):
            batch = space.lower([narrowed(space, random)])
            terms = CostFeatures(batch.program, task.parameters)
            counts.append(terms.terms(batch).matrix()[0] - terms.terms(whole).matrix()[0])
            cycles.append(runner(emit_c(batch, task.parameters), features))
            plain.append(before)
    return np.array(counts), np.array(cycles), np.array(plain)


def main(arguments: list[str]) -> None:
    """Print rows or errors."""
    target = arguments[0]
    shipped = shipped_cost_table(target)
    assert shipped is not None
    table = shipped.vector()
    counts, cycles, plain = observe(runner_of(target), 1_000_001 if "--check" in arguments else 1)
    if "--check" in arguments:
        errors = np.abs(plain + counts @ table - cycles) / cycles
        print(f"{target}: mean error {100 * errors.mean():.1f} %, largest {100 * errors.max():.1f} %")
        return
    rows = [name for name in FEATURES if name.startswith("unpack.")]
    columns = [NUMBERS[name] for name in rows]
    rest = table.copy()
    rest[columns] = 0.0
    wanted = cycles - plain - counts @ rest
    found, _ = nnls(counts[:, columns] / cycles[:, None], wanted / cycles)
    print(json.dumps({name: round(float(value), 2) for name, value in zip(rows, found, strict=True)}, indent=1))
    assert len(LAYOUTS) * 3 == len(rows)


if __name__ == "__main__":
    main(sys.argv[1:])
