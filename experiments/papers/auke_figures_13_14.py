"""AUKE Figures 13 and 14: RMSE and SSIM of filters on the noisy chip, over real images.

    python -m kilotune.experiments.papers.auke_figures_13_14 [--images 100] [--seconds 20] [--figures figures]

The paper measures a real chip on images of Caltech 101 and prints bars without numbers; what its text says of them is that averaging
filters suffer less than differential ones. Here the array simulator runs our programs with its noise model (a
signal-dependent and a signal-independent part per bus transfer) on windows of the photographs that scikit-image ships. RMSE
is in grey levels, averaging filters brought to a gain of one (see `evaluators.scamp5.quality`).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from kilotune.evaluators.scamp5.images import photographs
from kilotune.evaluators.scamp5.quality import measure
from kilotune.experiments.artefacts.output_file import write_whole
from kilotune.experiments.papers.auke_programs import AVERAGING, EVALUATED, FIGURES, best_program
from kilotune.experiments.papers.bar_chart import bar_chart_svg


def main() -> None:
    """Print the table, write both figures."""
    arguments = argparse.ArgumentParser(description="AUKE Figures 13 and 14: RMSE and SSIM on images.")
    arguments.add_argument("--images", type=int, default=100)
    arguments.add_argument("--seconds", type=float, default=20.0, help="search time a program")
    arguments.add_argument("--figures", type=Path, default=FIGURES)
    given = arguments.parse_args()
    images = photographs(given.images)
    rmse: dict[str, list[float | None]] = {"auke set": [], "chip macros": []}
    ssim: dict[str, list[float | None]] = {"auke set": [], "chip macros": []}
    print(f"{given.images} images; the paper prints no numbers")
    print(f"{'':<10}{'program':>10}{'instructions':>14}{'transfers':>11}{'RMSE':>9}{'SSIM':>8}{'amplitude':>11}")
    for title, name in EVALUATED:
        for series, target, objective in (("auke set", "auke", "instructions"), ("chip macros", "scamp5", "transfers")):
            found = best_program(name, target, given.seconds, objective)
            quality = measure(found.text, (found.kernel,), images)
            rmse[series].append(quality.rmse_grey_levels)
            ssim[series].append(quality.ssim)
            print(
                f"{title:<10}{target:>10}{found.program.instructions:>14}{found.program.bus_transfers:>11}"
                f"{quality.rmse_grey_levels:>9.2f}{quality.ssim:>8.4f}{quality.amplitude:>11.3f}",
                flush=True,
            )
    titles = [title for title, _ in EVALUATED]
    for figure, unit, series_by_name in ((13, "RMSE, grey levels", rmse), (14, "SSIM", ssim)):
        document = bar_chart_svg(f"Noisy against noise-free (AUKE Figure {figure})", unit, titles, series_by_name)
        write_whole(given.figures / f"auke_figure_{figure}.svg", document)
        for series, values in series_by_name.items():
            known = {title: float(value) for title, value in zip(titles, values, strict=True) if value is not None}
            averaging = np.mean([known[title] for title in titles if title in AVERAGING])
            differential = np.mean([known[title] for title in titles if title not in AVERAGING])
            print(f"{unit}, {series}: averaging filters {averaging:.3f}, differential ones {differential:.3f}")
    print(f"figures: {given.figures}/auke_figure_13.svg, {given.figures}/auke_figure_14.svg")


if __name__ == "__main__":
    main()
