"""Which parts of axes of a program have the same places, so that a place can only be left out of all of them; and programs without it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray, IntArray
from kilotune.codegen.axis_parts import AxisParts, PlacedView, loop_ranges, parts_of, placed, places_of
from kilotune.codegen.labelled_axes import LabelledOperation, LabelledView, labelled
from kilotune.codegen.language.sparsity import sparse_parameters

Axis = tuple[str, int]
"""A variable and the number of a part of its axes (`codegen.axis_parts`), or the index of a loop and LOOP."""

LOOP = -1


class SharedAxes:
    """Parts in groups, by union and find. What something needs as it is, is closed; of some, single places may be read."""

    def __init__(self, program: ir.Program, parts: AxisParts | None = None) -> None:
        """`parts`: of the program's variables, or of those that it was made of by leaving places out; found where not given."""
        self.parts = parts_of(program) if parts is None else parts
        self._loops = dict(loop_ranges(program.body))
        axes = [(v.name, part) for v in program.variables for part in range(len(self.parts[v.name]))]
        axes += [(index, LOOP) for index in self._loops]
        self._parents: dict[Axis, Axis] = {axis: axis for axis in axes}
        self._closed: set[Axis] = set()
        self._sliced: dict[Axis, set[int]] = {}
        for variable in program.variables:
            if variable.role is ir.Role.INPUT or variable.name == program.result.variable:
                self._close(variable.name)
        self._take_in_all(program.body)

    def _take_in_all(self, body: tuple[ir.Statement, ...]) -> None:
        for statement in body:
            if isinstance(statement, ir.Loop):
                self._take_in_all(statement.body)
            elif isinstance(statement, ir.Periodic):  # rounds that are not all alike
                for operation in statement.body:
                    for view, _ in labelled(operation).views:
                        self._close(view.variable)
                self._closed |= {axis for axis in self._parents if axis[1] == LOOP}
            else:
                self._take_in(labelled(statement))

    def _take_in(self, operation: LabelledOperation) -> None:
        by_label: dict[str, tuple[Axis, ...]] = {}
        closed = set(operation.closed)
        for one in operation.views:
            view, axes = one
            place = placed(one, self.parts[view.variable], self._loops)
            if place is None:
                self._close(view.variable)
                self._closed |= {(name, LOOP) for name, _ in view.offset.terms}
                closed |= {axis.label for axis in axes}
                continue
            self._take_in_place(view.variable, place)
            for number, (axis, run) in enumerate(zip(axes, place.runs, strict=True)):
                if number in place.partial:
                    closed.add(axis.label)
                if run:
                    self._join_label(by_label, closed, axis.label, tuple((view.variable, part) for part in run))
        self._closed |= {axis for label in closed for axis in by_label.get(label, ())}

    def _take_in_place(self, variable: str, place: PlacedView) -> None:
        for part, places in place.sliced.items():
            self._sliced.setdefault((variable, part), set()).update(places)
        for part, index in place.looped.items():
            self._join((variable, part), (index, LOOP))
        self._closed |= {(variable, part) for part in place.stepped} | {(name, LOOP) for name in place.steppers}

    def _join_label(
        self, by_label: dict[str, tuple[Axis, ...]], closed: set[str], label: str, axes: tuple[Axis, ...]
    ) -> None:
        others = by_label.setdefault(label, axes)
        if [self.extent(one) for one in others] == [self.extent(one) for one in axes]:
            for one, other in zip(axes, others, strict=True):
                self._join(one, other)
        else:
            closed.add(label)
            self._closed |= set(axes)

    def extent(self, axis: Axis) -> int:
        """How many places a part, or a loop, has."""
        return self._loops[axis[0]].count if axis[1] == LOOP else self.parts[axis[0]][axis[1]]

    def _join(self, one: Axis, other: Axis) -> None:
        self._parents[self._root(one)] = self._root(other)

    def _close(self, variable: str) -> None:
        self._closed |= {axis for axis in self._parents if axis[0] == variable and axis[1] != LOOP}

    def _root(self, axis: Axis) -> Axis:
        while self._parents[axis] != axis:
            axis = self._parents[axis]
        return axis

    def groups(self, *, sliced: bool) -> Iterator[tuple[tuple[Axis, ...], IntArray]]:
        """The parts of each group of several places none of which is closed, in the order of the variables, and which places are read by
        themselves: those groups where some are, or those where none is."""
        closed = {self._root(axis) for axis in self._closed}
        groups: dict[Axis, list[Axis]] = {}
        for axis in self._parents:
            if self.extent(axis) > 1:
                groups.setdefault(self._root(axis), []).append(axis)
        for root, axes in groups.items():
            places = {place for axis in axes for place in self._sliced.get(axis, ())}
            if root not in closed and bool(places) == sliced:
                yield tuple(axes), np.array(sorted(places), dtype=np.int64)


def parts_left(parts: AxisParts, kept: Mapping[Axis, IntArray]) -> AxisParts:
    """The parts with some places of some of them alone."""
    return {
        name: tuple(len(kept.get((name, part), range(extent))) for part, extent in enumerate(extents))
        for name, extents in parts.items()
    }


