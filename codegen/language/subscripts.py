"""Views with their checks: transpose, reshape, indices, slices, reverse. Each error names the axis and the range."""

from __future__ import annotations

from collections.abc import Sequence

from kilotune.codegen import ir
from kilotune.codegen.counts import counted
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.ir import Affine, Location, View
from kilotune.codegen.language.emitter import Destination
from kilotune.codegen.language.lowering import Lowering, real, tensor
from kilotune.codegen.language.syntax import Span
from kilotune.codegen.language.values import Integer, Real, Value, describe, describe_shape, shape_of
from kilotune.codegen.language.views import (
    bounds,
    chain_axes,
    indexed,
    is_permutation,
    permuted,
    reshaped,
    reversed_along,
    sliced,
)


def transpose(value: Value, location: Location) -> Real:
    """`value^T` of a matrix; a scalar is its own transpose."""
    operand = real(value, location, "operand of '^T'")
    if not shape_of(operand):
        return operand
    return permuted(tensor(operand, location, "operand of '^T'", rank=2), (1, 0))


def reverse(value: Value, axis: int, location: Location) -> View:
    """`reverse(value, axis)`; axes count from 0."""
    view = tensor(value, location, "argument of reverse")
    if axis >= len(view.shape):
        raise InputError.at(location, "axis of reverse", f"0 to {len(view.shape) - 1}", str(axis))
    return reversed_along(view, axis)


def reshape(
    lowering: Lowering,
    value: Value,
    shape: tuple[int, ...],
    order: tuple[int, ...] | None,
    location: Location,
    goal: Destination,
) -> View:
    """`reshape(value, shape, order)`: the elements in the order of nested loops over the axes `order` (from 1).

    Copies only where strides cannot express the result.
    """
    view = tensor(value, location, "argument of reshape")
    axes = order if order is not None else tuple(range(1, len(view.shape) + 1))
    if not is_permutation(axes, view.shape):
        expected = f"each axis of {describe_shape(view.shape)} once, counted from 1"
        raise InputError.at(location, "order of reshape", expected, describe_shape(axes))
    if ir.count_elements(shape) != view.size:
        found = f"{describe_shape(shape)} with {ir.count_elements(shape)}"
        raise InputError.at(
            location, "shape of reshape", f"{counted(view.size, 'element')} as in {describe_shape(view.shape)}", found
        )
    turned = permuted(view, chain_axes(axes, len(view.shape)))
    result = reshaped(turned, shape)
    if result is not None:
        return result
    out = lowering.emitter.temporary(shape, location, goal.name)
    written = View(out.variable, turned.shape, ir.row_major_strides(turned.shape))
    lowering.emitter.emit(ir.Copy(written, location, turned))
    return out


def index(value: Value, place: Value, ranges: dict[str, tuple[int, int]], location: Location) -> View:
    """`value[place]`."""
    view = tensor(value, location, "operand of '[ ]'")
    selected = _integer(place, location, "index")
    _check_range(selected, 1, view.shape, 0, ranges, location)
    return indexed(view, selected)


def take_slice(
    value: Value, spans: Sequence[Span], starts: Sequence[Value], ranges: dict[str, tuple[int, int]], location: Location
) -> View:
    """`value[a:+n][b:+m]`: one span for each axis."""
    view = tensor(value, location, "operand of '[ :+ ]'")
    if len(spans) != len(view.shape):
        expected = f"{len(view.shape)} spans for {describe_shape(view.shape)}"
        raise InputError.at(location, "slice", expected, str(len(spans)))
    places = [_integer(start, span.location, "start of a slice") for span, start in zip(spans, starts, strict=True)]
    for axis, (span, place) in enumerate(zip(spans, places, strict=True)):
        if span.length < 1:
            raise InputError.at(span.location, "length of a slice", "at least 1", str(span.length))
        _check_range(place, span.length, view.shape, axis, ranges, span.location)
    return sliced(view, places, [span.length for span in spans])


def _integer(value: Value, location: Location, subject: str) -> Affine:
    if not isinstance(value, Integer):
        raise InputError.at(location, subject, "an integer of constants and loop indices", describe(value))
    return value.place


def _check_range(
    place: Affine,
    length: int,
    shape: tuple[int, ...],
    axis: int,
    ranges: dict[str, tuple[int, int]],
    location: Location,
) -> None:
    low, high = bounds(place, ranges)
    last = high + length - 1
    if low < 0 or last >= shape[axis]:
        subject = f"axis {axis + 1} of {describe_shape(shape)}"
        found = str(low) if low == last else f"{low} to {last}"
        raise InputError.at(location, subject, f"places 0 to {shape[axis] - 1}", found)
