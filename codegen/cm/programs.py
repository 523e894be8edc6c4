"""What lowering makes of a network: what every stage computes of what it is sent, as executors and exported files read it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kilotune.codegen.cm.access import AccessPattern, Rectangle
from kilotune.codegen.cm.partition import Partition, PartitionGraph
from kilotune.codegen.cm.pipeline import Pipeline
from kilotune.codegen.onnx.converters import ColumnBlock


@dataclass(frozen=True, eq=False)
class EdgeLoad:
    """Elements `source` of an edge's packets are channels `target` of an operand, whose pixels are every `stride[0]`th row
    and every `stride[1]`th column of what the writer writes, from `offset` on."""

    edge: int
    source: NDArray[np.int64]
    target: NDArray[np.int64]
    stride: tuple[int, int] = (1, 1)
    offset: tuple[int, int] = (0, 0)


@dataclass(frozen=True, eq=False)
class OperandSource:
    """Where a node's operand comes from: a tensor of the same stage (`local`), or loads from edges; channels that no load
    brings are 0."""

    channels: int
    local: str | None
    loads: tuple[EdgeLoad, ...] = ()


@dataclass(frozen=True, eq=False)
class StageProgram:
    """What a stage computes at each pixel of `rectangle`.

    channels: [first, last) of its partition's channels. block: of a convolution. head: what the window reads.
    partials: the edges whose packets are added to the crossbar's result: those of all row blocks before to the last one, or, in a
    chained partition, that of the one before to each. operands: of the partition's pointwise nodes,
    node by node. exports: tensors that one output packet holds, one after the other;
    empty for a row block that sends its partial sums.
    """

    partition: Partition
    rectangle: Rectangle
    channels: tuple[int, int]
    block: ColumnBlock | None
    row_block: int
    head: OperandSource | None
    first_input: int
    partials: tuple[int, ...]
    operands: tuple[tuple[OperandSource, ...], ...]
    exports: tuple[str, ...]

    @property
    def finishes(self) -> bool:
        """Whether it goes on to the partition's results, not just to a partial sum."""
        return self.block is None or self.row_block == self.block.row_blocks - 1


@dataclass(frozen=True, eq=False)
class LoweredNetwork:
    """A pipeline, the program of every stage, and behind every edge its accesses and the elements of the writer's
    packet that it carries. by_columns: how GMEM sends the image."""

    network: PartitionGraph
    pipeline: Pipeline
    programs: tuple[StageProgram, ...]
    readings: tuple[AccessPattern, ...]
    elements: tuple[NDArray[np.int64], ...]
    by_columns: bool = False
