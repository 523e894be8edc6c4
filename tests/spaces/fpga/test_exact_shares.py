"""The fewest cycles of processing elements, against all partitions."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilotune.codegen.rtl.processing import least_cycles, longest_first_shares
from kilotune.spaces.fpga import exact_shares as exact_shares_module
from kilotune.spaces.fpga.exact_shares import exact_shares


@given(st.lists(st.integers(0, 9), min_size=1, max_size=7), st.integers(1, 3), st.sampled_from([0, 5000]))
@settings(deadline=None, max_examples=60)
def test_the_fewest_cycles_of_all_partitions(nonzeros: list[int], elements: int, most_loads: int) -> None:
    """With loads that are named, and with elements that are told apart."""
    best = min(
        max(sum(n for n, e in zip(nonzeros, choice, strict=True) if e == own) for own in range(elements))
        for choice in itertools.product(range(elements), repeat=len(nonzeros))
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact_shares_module, "MOST_LOADS", most_loads)
        shares, proved = exact_shares(nonzeros, elements)
    assert proved
    assert shares.elements == elements
    assert shares.cycles(nonzeros) == best
    assert sorted(itertools.chain(*shares.columns)) == list(range(len(nonzeros)))


def test_better_than_longest_first_and_above_the_bound() -> None:
    """The textbook's worst case of longest processing time first, 5 5 4 4 3 3 3 on three; and one whose bound nobody reaches."""
    nonzeros = [5, 5, 4, 4, 3, 3, 3]
    assert longest_first_shares(nonzeros, 3).cycles(nonzeros) == 11
    assert exact_shares(nonzeros, 3)[0].cycles(nonzeros) == 9
    assert least_cycles([3, 3, 3], 2) == 5
    assert exact_shares([3, 3, 3], 2)[0].cycles([3, 3, 3]) == 6


def test_many_elements_that_are_alike_are_proved_at_once() -> None:
    """The columns of protonn-digits on 32 elements: 31 are more than half of 11 cycles, and the others leave gaps."""
    of_each = {10: 1, 9: 7, 8: 5, 7: 13, 6: 5, 5: 8, 4: 6, 3: 3, 2: 4, 1: 5, 0: 7}
    nonzeros = [fullness for fullness, count in of_each.items() for _ in range(count)]
    shares, proved = exact_shares(nonzeros, 32, work=1.0)
    assert proved
    assert shares.cycles(nonzeros) == 12
