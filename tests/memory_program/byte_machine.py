"""A program run on tagged bytes: which variable and element each byte of RAM holds. Knows nothing of live ranges.

Elements are visited as `codegen/emit` says it visits them; every read checks that all bytes of the element still carry
its tag, so a value that was overwritten while it was wanted is seen whatever the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.straight_line import OperationInstance, unroll

Tag = tuple[str, int, int]


def clobbered(program: ir.Program, element_bytes: Mapping[str, int], offsets: Mapping[str, int]) -> str | None:
    """The first read of something overwritten, as a sentence; None when every read finds what was written."""
    extent = max((offsets[n] + program.variable(n).size * element_bytes[n] for n in offsets), default=0)
    memory: list[Tag | None] = [None] * extent
    written: set[tuple[str, int]] = set()

    def touch(name: str, element: int) -> range:
        start = offsets[name] + element * element_bytes[name]
        return range(start, start + element_bytes[name])

    def read(name: str | None, element: int) -> bool:
        if name not in offsets or element < 0 or (name, element) not in written:
            return True
        return all(memory[b] == (name, element, k) for k, b in enumerate(touch(name, element)))

    def write(name: str, element: int) -> None:
        written.add((name, element))
        for k, b in enumerate(touch(name, element)):
            memory[b] = (name, element, k)

    for step in unroll(program):
        out = step.operation.out.variable
        for reads, element in visits(step):
            for name, place in reads:
                if not read(name, place):
                    return f"{name}[{place}] is gone when line {step.operation.location.line} writes {out}[{element}]"
            if element is not None:
                write(out, element)
    for element in range(program.result.size):
        if not read(program.result.variable, element):
            return f"{program.result.variable}[{element}] is gone at the end"
    return None


Visit = tuple[list[tuple[str | None, int]], int | None]


def visits(step: OperationInstance) -> Iterator[Visit]:
    """(elements read, element then written) in order of execution."""
    operation, out = step.operation, step.out
    sources = step.sources
    if isinstance(operation, ir.MatMul | ir.Conv2D):
        a, b = sources
        rows, columns = out.shape
        for i in range(rows):
            for j in range(columns):
                taps = [(a.variable, int(e)) for e in a.elements[i]] + [(b.variable, int(e)) for e in b.elements[:, j]]
                yield taps, int(out[i, j])
    elif isinstance(operation, ir.NormaliseL2):
        for row, places in zip(sources[0].elements, out, strict=True):
            yield [(sources[0].variable, int(e)) for e in row], None
            for e, place in zip(row, places, strict=True):
                yield [(sources[0].variable, int(e))], int(place)
    elif isinstance(operation, ir.ArgMax):
        yield [(sources[0].variable, int(e)) for e in sources[0].elements.reshape(-1)], int(out.reshape(-1)[0])
    elif isinstance(operation, ir.MaxPool):
        for window, place in zip(sources[0].elements, out, strict=True):
            yield [(sources[0].variable, int(e)) for e in window], int(place)
    else:
        flat = out.reshape(-1)
        every = [
            (s.variable, np.broadcast_to(s.elements.reshape(-1), flat.shape)) for s in sources if s.variable is not None
        ]
        for number, place in enumerate(flat):
            yield [(name, int(elements[number])) for name, elements in every], int(place)
