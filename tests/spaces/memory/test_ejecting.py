"""Local search for large placements: always a placement, lower than greedy, repeatable by its seed, stopped by the clock."""

from __future__ import annotations

import itertools
import math

import pytest

from kilotune.codegen.arrays import IntArray
from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.search.budget import Budget
from kilotune.search.result import Status
from kilotune.search.study import Study
from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.checker import check_placement
from kilotune.spaces.memory.component_search import LARGE
from kilotune.spaces.memory.ejecting import Ejection
from kilotune.spaces.memory.exact import minimise_peak
from kilotune.spaces.memory.instance import Instance, Placement
from kilotune.spaces.memory.native import load_ejection
from kilotune.spaces.memory.orders import GREEDY, best_greedy, place_in_order
from kilotune.spaces.memory.space import MemorySpace
from tests.spaces.memory.problems import random_instance

if load_ejection() is None:
    pytest.skip("no C compiler", allow_module_level=True)


def peak(instance: Instance, offsets: IntArray) -> int:
    return check_placement(
        instance, Placement(dict(zip([b.id for b in instance.buffers], offsets.tolist(), strict=True)))
    )


def by_size(instance: Instance) -> IntArray:
    """Where the local search of these tests begins."""
    order, fit = GREEDY["tflite"]
    buffers = BufferArrays.of(instance)
    return place_in_order(buffers, order(buffers), fit)


def lowered(instance: Instance, seed: int, steps: int) -> IntArray:
    buffers, offsets = BufferArrays.of(instance), by_size(instance)
    search = Ejection(buffers, seed)
    for _ in range(steps):
        found = search.improve(offsets, int(buffers.section_bytes.max()), math.inf)
        if found is not None:
            assert peak(instance, found) < peak(instance, offsets)
            offsets = found
    return offsets


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_every_answer_is_a_lower_placement(seed: int) -> None:
    instance = random_instance(seed, 150, aligned=seed % 2 == 1)
    found = lowered(instance, seed, 12)
    assert peak(instance, found) < peak(instance, by_size(instance))


def test_it_beats_the_greedy_orders_and_repeats_itself() -> None:
    instance = random_instance(7, 300)
    greedy = peak(instance, by_size(instance))
    first, again = lowered(instance, 1, 6), lowered(instance, 1, 6)
    assert peak(instance, first) < greedy
    assert (first == again).all()


def crowd(count: int) -> Instance:
    """Connected, and large enough for local search."""
    return random_instance(3, count)


def test_large_components_are_searched_locally_and_the_seed_counts() -> None:
    instance = crowd(LARGE + 50)
    buffers = BufferArrays.of(instance)
    live = int(buffers.section_bytes.max())
    found = []
    for seed in (1, 1, 2):
        standings = minimise_peak(buffers, live, seed=seed)
        last = [standing for _, standing in zip(range(8), standings, strict=False)][-1]
        assert peak(instance, last.offsets) == last.peak_bytes
        found.append(last)
    assert (found[0].offsets == found[1].offsets).all()
    assert found[0].done or (found[0].offsets != found[2].offsets).any()


def test_the_clock_ends_a_question() -> None:
    """The same question with time and without; the search asks on without a lower answer, and claims nothing."""
    buffers = BufferArrays.of(crowd(1500))
    live, greedy = int(buffers.section_bytes.max()), best_greedy(buffers)[1]
    assert Ejection(buffers, 3).improve(greedy, live, 0.0) is None
    assert Ejection(buffers, 3).improve(greedy, live, math.inf) is not None
    for seconds, is_lowered in ((0.0, False), (math.inf, True)):
        search = minimise_peak(buffers, live, seed=3, seconds_left=lambda seconds=seconds: seconds)
        steps = list(itertools.islice(search, 4))
        assert (steps[-1].peak_bytes < steps[0].peak_bytes) is is_lowered
        assert not steps[-1].done


def test_a_study_of_a_large_instance_ends_by_its_clock_with_a_placement() -> None:
    """A clock that is a second further at every look."""
    space, looks = MemorySpace(crowd(1500)), itertools.count()
    study = Study(space, "exhaustive", seed=3, clock=lambda: float(next(looks)))
    result = study.run(InProcessExecutor(space), Budget(seconds=30))
    assert result.status is Status.BUDGET_SPENT
    assert result.best is not None
    assert not result.proved
