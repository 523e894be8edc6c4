"""A border of what convolutions count as padding, which is zero or the zero point of a kept quantisation, and which they alone read, is
their padding: no larger image is written for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kilotune.codegen.ir import Conv2D, Copy, Fill, Program, Statement, View, operations, row_major_strides, whole
from kilotune.codegen.language.views import permuted, reshaped


def with_padding_in_windows(program: Program) -> Program:
    """The program without variables that are filled with one number, hold an image inside, and are read by convolutions alone, which pad
    with that number."""
    for fill, copy in zip(program.body, program.body[1:], strict=False):
        if isinstance(fill, Fill) and isinstance(copy, Copy) and fill.out.variable == copy.out.variable:
            program = _without_border(program, fill, copy) or program
    return program


@dataclass(frozen=True)
class _BorderedAxis:
    """One axis of a bordered image: its step and extent in memory, what is before the image, and which axis of the image it is."""

    step: int
    extent: int
    before: int
    number: int
    inner: int

    @property
    def after(self) -> int:
        """Places behind the image."""
        return self.extent - self.before - self.inner


def _without_border(program: Program, fill: Fill, copy: Copy) -> Program | None:
    """The program with that border as padding; None where something else reads it."""
    name = copy.out.variable
    variable = program.variable(name)
    others = [statement for statement in program.body if statement is not fill and statement is not copy]
    readers = [
        o
        for o in operations(tuple(others))
        if any(v.variable == name for v in (o.out, *o.operands) if isinstance(v, View))
    ]
    axes = _axes(variable.shape, copy)
    if axes is None or fill.out.size != variable.size or program.result.variable == name:
        return None
    changed: dict[int, Statement] = {}
    for reader in readers:
        moved = (
            _padded(reader, copy.a, axes, whole(variable), fill.value)
            if isinstance(reader, Conv2D) and reader in others
            else None
        )
        if moved is None:
            return None
        changed[id(reader)] = moved
    body = tuple(changed.get(id(statement), statement) for statement in others)
    variables = tuple(one for one in program.variables if one.name != name)
    return replace(program, variables=variables, body=body)


def _axes(shape: Sequence[int], copy: Copy) -> list[_BorderedAxis] | None:
    """The axes of the bordered image that are longer than 1; None where the copy does not lie in it axis by axis."""
    if copy.out.offset.terms or copy.a.shape != copy.out.shape:
        return None
    rest, axes = copy.out.offset.constant, list[_BorderedAxis]()
    # an axis of extent 1 may have any step: it comes last among those of one step
    by_extent = sorted(range(len(copy.out.shape)), key=lambda number: copy.out.shape[number] == 1)
    for step, extent in zip(row_major_strides(tuple(shape)), shape, strict=True):
        before, rest = divmod(rest, step)
        number = next((n for n in by_extent if copy.out.strides[n] == step), None)
        if extent > 1 and number is None:
            return None
        if extent > 1 and number is not None:
            axes.append(_BorderedAxis(step, extent, before, number, copy.out.shape[number]))
    used = {axis.number for axis in axes}
    left_out = [extent for number, extent in enumerate(copy.out.shape) if number not in used]
    return axes if all(extent == 1 for extent in left_out) and not rest else None


def _padded(reader: Conv2D, image: View, axes: Sequence[_BorderedAxis], bordered: View, level: float) -> Conv2D | None:
    """The convolution on the image itself; None where its padding counts as another number than the border's `level`, or where its window
    does not move along the border's axes, or might lie in the border alone."""
    given = reader.a
    if reader.outside != level:
        return None
    if given.variable != bordered.variable or given.offset != bordered.offset or reader.b.variable == bordered.variable:
        return None
    by_step = {(axis.step, axis.extent): axis for axis in axes}
    found = [
        by_step.get((step, extent)) if extent > 1 else None
        for step, extent in zip(given.strides, given.shape, strict=True)
    ]
    named = [axis for axis in found if axis is not None]
    if len(named) != len(axes) or len({axis.step for axis in named}) != len(axes):
        return None
    batch, rows, columns, channels = found
    if any(axis is not None and (axis.before or axis.after) for axis in (batch, channels)):
        return None
    padding = list(reader.padding)
    for place, axis in enumerate((rows, columns)):
        reach = (reader.kernel[place] - 1) * reader.dilation[place]
        for side, more in enumerate((0, 0) if axis is None else (axis.before, axis.after)):
            padding[2 * place + side] += more
            if more and padding[2 * place + side] > reach:
                return None
    rest = [number for number in range(len(image.shape)) if number not in {axis.number for axis in named}]
    ordered = permuted(image, [*rest, *(axis.number for axis in named)])
    view = reshaped(ordered, tuple(1 if axis is None else axis.inner for axis in found))
    if view is None:
        return None
    return replace(reader, a=view, padding=(padding[0], padding[1], padding[2], padding[3]))
