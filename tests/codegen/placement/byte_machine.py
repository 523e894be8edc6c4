"""A program run on tagged bytes: which variable and element each byte of RAM holds. Knows nothing of live ranges.

Elements are visited as `codegen/emit` says it visits them; every read checks that all bytes of the element still carry
its tag, so a value that was overwritten while it was wanted is seen whatever the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.straight_line import OperationInstance
from tests.codegen.unrolled import executions

Tag = tuple[str, int, int]


class Memory:
    """Tagged bytes."""

    def __init__(self, program: ir.Program, element_bytes: Mapping[str, int], offsets: Mapping[str, int]) -> None:
        self.element_bytes, self.offsets = element_bytes, offsets
        extent = max((offsets[n] + program.variable(n).size * element_bytes[n] for n in offsets), default=0)
        self.bytes: list[Tag | None] = [None] * extent
        self.written: set[tuple[str, int]] = set()

    def place(self, name: str, element: int) -> range:
        start = self.offsets[name] + element * self.element_bytes[name]
        return range(start, start + self.element_bytes[name])

    def holds(self, name: str | None, element: int) -> bool:
        """Whether an element is what was written, if it was."""
        if name not in self.offsets or element < 0 or (name, element) not in self.written:
            return True
        return all(self.bytes[b] == (name, element, k) for k, b in enumerate(self.place(name, element)))

    def write(self, name: str, element: int) -> None:
        self.written.add((name, element))
        for k, b in enumerate(self.place(name, element)):
            self.bytes[b] = (name, element, k)


def clobbered(
    program: ir.Program,
    element_bytes: Mapping[str, int],
    offsets: Mapping[str, int],
    backward: Set[int] = frozenset(),
) -> str | None:
    """The first read of something overwritten, as a sentence; None when every read finds what was written. `backward`: rows of convolutions
    that begin with the last place of their window."""
    memory = Memory(program, element_bytes, offsets)
    for execution in executions(program):
        step = execution[0]
        out = step.operation.out.variable
        for reads, element in visits(execution, backward=step.row in backward):
            for name, place in reads:
                if not memory.holds(name, place):
                    return f"{name}[{place}] is gone when line {step.operation.location.line} writes {out}[{element}]"
            if element is not None:
                memory.write(out, element)
    for element in range(program.result.size):
        if not memory.holds(program.result.variable, element):
            return f"{program.result.variable}[{element}] is gone at the end"
    return None


Visit = tuple[list[tuple[str | None, int]], int | None]


def visits(execution: Sequence[OperationInstance], *, backward: bool) -> Iterator[Visit]:
    """(elements read, element then written) in order of execution."""
    step = execution[0]
    operation, source, out = step.operation, step.sources[0] if step.sources else None, step.out
    if isinstance(operation, ir.MatMul | ir.Conv2D):
        yield from sums_of_products(execution, backward=backward)
    elif isinstance(operation, ir.NormaliseL2):
        for row, places in zip(source.elements, out, strict=True):
            yield [(source.variable, int(e)) for e in row], None
            for e, place in zip(row, places, strict=True):
                yield [(source.variable, int(e))], int(place)
    elif isinstance(operation, ir.ArgMax):
        yield [(source.variable, int(e)) for e in source.elements.reshape(-1)], int(out.reshape(-1)[0])
    elif isinstance(operation, ir.MaxPool):
        for window, place in zip(source.elements, out, strict=True):
            yield [(source.variable, int(e)) for e in window], int(place)
    else:
        yield from element_by_element(step)


def sums_of_products(execution: Sequence[OperationInstance], *, backward: bool) -> Iterator[Visit]:
    places = range(len(execution[0].out))
    for i in reversed(places) if backward else places:
        for step in reversed(execution) if backward else execution:
            a, b = step.sources
            for j in range(step.out.shape[1]):
                taps = [(a.variable, int(e)) for e in a.elements[i]] + [(b.variable, int(e)) for e in b.elements[:, j]]
                yield taps, int(step.out[i, j])


def element_by_element(step: OperationInstance) -> Iterator[Visit]:
    flat = step.out.reshape(-1)
    every = [
        (s.variable, np.broadcast_to(s.elements.reshape(-1), flat.shape))
        for s in step.sources
        if s.variable is not None
    ]
    for number, place in enumerate(flat):
        yield [(name, int(elements[number])) for name, elements in every], int(place)
