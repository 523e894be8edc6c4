"""How long most programs of generated kernels must be, since there are no more programs than that: a bound that no search gives.

    python -m kilotune.experiments.benchmarks.counted_programs [--registers 6]

A program of n instructions is one choice of an instruction, its operands, its directions and the register it writes for each of them, so
there are fewer sets of kernels that n instructions compute than there are such choices. Where that is less than half of all sets of a
shape, at least half of them take more than n instructions. It says nothing of a single set, but beside the lengths that a search reaches
and the bound that it proves it says how much of the distance between them a better bound would take away: of sets drawn at random, as
the generated ones of `kernel_table.py` are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

import click

from kilotune.codegen.scamp.instructions import INSTRUCTION_SETS, REGISTERS, Instruction
from kilotune.codegen.scamp.sums import DIRECTIONS
from kilotune.experiments.benchmarks.kernel_table import GENERATED

FIRST_VALUES = 1
"""The image alone."""


def ways(target: str, values: int) -> int:
    """The different values that one instruction makes of so many others, at most: two that are the same whatever the values are count
    once."""
    made: set[frozenset[tuple[int, tuple[int, int], int, int]]] = set()
    for row in INSTRUCTION_SETS[target].rows:
        for directions in product(DIRECTIONS, repeat=row.directions):
            for operands in product(range(values), repeat=row.operands):
                made.add(_terms(row, operands, row.offset(directions)))
    return len(made)


def _terms(
    row: Instruction, operands: tuple[int, ...], offset: tuple[int, int]
) -> frozenset[tuple[int, tuple[int, int], int, int]]:
    """A value as its terms: operand, where it is read, halvings, and its factor."""
    factors: dict[tuple[int, tuple[int, int]], int] = {}
    for operand, sign, moved in zip(operands, row.signs, row.shifted, strict=True):
        place = operand, offset if moved else (0, 0)
        factors[place] = factors.get(place, 0) + sign
    return frozenset((*place, row.halvings, factor) for place, factor in factors.items() if factor)


def most_computed(target: str, registers: int, results: int) -> Iterator[float]:
    """By how many instructions a program has, from one on: the base-2 logarithm of how many tuples of `results` values such programs
    compute, at most."""
    ways_of = {values: ways(target, values) for values in range(FIRST_VALUES, registers + 1)}
    bits, held = 0.0, FIRST_VALUES
    while True:
        bits += math.log2(ways_of[held]) + math.log2(min(held + 1, registers))
        held = min(held + 1, registers)
        yield bits + sum(math.log2(max(held - place, 1)) for place in range(results))


def least_of_half(target: str, registers: int, cells: int, results: int, weights: int) -> int:
    """Instructions that at least half of all sets of so many kernels take: `cells` weights a kernel, one of `weights` values each."""
    wanted, together = results * cells * math.log2(weights) - 1.0, 0.0
    for length, bits in enumerate(most_computed(target, registers, results), start=1):
        together = max(bits, together) + math.log2(1.0 + 2.0 ** -abs(bits - together))
        if together >= wanted:
            return length
    raise AssertionError("longer programs compute more")


def rows(registers: int) -> Iterator[str]:
    """A line a shape."""
    for name, side, count, largest, _ in GENERATED:
        if count <= registers:
            asked = registers, side * side, count, 2 * largest + 1
            yield f"{name:24} {least_of_half('auke', *asked):12} {least_of_half('scamp5', *asked):12}"


@click.command()
@click.option("--registers", default=len(REGISTERS), show_default=True, type=click.IntRange(2, len(REGISTERS)))
def main(registers: int) -> None:
    """Print the table; sets of more kernels than registers are left out, whose results do not stay."""
    click.echo(f"{'at least half take':24} {'auke':>12} {'scamp5':>12}")
    click.echo("\n".join(rows(registers)))


if __name__ == "__main__":
    main()
