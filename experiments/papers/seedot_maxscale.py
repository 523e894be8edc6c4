"""SeeDot Section 7.5, Figure 13: training accuracy over maxscale, everything else kept.

    python -m kilotune.experiments.papers.seedot_maxscale [MODEL ...] [--bits 16] [--figure maxscale.svg]

The figure is the report's, a file a model (maxscale-bonsai-digits.svg); as a report's files it takes a browser.
The paper's models are Bonsai on mnist-10 and ProtoNN on usps-10; ours are the bundled ones on digits.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table

from kilotune.experiments.artefacts.output_file import write_whole
from kilotune.experiments.models.catalogue import model_path
from kilotune.experiments.problems.fixed_point.figures.seedot import BitsAndMaxscale, maxscale_figure
from kilotune.experiments.problems.fixed_point.problem import build_problem
from kilotune.experiments.report.paper_files import NamedFigure, drawn_files
from kilotune.experiments.requests.request import TuneRequest
from kilotune.search.space import Trial
from kilotune.spaces.seedot.space import COVERAGES, TABLE_INDEX_BITS, SeeDotSpace

MODELS = ("bonsai-digits", "protonn-digits")
PAPER = "paper: ProtoNN on usps-10 is best at maxscale 8; Bonsai on mnist-10 changes most at 3, 4 and 5"


def measured(model: str, bits: int = 16) -> tuple[SeeDotSpace, dict[BitsAndMaxscale, Trial]]:
    """The space of a model, and a trial for every maxscale from 0."""
    space = build_problem(TuneRequest("seedot", str(model_path(model)), "exhaustive")).space
    assert isinstance(space, SeeDotSpace)
    tables = {"table_index_bits": TABLE_INDEX_BITS[0], "coverage": COVERAGES[0]} if space.exponentials else {}
    candidates = [{"bitwidth": bits, "maxscale": scale, **tables} for scale in range(bits)]
    trials = map(Trial, range(bits), candidates, space.evaluate(candidates))
    return space, {(bits, trial.number): trial for trial in trials}


def accuracies(curve: Mapping[BitsAndMaxscale, Trial]) -> list[float]:
    """Training accuracy in percent, by maxscale from 0."""
    return [float(trial.metrics["accuracy_percent"]) for trial in curve.values()]


def figures(curves: Mapping[str, tuple[SeeDotSpace, Mapping[BitsAndMaxscale, Trial]]], stem: str) -> list[NamedFigure]:
    """The figure of the report, one a model."""
    return [
        NamedFigure(f"{stem}-{model}", model, maxscale_figure(space, curve, None, None))
        for model, (space, curve) in curves.items()
    ]


def main() -> None:
    """Print the table, and write the figure where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=list(MODELS))
    parser.add_argument("--bits", type=int, choices=(8, 16, 32), default=16)
    parser.add_argument("--figure", type=Path, help="such as maxscale.svg, .pdf or .png")
    chosen = parser.parse_args()
    found = {model: measured(model, chosen.bits) for model in chosen.models}
    curves = {model: accuracies(curve) for model, (_, curve) in found.items()}
    table = Table(title=f"Training accuracy by maxscale, {chosen.bits} bits", caption=PAPER)
    table.add_column("maxscale", justify="right")
    for model in curves:
        table.add_column(model, justify="right")
    for scale in range(chosen.bits):
        row = [curve[scale] for curve in curves.values()]
        best = [curve[scale] == max(curve) for curve in curves.values()]
        table.add_row(str(scale), *(f"{'* ' if b else ''}{a:.2f} %" for a, b in zip(row, best, strict=True)))
    Console().print(table)
    if chosen.figure is not None:
        named, kind = figures(found, chosen.figure.stem), chosen.figure.suffix.removeprefix(".")
        for name, content in drawn_files(named, [kind]).items():
            write_whole(chosen.figure.with_name(name), content)


if __name__ == "__main__":
    main()
