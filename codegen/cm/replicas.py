"""Which output pixels of a layer each of its replicas computes."""

from __future__ import annotations

from typing import Protocol

from kilotune.codegen.cm.access import Rectangle
from kilotune.codegen.cm.blocks import spans
from kilotune.codegen.cm.partition import Partition
from kilotune.codegen.onnx.graph import AveragePoolNode, MaxPoolNode

CHANNELS = "channels"
AXES = ("rows", "columns", CHANNELS)


class LayerReplication(Protocol):
    """How a layer is replicated: `count` replicas, each with a block of output rows, columns or channels."""

    @property
    def count(self) -> int:
        """Replicas."""

    @property
    def axis(self) -> str:
        """One of AXES."""


def rectangles(partition: Partition, count: int, axis: str) -> list[Rectangle]:
    """The output pixels of each replica: blocks of rows or columns, as equal as they can be. Those of channels have all pixels."""
    extent = {"rows": partition.height, "columns": partition.width, CHANNELS: shareable_channels(partition)}.get(
        axis, 0
    )
    if not 1 <= count <= extent:
        raise ValueError(f"{partition.name!r}: {count} replicas of {axis} do not fit {extent}")
    return replica_rectangles(partition.height, partition.width, count, axis)


def shareable_channels(partition: Partition) -> int:
    """Into how many replicas of channels a layer may be cut: a pooling into one pixel, which neither rows nor columns cut up. 1: none."""
    pixel = partition.height == partition.width == 1
    return partition.channels if pixel and isinstance(partition.head, AveragePoolNode | MaxPoolNode) else 1


def replica_rectangles(height: int, width: int, count: int, axis: str) -> list[Rectangle]:
    """Blocks of `rows` or `columns` of so many pixels, as equal as they can be; all of them once for `channels`."""
    if axis == CHANNELS:
        return [Rectangle(0, height, 0, width)]
    if axis == "rows":
        return [Rectangle(low, high, 0, width) for low, high in spans(height, count)]
    return [Rectangle(0, height, low, high) for low, high in spans(width, count)]
