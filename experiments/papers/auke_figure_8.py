"""AUKE Figure 8: the heuristic search against exhaustive searches in random orders, on the Sobel filter.

    python -m kilotune.experiments.papers.auke_figure_8 [--runs 256] [--states 20000] [--figure figures/auke_figure_8.svg]

The exhaustive search tries every split of every sub-multiset in random order, cut by the cost of its best plan; the heuristic
one tries pairs of maximum size in the order of Equation 22. Cost is that before relaxation, as in the paper: its heuristic
search finds the optimum of 8 almost at once. The axis is states visited; seconds of Python are printed beside them.
"""

from __future__ import annotations

import argparse
import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kilotune.codegen.arrays import FloatArray
from kilotune.experiments.artefacts.output_file import write_whole
from kilotune.experiments.papers.auke_programs import FIGURES
from kilotune.experiments.papers.line_chart import ChartLine, line_chart_svg
from kilotune.experiments.problems.reverse_split.filters import FILTERS
from kilotune.spaces.reverse_split.ordering import OrderWeights, ordered
from kilotune.spaces.reverse_split.pairs import all_splits, largest_splits
from kilotune.spaces.reverse_split.splits import Sums, from_image, start_sums

PAPER_OPTIMUM = 8
REGISTERS = 6


class Successor(NamedTuple):
    """A split's cost and the state that it leads to."""

    cost: int
    after: Sums


Children = Callable[[Sums], list[Successor]]


def best_costs(start: Sums, depth: int, children: Children, states: int) -> list[int]:
    """The least cost so far after 1, 2, ... states of one depth-first search; a large number before the first plan."""
    best, trace = 1 << 30, list[int]()

    def visit(state: Sums, cost: int) -> Iterator[None]:
        nonlocal best
        last = from_image(state, depth)
        if last is not None:
            best = min(best, cost + last.length)
        yield
        if last is None:
            for step in children(state):
                if cost + step.cost < best:
                    yield from visit(step.after, cost + step.cost)

    for _ in visit(start, 0):
        trace.append(best)
        if len(trace) == states:
            break
    return trace + [best] * (states - len(trace))


def exhaustive_children(memory: dict[Sums, list[Successor]], generator: random.Random) -> Children:
    """All splits, shuffled anew at every visit."""

    def children(state: Sums) -> list[Successor]:
        key = tuple(sorted(state, key=lambda total: total.terms))
        if key not in memory:
            memory[key] = [Successor(named.split.cost(key), named.after) for named in all_splits(key, REGISTERS)]
        return generator.sample(memory[key], len(memory[key]))

    return children


def heuristic_children(state: Sums) -> list[Successor]:
    """Pairs of maximum size, best first."""
    splits = ordered(state, largest_splits(state, REGISTERS, paper=True), OrderWeights())
    return [Successor(named.split.cost(state), named.after) for named in splits]


def _lines(
    rows: Sequence[tuple[int, FloatArray]], heuristic: Sequence[tuple[int, int]], states: int
) -> list[ChartLine]:
    """The curves of the figure: costs of all random orders, and of the heuristic, after so many states."""
    means, deviations = [float(c.mean()) for _, c in rows], [float(c.std()) for _, c in rows]
    band_low = [m - d for m, d in zip(means, deviations, strict=True)]
    band_high = [m + d for m, d in zip(means, deviations, strict=True)]
    return [
        ChartLine(
            "exhaustive, mean and deviation",
            [(n, m) for (n, _), m in zip(rows, means, strict=True)],
            band_low,
            band_high,
        ),
        ChartLine("exhaustive, best run", [(n, float(c.min())) for n, c in rows], dashed=True),
        ChartLine("exhaustive, worst run", [(n, float(c.max())) for n, c in rows], dashed=True),
        ChartLine("heuristic", [(n, float(cost)) for n, cost in heuristic if cost < 1 << 30], steps=True),
        ChartLine("the paper's optimum", [(1.0, 8.0), (float(states), 8.0)], dashed=True),
    ]


def main() -> None:
    """Print the table, write the figure."""
    parser = argparse.ArgumentParser(description="AUKE Figure 8: heuristic against exhaustive search.")
    parser.add_argument("--runs", type=int, default=256)
    parser.add_argument("--states", type=int, default=20_000, help="states that a run visits")
    parser.add_argument("--figure", type=Path, default=FIGURES / "auke_figure_8.svg")
    given = parser.parse_args()
    start = start_sums(FILTERS["sobel"].kernels.approximate(0).sums)
    clock = time.process_time()
    heuristic = best_costs(start, 0, heuristic_children, given.states)
    heuristic_s = time.process_time() - clock
    memory: dict[Sums, list[Successor]] = {}
    clock = time.process_time()
    runs = [
        best_costs(start, 0, exhaustive_children(memory, random.Random(seed)), given.states)
        for seed in range(given.runs)
    ]
    seconds = time.process_time() - clock
    costs = np.array(runs, dtype=float)
    costs[costs >= 1 << 30] = np.nan
    final = costs[:, -1]
    found = [int(np.argmax(run <= PAPER_OPTIMUM)) + 1 if (run <= PAPER_OPTIMUM).any() else math.inf for run in costs]
    at = next((n for n, cost in enumerate(heuristic, start=1) if cost == min(heuristic)), given.states)
    print(
        f"heuristic: cost {min(heuristic)} after {at} states ({heuristic_s:.2f} CPU-s for {given.states}); paper: 8, at once"
    )
    print(f"exhaustive, {given.runs} random orders, {given.states} states each ({seconds:.1f} CPU-s in all):")
    print(f"  cost at the end: mean {np.nanmean(final):.2f}, deviation {np.nanstd(final):.2f}, ", end="")
    print(f"best {np.nanmin(final):g}, worst {np.nanmax(final):g}")
    print(f"  the optimum of 8 is found by {np.isfinite(found).sum()} of them; the first after {min(found):g} states")
    places = sorted({min(round(10 ** (k / 12)), given.states) for k in range(round(12 * math.log10(given.states)) + 1)})
    print(f"{'states':>8}{'heuristic':>11}{'mean':>8}{'deviation':>11}{'best':>6}{'worst':>7}")
    rows = [(n, costs[:, n - 1]) for n in places if np.isfinite(costs[:, n - 1]).all()]
    for n, column in rows[:: max(len(rows) // 12, 1)]:
        print(
            f"{n:>8}{heuristic[n - 1]:>11}{column.mean():>8.2f}{column.std():>11.2f}{column.min():>6g}{column.max():>7g}"
        )
    lines = _lines(rows, [(n, heuristic[n - 1]) for n in places], given.states)
    title = f"Sobel 3x3: cost of the best plan, {given.runs} random orders (AUKE Figure 8)"
    write_whole(given.figure, line_chart_svg(title, "states visited", "instructions", lines, logarithmic=True))
    print(f"figure: {given.figure}")


if __name__ == "__main__":
    main()
