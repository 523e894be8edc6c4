"""Trees as bytes in flash: records of nodes one behind the other, left branches first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kilotune.codegen.forest.integers import Branch, Threshold

SHORT_FEATURES = 64
"""So many fit beside two marks into the first byte of a record."""


@dataclass(frozen=True)
class RecordFormat:
    """Bytes of the parts of a record: `head` (the feature, and two marks: what is a leaf), `threshold`, `leaf`, and `skip`, how far the
    right branch is behind the left one."""

    head: int
    threshold: int
    leaf: int
    skip: int

    @property
    def marks(self) -> tuple[int, int]:
        """Bits of the head: the left branch is a leaf; the right one is."""
        return 1 << (8 * self.head - 2), 1 << (8 * self.head - 1)


def size_of(branch: Branch, form: RecordFormat) -> int:
    """Bytes of all records below."""
    if isinstance(branch, int):
        return form.leaf
    right_is_leaf = isinstance(branch.right, int)
    after = form.leaf if right_is_leaf else form.skip + size_of(branch.right, form)
    return form.head + form.threshold + after + size_of(branch.left, form)


def widest_skip(branches: Sequence[Branch], form: RecordFormat) -> int:
    """The most bytes that a right branch is behind."""
    most, level = 0, [branch for branch in branches if isinstance(branch, Threshold)]
    while level:
        most = max(
            most,
            *(size_of(comparison.left, form) for comparison in level if isinstance(comparison.right, Threshold)),
            0,
        )
        level = [
            child
            for comparison in level
            for child in (comparison.left, comparison.right)
            if isinstance(child, Threshold)
        ]
    return most


def records(branch: Threshold, form: RecordFormat) -> bytes:
    """[head][threshold][right: a leaf, or bytes to skip][left: a leaf, or records][right: records], little-endian. Leaves and thresholds
    in two's complement."""
    left_mark, right_mark = form.marks
    left, right = branch.left, branch.right
    head = branch.feature | (left_mark if isinstance(left, int) else 0) | (right_mark if isinstance(right, int) else 0)
    first = _bytes(left, form.leaf) if isinstance(left, int) else records(left, form)
    given = _bytes(head, form.head) + _bytes(branch.threshold, form.threshold)
    if isinstance(right, int):
        return given + _bytes(right, form.leaf) + first
    return given + _bytes(len(first), form.skip) + first + records(right, form)


def _bytes(number: int, count: int) -> bytes:
    return (number & ((1 << (8 * count)) - 1)).to_bytes(count, "little")


def stored_branches(branch: Branch, least: float) -> list[Threshold]:
    """The largest ones that fewer samples meet, from left to right; leaves above them are code."""
    if isinstance(branch, int):
        return []
    if branch.samples < least:
        return [branch]
    return stored_branches(branch.left, least) + stored_branches(branch.right, least)


def depth_of(branch: Branch) -> int:
    """The most comparisons on a way."""
    return 0 if isinstance(branch, int) else 1 + max(depth_of(branch.left), depth_of(branch.right))
