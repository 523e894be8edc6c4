"""Which candidates of a batch compute the same up to some step, so that these steps run once.

Candidates are put in an order in which neighbours have long beginnings in common. Where one differs from the one before it only from
some operation on, it starts there, on the values that the other one has left behind.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from kilotune.codegen import ir
from kilotune.codegen.arrays import Int32Array, IntArray
from kilotune.codegen.looped_steps import Body, LoopedSteps, RepeatedSteps

_MIXERS = np.random.default_rng(0).integers(1 << 62, size=64, dtype=np.int64) | 1


def resumable_steps(program: ir.Program, steps: LoopedSteps, last: int) -> tuple[IntArray, IntArray]:
    """The operations in the order in which they are executed first; and for every place in it, and for behind them all, the part of
    `steps.body` to start at when only what comes from there on has changed: [operations + 1]. It is not after part `last`.

    A part, a step or a loop, may be started at when no variable is written both before it and from it on: what it and later ones read of
    earlier ones is then still there, although another candidate has run to its end.
    """
    operations = tuple(ir.operations(program.body))
    parts = len(steps.body)
    first_writer: dict[str, int] = {}
    last_writer: dict[str, int] = {}
    first_part = np.full(len(operations), parts, dtype=np.int64)
    for number, part in enumerate(steps.body):
        for row in _rows((part,)):
            written = operations[row].out.variable
            first_writer.setdefault(written, number)
            last_writer[written] = number
            first_part[row] = min(first_part[row], number)
    open_writers = np.zeros(parts + 1, dtype=np.int64)  # variables that are written before a part, and again from it on
    for name, first in first_writer.items():
        open_writers[first + 1] += 1
        open_writers[last_writer[name] + 1] -= 1
    safe = np.flatnonzero(np.cumsum(open_writers) == 0)
    order = np.argsort(first_part, kind="stable")
    wanted = np.minimum([*first_part[order], parts], last)
    return order, np.asarray(safe[np.searchsorted(safe, wanted, side="right") - 1])


def _rows(body: Body) -> Iterator[int]:
    for part in body:
        if isinstance(part, RepeatedSteps):
            yield from _rows(part.body)
        else:
            yield part.first.row


def shared_starts(meanings: IntArray, resumable: IntArray) -> tuple[Int32Array, Int32Array]:
    """The order in which candidates run, and where each starts.

    `meanings` [candidates, operations, ...]: all that an operation's result hangs on, besides what it reads, operations in the order of
    `resumable`. `starts`, in the order of the candidates: the part from which one has to run after the one before it; 0 for the first.
    """
    count = len(meanings)
    if not resumable.any() or count < 2:
        return np.arange(count, dtype=np.int32), np.zeros(count, dtype=np.int32)
    mixed = (meanings * _MIXERS[: meanings.shape[2]]).sum(axis=2)
    order = np.lexsort(mixed.T[::-1])
    ordered = meanings[order]
    differs: npt.NDArray[np.bool_] = (ordered[1:] != ordered[:-1]).any(axis=2)
    first = np.where(differs.any(axis=1), differs.argmax(axis=1), meanings.shape[1])
    return order.astype(np.int32), np.concatenate([[0], resumable[first]]).astype(np.int32)


def without_others(order: Sequence[int], starts: Sequence[int], kept: Collection[int]) -> tuple[list[int], list[int]]:
    """That order without candidates that do not run, and where the others start then: two have in common what all between them
    have."""
    if len(kept) == len(order):
        return list(order), list(starts)
    remaining, resumed = list[int](), list[int]()
    start, unlimited = 0, max(starts, default=0)
    for candidate, own in zip(order, starts, strict=True):
        start = min(start, own)
        if candidate in kept:
            remaining.append(candidate)
            resumed.append(start)
            start = unlimited
    return remaining, resumed