def taken(values: FloatArray, name: str, parts: AxisParts, kept: Mapping[Axis, IntArray]) -> FloatArray:
    """A parameter's values with some places alone. `parts`: those of the program that it is of."""
    extents = parts[name]
    found = np.asarray(values).reshape(extents)
    for part in range(len(extents)):
        if (name, part) in kept:
            found = np.take(found, kept[name, part], axis=part)
    return found.reshape(_shape(np.shape(values), extents, found.shape))


def _shape(shape: Sequence[int], extents: Sequence[int], left: Sequence[int]) -> tuple[int, ...]:
    """The shape of a variable of which parts with these extents have so many places left."""
    found, part = [], 0
    for extent in shape:
        size, new = 1, 1
        while size < extent:
            size, new, part = size * extents[part], new * left[part], part + 1
        found.append(new)
    return tuple(found)


def resized(
    program: ir.Program, parts: AxisParts, parameters: Mapping[str, FloatArray], kept: Mapping[Axis, IntArray]
) -> ir.Program:
    """A program with some places alone of some parts, of which it reads and writes all, or those. `parameters`: those that it has then."""
    resizing, left = _Resizing(program, parts, kept), parts_left(parts, kept)
    variables = tuple(replace(v, shape=_shape(v.shape, parts[v.name], left[v.name])) for v in program.variables)
    smaller = replace(program, variables=variables, body=resizing.body(program.body))
    sparse = sparse_parameters(smaller, parameters)
    return replace(smaller, variables=tuple(replace(v, sparse=v.name in sparse) for v in variables))


class _Resizing:
    def __init__(self, program: ir.Program, parts: AxisParts, kept: Mapping[Axis, IntArray]) -> None:
        self._parts, self._kept, self._left = parts, kept, parts_left(parts, kept)
        self._loops = dict(loop_ranges(program.body))

    def body(self, body: tuple[ir.Statement, ...]) -> tuple[ir.Statement, ...]:
        made = list[ir.Statement]()
        for one in body:
            if isinstance(one, ir.Loop):
                count = len(self._kept.get((one.index, LOOP), range(one.count)))
                made.append(replace(one, body=self.body(one.body), count=count))
            else:  # nothing that a periodic body touches changes
                made.append(one if isinstance(one, ir.Periodic) else self._operation(one))
        return tuple(made)

    def _operation(self, operation: ir.Operation) -> ir.Operation:
        views = labelled(operation).views
        if all(self._parts[view.variable] == self._left[view.variable] for view, _ in views):
            return operation
        extents = {axis.label: axis.extent for _, axes in views for axis in axes}
        places = [placed(one, self._parts[one[0].variable], self._loops) for one in views]
        for (view, axes), place in zip(views, places, strict=True):
            for axis, run in zip(axes, place.runs if place is not None else (), strict=False):
                if run:
                    extents[axis.label] = prod(self._left[view.variable][part] for part in run)
        changed = {
            one[0]: one[0] if place is None else self._view(one, place, extents)
            for one, place in zip(views, places, strict=True)
        }
        made = ir.with_views(operation, lambda view: changed[view])
        return replace(made, groups=made.b.shape[0]) if isinstance(made, ir.Conv2D) else made

    def _view(self, one: LabelledView, place: PlacedView, label_extents: Mapping[str, int]) -> ir.View:
        view, axes = one
        before, after = self._parts[view.variable], self._left[view.variable]
        strides, new_strides = ir.row_major_strides(before), ir.row_major_strides(after)
        moved = {prod(before): prod(after), **dict(zip(strides, new_strides, strict=True))}
        shape = [1] * len(view.shape)
        for number, axis in enumerate(axes):
            shape[axis.axis] *= axis.extent if number in place.partial else label_extents[axis.label]
        begins = 0
        for part, first in enumerate(places_of(view, before, self._loops)):
            kept = self._kept.get((view.variable, part))
            begins += new_strides[part] * (first if kept is None else int(np.searchsorted(kept, first)))
        terms = []
        for name, factor in view.offset.terms:
            part = next(part for part, stride in enumerate(strides) if stride <= factor < stride * before[part])
            terms.append((name, factor // strides[part] * new_strides[part]))
            begins -= terms[-1][1] * self._loops[name].start
        return replace(
            view,
            shape=tuple(shape),
            strides=tuple(moved.get(stride, stride) for stride in view.strides),
            offset=ir.Affine(begins, tuple(terms)),
        )


def with_all_views(body: tuple[ir.Statement, ...], change: Callable[[ir.View], ir.View]) -> tuple[ir.Statement, ...]:
    """Statements on other views: what they read and write, each changed."""
    return tuple(
        replace(one, body=with_all_views(one.body, change))  # type: ignore[arg-type]
        if isinstance(one, ir.Loop | ir.Periodic)
        else ir.with_views(one, change)
        for one in body
    )
