"""Fit what reading packed parameters takes, to differences between simulator runs with and without.

    python -m kilotune.experiments.benchmarks.unpacking TARGET           # the rows, for the shipped table
    python -m kilotune.experiments.benchmarks.unpacking TARGET --check   # errors of predicted cycles of other candidates
    python -m kilotune.experiments.benchmarks.unpacking TARGET --lookup  # what a codebook adds to 4 bits, cycles a weight that is read
    python -m kilotune.experiments.benchmarks.unpacking avr --code       # bytes of code, for codegen.emit.unpacking_size

TARGET: avr, cortex-m0plus, cortex-m4. Every bundled model runs with 8 bits everywhere, then with its parameters stored in random widths of
1 to 8 bits; only the difference is fitted, so the rows of what is not packed stay what they are.
"""

from __future__ import annotations

import json
import sys

import numpy as np
from scipy.optimize import nnls

from kilotune.codegen.emit.c import emit_c
from kilotune.codegen.emit.unpacking_size import CODE_BYTES
from kilotune.codegen.fixed.codebook import CODEBOOK_BITS
from kilotune.codegen.fixed.encoding import LAYOUTS
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.evaluators.architectures.avr.firmware import build_firmware
from kilotune.evaluators.cost_counts import CostFeatures
from kilotune.evaluators.cost_features import FEATURES, NUMBERS
from kilotune.evaluators.devices import shipped_cost_table
from kilotune.evaluators.simulated import of_emitted
from kilotune.experiments.benchmarks.cost_model import MODELS, SAMPLES, Runner, runner_of
from kilotune.experiments.problems.fixed_point.problem import build_problem, resolve_input
from kilotune.experiments.requests.request import TuneRequest
from kilotune.search.space import Assignment
from kilotune.spaces.shiftry.formats import DEMOTED_BITS, parse_format
from kilotune.spaces.shiftry.space import ShiftrySpace

DRAWN = 12
"""Candidates a model."""


def narrowed(space: ShiftrySpace, random: np.random.Generator | None) -> Assignment:
    """Eight bits everywhere, or with `random` parameters in random widths at the scale of their largest value; of what else is decided,
    how programs divide, the first answer."""
    chosen = {decision.name: decision.options[0] for decision in space.decisions}
    for decision in space.format_decisions:
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


def some_widths(space: ShiftrySpace, random: np.random.Generator) -> Assignment:
    """Eight bits everywhere, but parameters in one or two narrower widths, or, half of the time, in one of these or in 8 bits."""
    chosen = dict(narrowed(space, None))
    widths = random.choice(sorted(LAYOUTS), 1 + random.integers(2)).tolist()
    widths += [DEMOTED_BITS] * int(random.integers(2))
    for decision in space.format_decisions:
        wanted = random.choice(widths)
        fitting = [option for option in decision.options if parse_format(str(option)).bits == wanted]
        chosen[decision.name] = fitting[0] if fitting else chosen[decision.name]
    return chosen


def code_sizes(seed: int) -> tuple[list[dict[str, int]], list[int]]:
    """Pieces of code of packed candidates of the bundled models, and bytes of code on an ATmega328P more than with 8 bits."""
    pieces, more = [], []
    for model in MODELS:
        problem = build_problem(TuneRequest("shiftry", str(resolve_input(model)), "random", options={"narrow": True}))
        space, random = problem.space, np.random.default_rng(seed)
        assert isinstance(space, ShiftrySpace)

        def code(batch: FixedBatch, space: ShiftrySpace = space) -> int:
            source = emit_c(batch, space.task.parameters)
            counted = int(space.evaluator.unpacking.code_bytes(batch)[0])
            return build_firmware(of_emitted(source), "atmega328p").sizes.flash_bytes - (source.flash_bytes - counted)

        before = code(space.lower([narrowed(space, None)]))
        for _ in range(DRAWN):
            batch = space.lower([some_widths(space, random)])
            pieces.append({name: int(count[0]) for name, count in space.evaluator.unpacking.counts(batch).items()})
            more.append(code(batch) - before)
    return pieces, more


def fit_code() -> None:
    """Print bytes of each piece of code, and how far the shipped ones are from other candidates."""
    pieces, more = code_sizes(1)
    names = sorted({name for one in pieces for name in one})
    counts = np.array([[one.get(name, 0) for name in names] for one in pieces], dtype=np.float64)
    found, _ = nnls(counts, np.array(more, dtype=np.float64))
    print(json.dumps({name: round(float(value)) for name, value in zip(names, found, strict=True)}, indent=1))
    pieces, more = code_sizes(1_000_001)
    errors = np.array([sum(CODE_BYTES[name] * n for name, n in one.items()) for one in pieces]) - np.array(more)
    print(f"shipped: mean error {errors.mean():.0f} bytes, root mean square {np.sqrt((errors**2).mean()):.0f}", end=" ")
    print(f"of {np.mean(more):.0f} on average")


def print_lookups(target: str) -> None:
    """Cycles that the one parameter in 4 bits costs more by a codebook than without, and their mean a lookup."""
    runner, table, spent = runner_of(target), NUMBERS["lookup"], []
    for model in MODELS:
        problem = build_problem(
            TuneRequest("shiftry", str(resolve_input(model)), "random", options={"narrow": True, "codebook": True})
        )
        space = problem.space
        assert isinstance(space, ShiftrySpace)
        for decision in space.format_decisions:
            by_table = [option for option in decision.options if parse_format(str(option)).codebook]
            plain = [option for option in decision.options if parse_format(str(option)).bits == CODEBOOK_BITS]
            if by_table:
                pair = [space.lower([{**narrowed(space, None), decision.name: o}]) for o in (by_table[0], plain[0])]
                features = space.task.features[:SAMPLES]
                more = [runner(emit_c(batch, space.task.parameters), features) for batch in pair]
                terms = CostFeatures(pair[0].program, space.task.parameters)
                times = terms.terms(pair[0]).matrix()[0][table]
                spent.append((more[0] - more[1]) / times)
                print(f"{model} {decision.name}: {spent[-1]:.2f} cycles a lookup", flush=True)
    print(f"mean {np.mean(spent):.2f}, median {np.median(spent):.2f}")


def main(arguments: list[str]) -> None:
    """Print rows or errors."""
    target = arguments[0]
    if "--code" in arguments:
        fit_code()
        return
    if "--lookup" in arguments:
        print_lookups(target)
        return
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
    assert len(LAYOUTS) * 4 == len(rows)


if __name__ == "__main__":
    main(sys.argv[1:])
