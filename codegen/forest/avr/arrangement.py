"""Where trees stand, so that relative jumps reach from each of them what leaves and walks call.

Those routines stand in the middle of at most 8 KB of trees, in the first group with the function itself; every further group has routines
of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

REACH_WORDS = 2040
"""Relative jumps and calls surely go so far."""


@dataclass(frozen=True)
class Group:
    """Trees, by number, before and behind the routines that they call."""

    ahead: tuple[int, ...]
    behind: tuple[int, ...]

    @property
    def trees(self) -> tuple[int, ...]:
        """All of them."""
        return self.ahead + self.behind


def arrange(tree_words: Sequence[int], function_words: int, routine_words: int) -> tuple[Group, ...]:
    """Groups of trees of so many words, none of which is alone too much for one (`largest_tree`). In the first one the function stands
    before the routines."""
    groups, left, middle = list[Group](), list(range(len(tree_words))), function_words + routine_words
    if middle + sum(tree_words) <= REACH_WORDS:
        return (Group((), tuple(left)),)
    while left or not groups:
        ahead, left = _filled(left, tree_words, REACH_WORDS - middle)
        behind, left = _filled(left, tree_words, REACH_WORDS - middle)
        groups.append(Group(ahead, behind))
        middle = routine_words
    return tuple(groups)


def _filled(left: Sequence[int], tree_words: Sequence[int], room: int) -> tuple[tuple[int, ...], list[int]]:
    """As many trees as there is room for, and the others."""
    count, total = 0, 0
    while count < len(left) and total + tree_words[left[count]] <= room:
        total += tree_words[left[count]]
        count += 1
    return tuple(left[:count]), list(left[count:])


def largest_tree(function_words: int, routine_words: int) -> int:
    """Words of a tree that surely finds a place."""
    return REACH_WORDS - function_words - routine_words


@dataclass(frozen=True)
class Overhead:
    """Words, and cycles of a sample."""

    words: int
    cycles: float


def overhead(groups: Sequence[Group], routine_words: int) -> Overhead:
    """What calling for the trees takes, getting to the function where trees stand before it, and the routines of further groups."""
    near, jump = len(groups[0].trees), bool(groups[0].ahead)
    far = sum(len(group.trees) for group in groups[1:])
    return Overhead(near + 2 * far + jump + (len(groups) - 1) * routine_words, 3.0 * near + 4.0 * far + 2.0 * jump)
