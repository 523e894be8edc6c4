"""Splits: the paper's worked examples, and that nothing is lost in one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilotune.codegen.scamp.sums import Sum
from kilotune.spaces.reverse_split.pairs import all_splits, largest_splits
from kilotune.spaces.reverse_split.splits import (
    Split,
    Transformation,
    after_split,
    divided,
    from_image,
    largest_pair,
    named_split,
)
from tests.spaces.reverse_split.kernels import box, kernels

weights = st.integers(-4, 4).filter(bool)
cells = st.tuples(st.integers(0, 2), st.integers(0, 2))
sums = st.dictionaries(cells, weights, min_size=1, max_size=6).map(Sum.of)


def row(*counts: int) -> Sum:
    """Cells (0, 0), (1, 0), ... with these weights."""
    return Sum.of([((x, 0), w) for x, w in enumerate(counts) if w])


def test_example_9_takes_the_rows_of_a_box_out_of_each_other() -> None:
    """With the middle row as B, the rows above and below follow by one shift each (Equations 20 and 21)."""
    total = kernels(box(3)).sums[0]
    middle = Sum.of([((x, 0), 1) for x in (-1, 0, 1)])
    split = Split(0, 0, Transformation(0, 1), middle)
    assert split.is_paired((total,))
    assert split.cost((total,)) == 3  # one shift, one addition of A and B, one of the remainder
    rest, b = after_split((total,), split)
    assert b == middle
    assert rest == middle.shifted((0, -1))
    last = Split(0, 1, Transformation(0, -1), middle)
    assert after_split((rest, b), last) == (middle,)


def test_table_2_keeps_what_it_says() -> None:
    one, other = row(1, 1, 2), row(1, 1).shifted((5, 0))
    within = Split(0, 0, Transformation(1, 0), row(1))
    assert after_split((one, other), within) == (Sum.of({(2, 0): 2}), other, row(1))
    between = Split(0, 1, Transformation(-5, 0), other)
    assert after_split((one, other), between) == (Sum.of({(2, 0): 2}), other)
    assert between.additions((one, other)) == 1


def test_base_case_is_a_transformation_of_the_image() -> None:
    assert from_image((Sum.of({(2, -1): -2}),), 3) == Transformation(2, -1, -2, True)
    assert from_image((Sum.of({(0, 0): 3}),), 3) is None
    assert from_image((row(1, 1),), 3) is None


def test_largest_pairs_are_matched_from_either_end() -> None:
    state = (row(1, 1, 1),)
    assert largest_pair(state, 0, 0, Transformation(1, 0)) == row(1)
    assert largest_pair(state, 0, 0, Transformation(1, 0), backwards=True) == row(0, 1)
    assert largest_pair((row(1, 3, 3, 1),), 0, 0, Transformation(1, 0)) == row(1, 2, 1)
    assert largest_pair((row(3, 0, 6),), 0, 0, Transformation(2, 0, 1)) == row(3)


def test_division_finds_factors_that_cancel() -> None:
    assert divided(row(1, 0, -1), Transformation(1, 0, negated=True)) == row(1, 1)
    assert divided(row(1, 0, -1), Transformation(1, 0)) == row(1, -1)
    assert divided(row(1, 1, 1), Transformation(1, 0)) is None
    assert divided(row(1, 0, -4), Transformation(1, 0, 1, negated=True)) == row(1, 2)


@pytest.mark.slow
@settings(max_examples=150)
@given(st.lists(sums, min_size=1, max_size=3, unique=True))
def test_every_split_puts_its_sums_together_again(state: list[Sum]) -> None:
    before = tuple(state)
    for named in largest_splits(before, 6):
        split = named_split(before, named.name)
        assert split == named.split
        remainders = split.remainders(before)
        if split.a_from == split.b_from:
            assert split.a + split.b + remainders[0] == before[split.a_from]
        else:
            assert split.a + remainders[0] == before[split.a_from]
            assert split.b + remainders[1] == before[split.b_from]
        if not named.name.endswith("factor"):
            assert split.is_paired(before)
            less = sum(total.cardinality for total in before) - split.a.cardinality
            merged = sum(total.cardinality for total in named.after)
            assert merged <= less


@settings(max_examples=60)
@given(st.dictionaries(cells, st.sampled_from([-1, 1, 2]), min_size=2, max_size=4).map(Sum.of))
def test_all_splits_hold_the_largest_ones(total: Sum) -> None:
    every = {(named.split.transformation, named.split.b) for named in all_splits((total,), 6)}
    for named in largest_splits((total,), 6, paper=True):
        assert (named.split.transformation, named.split.b) in every


@pytest.mark.parametrize(
    "name", ["", "0 from 0", "1 from 0 by (0,1): first", "0 from 0 by (9,9): first", "0 from 0 by (1,0): best"]
)
def test_texts_that_are_no_splits_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="split"):
        named_split((row(1, 1),), name)
