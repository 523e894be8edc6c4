"""How much shorter SCAMP-5 programs become if weights may be off: instructions against the error of the kernels.

    python -m kilotune.experiments.benchmarks.approximation_fronts [--seconds 5] [--seed 0] [--target scamp5] [--only TEXT]

Generated sets of 8-bit kernels, each with as few signed digits as every permitted error allows (`tune --error`). A point that is no
shorter than one of a smaller error is not on the front, and stands in brackets.
"""

from __future__ import annotations

from dataclasses import replace

import click

from kilotune.codegen.scamp.few_digits import digits_of, relative_error
from kilotune.experiments.benchmarks.kernel_sets import random_case
from kilotune.experiments.benchmarks.program_search import KernelCase, searched

SHAPES: tuple[tuple[str, int, int], ...] = (
    ("8-bit 3x3", 3, 1),
    ("8-bit 3x3 x2", 3, 2),
    ("8-bit 3x3 x4", 3, 4),
    ("8-bit 5x5", 5, 1),
    ("8-bit 7x7", 7, 1),
)
"""Name, side and number of kernels, of weights up to 127 in 128ths."""

ERRORS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2)


def point(case: KernelCase, error: float, target: str, seconds: float, seed: int) -> tuple[int, int | None, float]:
    """Signed digits, instructions (None where no program fits the registers) and the largest error of a kernel."""
    approximated = replace(case, error=error)
    found = searched(approximated, target, seconds, seed)
    pairs = zip(case.kernel_set.kernels, approximated.approximated.approximations, strict=True)
    worst = max(relative_error(kernel, approximation) for kernel, approximation in pairs)
    return digits_of(approximated.approximated), found.program.instructions if found.program else None, worst


@click.command()
@click.option("--seconds", default=5.0, show_default=True, help="CPU seconds a point.")
@click.option("--seed", default=0, show_default=True, help="Of the sets.")
@click.option("--search-seed", default=0, show_default=True)
@click.option("--target", default="scamp5", type=click.Choice(["auke", "scamp5"]))
@click.option("--only", default="", help="A part of the names of the sets.")
def main(seconds: float, seed: int, search_seed: int, target: str, only: str) -> None:
    """Print a row a set, as it is found."""
    click.echo(f"| {target}: digits, instructions at | " + " | ".join(f"{100 * error:g} %" for error in ERRORS) + " |")
    click.echo("|---" * (len(ERRORS) + 1) + "|")
    for name, side, count in SHAPES:
        if only not in name:
            continue
        case, cells, least = random_case(seed, name, side, count, 127, 7), list[str](), float("inf")
        for error in ERRORS:
            digits, instructions, worst = point(case, error, target, seconds, search_seed)
            is_ahead = instructions is not None and instructions < least
            cell = f"{digits}, {instructions if instructions is not None else '-'} ({100 * worst:.1f} %)"
            cells.append(cell if is_ahead else f"[{cell}]")
            least = min(least, instructions if instructions is not None else least)
        click.echo(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
