"""Counts of programs beside the programs themselves: no more values are computed than were counted."""

from __future__ import annotations

import math
from itertools import product

import pytest

from kilotune.codegen.scamp.instructions import INSTRUCTION_SETS
from kilotune.codegen.scamp.sums import DIRECTIONS, InexactHalfError, Sum
from kilotune.experiments.benchmarks.counted_programs import least_of_half, most_computed, ways

DEPTH = 4
"""Halves of halves of the image stay exact."""


def after(target: str, registers: tuple[Sum, ...], most: int) -> set[tuple[Sum, ...]]:
    """What registers may hold after one more instruction, which writes a free one or one of those in use."""
    found = set[tuple[Sum, ...]]()
    for row in INSTRUCTION_SETS[target].rows:
        for directions in product(DIRECTIONS, repeat=row.directions):
            for operands in product(registers, repeat=row.operands):
                try:
                    made = row.apply(operands, directions)
                except InexactHalfError:
                    continue
                found |= {(*registers[:at], made, *registers[at + 1 :]) for at in range(min(len(registers) + 1, most))}
    return found


@pytest.mark.parametrize("target", ["auke", "scamp5"])
def test_no_more_values_are_computed_than_were_counted(target: str) -> None:
    image = Sum.image(DEPTH)
    states = {(image,)}
    assert ways(target, 1) == len(after(target, (image,), 1))
    for instructions, bits in zip((1, 2), most_computed(target, 2, 1), strict=False):
        states = set[tuple[Sum, ...]]().union(*(after(target, registers, 2) for registers in states))
        computed = {value for registers in states for value in registers}
        assert len(computed) <= 2.0**bits, instructions
        assert math.log2(len(states)) <= bits


def test_more_weights_and_fewer_registers_take_longer_programs() -> None:
    asked = [("scamp5", 6, 9, 1, 3), ("scamp5", 6, 9, 1, 255), ("scamp5", 6, 49, 1, 255), ("scamp5", 3, 49, 1, 255)]
    lengths = [least_of_half(*one) for one in asked]
    assert lengths == sorted(lengths)
    assert len(set(lengths)) == len(lengths)
