"""The checker accepts placements and refuses broken ones, one mistake at a time."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.checker import PlacementError, Residence, check_placement, check_residences
from kilotune.spaces.memory.instance import Instance, Placement
from kilotune.spaces.memory.orders import best_greedy
from tests.spaces.memory.problems import instances, make, random_instance

INSTANCE = make((0, 4, 8), (2, 6, 4, 4), (4, 8, 8), (5, 6, 0))
VALID: Mapping[str, int] = {"b0": 0, "b1": 8, "b2": 0, "b3": 3}


def test_a_valid_placement() -> None:
    assert check_placement(INSTANCE, Placement(VALID)) == 12
    assert check_placement(INSTANCE, Placement(VALID), 12) == 12


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ({"b1": 4}, "share bytes 4 to 7"),
        ({"b2": 1}, "share bytes 8 to 8"),
        ({"b1": 10}, "alignment 4"),
        ({"b0": -8}, "no address"),
        ({"b0": 0.5}, "no address"),
        ({"b9": 0}, "no such buffer"),
        ({"b1": 12}, "above the capacity of 12"),
        ({"b2": None}, "no single address at program point 4"),
    ],
)
def test_a_broken_placement(broken: dict[str, int | None], said: str) -> None:
    offsets = {k: v for k, v in {**VALID, **broken}.items() if v is not None}
    with pytest.raises(PlacementError, match=said):
        check_placement(INSTANCE, Placement(offsets), 12)


def test_migrations_cover_the_life_without_gap_or_overlap() -> None:
    others = [Residence("b0", 0, 4, 0), Residence("b2", 4, 8, 0), Residence("b3", 5, 6, 0)]
    check_residences(INSTANCE, [*others, Residence("b1", 2, 4, 8), Residence("b1", 4, 6, 12)])
    for moved in (
        [Residence("b1", 2, 4, 8)],
        [Residence("b1", 2, 4, 8), Residence("b1", 5, 6, 8)],
        [Residence("b1", 2, 5, 8), Residence("b1", 4, 6, 16)],
        [Residence("b1", 2, 6, 8), Residence("b1", 6, 7, 8)],
    ):
        with pytest.raises(PlacementError, match="no single address"):
            check_residences(INSTANCE, [*others, *moved])


@settings(max_examples=300)
@given(instances(), st.lists(st.integers(0, 8), min_size=6, max_size=6))
def test_the_definition_pair_by_pair(instance: Instance, addresses: list[int]) -> None:
    offsets = {b.id: a for b, a in zip(instance.buffers, addresses, strict=False)}
    aligned = all(offsets[b.id] % b.alignment == 0 for b in instance.buffers)
    apart = all(
        not (b.id < c.id and b.overlaps(c))
        or not (set(range(offsets[b.id], offsets[b.id] + b.size)) & set(range(offsets[c.id], offsets[c.id] + c.size)))
        for b in instance.buffers
        for c in instance.buffers
    )
    try:
        check_placement(instance, Placement(offsets))
        accepted = True
    except PlacementError:
        accepted = False
    assert accepted == (aligned and apart)


def test_of_a_thousand_mutated_placements_exactly_the_right_ones_pass() -> None:
    """One buffer of a placement lies elsewhere, is gone, or has changed with another; a map of bytes and points says which is right."""
    random, refused, passed = np.random.default_rng(5), 0, 0
    for number in range(1000):
        instance = random_instance(number % 20, 12, aligned=number % 2 == 1)
        buffers = BufferArrays.of(instance)
        offsets = dict(zip((b.id for b in instance.buffers), best_greedy(buffers)[1].tolist(), strict=True))
        peak = check_placement(instance, Placement(offsets))
        one, other = (instance.buffers[k] for k in random.choice(len(instance.buffers), 2, replace=False))
        mutated = {**offsets, one.id: offsets[one.id] + int(random.integers(-8, 9))}
        if number % 4 == 1:
            mutated = {**offsets, one.id: offsets[other.id], other.id: offsets[one.id]}
        elif number % 4 == 3:
            mutated = {name: offset for name, offset in offsets.items() if name != one.id}
        try:
            check_placement(instance, Placement(mutated), peak)
            accepted = True
        except PlacementError:
            accepted = False
        assert accepted == is_right(instance, mutated, peak), (instance, mutated)
        refused, passed = refused + (not accepted), passed + accepted
    assert refused > 500
    assert passed > 50


def is_right(instance: Instance, offsets: Mapping[str, int], capacity: int) -> bool:
    """By a map of which byte is taken at which point."""
    taken = np.zeros((max(b.upper for b in instance.buffers), capacity), dtype=bool)
    for b in instance.buffers:
        at = offsets.get(b.id, -1)
        if at < 0 or at % b.alignment or at + b.size > capacity or taken[b.lower : b.upper, at : at + b.size].any():
            return False
        taken[b.lower : b.upper, at : at + b.size] = True
    return True
