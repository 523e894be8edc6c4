"""Algorithms 15-17 on the paper's own examples, and their promises on random instances."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from kilotune.search.procedure import run_procedure
from kilotune.spaces.memory.bounds import largest_live_sum
from kilotune.spaces.memory.checker import check_residences
from kilotune.spaces.memory.instance import Buffer, Instance
from kilotune.spaces.memory.procedure import DoesNotFitError, block_allocation, block_size
from kilotune.spaces.memory.space import MemorySpace
from tests.spaces.memory.problems import instances, make

FRAGMENTED = make((0, 3, 32), (1, 9, 32), (2, 3, 32), (4, 9, 64), name="section-7.1")


def test_the_papers_block_size() -> None:
    assert block_size(25, 16) == 32
    assert block_size(16, 16) == 16


def test_blocks_lie_at_multiples_of_their_size() -> None:
    # Sizes 4, 4 and 6: the unit is 4, so the third takes a block of 8, at 8 and not at 4.
    allocation = block_allocation(make((0, 9, 4), (1, 9, 6), (2, 9, 4)))
    assert [r.offset for r in sorted(allocation.residences, key=lambda r: r.id)] == [0, 8, 4]


def test_the_papers_fragmentation_example() -> None:
    unlimited = block_allocation(FRAGMENTED)
    assert (unlimited.peak_bytes, unlimited.migrations) == (128, ())
    tight = block_allocation(FRAGMENTED, 96)
    (moved,) = tight.migrations
    assert (moved.point, moved.id, moved.source, moved.target, moved.size) == (4, "b1", 32, 0, 32)
    assert tight.bytes_migrated == 32
    assert check_residences(FRAGMENTED, tight.residences, 96) == 96


def test_what_cannot_fit_is_refused() -> None:
    with pytest.raises(DoesNotFitError, match=r"program point 2 .* 96 bytes"):
        block_allocation(FRAGMENTED, 95)


@settings(max_examples=200)
@given(instances(aligned=False))
def test_a_limit_of_the_live_sum_always_fits(instance: Instance) -> None:
    live = largest_live_sum(instance).peak_bytes
    tight = block_allocation(instance, live)
    assert check_residences(instance, tight.residences, live) == tight.peak_bytes <= live
    free = block_allocation(instance)
    assert not free.migrations
    assert check_residences(instance, free.residences) == free.peak_bytes


def test_a_procedure_that_migrates_is_no_feasible_candidate() -> None:
    answer = run_procedure(MemorySpace(FRAGMENTED, 96))
    assert answer is not None
    assert answer.measurement.metrics["bytes_migrated"] == 32


def test_blocks_are_aligned_without_trying_every_block_in_between() -> None:
    """Block by block, an alignment of 2**40 took hours."""
    instance = Instance(
        "far", (Buffer("a", 0, 9, 3), Buffer("b", 1, 9, 3, alignment=1 << 40), Buffer("c", 2, 9, 3, alignment=10))
    )
    offsets = {residence.id: residence.offset for residence in block_allocation(instance).residences}
    assert offsets == {"a": 0, "b": 3 << 40, "c": 30}


def test_what_takes_no_byte_lies_at_the_bottom() -> None:
    """It takes no block, above which its empty end would be the peak."""
    empty = make((0, 1, 0), (0, 1, 0))
    assert block_allocation(empty).peak_bytes == block_allocation(empty, 1024).peak_bytes == 0
    mixed = make((0, 3, 32), (0, 3, 0), (1, 3, 0), (1, 3, 32))
    assert sorted(r.offset for r in block_allocation(mixed).residences) == [0, 0, 0, 32]
