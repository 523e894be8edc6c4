"""Which axes of a program have the same places, so that a place can only be left out of all of them; and programs without it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray, IntArray
from kilotune.codegen.language.sparsity import sparse_parameters

Axis = tuple[str, int]
"""A variable and the number of one of its axes."""


class SharedAxes:
    """Axes in groups, by union and find. What something needs as it is, is closed; of first axes slices may be read."""

    def __init__(self, program: ir.Program) -> None:
        self._variables = {variable.name: variable for variable in program.variables}
        axes = [(v.name, axis) for v in program.variables for axis in range(len(v.shape))]
        self._parents: dict[Axis, Axis] = {axis: axis for axis in axes}
        self._closed: set[Axis] = set()
        self._sliced: dict[Axis, set[int]] = {}
        for variable in program.variables:
            if variable.role is ir.Role.INPUT or variable.name == program.result.variable:
                self._close(variable.name)
        for operation in ir.operations(program.body):
            self._take_in(operation)

    def _take_in(self, operation: ir.Operation) -> None:
        views = [operation.out, *(one for one in operation.operands if isinstance(one, ir.View))]
        if any(axes_of(view, self._variables[view.variable]) is None for view in views):
            self._close(operation.out.variable)
            for view in views[1:]:
                self._read_in_part(view)
            return
        match operation:
            case ir.MatMul(out=out, a=a, b=b, completion=None):
                self._join(self._axis(out, 0), self._axis(a, 0))
                self._join(self._axis(out, 1), self._axis(b, 1))
                self._join(self._axis(a, 1), self._axis(b, 0))
            case ir.Pointwise() | ir.TableFunction() | ir.Binary() | ir.Select() | ir.Fill():
                self._join_elements(operation.out, views[1:])
            case _:
                for view in views:
                    self._close(view.variable)

    def _read_in_part(self, view: ir.View) -> None:
        places = slice_of(view, self._variables[view.variable])
        if places is None:
            self._close(view.variable)
            return
        self._sliced.setdefault((view.variable, 0), set()).update(places)
        self._closed |= {axis for axis in self._parents if axis[0] == view.variable and axis[1] > 0}

    def _join_elements(self, out: ir.View, read: Sequence[ir.View]) -> None:
        for view in read:
            if view.shape == out.shape:
                for axis in range(len(out.shape)):
                    self._join(self._axis(out, axis), self._axis(view, axis))
            else:  # one element for all
                self._close(view.variable)

    def _axis(self, view: ir.View, axis: int) -> Axis | None:
        """Which axis of its variable that of a view of the whole variable is; None where it has one place."""
        of_view = axes_of(view, self._variables[view.variable])
        found = None if of_view is None else of_view[axis]
        return None if found is None else (view.variable, found)

    def _join(self, one: Axis | None, other: Axis | None) -> None:
        if one is not None and other is not None:
            self._parents[self._root(one)] = self._root(other)

    def _close(self, variable: str) -> None:
        self._closed |= {axis for axis in self._parents if axis[0] == variable}

    def _root(self, axis: Axis) -> Axis:
        while self._parents[axis] != axis:
            axis = self._parents[axis]
        return axis

    def groups(self, *, sliced: bool) -> Iterator[tuple[tuple[Axis, ...], IntArray]]:
        """The axes of each group none of which is closed, in the order of the variables, and which places are read by themselves: those
        groups where some are, or those where none is."""
        closed = {self._root(axis) for axis in self._closed}
        groups: dict[Axis, list[Axis]] = {}
        for axis in self._parents:
            groups.setdefault(self._root(axis), []).append(axis)
        for root, axes in groups.items():
            places = {place for axis in axes for place in self._sliced.get(axis, ())}
            if root not in closed and bool(places) == sliced:
                yield tuple(axes), np.array(sorted(places), dtype=np.int64)


def axes_of(view: ir.View, variable: ir.Variable) -> tuple[int | None, ...] | None:
    """For each axis of a view of a whole variable which of the variable's it is, None for one with one place; None for any other view.
    A vector may be read as a row or as a column."""
    long = [axis for axis, extent in enumerate(variable.shape) if extent > 1]
    axes = [axis for axis, extent in enumerate(view.shape) if extent > 1]
    strides = ir.row_major_strides(variable.shape)
    alike = [(view.shape[a], view.strides[a]) for a in axes] == [(variable.shape[a], strides[a]) for a in long]
    if not alike or view.offset != ir.Affine(0):
        return None
    found = dict(zip(axes, long, strict=True))
    return tuple(found.get(axis) for axis in range(len(view.shape)))


def slice_of(view: ir.View, variable: ir.Variable) -> range | None:
    """The places along a variable's first axis that a view reads, each as a whole; None for any other view."""
    strides = ir.row_major_strides(variable.shape)
    if not strides or view.offset.terms or view.offset.constant % strides[0]:
        return None
    consecutive = view.strides == ir.row_major_strides(view.shape) or view.size == 1
    if not consecutive or view.size % strides[0]:
        return None
    first = view.offset.constant // strides[0]
    return range(first, first + view.size // strides[0])


def resized(program: ir.Program, parameters: Mapping[str, FloatArray], kept: Mapping[Axis, IntArray]) -> ir.Program:
    """A program with some places of some axes alone, which it reads and writes as a whole, or in slices of kept places of a first axis.
    `parameters`: those that it has then."""
    changed = {}
    for variable in program.variables:
        extents = enumerate(variable.shape)
        shape = tuple(len(kept.get((variable.name, axis), range(extent))) for axis, extent in extents)
        if shape != variable.shape:
            changed[variable.name] = (variable, replace(variable, shape=shape))

    def smaller_view(view: ir.View) -> ir.View:
        if view.variable not in changed:
            return view
        before, after = changed[view.variable]
        if view == ir.whole(before):
            return ir.whole(after)
        axes = axes_of(view, before)
        if axes is not None:
            strides = ir.row_major_strides(after.shape)
            placed = list(zip(axes, view.shape, view.strides, strict=True))
            return replace(
                view,
                shape=tuple(extent if axis is None else after.shape[axis] for axis, extent, _ in placed),
                strides=tuple(stride if axis is None else strides[axis] for axis, _, stride in placed),
            )
        stride = ir.row_major_strides(before.shape)[0]
        first = int(np.searchsorted(kept[view.variable, 0], view.offset.constant // stride))
        return replace(view, offset=ir.Affine(first * stride))

    variables = tuple(changed[v.name][1] if v.name in changed else v for v in program.variables)
    smaller = replace(program, variables=variables, body=with_all_views(program.body, smaller_view))
    sparse = sparse_parameters(smaller, parameters)
    return replace(smaller, variables=tuple(replace(v, sparse=v.name in sparse) for v in variables))


def with_all_views(body: tuple[ir.Statement, ...], change: Callable[[ir.View], ir.View]) -> tuple[ir.Statement, ...]:
    """Statements on other views: what they read and write, each changed."""
    return tuple(
        replace(one, body=with_all_views(one.body, change))  # type: ignore[arg-type]
        if isinstance(one, ir.Loop | ir.Periodic)
        else ir.with_views(one, change)
        for one in body
    )
