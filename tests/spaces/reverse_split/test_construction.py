"""Constructed programs that improvement starts from: products of short factors move no further than they must."""

from math import comb

import pytest

from kilotune.codegen.scamp.kernel import Kernel, KernelSet
from kilotune.codegen.scamp.plan import computed
from kilotune.codegen.scamp.sums import Sum
from kilotune.spaces.reverse_split.construction import starting_plans

Rows = tuple[tuple[int, ...], ...]


def shortest_start(rows: Rows, depth: int) -> int:
    """Instructions of AUKE's set, of plans that are proved to compute the kernel."""
    total = Sum.of((cell, int(weight)) for cell, weight in KernelSet((Kernel.of_rows(rows),)).kernels[0].weights)
    plans = tuple(starting_plans([total], depth, "auke"))
    assert all(computed(plan) == (total,) for plan in plans)
    return min(len(plan.steps) for plan in plans)


@pytest.mark.parametrize("side", range(2, 10))
def test_a_binomial_takes_its_halvings_and_one_shift_and_one_addition_a_factor(side: int) -> None:
    row = [comb(side - 1, at) for at in range(side)]
    rows = tuple(tuple(a * b for b in row) for a in row)
    factors = depth = 2 * (side - 1)
    assert shortest_start(rows, depth) == depth + 2 * factors


@pytest.mark.parametrize(
    ("rows", "instructions"),
    [
        (((1, 0, 0), (0, -1, 0), (0, 0, 0)), 3),  # one factor: two shifts and a subtraction
        (((0, 0, 0), (0, -1, 0), (1, 0, 0)), 3),
        (((0, 0, 0), (0, -1, 0), (0, 0, 1)), 3),
        (((0, 0, 0, 0, 0, 0, 1, 2, 1),), 6),  # (1 + x)^2 that has to lie three cells away: two shifts to begin with
        (((1, 0, -1), (2, 0, -2), (1, 0, -1)), 8),  # (1 + y)^2, and a difference of what lies on both sides
    ],
)
def test_a_product_is_made_where_it_has_to_lie(rows: Rows, instructions: int) -> None:
    assert shortest_start(rows, 0) == instructions
