"""SeeDot Section 7.5, Figure 13: training accuracy over maxscale, everything else kept.

    python -m kilotune.experiments.papers.seedot_maxscale [MODEL ...] [--bits 16] [--figure maxscale.svg]

The paper's models are Bonsai on mnist-10 and ProtoNN on usps-10; ours are the bundled ones on digits.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from kilotune.experiments.artefacts.output_file import write_whole
from kilotune.experiments.models.catalogue import model_path
from kilotune.experiments.problems.fixed_point.problem import ModelProblem, build_problem
from kilotune.experiments.studies.request import TuneRequest
from kilotune.spaces.seedot.space import COVERAGES, TABLE_INDEX_BITS, SeeDotSpace

MODELS = ("bonsai-digits", "protonn-digits")
PAPER = "paper: ProtoNN on usps-10 is best at maxscale 8; Bonsai on mnist-10 changes most at 3, 4 and 5"
WIDTH, HEIGHT, MARGIN = 640.0, 400.0, 50.0
COLOURS = ("#1f6fb4", "#c8552b", "#3a8a4d", "#7a4fa3")


def accuracies(model: str, bits: int = 16) -> list[float]:
    """Training accuracy in percent, by maxscale from 0."""
    problem = build_problem(TuneRequest("seedot", str(model_path(model)), "exhaustive"))
    assert isinstance(problem, ModelProblem)
    space = problem.space
    assert isinstance(space, SeeDotSpace)
    tables = {"table_index_bits": TABLE_INDEX_BITS[0], "coverage": COVERAGES[0]} if space.exponentials else {}
    measured = space.evaluate([{"bitwidth": bits, "maxscale": scale, **tables} for scale in range(bits)])
    return [float(m.metrics["accuracy_percent"]) for m in measured]


def figure(curves: Mapping[str, Sequence[float]]) -> str:
    """Accuracy over maxscale as SVG."""
    longest = max(len(curve) for curve in curves.values())
    across, up = (WIDTH - 2 * MARGIN) / max(longest - 1, 1), (HEIGHT - 2 * MARGIN) / 100
    base = HEIGHT - MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {WIDTH:g} {HEIGHT:g}" font-family="sans-serif" font-size="12">',
        "<title>Training accuracy by maxscale</title>",
        '<rect width="100%" height="100%" fill="white"/>',
        f'<path d="M{MARGIN:g} {MARGIN:g}V{base:g}H{WIDTH - MARGIN:g}" fill="none" stroke="black"/>',
        f'<text x="{WIDTH / 2:g}" y="{HEIGHT - 12:g}" text-anchor="middle">maxscale</text>',
        f'<text x="{MARGIN:g}" y="{MARGIN - 14:g}">training accuracy, %</text>',
    ]
    for percent in range(0, 101, 20):
        y = base - percent * up
        lines.append(f'<text x="{MARGIN - 6:g}" y="{y + 4:g}" text-anchor="end">{percent}</text>')
        lines.append(f'<path d="M{MARGIN:g} {y:g}H{WIDTH - MARGIN:g}" stroke="#ddd"/>')
    for scale in range(longest):
        lines.append(f'<text x="{MARGIN + scale * across:g}" y="{base + 16:g}" text-anchor="middle">{scale}</text>')
    for number, (name, curve) in enumerate(curves.items()):
        colour = COLOURS[number % len(COLOURS)]
        points = " ".join(f"{MARGIN + s * across:.1f},{base - a * up:.1f}" for s, a in enumerate(curve))
        lines.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        lines.append(
            f'<text x="{WIDTH - MARGIN:g}" y="{MARGIN + 14 * number - 14:g}" text-anchor="end" fill="{colour}">{name}</text>'
        )
    return "\n".join([*lines, "</svg>\n"])


def main() -> None:
    """Print the table, and write the figure where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=list(MODELS))
    parser.add_argument("--bits", type=int, choices=(8, 16, 32), default=16)
    parser.add_argument("--figure", type=Path)
    chosen = parser.parse_args()
    curves = {model: accuracies(model, chosen.bits) for model in chosen.models}
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
        write_whole(chosen.figure, figure(curves))


if __name__ == "__main__":
    main()
