"""Operations that read an element after they have written it, where the definition reads everything first.

The NumPy definition computes a whole operation before it stores anything; the batch kernel and the emitted C go
element by element. Both are the same unless an operation writes what it reads at other places. An elementwise
operation may update its operand in place. The SeeDot front end never makes a program that has such a hazard.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import assert_never

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.looped_steps import LoopedSteps, Step, moved, offsets
from kilotune.codegen.straight_line import OperationInstance


def find_hazard(steps: LoopedSteps) -> OperationInstance | None:
    """The first step whose result would depend on the order of its reads and writes, where it stands to what it writes as it does when
    that is so; None when there is none."""
    met = (one for step, counts in steps.places for one in _meetings(step, counts))
    return next((one for one in met if not _is_ordered(one)), None)


def _meetings(step: Step, counts: Mapping[str, int]) -> Iterator[OperationInstance]:
    """The step with one operand that is the variable it writes, at every distance from the result that loops bring it to."""
    first, written = step.first, step.first.operation.out.variable
    for source, moves in zip(first.sources, step.moves, strict=True):
        if source.variable != written or not source.elements.size:
            continue
        apart = dict(moves)
        for name, factor in step.out_moves:
            apart[name] = apart.get(name, 0) - factor
        moving = {name: counts[name] for name, factor in apart.items() if factor}
        for distance in np.unique(offsets(tuple(apart.items()), moving)).tolist():
            if (
                source.elements.max() + distance >= first.out.min()
                and source.elements.min() + distance <= first.out.max()
            ):
                yield replace(first, sources=(replace(source, elements=moved(source.elements, distance)),))


def _is_ordered(step: OperationInstance) -> bool:
    return all(_in_order(step, source.elements) for source in step.sources)


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
