"""A reader's circular buffer as the hardware has it: cells that hold whatever was written last, and know since when.

Cells are poisoned until written. A read names the packet that it means; finding an older one, or none, is a read
before its write, and finding a newer one is an overwrite before the last read.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kilotune.codegen.cm.access import AccessPattern
from kilotune.codegen.cm.lcu import StateMachine
from kilotune.codegen.cm.pipeline import Edge

POISON = -(2**62)


class DataHazardError(Exception):
    """An order of execution, or a buffer, with which a stage would compute with wrong data.

    stage, image, iteration: who read. cell: the buffer's cell. The message says what it held and what was wanted.
    """

    def __init__(self, stage: str, image: int, iteration: int, cell: int, problem: str) -> None:
        self.stage, self.image, self.iteration, self.cell = stage, image, iteration, cell
        super().__init__(f"{stage}: image {image}, iteration {iteration}, cell {cell}: {problem}")

    def __reduce__(self) -> tuple[object, ...]:
        problem = str(self).removeprefix(self.stage + ": ").split(": ", 1)[1]
        return DataHazardError, (self.stage, self.image, self.iteration, self.cell, problem)


class CircularBuffer:
    """The buffer behind one edge and the part of the reader's control unit that watches it.

    Packets are numbered across images; packet p lies in cell p mod capacity. A capacity of 0 is unbounded.
    """

    def __init__(self, edge: Edge, reading: AccessPattern, machine: StateMachine, capacity: int, images: int) -> None:
        self.edge, self.reading, self.machine = edge, reading, machine
        self.writer_iterations = reading.writer.size
        self.reader_iterations = reading.reader.size
        sent = np.ones(self.writer_iterations, dtype=bool) if edge.sent is None else edge.sent
        self.sent = sent.tolist()
        self.before = np.concatenate(([0], np.cumsum(sent))).astype(np.int64)
        self.packets = int(self.before[-1])
        self.capacity = capacity
        self.size = capacity or max(1, self.packets * images)
        self.cells = np.full((self.size, edge.elements), POISON, dtype=np.int64)
        self.tags = np.full(self.size, -1, dtype=np.int64)
        self.issued = 0
        self.freed = 0
        self.fullest = 0
        self._initial = self._count(machine.initial())
        self.limit = self._initial

    def _count(self, pixel: tuple[int, int] | None) -> int:
        return 0 if pixel is None else self.reading.reader.rank(*pixel) + 1

    def has_room(self) -> bool:
        """Whether one more packet may be sent, by the credits that came back."""
        return self.capacity == 0 or self.issued - self.freed < self.capacity

    def issue(self) -> None:
        """A packet is on its way: it takes room from now on."""
        self.issued += 1
        self.fullest = max(self.fullest, self.issued - self.freed)

    def write(self, iteration: int, packet: NDArray[np.int64]) -> None:
        """A writer iteration's packet arrives; the state machine sees it. `iteration` counts across images."""
        image, i = divmod(iteration, self.writer_iterations)
        number = image * self.packets + int(self.before[i])
        self.cells[number % self.size] = packet
        self.tags[number % self.size] = number
        reached = self.machine.written(*self.reading.writer.pixel(i))
        if reached is not None:
            self.limit = max(self.limit, image * self.reader_iterations + self._count(reached))
        if self.limit and self.limit % self.reader_iterations == 0:  # the next image begins with what needs no writes
            self.limit += self._initial

    def finish(self, iteration: int) -> None:
        """A reader iteration is over: what only it still needed gives its room back."""
        image, j = divmod(iteration, self.reader_iterations)
        kept = self.machine.keeps(*self.reading.reader.pixel(j))
        packets = self.packets if kept is None else int(self.before[self.reading.writer.rank(*kept)])
        self.freed = max(self.freed, image * self.packets + packets)

    def read(self, stage: str, image: int, iteration: int, ranks: NDArray[np.int64]) -> NDArray[np.int64]:
        """The packets [n, elements] of the writer iterations `ranks` of an image. DataHazardError when they are not there."""
        numbers = self.before[ranks] + image * self.packets
        cells = numbers % self.size
        tags = self.tags[cells]
        wrong = np.flatnonzero(tags != numbers)
        if len(wrong):
            first = int(wrong[0])
            held, wanted = int(tags[first]), int(numbers[first])
            what = "read before its write" if held < wanted else "overwritten before its last read"
            content = "nothing yet" if held < 0 else f"packet {held}"
            problem = f"{what}: it holds {content} where packet {wanted} is wanted"
            raise DataHazardError(stage, image, iteration, int(cells[first]), problem)
        return self.cells[cells]
