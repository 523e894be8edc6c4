"""Which output pixels of a layer each of its replicas computes."""

from __future__ import annotations

from typing import Protocol

from kilotune.codegen.cm.access import Rectangle
from kilotune.codegen.cm.blocks import spans
from kilotune.codegen.cm.partition import Partition

AXES = ("rows", "columns")


class LayerReplication(Protocol):
    """How a layer is replicated: `count` replicas, each with a block of output rows or columns."""

    @property
    def count(self) -> int:
        """Replicas."""

    @property
    def axis(self) -> str:
        """`rows` or `columns`."""


def rectangles(partition: Partition, count: int, axis: str) -> list[Rectangle]:
    """The output pixels of each replica: blocks of rows or columns, as equal as they can be."""
    extent = partition.height if axis == "rows" else partition.width
    if axis not in AXES or not 1 <= count <= extent:
        raise ValueError(f"{partition.name!r}: {count} replicas of {axis} do not fit {extent}")
    return replica_rectangles(partition.height, partition.width, count, axis)


def replica_rectangles(height: int, width: int, count: int, axis: str) -> list[Rectangle]:
    """Blocks of `rows` or else of columns of so many pixels, as equal as they can be."""
    if axis == "rows":
        return [Rectangle(low, high, 0, width) for low, high in spans(height, count)]
    return [Rectangle(0, height, low, high) for low, high in spans(width, count)]
