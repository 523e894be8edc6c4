"""AUKE Table 3: energy spent per filter application, in our programs beside the paper's.

    python -m kilotune.experiments.papers.auke_table_3 [--seconds 20] [--figure figures/auke_table_3.svg]

The paper rounds to thousandths of a millijoule. Energy is time at 1.23 W, one bus transfer a cycle of 10 MHz; its figures for SCAMP
follow from program lengths in the same way. The CPU and GPU figures are the paper's measurements.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from kilotune.experiments.artefacts.output_file import write_whole
from kilotune.experiments.papers.auke_programs import EVALUATED, FIGURES, best_program
from kilotune.experiments.papers.bar_chart import bar_chart_svg

DEVICES = ("i7-3720QM", "i7-4799", "i7-6700", "E5-1630", "Titan X")

# Table 3, in millijoule: the devices, then SCAMP.
PAPER = (
    ("Gauss3", (0.941, 0.786, 0.617, 1.021, 1.542), 0.005),
    ("Gauss5", (1.411, 1.143, 0.878, 1.397, 2.120), 0.015),
    ("Box3", (0.868, 0.932, 0.602, 1.000, 2.186), 0.002),
    ("Box5", (0.926, 1.167, 0.737, 1.336, 2.568), 0.004),
    ("Box7", (1.297, 1.922, 1.296, 2.094, 10.820), 0.005),
    ("Sobel", (0.406, 0.556, 0.360, 0.594, 2.178), 0.002),
    ("Laplacian", (0.497, 0.939, 0.555, 1.041, 4.092), 0.003),
    ("Sharpen", (1.418, 1.677, 1.295, 2.281, 3.768), 0.002),
)


def main() -> None:
    """Print the table, write the figure."""
    arguments = argparse.ArgumentParser(description="AUKE Table 3: energy per filter application.")
    arguments.add_argument("--seconds", type=float, default=20.0, help="search time a program")
    arguments.add_argument("--figure", type=Path, default=FIGURES / "auke_table_3.svg")
    given = arguments.parse_args()
    print("microjoules per 256 x 256 frame; instructions / bus transfers in brackets; * proved shortest")
    print(
        f"{'':<10}{'paper: best CPU':>16}{'paper: SCAMP':>14}{'ours, auke set':>24}{'ours, chip macros':>24}  times less than that CPU"
    )
    series: dict[str, list[float | None]] = {"paper, SCAMP": [], "ours, auke set": [], "ours, chip macros": []}
    names = dict(EVALUATED)
    for title, devices, scamp in PAPER:
        best_cpu = 1e3 * min(devices[:-1])
        ours = [
            best_program(names[title], target, given.seconds, objective)
            for target, objective in (("auke", "instructions"), ("scamp5", "transfers"))
        ]
        energies = [1e6 * found.program.energy_joules for found in ours]
        cells = [
            f"{energy:.2f} ({found.program.instructions} / {found.program.bus_transfers}{'*' if found.proved else ''})"
            for energy, found in zip(energies, ours, strict=True)
        ]
        print(
            f"{title:<10}{best_cpu:>16.0f}{1e3 * scamp:>14.0f}{cells[0]:>24}{cells[1]:>24}{best_cpu / energies[1]:>12.0f}",
            flush=True,
        )
        for values, value in zip(series.values(), (1e3 * scamp, *energies), strict=True):
            values.append(value)
    document = bar_chart_svg("Energy per filter application (AUKE Table 3)", "uJ", [row[0] for row in PAPER], series)
    write_whole(given.figure, document)
    print(f"figure: {given.figure}")


if __name__ == "__main__":
    main()
