"""Operations that would read an element after they have written it, where all reads should come first."""

from __future__ import annotations

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.straight_line import Step, unroll

_READS_FIRST = (ir.ArgMax, ir.Fill)


def check_order(program: ir.Program) -> None:
    """Raise ValueError when element by element execution would differ from reading everything first.

    An elementwise operation may update its operand in place; nothing else may write what it reads.
    """
    for step in unroll(program):
        operation = step.operation
        if isinstance(operation, _READS_FIRST):
            continue
        sources = [s for s in step.sources if s.variable == operation.out.variable]
        if any(not _in_order(step, source.elements) for source in sources):
            raise ValueError(
                f"{operation.location}: {operation.out.variable} is written and read at different places by one "
                f"{type(operation).__name__}; write the result to another variable and copy it"
            )


def _in_order(step: Step, read: np.ndarray) -> bool:
    written = step.out.reshape(-1)
    if not np.intersect1d(written, read).size:
        return True
    if isinstance(step.operation, ir.NormaliseL2):  # row by row, each read completely first
        written, read = step.out, read.reshape(step.out.shape)
        return all(not np.intersect1d(written[:row], read[row:]).size for row in range(1, written.shape[0]))
    if isinstance(step.operation, ir.MatMul | ir.Conv2D | ir.MaxPool):
        return False
    flat = np.broadcast_to(read.reshape(-1), written.shape)
    first = {int(element): place for place, element in reversed(list(enumerate(written)))}
    return all(first.get(int(element), place) >= place for place, element in enumerate(flat))
