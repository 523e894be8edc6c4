"""PQ-trees: all orders of some elements in which certain sets are consecutive (Booth and Lueker 1976).

The children of a P node may stand in any order, those of a Q node in theirs or in the reverse one. Trees are not changed; a narrower one
shares what it can with the wider one. Here a step takes as long as there are elements, which are the buffers live at one time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, eq=False)
class PQNode:
    """A leaf holds an `element`; other nodes have two or more `children`, whose order is `fixed` but for a reversal in a Q node."""

    children: tuple[PQNode, ...] = ()
    fixed: bool = False
    element: int = -1

    def elements(self) -> Iterator[int]:
        """In one of the orders."""
        if not self.children:
            yield self.element
        for child in self.children:
            yield from child.elements()


def any_order(elements: Sequence[int]) -> PQNode:
    """All orders of one element or more."""
    return _node([PQNode(element=element) for element in elements], False)


def with_consecutive(tree: PQNode, members: frozenset[int]) -> PQNode | None:
    """The orders in which these elements are consecutive besides; None where none is left."""
    return _Narrowing(members).narrow(tree)


def with_replaced(tree: PQNode, members: frozenset[int], by: PQNode) -> PQNode:
    """Another tree in place of consecutive elements, of which there is one at least."""
    there = _Narrowing(members)
    replaced = False

    def visit(node: PQNode) -> PQNode | None:
        nonlocal replaced
        share = there.share(node)
        if share == NONE:
            return node
        if share == ALL:
            first, replaced = not replaced, True
            return by if first else None
        return _node([found for child in node.children if (found := visit(child)) is not None], node.fixed)

    found = visit(tree)
    assert found is not None
    return found


def sorted_elements(tree: PQNode, place: Callable[[int], int | None], otherwise: int) -> list[int] | None:
    """The order in which places rise; elements without one are at `otherwise` and stand together. None where the tree has no such order."""

    def place_of(node: PQNode) -> int:
        return next((at for element in node.elements() if (at := place(element)) is not None), otherwise)

    def visit(node: PQNode) -> list[int]:
        if not node.children:
            return [node.element]
        children = node.children
        if not node.fixed:
            children = tuple(sorted(children, key=place_of))
        elif place_of(children[0]) > place_of(children[-1]):
            children = children[::-1]
        return [element for child in children for element in visit(child)]

    found = visit(tree)
    places = [otherwise if (at := place(element)) is None else at for element in found]
    return found if places == sorted(places) else None


NONE, SOME, ALL = 0, 1, 2
"""How much of what is below a node is among the elements."""


class _Narrowing:
    """One set of elements that is to be consecutive."""

    def __init__(self, members: frozenset[int]) -> None:
        self._members = members
        self._shares: dict[PQNode, int] = {}

    def share(self, node: PQNode) -> int:
        known = self._shares.get(node)
        if known is None:
            if node.children:
                shares = {self.share(child) for child in node.children}
                known = shares.pop() if len(shares) == 1 else SOME
            else:
                known = ALL if node.element in self._members else NONE
            self._shares[node] = known
        return known

    def narrow(self, node: PQNode) -> PQNode | None:
        if self.share(node) != SOME:
            return node
        within = [number for number, child in enumerate(node.children) if self.share(child) != NONE]
        if len(within) == 1:
            return self._narrow_child(node, within[0])
        if node.fixed:
            return self._narrow_row(node.children, within[0], within[-1])
        return self._narrow_group(node)

    def _narrow_child(self, node: PQNode, number: int) -> PQNode | None:
        child = self.narrow(node.children[number])
        if child is None:
            return None
        return _node([*node.children[:number], child, *node.children[number + 1 :]], node.fixed)

    def _narrow_row(self, row: tuple[PQNode, ...], first: int, last: int) -> PQNode | None:
        between = row[first + 1 : last]
        begin, end = self._with_members_last(row[first]), self._with_members_last(row[last])
        if begin is None or end is None or any(self.share(child) != ALL for child in between):
            return None
        return _node([*row[:first], *begin, *between, *reversed(end), *row[last + 1 :]], True)

    def _narrow_group(self, node: PQNode) -> PQNode | None:
        outside, partly, inside = self._by_share(node.children)
        ends = [self._with_members_last(child) for child in partly]
        if len(ends) > 2 or None in ends:
            return None
        row = [*(ends[0] or [] if ends else []), *_nodes(inside), *reversed(ends[1] or [] if len(ends) == 2 else [])]
        return _node([*outside, _node(row, bool(ends))], False)

    def _with_members_last(self, node: PQNode) -> list[PQNode] | None:
        """The node as a row that ends with the members below it; None where its orders do not allow that."""
        if self.share(node) != SOME:
            return [node]
        if not node.fixed:
            outside, partly, inside = self._by_share(node.children)
            row = [*_nodes(outside), *partly, *_nodes(inside)]
        else:
            row = list(node.children)
            if self.share(row[0]) == ALL or self.share(row[-1]) == NONE:
                row.reverse()
            partly = [child for child in row if self.share(child) == SOME]
            shares = [self.share(child) for child in row]
            if shares != sorted(shares):
                return None
        if len(partly) > 1:
            return None
        middle = self._with_members_last(partly[0]) if partly else []
        if middle is None:
            return None
        return [part for child in row for part in (middle if child in partly else [child])]

    def _by_share(self, nodes: Sequence[PQNode]) -> tuple[list[PQNode], list[PQNode], list[PQNode]]:
        outside, partly, inside = ([node for node in nodes if self.share(node) == share] for share in (NONE, SOME, ALL))
        return outside, partly, inside


def _node(children: Sequence[PQNode], fixed: bool) -> PQNode:
    return children[0] if len(children) == 1 else PQNode(tuple(children), fixed)


def _nodes(children: Sequence[PQNode]) -> list[PQNode]:
    """One P node of these, where there are any."""
    return [_node(children, False)] if children else []
