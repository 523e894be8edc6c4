"""Axes of variables as the parts that views see: 48 features that are 4 places of 12 channels, 70 rows that are 7 nodes of 10 classes.

The elements of a variable are numbered with mixed radices, one for each part. Parts are found from the program alone: where a view's axis
begins and ends, where loops step, and where an axis that runs together with it has parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from kilotune.codegen import ir
from kilotune.codegen.labelled_axes import LabelledAxis, LabelledOperation, LabelledView, labelled

AxisParts = Mapping[str, tuple[int, ...]]
"""The extents of a variable's parts, the last one running fastest, by its name."""


@dataclass(frozen=True)
class LoopRange:
    """The values of a loop's index."""

    start: int
    count: int


@dataclass(frozen=True)
class PlacedView:
    """Where a view lies in the parts of its variable.

    `runs`: for each of its axes the parts that it goes through as a whole, none where it has one place or stays at one. `sliced`: parts of
    which it has some places, as one of its axes or always the same one. `looped`: parts that a loop goes through, by its index.
    `stepped`: parts in which a loop steps otherwise; `steppers`: such loops.
    """

    runs: tuple[tuple[int, ...], ...]
    sliced: Mapping[int, range]
    looped: Mapping[int, str]
    stepped: frozenset[int] = frozenset()
    steppers: frozenset[str] = frozenset()
    partial: Mapping[int, int] = field(default_factory=dict)
    """By number of an axis that is a slice the part of which it is one."""


def loop_ranges(body: tuple[ir.Statement, ...]) -> Iterator[tuple[str, LoopRange]]:
    """All loops, by their index."""
    for statement in body:
        if isinstance(statement, ir.Loop):
            yield statement.index, LoopRange(statement.start, statement.count)
            yield from loop_ranges(statement.body)


def parts_of(program: ir.Program) -> AxisParts:
    """The parts of all variables of a program."""
    return _Cuts(program).parts()


class _Cuts:
    """By variable the products of the extents of parts, from the last one on: each divides the next one."""

    def __init__(self, program: ir.Program) -> None:
        self._variables = {variable.name: variable for variable in program.variables}
        self._loops = dict(loop_ranges(program.body))
        self._cuts = {name: {1, one.size, *ir.row_major_strides(one.shape)} for name, one in self._variables.items()}
        every = [labelled(operation) for operation in ir.operations(program.body)]
        for operation in every:
            for view, _ in operation.views:
                for name, factor in view.offset.terms:
                    self._add(view.variable, factor)
                    self._add(view.variable, factor * self._loops[name].count if name in self._loops else 1)
        while sum(self._take_in(operation) for operation in every):
            pass

    def _take_in(self, operation: LabelledOperation) -> bool:
        """Whether an operation has added any."""
        inner: dict[str, set[int]] = {}
        every = [(view, axis) for view, axes in operation.views for axis in axes if axis.stride > 0 and axis.extent > 1]
        for view, axis in every:
            cuts = self._cuts[view.variable]
            end = axis.stride * axis.extent
            within = {cut // axis.stride for cut in cuts if axis.stride < cut < end and cut % axis.stride == 0}
            inner.setdefault(axis.label, {1}).update(within)
        added = [
            self._add(view.variable, cut * axis.stride)
            for view, axis in every
            for cut in (*sorted(inner[axis.label]), *((axis.extent,) if self._aligned(view, axis) else ()))
        ]
        return any(added)

    def _aligned(self, view: ir.View, axis: LabelledAxis) -> bool:
        return view.offset.constant // axis.stride % axis.extent == 0

    def _add(self, name: str, cut: int) -> bool:
        cuts = self._cuts[name]
        fits = 0 < cut < self._variables[name].size and all(cut % one == 0 or one % cut == 0 for one in cuts)
        if not fits or cut in cuts:
            return False
        cuts.add(cut)
        return True

    def parts(self) -> AxisParts:
        found = {}
        for name, cuts in self._cuts.items():
            ordered = sorted(cuts)
            extents = [after // before for before, after in pairwise(ordered)]
            found[name] = tuple(reversed(extents)) or (1,)
        return found


def placed(labelled_view: LabelledView, extents: tuple[int, ...], loops: Mapping[str, LoopRange]) -> PlacedView | None:
    """Where a view lies in the parts of its variable, which have these extents; None where they do not tell. `loops`: those around it."""
    view, axes = labelled_view
    if any(name not in loops for name, _ in view.offset.terms):
        return None
    strides, places = ir.row_major_strides(extents), places_of(view, extents, loops)
    runs, sliced, partial, seen = list[tuple[int, ...]](), dict[int, range](), dict[int, int](), list[int]()
    for number, axis in enumerate(axes):
        run = _run(axis, strides, extents)
        if run is None or any(places[part] for part in run):
            found = _slice(axis, strides, extents, places)
            if found is None:
                return None
            sliced[found], run = range(places[found], places[found] + axis.extent), ()
            partial[number] = found
            seen.append(found)
        runs.append(run)
        seen += run
    if len(set(seen)) < len(seen):
        return None
    free = [part for part, extent in enumerate(extents) if extent > 1 and part not in seen]
    looped, stepped, steppers = dict[int, str](), set[int](), set[str]()
    for name, factor in view.offset.terms:
        part = _part_of(factor, strides, extents)
        if part is None:
            return None
        whole = strides[part] == factor and part in free and places[part] == 0
        if whole and loops[name].count == extents[part] and part not in looped:
            looped[part] = name
        else:
            stepped |= set(range(part + 1))
            steppers.add(name)
    sliced |= {part: range(places[part], places[part] + 1) for part in free if part not in looped}
    return PlacedView(tuple(runs), sliced, looped, frozenset(stepped), frozenset(steppers), partial)


def places_of(view: ir.View, extents: tuple[int, ...], loops: Mapping[str, LoopRange]) -> tuple[int, ...]:
    """The place in each part at which a view begins in the first rounds of all loops."""
    base = view.offset.at({name: loops[name].start for name, _ in view.offset.terms})
    strides = ir.row_major_strides(extents)
    return tuple(base // stride % extent for stride, extent in zip(strides, extents, strict=True))


def _run(axis: LabelledAxis, strides: tuple[int, ...], extents: tuple[int, ...]) -> tuple[int, ...] | None:
    """The parts that an axis goes through, the last one running fastest; None where it goes otherwise."""
    if axis.extent == 1 or axis.stride == 0:
        return ()
    run, left, stride = list[int](), axis.extent, axis.stride
    for part in reversed(range(len(extents))):
        if extents[part] > 1 and strides[part] == stride and left > 1:
            if left % extents[part]:
                return None
            run.append(part)
            left //= extents[part]
            stride *= extents[part]
    return tuple(reversed(run)) if left == 1 else None


def _slice(
    axis: LabelledAxis, strides: tuple[int, ...], extents: tuple[int, ...], places: tuple[int, ...]
) -> int | None:
    """The part of which an axis is a slice."""
    for part, extent in enumerate(extents):
        if extent > 1 and strides[part] == axis.stride and places[part] + axis.extent <= extent:
            return part
    return None


def _part_of(factor: int, strides: tuple[int, ...], extents: tuple[int, ...]) -> int | None:
    """The part in which a step of so many elements goes on by whole places."""
    for part, (stride, extent) in enumerate(zip(strides, extents, strict=True)):
        if stride <= factor < stride * extent:
            return part if factor % stride == 0 else None
    return None
