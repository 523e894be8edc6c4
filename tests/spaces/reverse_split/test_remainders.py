"""What is left of kernels when other results are there."""

from __future__ import annotations

import math
import random

import pytest

from kilotune.codegen.scamp.plan import computed
from kilotune.codegen.scamp.registers import allocate, needed_registers
from kilotune.codegen.scamp.sums import Sum
from kilotune.spaces.reverse_split.one_by_one import KernelSearch
from kilotune.spaces.reverse_split.programs import INSTRUCTIONS, load_kernel
from kilotune.spaces.reverse_split.remainders import MOST_KERNELS, remainders

DEPTH = 4
IMAGE = Sum.image(DEPTH)


def dense(seed: int) -> Sum:
    generator = random.Random(seed)
    return Sum.of({(x, y): generator.choice((5, 11, -13)) for x in range(-1, 2) for y in range(-1, 2)})


@pytest.mark.parametrize("count", [1, 3, MOST_KERNELS, MOST_KERNELS + 1])
@pytest.mark.parametrize("kept", [True, False])
def test_every_kernel_is_what_is_left_and_a_result_before_it(count: int, kept: bool) -> None:
    wanted = [dense(seed) for seed in range(count)]
    before: list[int] = []
    for part in remainders(wanted, IMAGE, "auke", kept):
        whole = wanted[part.kernel].scaled(part.times)
        if part.base is not None:
            assert part.base in before
            whole = whole - wanted[part.base].scaled(part.sign * part.taken)
        assert part.left == whole
        assert part.left not in (Sum(), IMAGE)
        before.append(part.kernel)
    assert sorted(before) == list(range(count))


def test_results_that_are_consumed_and_too_many_kernels_take_nothing_of_one_another() -> None:
    alike = [dense(0) + Sum.of({(5, number): 1}) for number in range(MOST_KERNELS + 1)]
    assert all(part.base is None for part in remainders(alike[:3], IMAGE, "scamp5", kept=False))
    assert all(part.base is None for part in remainders(alike, IMAGE, "scamp5", kept=True))
    parts = remainders(alike[:MOST_KERNELS], IMAGE, "scamp5", kept=True)
    assert [part.base is None for part in parts] == [True] + [False] * (MOST_KERNELS - 1)


RELATED = {
    "sum": lambda first, rest: first + rest,
    "difference": lambda first, rest: rest - first,
    "half": lambda first, rest: first.halved() + rest,
    "twice": lambda first, rest: rest - first.scaled(2),
}


@pytest.mark.skipif(load_kernel() is None, reason="needs a C compiler")
@pytest.mark.parametrize("target", ["auke", "scamp5"])
@pytest.mark.parametrize("relation", RELATED)
def test_programs_take_results_that_are_there(target: str, relation: str) -> None:
    """One weight a cell is a power of two, so that no constants are searched."""
    generator = random.Random(1)
    first = Sum.of({(x, y): generator.choice((2, -2)) for x in range(4) for y in range(5)})
    second = RELATED[relation](first, Sum.of({(0, 0): 2, (1, 0): -2}))
    (alone, taking) = remainders([second, first], IMAGE, target, kept=True)
    assert alone.base is None
    assert taking.base == alone.kernel
    search = KernelSearch(target, DEPTH, INSTRUCTIONS, 6, seed=1, seconds_left=lambda: math.inf, kept=True, steps=1)
    *_, plan = search.plans([second, first])
    assert plan is not None
    assert computed(plan) == (second, first)
    assert needed_registers(plan) <= 6
    allocate(plan, 6)
