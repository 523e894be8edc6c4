"""What sweeps forwards and backwards tell one another, and what they do where nothing fits."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kilotune.experiments.benchmarks.placement_instances import stacks
from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.checker import check_placement
from kilotune.spaces.memory.csv_files import read_instance
from kilotune.spaces.memory.instance import Placement
from kilotune.spaces.memory.pq_tree import any_order, with_consecutive
from kilotune.spaces.memory.stack_breaks import StackEvents, broken_changes
from kilotune.spaces.memory.stack_divisions import DivisionSearch
from kilotune.spaces.memory.stack_groups import gain_of, spread_of_sizes
from kilotune.spaces.memory.stack_orders import StackSearch, placement_of
from kilotune.spaces.memory.stack_standings import StackStanding
from kilotune.spaces.memory.stack_sweep import StackRule, StackSweep
from tests.spaces.memory.problems import DATA, make


def both(buffers: BufferArrays) -> DivisionSearch:
    backwards = BufferArrays(-buffers.upper, -buffers.lower, buffers.size, buffers.alignment)
    return DivisionSearch(buffers, backwards)


def test_sweeps_that_do_not_pass_alone_do_with_what_the_others_have_learned() -> None:
    """Pieces between cracks, smaller by up to a twentieth."""
    buffers = BufferArrays.of(read_instance(DATA / "cracks-twentieth.csv"))
    rule = StackRule(16, spread_of_sizes(buffers), 7.0)
    assert both(buffers).standing(rule, False, math.inf) is None
    assert both(buffers).standing(rule, True, math.inf) is None
    search = both(buffers)
    found = [search.standing(rule, is_backwards, math.inf) for is_backwards in (False, True, False, True)]
    assert any(found)


def test_what_is_learned_holds_in_both_directions() -> None:
    buffers = BufferArrays.of(read_instance(DATA / "cracks-twentieth.csv"))
    search = both(buffers)
    search.standing(StackRule(16, spread_of_sizes(buffers), 7.0), False, math.inf)
    forwards, backwards = search.known
    assert len(forwards) > 40
    assert {-at for at in backwards} == set(forwards)
    for at, division in forwards.items():
        ends, begins = (np.flatnonzero(times == at).tolist() for times in (buffers.upper, buffers.lower))
        assert sorted(buffer for ending, _ in division for buffer in ending) == ends
        assert sorted(buffer for _, beginning in division for buffer in beginning) == begins
        assert backwards[-at] == tuple(sorted((beginning, ending) for ending, beginning in division))


def test_a_known_division_is_taken_whatever_the_sizes_say_unless_no_order_allows_it() -> None:
    whole = BufferArrays.of(make((0, 5, 100), (0, 9, 300), (0, 5, 900), (5, 9, 100), (5, 9, 900)))
    rule = StackRule(4, 0.03)
    crossed = (((0,), (4,)), ((2,), (3,)))
    (piece,) = StackSweep(whole).pieces(rule, math.inf, {5: crossed})
    assert groups_of(piece.standings[0]) == set(crossed)
    (piece,) = StackSweep(whole).pieces(rule, math.inf, {})
    assert groups_of(piece.standings[0]) == {((0,), (3,)), ((2,), (4,))}


@pytest.mark.parametrize("count", [4, 5])
def test_each_division_of_nearly_equal_sums_is_reached_in_one_way(count: int) -> None:
    """So many pieces end, each between two that stay, and two begin in the place of each. Groups in any order would be tried many times."""
    sizes = [100 + 37 * number**2 for number in range(count)]
    stays = [(0, 9, 50)] * (count - 1)
    halves = [(5, 9, part) for size in sizes for part in (size // 3 + 1, size - size // 3)]
    sweep = StackSweep(BufferArrays.of(make(*((0, 5, size) for size in sizes), *stays, *halves)))
    (piece,) = sweep.pieces(StackRule(1000, 0.002), math.inf, {})
    found = [groups_of(one) for one in piece.standings]
    assert all(groups not in found[:number] for number, groups in enumerate(found))
    assert sweep.spent <= 2 * len(found)


def groups_of(standing: StackStanding) -> set[tuple[tuple[int, ...], tuple[int, ...]]]:
    found, change = set[tuple[tuple[int, ...], tuple[int, ...]]](), standing.changes
    while change is not None:
        found.add((change.ending, change.beginning))
        change = change.before
    return found


def test_where_nothing_fits_the_largest_place_takes_the_largest_buffer_and_others_vanish() -> None:
    tree = any_order({0: 1, 1: 2, 2: 4, 3: 8})
    for members in (0b0011, 0b0110, 0b1100):
        tree = with_consecutive(tree, members)
        assert tree is not None
    changes, bytes_off = broken_changes(
        tree, StackEvents({0: 1, 3: 8}, {0: 100, 3: 40}), StackEvents({4: 16}, {4: 120})
    )
    assert [(one.ending, one.beginning) for one in changes] == [((0,), (4,)), ((3,), ())]
    assert bytes_off == 20 + 40
    assert sorted(changes[-1].after.elements()) == [1, 2, 4]


def test_a_break_is_counted_and_the_order_after_it_is_a_placement() -> None:
    """What separates two buffers lives longer than they do, and one buffer takes the place of both: no tiling has that."""
    instance = make(
        *((0, 1, 200), (0, 2, 200), (0, 9, 77)),
        *((1, 3, 90), (1, 4, 110), (2, 3, 80), (2, 4, 120), (3, 9, 170), (4, 9, 230)),
    )
    sweep = StackSweep(BufferArrays.of(instance))
    assert [piece.end for piece in sweep.pieces(StackRule(4, 0.01), math.inf, {})] == [4, None]
    ((last, *_),) = (piece.standings for piece in sweep.pieces(StackRule(4, 0.01, breaks=1), math.inf, {}))
    assert last.breaks == 1
    placed = placement_of(last, BufferArrays.of(instance))
    named = zip((b.id for b in instance.buffers), placed.tolist(), strict=True)
    assert check_placement(instance, Placement(dict(named))) < 1.3 * 477


@pytest.mark.parametrize("count", [1, 7])
def test_of_nearly_equal_sums_half_of_what_begins_is_more_often_chance(count: int) -> None:
    """As many ways there are to choose so many of fourteen, so much less it tells."""
    sizes = np.full(14, 100)
    all_of_them = gain_of(np.array([1400]), sizes, 0.01, 100.0)
    parts = sum(gain_of(np.array([100 * k]), np.full(k, 100), 0.01, 100.0) for k in (count, 14 - count))
    assert (parts > all_of_them) == (count == 1)


def test_seconds_end_every_pass() -> None:
    search = StackSearch(BufferArrays.of(stacks(300, 1)))
    assert search.placement(0.0) is None


def test_sweeps_with_another_reluctance_learn_anew_before_wider_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = list[tuple[DivisionSearch, int, float]]()

    def none_found(self: DivisionSearch, rule: StackRule, is_backwards: bool, seconds: float) -> None:
        if all(search is not self for search, *_ in begun):
            begun.append((self, rule.width, rule.reluctance))

    monkeypatch.setattr(DivisionSearch, "standing", none_found)
    search = StackSearch(BufferArrays.of(read_instance(DATA / "cracks-twentieth.csv")))
    while not search.exhausted:
        assert search.placement(math.inf) is None
    assert [rule for _, *rule in begun[:5]] == [[1, 0.0], [16, 7.0], [16, 4.0], [32, 7.0], [32, 4.0]]


def test_a_second_order_is_looked_for_by_sweeps_that_learned_the_same() -> None:
    """Of these pieces between cracks the first one has a division wrong that nearly fits."""
    buffers = BufferArrays.of(read_instance(DATA / "cracks-smaller.csv"))
    search, found = StackSearch(buffers), list[float]()
    while not search.exhausted:
        placed = search.placement(math.inf)
        if placed is not None:
            found.append(int((placed + buffers.size).max()) / int(buffers.section_bytes.max()))
    assert len(found) == 2
    assert found[1] < 1.001 < found[0]
