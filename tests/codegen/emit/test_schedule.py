"""Schedules, executed: what a nest says of its accesses is what happens when its loops run."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilotune.codegen import ir
from kilotune.codegen.emit.schedule import Cursor, Nest, make_nest, norm_bits, window_axes
from tests.codegen.ir.examples import HERE

pytestmark = pytest.mark.slow


@st.composite
def nests(draw: st.DrawFn) -> Nest:
    """One to four loops; strides that stand still, follow each other without a jump, or do anything."""
    extents = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    dense = ir.row_major_strides(tuple(extents))
    views = []
    for _ in range(draw(st.integers(1, 3))):
        strides = tuple(draw(st.sampled_from([step, step, 0, 1, step + 1, -1])) for step in dense)
        views.append((ir.View("x", tuple(extents), strides), strides))
    return make_nest([(f"i{d}", e) for d, e in enumerate(extents)], views)


def reached(nest: Nest, cursor: Cursor) -> tuple[list[int], int]:
    """Element numbers in the order in which the emitted loops read them, and how often a pointer was set.

    A pointer is set at the element of the first round of the loops inside it and moves on by one at every read.
    """
    counts = [count for _, count in nest.loops]
    places: list[int] = []
    pointer, settings_ = 0, 0
    for indices in itertools.product(*(range(count) for count in counts[: cursor.depth])):
        number = sum(i * s for i, s in zip(indices, cursor.strides, strict=True))
        if cursor.start is None:
            places.append(number)
            continue
        if not any(indices[cursor.start :]):
            pointer, settings_ = number, settings_ + 1
        places.append(pointer)
        pointer += 1
    return places, settings_


@given(nests())
@settings(max_examples=300, database=None)
def test_pointers_reach_the_elements_as_often_as_the_nest_says(nest: Nest) -> None:
    for cursor in nest.reads:
        places, pointers = reached(nest, cursor)
        assert len(places) == nest.visits(cursor)
        assert pointers == nest.pointers(cursor)
        counts = [count for _, count in nest.loops]
        moving = itertools.product(*(range(count) for count in counts[: cursor.depth]))
        strides = cursor.view.strides
        assert places == [sum(i * s for i, s in zip(indices, strides, strict=False)) for indices in moving]
        assert all(
            s == 0 or count == 1 for s, count in zip(strides[cursor.depth :], counts[cursor.depth :], strict=True)
        )


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4))
@settings(max_examples=50, database=None)
def test_one_pointer_walks_through_elements_that_lie_beside_each_other(extents: list[int]) -> None:
    view = ir.View("x", tuple(extents), ir.row_major_strides(tuple(extents)))
    nest = make_nest([(f"i{d}", e) for d, e in enumerate(extents)], [(view, view.strides)])
    assert nest.pointers(nest.reads[0]) == (1 if max(extents) > 1 else 0)


@given(st.data())
@settings(max_examples=200, database=None)
def test_a_window_knows_what_lies_in_the_image(data: st.DataObject) -> None:
    """Against every place under every window, one by one."""
    extent, kernel, stride, dilation = (data.draw(st.integers(1, high)) for high in (6, 3, 3, 2))
    before, after = (data.draw(st.integers(0, kernel - 1)) for _ in range(2))
    room = extent + before + after - (kernel - 1) * dilation - 1
    if room < 0:
        return
    positions = room // stride + 1
    image, out = (
        ir.View("a", (1, extent, 1, 1), (extent, 1, 1, 1)),
        ir.View("o", (1, positions, 1, 1), (positions, 1, 1, 1)),
    )
    filters = ir.View("b", (1, kernel, 1, 1, 1), (kernel, 1, 1, 1, 1))
    convolution = ir.Conv2D(out, HERE, image, filters, (stride, 1), (before, after, 0, 0), (dilation, 1))
    rows, _ = window_axes(convolution)
    places = [p * stride + k * dilation - before for p in range(positions) for k in range(kernel)]
    assert (rows.least, rows.greatest) == (min(places), max(places))
    assert rows.checks == (min(places) < 0) + (max(places) >= extent)
    assert rows.share_inside == pytest.approx(np.mean([0 <= place < extent for place in places]))


@pytest.mark.parametrize(
    ("length", "bits", "shift_a", "shift_b", "width"),
    [(4, 8, 0, 6, 32), (4, 16, 2, 14, 32), (4, 16, 0, 16, 64), (9, 16, 0, 14, 64)],
)
def test_norms_are_computed_in_what_holds_them(length: int, bits: int, shift_a: int, shift_b: int, width: int) -> None:
    """32 bits hold the sum of squares of the largest elements, and the largest one times 2**shift_b; or they do not."""
    largest = 1 << (bits - 1 - shift_a)
    fits = length * largest**2 < 1 << 32 and largest << shift_b < 1 << 31
    assert int(norm_bits(length, bits, shift_a, shift_b)) == width == (32 if fits else 64)
