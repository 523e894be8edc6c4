"""The ways to a lower peak: each gets its share, what they find is checked, and hard instances come down to their live sum."""

from __future__ import annotations

import itertools
import math

import pytest

from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.capacity_question import STATIC_ORDERS, CapacityQuestion, luby
from kilotune.spaces.memory.checker import check_placement
from kilotune.spaces.memory.component_search import LARGE_SHARES, ComponentSearch
from kilotune.spaces.memory.csv_files import read_instance
from kilotune.spaces.memory.exact import PlacementSearchStep, minimise_peak
from kilotune.spaces.memory.fit_result import FitStatus
from kilotune.spaces.memory.instance import Instance, Placement
from kilotune.spaces.memory.native import load_kernel
from kilotune.spaces.memory.orders import best_greedy
from tests.spaces.memory.problems import DATA, guillotine, random_instance, shrunk

if load_kernel() is None:
    pytest.skip("no C compiler", allow_module_level=True)


def after(instance: Instance, steps: int, seed: int = 0) -> PlacementSearchStep:
    buffers = BufferArrays.of(instance)
    search = minimise_peak(buffers, int(buffers.section_bytes.max()), seed=seed)
    *_, last = itertools.islice(search, steps)
    named = zip((b.id for b in instance.buffers), last.offsets.tolist(), strict=True)
    assert check_placement(instance, Placement(dict(named))) == last.peak_bytes
    return last


@pytest.mark.parametrize("seed", range(3))
def test_a_challenge_that_was_open_comes_down_to_its_live_sum(seed: int) -> None:
    """MiniMalloc's D: 1 024 000 bytes were the least that was known; its live sum can be reached, which is the proof."""
    last = after(read_instance(DATA / "minimalloc" / "D.1048576.csv"), 200, seed)
    assert (last.peak_bytes, last.done) == (986_112, True)


@pytest.mark.parametrize("seed", range(3))
def test_tiles_of_a_rectangle_are_put_back(seed: int) -> None:
    last = after(guillotine(300, seed), 40)
    assert (last.peak_bytes, last.done) == (1 << 20, True)


def test_steps_lower_the_peak_and_repeat_themselves() -> None:
    instance = random_instance(5, 160, aligned=True)
    first, again = (after(instance, 60, seed=4) for _ in range(2))
    assert (first.offsets == again.offsets).all()
    assert first.peak_bytes <= after(instance, 1).peak_bytes


def test_capacities_on_the_way_are_met_where_the_goal_is_not() -> None:
    """Without glue of any kind, and with so little work that the goal itself stays unanswered."""
    buffers = BufferArrays.of(read_instance(DATA / "minimalloc" / "D.1048576.csv"))
    search = ComponentSearch(buffers, best_greedy(buffers)[1], work_unit=20_000, gluing=False, succession=False)
    greedy = search.peak
    for _ in range(40):
        search.step(search.bound, math.inf)
    assert search.bound < search.peak < greedy


def test_luby_s_sequence() -> None:
    """The first 15 numbers in the paper."""
    assert [luby(i) for i in range(1, 16)] == [1, 1, 2, 1, 1, 2, 4, 1, 1, 2, 1, 1, 2, 4, 8]


def test_what_is_blamed_comes_earlier_and_finds_what_no_static_order_does() -> None:
    """The static orders of the first pass fail on D at this capacity within their work; the learned ones do not for long."""
    buffers = BufferArrays.of(read_instance(DATA / "minimalloc" / "D.1048576.csv"))
    question = CapacityQuestion(buffers, 1_012_736)
    asked = next(n for n in range(600) if question.ask(math.inf).status is FitStatus.FITS)
    assert asked >= len(STATIC_ORDERS)


@pytest.mark.parametrize("lucky", ["skyline", "goal", "lives"])
def test_the_way_that_lowered_the_peak_last_is_taken_before_those_that_got_as_much(lucky: str) -> None:
    buffers = BufferArrays.of(shrunk(600, 1))
    search = ComponentSearch(buffers, best_greedy(buffers)[1], gluing=False)
    search._spent = {name: int(1_000_000 * share) for name, share in LARGE_SHARES.items()}
    search._lucky = lucky
    before = dict(search._spent)
    search.step(search.bound, math.inf)
    assert [name for name in before if search._spent[name] != before[name]] == [lucky]
