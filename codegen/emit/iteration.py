"""Loops over the elements of views, and the C expression of an element's number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kilotune.codegen import ir


@dataclass(frozen=True)
class Iteration:
    """A loop nest that visits the elements of several views together.

    `strides[v][d]`: how far a step of loop d moves in view v; 0 for a view that is broadcast.
    """

    extents: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]


def iterate(views: Sequence[ir.View]) -> Iteration:
    """The least loops that visit all elements of the first view, and those of the others beside them."""
    extents = tuple(e for e in views[0].shape if e != 1)
    return _merged(Iteration(extents, tuple(along(view, extents) for view in views)))


def first_of_rows(view: ir.View) -> ir.View:
    """The first element of every row along the last axis."""
    return ir.View(view.variable, view.shape[:-1], view.strides[:-1], view.offset)


def along(view: ir.View, extents: tuple[int, ...]) -> tuple[int, ...]:
    """How far a view moves in each loop of `extents`, none of which is 1, that visit its elements; 0 for a single element."""
    if view.size == 1:
        return (0,) * len(extents)
    kept = [(e, s) for e, s in zip(view.shape, view.strides, strict=True) if e != 1]
    if tuple(e for e, _ in kept) == extents:
        return tuple(s for _, s in kept)
    flat = _merged(Iteration(tuple(e for e, _ in kept), (tuple(s for _, s in kept),)))
    if len(flat.extents) == 1 and flat.extents[0] == ir.count_elements(extents):
        return tuple(flat.strides[0][0] * step for step in ir.row_major_strides(extents))
    raise ValueError(f"a view of shape {view.shape} of {view.variable} does not go along with shape {extents}")


def moves_along(view: ir.View, out: ir.View, at: Sequence[str]) -> list[tuple[str, int]]:
    """How a view that goes along with a result moves with expressions of the counters of that, one an axis."""
    kept = [(counter, extent) for counter, extent in zip(at, out.shape, strict=True) if extent != 1]
    steps = along(view, tuple(extent for _, extent in kept))
    return [(counter, step) for (counter, _), step in zip(kept, steps, strict=True)]


def _merged(loops: Iteration) -> Iteration:
    """Neighbouring loops as one where every view runs on without a jump."""
    extents: list[int] = []
    strides: list[list[int]] = [[] for _ in loops.strides]
    for axis, extent in enumerate(loops.extents):
        steps = [view[axis] for view in loops.strides]
        if extents and all(view[-1] == step * extent for view, step in zip(strides, steps, strict=True)):
            extents[-1] *= extent
            for view, step in zip(strides, steps, strict=True):
                view[-1] = step
        else:
            extents.append(extent)
            for view, step in zip(strides, steps, strict=True):
                view.append(step)
    return Iteration(tuple(extents), tuple(tuple(view) for view in strides))


def element_number(offset: ir.Affine, moves: Sequence[tuple[str, int]], loop_names: Mapping[str, str]) -> str:
    """`offset + sum(expression * factor)` as C; `loop_names` are the C names of the program's loop indices."""
    terms = [(loop_names[name], factor) for name, factor in offset.terms]
    terms += [(expression, factor) for expression, factor in moves if factor != 0]
    terms.sort(key=lambda term: term[1] < 0)  # so that the first one needs no sign, where possible
    parts: list[tuple[bool, str]] = []
    for expression, factor in terms:
        magnitude = abs(factor)
        parts.append((factor < 0, expression if magnitude == 1 else f"{magnitude} * {expression}"))
    if offset.constant or not parts:
        number = (offset.constant < 0, str(abs(offset.constant)))
        parts.insert(0 if parts and parts[0][0] else len(parts), number)
    text = ("-" if parts[0][0] else "") + parts[0][1]
    return text + "".join(f" {'-' if negative else '+'} {part}" for negative, part in parts[1:])
