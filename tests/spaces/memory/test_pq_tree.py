"""PQ-trees against all permutations."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import permutations, product

import pytest

from kilotune.spaces.memory.pq_tree import PQNode, any_order, sorted_elements, with_consecutive, with_replaced

Order = tuple[int, ...]


def orders(tree: PQNode) -> Iterator[Order]:
    """All that the tree stands for, by its definition; some more than once."""
    if not tree.children:
        yield (tree.element,)
        return
    rows = [tree.children, tree.children[::-1]] if tree.fixed else permutations(tree.children)
    for row in rows:
        for parts in product(*(list(orders(child)) for child in row)):
            yield sum(parts, ())


def is_consecutive(order: Order, members: frozenset[int]) -> bool:
    places = [place for place, element in enumerate(order) if element in members]
    return places[-1] - places[0] == len(places) - 1


@pytest.mark.parametrize("seed", range(60))
def test_the_tree_holds_exactly_the_orders_in_which_each_set_is_consecutive(seed: int) -> None:
    rng = random.Random(seed)
    tree, left = any_order(range(6)), set(permutations(range(6)))
    for _ in range(5):
        members = frozenset(rng.sample(range(6), rng.randint(2, 4)))
        narrowed = with_consecutive(tree, members)
        left = {order for order in left if is_consecutive(order, members)}
        assert (narrowed is None) == (not left)
        if narrowed is None:
            return
        assert set(orders(narrowed)) == left
        tree = narrowed
        for order in left:
            assert sorted_elements(tree, order.index, -1) == list(order)


def test_what_replaces_consecutive_elements_stands_where_they_stood() -> None:
    tree = with_consecutive(any_order(range(4)), frozenset({0, 1}))
    assert tree is not None
    tree = with_consecutive(tree, frozenset({1, 2}))
    assert tree is not None
    replaced = with_replaced(tree, frozenset({1, 2}), any_order([7, 8]))
    assert set(orders(replaced)) == {
        order
        for order in permutations((0, 3, 7, 8))
        if is_consecutive(order, frozenset({7, 8})) and order[1] != 3 != order[2]
    }


def test_an_order_that_the_tree_has_not_is_not_found() -> None:
    tree = with_consecutive(any_order(range(3)), frozenset({0, 1}))
    assert tree is not None
    assert sorted_elements(tree, [0, 2, 1].index, -1) is None
    assert sorted_elements(tree, {2: 5}.get, 3) in ([0, 1, 2], [1, 0, 2])
