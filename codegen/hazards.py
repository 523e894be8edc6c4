"""Operations that read an element after they have written it, where the definition reads everything first.

The NumPy definition computes a whole operation before it stores anything; the batch kernel and the emitted C go
element by element. Both are the same unless an operation writes what it reads at other places. An elementwise
operation may update its operand in place. The SeeDot front end never makes a program that has such a hazard.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.straight_line import OperationInstance


def find_hazard(steps: Sequence[OperationInstance]) -> OperationInstance | None:
    """The first step whose result would depend on the order of its reads and writes; None when there is none."""
    return next((step for step in steps if not _is_ordered(step)), None)


def _is_ordered(step: OperationInstance) -> bool:
    sources = [source for source in step.sources if source.variable == step.operation.out.variable]
    return all(_in_order(step, source.elements) for source in sources)


def _in_order(step: OperationInstance, read: np.ndarray) -> bool:
    written = step.out.reshape(-1)
    if not np.intersect1d(written, read).size:
        return True
    match step.operation.order:
        case ir.Order.READS_FIRST:
            return True
        case ir.Order.ROWS:  # row by row, each read completely first
            written, read = step.out, read.reshape(step.out.shape)
            return all(not np.intersect1d(written[:row], read[row:]).size for row in range(1, written.shape[0]))
        case ir.Order.PRODUCTS | ir.Order.WINDOWS:
            return False
        case ir.Order.ELEMENTS:
            flat = np.broadcast_to(read.reshape(-1), written.shape)
            first = {int(element): place for place, element in reversed(list(enumerate(written)))}
            return all(first.get(int(element), place) >= place for place, element in enumerate(flat))
        case unknown:
            assert_never(unknown)
