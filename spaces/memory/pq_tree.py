"""PQ-trees: all orders of some elements in which certain sets are consecutive (Booth and Lueker 1976).

The children of a P node may stand in any order, those of a Q node in theirs or in the reverse one. Trees are not changed: a narrower one
shares what it can with the wider one, so that a search may go on from either. Sets of elements are masks, one bit for each element; a step
takes as long as there are children of nodes that a set is only a part of.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence


class PQNode:
    """A leaf holds an `element`; other nodes have two or more `children`, whose order is `fixed` but for a reversal in a Q node.
    `mask`: the bits of all elements below. `log_orders`: the natural logarithm of how many orders there are."""

    __slots__ = ("children", "element", "fixed", "log_orders", "mask")

    def __init__(
        self, children: tuple[PQNode, ...] = (), fixed: bool = False, element: int = -1, mask: int = 0
    ) -> None:
        self.children, self.element, self.mask = children, element, mask
        self.fixed = fixed and len(children) > 2  # two may always change places
        ways = math.log(2) if self.fixed else math.lgamma(len(children) + 1)
        for child in children:
            self.mask |= child.mask
            ways += child.log_orders
        self.log_orders: float = ways if children else 0.0

    def elements(self) -> Iterator[int]:
        """In one of the orders."""
        if not self.children:
            yield self.element
        for child in self.children:
            yield from child.elements()


def any_order(bits: Mapping[int, int]) -> PQNode:
    """All orders of one element or more. `bits`: the mask of each."""
    return _node([PQNode(element=element, mask=bit) for element, bit in bits.items()], False)


def with_consecutive(tree: PQNode, members: int) -> PQNode | None:
    """The orders in which these elements, of which there is one at least, are consecutive besides; None where none is left."""
    if not _is_split(tree, members):
        return tree
    within = [number for number, child in enumerate(tree.children) if child.mask & members]
    if len(within) == 1:
        only = within[0]
        child = tree.children[only]
        narrowed = with_consecutive(child, members)
        if narrowed is None:
            return None
        if narrowed is child:
            return tree
        return PQNode((*tree.children[:only], narrowed, *tree.children[only + 1 :]), tree.fixed)
    if tree.fixed:
        return _with_consecutive_in_row(tree.children, within[0], within[-1], members)
    return _with_consecutive_in_group(tree.children, members)


def with_replaced(tree: PQNode, members: int, by: PQNode) -> PQNode:
    """Another tree in place of these elements, of which there is one at least, and which are consecutive in all orders."""
    replaced = _with(tree, members, [by])
    assert replaced is not None
    return replaced


def without(tree: PQNode, members: int) -> PQNode:
    """The orders of the other elements, of which there is one at least."""
    left = _with(tree, members, [])
    assert left is not None
    return left


def sorted_elements(tree: PQNode, place: Mapping[int, int]) -> list[int] | None:
    """The order in which places rise; elements of one place stand together, and those without one where the tree lets them. None where
    the tree has no such order."""

    def place_of(node: PQNode) -> int | None:
        if not node.children:
            return place.get(node.element)
        return next((found for child in node.children if (found := place_of(child)) is not None), None)

    def visit(node: PQNode) -> list[int]:
        children = node.children
        if not children:
            return [node.element]
        known = [(number, found) for number, child in enumerate(children) if (found := place_of(child)) is not None]
        if not node.fixed:
            rank = {number: rank for rank, (number, _) in enumerate(sorted(known, key=lambda one: one[1]))}
            children = tuple(
                children[number] for number in sorted(range(len(children)), key=lambda one: rank.get(one, len(rank)))
            )
        elif known and known[0][1] > known[-1][1]:
            children = children[::-1]
        return [element for child in children for element in visit(child)]

    found = visit(tree)
    places = [place[element] for element in found if element in place]
    return found if places == sorted(places) else None


def _with(tree: PQNode, members: int, waiting: list[PQNode]) -> PQNode | None:
    """What is waiting in place of these elements; None where nothing is left."""
    if not tree.mask & members:
        return tree
    if not tree.mask & ~members:
        return waiting.pop() if waiting else None
    return _node(
        [found for child in tree.children if (found := _with(child, members, waiting)) is not None], tree.fixed
    )


def _is_split(node: PQNode, members: int) -> bool:
    """Whether some of the elements below the node are members, and some are not."""
    return bool(node.mask & members) and bool(node.mask & ~members)


def _with_consecutive_in_row(row: tuple[PQNode, ...], first: int, last: int, members: int) -> PQNode | None:
    between = row[first + 1 : last]
    if any(child.mask & ~members for child in between):
        return None
    begin, end = _members_last(row[first], members), _members_last(row[last], members)
    if begin is None or end is None:
        return None
    return PQNode((*row[:first], *begin, *between, *reversed(end), *row[last + 1 :]), True)


def _with_consecutive_in_group(children: Sequence[PQNode], members: int) -> PQNode | None:
    outside, partly, inside = _by_share(children, members)
    if len(partly) > 2:
        return None
    ends = [_members_last(child, members) for child in partly]
    if None in ends:
        return None
    begin, end = (*(one or [] for one in ends), [], [])[:2]
    return _node([*outside, _node([*begin, *_nodes(inside), *reversed(end)], bool(ends))], False)


def _members_last(node: PQNode, members: int) -> list[PQNode] | None:
    """The node as a row that ends with the members below it; None where its orders do not allow that."""
    if not _is_split(node, members):
        return [node]
    if node.fixed:
        row = list(node.children)
        if not row[0].mask & ~members or not row[-1].mask & members:
            row.reverse()
        shares = [1 if _is_split(child, members) else 2 if child.mask & members else 0 for child in row]
        if shares != sorted(shares) or shares.count(1) > 1:
            return None
    else:
        outside, partly, inside = _by_share(node.children, members)
        if len(partly) > 1:
            return None
        row = [*_nodes(outside), *partly, *_nodes(inside)]
    found: list[PQNode] = []
    for child in row:
        parts = _members_last(child, members)
        if parts is None:
            return None
        found += parts
    return found


def _by_share(nodes: Sequence[PQNode], members: int) -> tuple[list[PQNode], list[PQNode], list[PQNode]]:
    """Those with no member below, with some and others, and with members only."""
    outside, partly, inside = list[PQNode](), list[PQNode](), list[PQNode]()
    for node in nodes:
        (outside if not node.mask & members else partly if node.mask & ~members else inside).append(node)
    return outside, partly, inside


def _node(children: Sequence[PQNode], fixed: bool) -> PQNode:
    return children[0] if len(children) == 1 else PQNode(tuple(children), fixed)


def _nodes(children: Sequence[PQNode]) -> list[PQNode]:
    """One P node of these, where there are any."""
    return [_node(children, False)] if children else []
