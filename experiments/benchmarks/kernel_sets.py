"""Sets of kernels as networks have them, generated: how long SCAMP-5 programs are, and how far a CPU budget gets.

    python -m kilotune.experiments.benchmarks.kernel_sets [--seconds 5] [--seed 0] [--target scamp5] [--only TEXT]

Every set is drawn from its own seed, so that it stays the same whatever else the list holds. Constants of the search are chosen
on these sets and confirmed on the named ones of `reverse_split.py`, never the other way round. Every program is proved from its text, and
its C++ is read back and executed transfer by transfer (`evaluators/scamp5/macro_check.py`) where the chip's six registers hold it.
"""

from __future__ import annotations

import random

import click

from kilotune.experiments.benchmarks.program_search import KernelCase, searched
from kilotune.experiments.problems.reverse_split.filters import KernelRows
from kilotune.spaces.reverse_split.measuring import KernelGoal

SHAPES: tuple[tuple[str, int, int, int, int], ...] = (
    ("ternary 3x3", 3, 1, 1, 0),
    ("ternary 3x3 x2", 3, 2, 1, 0),
    ("ternary 3x3 x4", 3, 4, 1, 0),
    ("ternary 3x3 x6", 3, 6, 1, 0),
    ("ternary 3x3 x16", 3, 16, 1, 0),
    ("ternary 5x5", 5, 1, 1, 0),
    ("ternary 5x5 x2", 5, 2, 1, 0),
    ("3-bit 3x3", 3, 1, 4, 2),
    ("3-bit 3x3 x3", 3, 3, 4, 2),
    ("3-bit 4x4", 4, 1, 4, 2),
    ("5-bit 3x3", 3, 1, 16, 4),
    ("8-bit 3x3", 3, 1, 127, 7),
    ("8-bit 3x3 x2", 3, 2, 127, 7),
)
"""Name, side, how many kernels, largest weight, and the d of weights that are multiples of `2**-d`."""

SMOOTH = 4
"""So many sets of a symmetric kernel each, as filters by hand are."""


def generated_cases(seed: int = 0) -> tuple[KernelCase, ...]:
    """The sets of a seed."""
    return (*(random_case(seed, *shape) for shape in SHAPES), *(_smooth_case(seed, n) for n in range(SMOOTH)))


def random_case(seed: int, name: str, side: int, count: int, largest: int, depth: int) -> KernelCase:
    generator = random.Random(f"{name} {seed}")
    kernels: list[KernelRows] = []
    while len(kernels) < count:
        rows = tuple(tuple(generator.randint(-largest, largest) for _ in range(side)) for _ in range(side))
        if sum(map(bool, sum(rows, ()))) > 1 and rows not in kernels:
            kernels.append(rows)
    return KernelCase(name, depth, tuple(kernels))


def _smooth_case(seed: int, number: int) -> KernelCase:
    """A 5x5 kernel with the symmetries of the square, weights 0 to 12 over 64."""
    generator = random.Random(f"smooth {number} {seed}")
    weights = {key: generator.randint(0, 12) for key in ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))}
    around = range(-2, 3)
    rows = tuple(tuple(weights[min(abs(x), abs(y)), max(abs(x), abs(y))] for x in around) for y in around)
    return KernelCase(f"symmetric 5x5 {number}", 6, (rows,))


@click.command()
@click.option("--seconds", default=5.0, show_default=True, help="CPU seconds a set.")
@click.option("--seed", default=0, show_default=True, help="Of the sets.")
@click.option("--search-seed", default=0, show_default=True)
@click.option("--target", multiple=True, type=click.Choice(["auke", "scamp5"]))
@click.option("--objective", default="instructions", type=click.Choice(["instructions", "transfers"]))
@click.option("--only", default="", help="A part of the names of the sets.")
def main(seconds: float, seed: int, search_seed: int, target: tuple[str, ...], objective: str, only: str) -> None:
    """Print the tables."""
    for name in target or ("auke", "scamp5"):
        click.echo(f"{name:24} {'instructions':>12} {'transfers':>9} {'found s':>7} {'end s':>6} {'bound':>5}")
        total = transfers = missing = 0
        for case in generated_cases(seed):
            if only in case.name:
                found = _searched(case, name, KernelGoal(objective), seconds, search_seed)
                total, transfers = total + found[0], transfers + found[1]
                missing += not found[0]
        click.echo(f"{'total':24} {total:12} {transfers:9}   {missing} without a program")


def _searched(case: KernelCase, target: str, goal: KernelGoal, seconds: float, seed: int) -> tuple[int, int]:
    found = searched(case, target, seconds, seed, goal)
    program = found.program
    if program is None:
        click.echo(f"{case.name:24} {'-':>12} {'-':>9} {'':7} {found.end:6.1f} {found.bound:5g}")
        return 0, 0
    click.echo(
        f"{case.name:24} {program.instructions:12} {program.bus_transfers:9} {found.found_at:7.2f} {found.end:6.1f}"
        f" {found.bound:5g}"
    )
    return program.instructions, program.bus_transfers


if __name__ == "__main__":
    main()
