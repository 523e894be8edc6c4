"""AUKE Figure 9: program length against the side of a box filter.

    python -m kilotune.experiments.papers.auke_figure_9 [--largest 12] [--seconds 20] [--figure figures/auke_figure_9.svg]

The paper plots lengths that grow linearly and prints two of them (14 for 5 x 5; about 8 for 3 x 3). Beside ours stand what its
public tool reaches when it is run, and the bound that no program undercuts. Instructions of the `auke` set, and of `scamp5`.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from kilotune.codegen.scamp.kernel import Kernel, KernelSet
from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.experiments.artefacts.output_file import write_whole
from kilotune.experiments.papers.auke_programs import FIGURES
from kilotune.experiments.papers.line_chart import ChartLine, line_chart_svg
from kilotune.search.budget import Budget
from kilotune.search.procedure import run_procedure
from kilotune.search.study import Study
from kilotune.spaces.reverse_split.measuring import SplitProblem
from kilotune.spaces.reverse_split.space import ReverseSplitSpace

# The public tool, https://github.com/najiji/auto_code_cpa, run with 3 registers; it was not run for d = 11.
AUKE_TOOL = ((2, 4), (3, 8), (4, 10), (5, 14), (6, 16), (7, 20), (8, 20), (9, 26), (10, 27), (12, 31))


def main() -> None:
    """Print the table, write the figure."""
    parser = argparse.ArgumentParser(description="AUKE Figure 9: length against the size of a box.")
    parser.add_argument("--largest", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=20.0, help="search time a program")
    parser.add_argument("--figure", type=Path, default=FIGURES / "auke_figure_9.svg")
    given = parser.parse_args()
    tool = dict(AUKE_TOOL)
    ours: dict[str, list[tuple[float, float]]] = {"auke": [], "scamp5": []}
    procedure: list[tuple[float, float]] = []
    bounds: list[tuple[float, float]] = []
    print(f"{'d':>3}{'AUKE tool':>11}{'procedure':>11}{'ours':>6}{'bound':>7}{'scamp5':>8}{'bound':>7}{'CPU-s':>8}")
    for side in range(2, given.largest + 1):
        wanted = KernelSet((Kernel.of_rows([[1] * side] * side),)).approximate(0)
        clock = time.process_time()
        cells = [f"{side:>3}{tool.get(side, '-'):>11}"]
        for target in ("auke", "scamp5"):
            space = ReverseSplitSpace(SplitProblem(wanted, target))
            if target == "auke":
                answer = run_procedure(ReverseSplitSpace(SplitProblem(wanted, target, registers=3)))
                reached = answer.measurement.metrics.get("instructions") if answer else None
                cells.append(f"{'-' if reached is None else int(reached):>11}")
                procedure += [] if reached is None else [(float(side), reached)]
            result = Study(space, "exhaustive").run(InProcessExecutor(space), Budget(seconds=given.seconds))
            if result.best is None:
                raise SystemExit(f"No program for the box of {side} within {given.seconds:g} s: give --seconds more.")
            length = result.best.measurement.metrics["instructions"]
            ours[target].append((float(side), length))
            bound = max(result.bound or 0.0, space.least)
            cells.append(f"{int(length):>{6 if target == 'auke' else 8}}{int(bound):>7}")
            if target == "auke":
                bounds.append((float(side), bound))
        print("".join(cells) + f"{time.process_time() - clock:>8.1f}", flush=True)
    lines = [
        ChartLine("AUKE's tool, 3 registers", [(float(d), float(n)) for d, n in AUKE_TOOL if d <= given.largest]),
        ChartLine("its procedure here, 3 registers", procedure, dashed=True),
        ChartLine("kilotune, auke set", ours["auke"]),
        ChartLine("lower bound, auke set", bounds, dashed=True),
        ChartLine("kilotune, scamp5 macros", ours["scamp5"]),
    ]
    document = line_chart_svg("Length of d x d box filters (AUKE Figure 9)", "d", "instructions", lines)
    write_whole(given.figure, document)
    print(f"figure: {given.figure}")


if __name__ == "__main__":
    main()
