"""What a mapper and a timing evaluator see of a lowered network: stages, and edges as plain arrays of counts.

The paper's relation S (Appendix A) maps an observed write to the last reader iteration that may run. Iterations of both
sides run in a fixed order, so S is a staircase, and `needed` is that staircase read from the reader's side: reader
iteration j may start when S of the `needed[j]`-th write is at least j.

Iterations are numbered from 0 within an image. Image m of a stream shifts all numbers by m * iterations; a circular
buffer goes on across images, so iteration i of image m lies at slot (m * iterations + i) mod capacity.

`codegen.cm.lowering.lower(network, plan)` makes a pipeline from a network and a plan (replicas of every layer, size of a
crossbar); `uniform_chain` and other generated pipelines need only this file.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kilotune.codegen.arrays import Int32Array
from kilotune.codegen.ir.views import NOT_CONTENT

ACTIVATION_BITS = 8
"""Bits of an activation where nothing else is said."""

GMEM = -1
"""Stands for the global memory where a stage number is expected: the writer of the image."""


@dataclass(frozen=True)
class Stage:
    """What one core does: a replica, or a row and column block of one, of a partition; one output pixel an iteration.

    name: unique in the pipeline.
    layer: the partition's name, shared by its replicas and blocks; what decisions are about.
    iterations: per image, in execution order: row major over the stage's rectangle of output pixels.
    crossbar_rows, crossbar_columns: the matrix held in crossbars; 0 and 0 without one (pooling, padding).
    dpu_operations: digital operations of one iteration.
    output_elements: elements written by one iteration (its channels, or those of its column block).
    replica, row_block, column_block: which part of the partition this is.
    output_bits: all elements of an output packet together. input_bits: an operand of the crossbar. read_bits: what an iteration
        reads from the buffers. None is content: what hardware that charges bits makes of them is.
    slices: columns that a weight takes. conversion_bits: of a column that is read; 0: those of the hardware.
    """

    name: str
    layer: str
    iterations: int
    crossbar_rows: int
    crossbar_columns: int
    dpu_operations: int
    output_elements: int
    replica: int = 0
    row_block: int = 0
    column_block: int = 0
    output_bits: int = field(default=0, metadata=NOT_CONTENT)
    input_bits: int = field(default=ACTIVATION_BITS, metadata=NOT_CONTENT)
    read_bits: int = field(default=0, metadata=NOT_CONTENT)
    slices: int = field(default=1, metadata={"content_absent_as": 1})
    conversion_bits: int = field(default=0, metadata={"content_absent_as": 0})


@dataclass(frozen=True, eq=False)
class Edge:
    """A writer's output array in the memory of a reader.

    writer: stage number, or GMEM. reader: stage number.
    needed: int32 [reader.iterations], non-decreasing: how many writer iterations of the same image must be finished
        before reader iteration j starts (0: none, it reads padding or nothing).
    released: int32 [reader.iterations], non-decreasing: how many first writer iterations of the image nobody behind this
        edge needs any more once reader iteration j is finished. The last element is the writer's iterations.
    elements: sent per writer iteration; 0 < elements <= writer.output_elements (a row block reads some channels only).
    buffer_elements: capacity of the reader's circular buffer, a multiple of `elements`; 0: unbounded.
    sent: bool [writer iterations], those that the reader reads at all; None: all of them. Only these cross the links and
        take room in the buffer: a replica of a row block is sent its rows and a halo, not the image. `needed` and
        `released` count writer iterations all the same.
    packet_bits: all elements of a packet together; 0: ACTIVATION_BITS each.
    """

    writer: int
    reader: int
    needed: Int32Array
    released: Int32Array
    elements: int
    buffer_elements: int = 0
    sent: NDArray[np.bool_] | None = None
    packet_bits: int = 0

    @property
    def capacity(self) -> int:
        """Writer iterations that the buffer holds at once; 0: unbounded."""
        return self.buffer_elements // self.elements

    @property
    def minimum_capacity(self) -> int:
        """The least number of buffered writer iterations, read or not, with which the reader can run at all.

        Iteration j needs `needed[j]` of them while only those released by iteration j - 1 have left. Less than this is
        a certain deadlock; this much may still be one where paths of different lengths meet again.
        """
        before = np.concatenate(([0], self.released[:-1]))
        return max(1, int((self.needed - before).max()))


@dataclass(frozen=True)
class Pipeline:
    """A lowered network.

    stages: topologically sorted: every edge goes from a lower to a higher number.
    input_iterations: pixels of an image, sent by GMEM in the order of the hardware file, one an iteration.
    input_elements: channels of an image.
    outputs: the stages whose arrays are the network's result (several replicas or column blocks); sent to GMEM.
    """

    name: str
    stages: tuple[Stage, ...]
    edges: tuple[Edge, ...]
    input_iterations: int
    input_elements: int
    outputs: tuple[int, ...]

    def writer_iterations(self, edge: Edge) -> int:
        """Per image; those of GMEM are the image's pixels."""
        return self.input_iterations if edge.writer == GMEM else self.stages[edge.writer].iterations
