"""A step of a loop as one step that does the work of all rounds, later rounds behind earlier ones.

Whether the rounds of a loop may run at once, and which copies they need of what they write, is for others to say: `parallel_loops` for an
interpreter of arrays, `distributed_loops` for the batch kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.looped_steps import ElementMoves, RepeatedSteps, Step, in_grids, offsets
from kilotune.codegen.straight_line import NOWHERE, Elements, OperationInstance


def all_rounds(step: Step, wide: Mapping[str, int]) -> Step | None:
    """The step with the rounds of `wide` at once, later rounds behind earlier ones; None for one that is no single step then."""
    first = step.first
    if isinstance(first.operation, ir.INTEGER_RESULTS) or first.operation.order is ir.Order.READS_FIRST:
        return None
    vary = [any(name in wide for name, _ in moves) for moves in step.moves]
    out_places = offsets(step.out_moves, wide)
    written_once = len(set(out_places.reshape(-1).tolist())) == out_places.size
    unknown = tuple(replace(source, consecutive=False, grid=None) for source in first.sources)
    first = replace(first, consecutive=False, grid=None, sources=unknown)
    step = replace(step, first=first)
    if first.operation.order is ir.Order.PRODUCTS:
        if all(vary) or not written_once:
            return None
        made = _products(step, wide, columns=not vary[0])
    elif first.operation.order is ir.Order.ELEMENTS:
        out = _along_rows(first.out, out_places)
        sources = tuple(
            replace(source, elements=_along_rows(source.elements, offsets(moves, wide)))
            if source.variable is not None
            else source
            for source, moves in zip(first.sources, step.moves, strict=True)
        )
        made = replace(first, out=out, sources=sources)
    else:  # windows, or rows
        if not written_once:
            return None
        sources = tuple(
            replace(source, elements=_along_rows(source.elements, offsets(moves, wide)))
            for source, moves in zip(first.sources, step.moves, strict=True)
        )
        made = replace(first, out=_along_rows(first.out, out_places), sources=sources)
    return Step(in_grids(made), _left(step.out_moves, wide), tuple(_left(moves, wide) for moves in step.moves))


def _products(step: Step, wide: Mapping[str, int], columns: bool) -> OperationInstance:
    """[P, Q] x [Q, R] with the rounds as further columns of the second operand, or as further rows of the first one."""
    first = step.first
    moving = 1 if columns else 0
    by = _along_columns if columns else _along_rows
    sources = list(first.sources)
    sources[moving] = replace(sources[moving], elements=by(sources[moving].elements, offsets(step.moves[moving], wide)))
    return replace(first, out=by(first.out, offsets(step.out_moves, wide)), sources=tuple(sources))


def _along_rows(elements: Elements, places: np.ndarray) -> Elements:
    """Element numbers [n, ...] at all places: [places * n, ...]."""
    every = elements[None] + places.reshape(-1, *[1] * elements.ndim)
    every = np.where(elements[None] == NOWHERE, NOWHERE, every)
    return every.reshape(-1, *elements.shape[1:]).astype(np.int32)


def _along_columns(elements: Elements, places: np.ndarray) -> Elements:
    """Element numbers [n, m] at all places: [n, places * m]."""
    every = elements[:, None, :] + places[None, :, None]
    return np.where(elements[:, None, :] == NOWHERE, NOWHERE, every).reshape(len(elements), -1).astype(np.int32)


def _left(moves: ElementMoves, wide: Iterable[str]) -> ElementMoves:
    return tuple((name, factor) for name, factor in moves if name not in wide)


def one_by_one(step: Step, wide: Mapping[str, int]) -> Step | RepeatedSteps:
    """The step in loops of its own over the rounds."""
    made: Step | RepeatedSteps = step
    for name, count in reversed(list(wide.items())):
        made = RepeatedSteps(name, count, (made,))
    return made
