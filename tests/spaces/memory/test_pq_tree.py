"""PQ-trees against all permutations."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilotune.spaces.memory.pq_tree import (
    PQNode,
    any_order,
    sorted_elements,
    with_consecutive,
    with_replaced,
    without,
)

Order = tuple[int, ...]


def orders(tree: PQNode) -> Iterator[Order]:
    """All that the tree stands for, by its definition."""
    if not tree.children:
        yield (tree.element,)
        return
    rows = [tree.children, tree.children[::-1]] if tree.fixed else permutations(tree.children)
    for row in rows:
        for parts in product(*(list(orders(child)) for child in row)):
            yield sum(parts, ())


def leaves(*elements: int) -> dict[int, int]:
    return {element: 1 << element for element in elements}


def mask(members: set[int]) -> int:
    return sum(1 << member for member in members)


def is_consecutive(order: Order, members: set[int]) -> bool:
    places = [place for place, element in enumerate(order) if element in members]
    return places[-1] - places[0] == len(places) - 1


def narrowed(tree: PQNode, *sets: set[int]) -> PQNode:
    for members in sets:
        found = with_consecutive(tree, mask(members))
        assert found is not None
        tree = found
    return tree


@given(st.integers(2, 7).flatmap(lambda n: st.tuples(st.just(n), st.lists(st.sets(st.integers(0, n - 1), min_size=1)))))
def test_the_tree_holds_exactly_the_orders_in_which_each_set_is_consecutive(case: tuple[int, list[set[int]]]) -> None:
    count, sets = case
    tree, left = any_order(leaves(*range(count))), set(permutations(range(count)))
    for members in sets:
        found = with_consecutive(tree, mask(members))
        left = {order for order in left if is_consecutive(order, members)}
        assert (found is None) == (not left)
        if found is None:
            return
        tree, listed = found, list(orders(found))
        assert set(listed) == left
        assert len(listed) == len(left) == round(math.exp(tree.log_orders))
    for order in list(left)[::97]:
        assert sorted_elements(tree, {element: place for place, element in enumerate(order)}) == list(order)


@pytest.mark.parametrize("gone", [{1, 2}, {0}, {0, 1, 2}])
def test_what_replaces_consecutive_elements_stands_where_they_stood(gone: set[int]) -> None:
    tree = narrowed(any_order(leaves(*range(4))), {0, 1}, {1, 2}, gone)
    wanted = set()
    for order in orders(tree):
        at = min(order.index(element) for element in gone)
        rest = tuple(element for element in order if element not in gone)
        wanted |= {rest[:at] + new + rest[at:] for new in ((7, 8), (8, 7))}
    assert set(orders(with_replaced(tree, mask(gone), any_order(leaves(7, 8))))) == wanted


def test_a_tree_that_is_narrowed_stays_as_it_was() -> None:
    tree = narrowed(any_order(leaves(*range(4))), {0, 1})
    before = set(orders(tree))
    narrowed(tree, {1, 2})
    assert set(orders(tree)) == before


def test_an_order_that_the_tree_has_not_is_not_found() -> None:
    tree = narrowed(any_order(leaves(*range(3))), {0, 1})
    assert sorted_elements(tree, {0: 0, 2: 1, 1: 2}) is None
    assert sorted_elements(tree, {0: 3, 1: 3, 2: 5}) in ([0, 1, 2], [1, 0, 2])


@given(st.lists(st.sets(st.integers(0, 5), min_size=2), max_size=3), st.sets(st.integers(0, 5), min_size=1, max_size=5))
def test_elements_that_are_gone_leave_the_orders_of_the_others(sets: list[set[int]], gone: set[int]) -> None:
    tree = any_order(leaves(*range(6)))
    for members in [*sets, gone]:
        tree = with_consecutive(tree, mask(members)) or tree
    if any(not is_consecutive(order, gone) for order in orders(tree)):
        return
    left = {tuple(element for element in order if element not in gone) for order in orders(tree)}
    assert set(orders(without(tree, mask(gone)))) == left


def test_elements_without_a_place_stand_where_the_tree_lets_them() -> None:
    tree = narrowed(any_order(leaves(0, 1, 2, 3)), {0, 1}, {1, 2})
    found = sorted_elements(tree, {3: 0, 2: 1, 0: 2})
    assert found == [3, 2, 1, 0]
    assert sorted_elements(tree, {0: 0, 3: 1, 2: 2}) is None
