"""Elements chosen by a label: `x[c]` and `x[0:+3][c:+1]` with c from argmax or sgn.

The IR has no addresses that depend on data, and needs none: the place of the largest of n elements is found by n - 1
comparisons, and the chosen elements can change hands along with the largest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from kilotune.codegen import ir
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.ir import Affine, Location, View
from kilotune.codegen.language import subscripts
from kilotune.codegen.language.emitter import Destination
from kilotune.codegen.language.lowering import Lowering
from kilotune.codegen.language.syntax import Span
from kilotune.codegen.language.values import Integer, Label, Value
from kilotune.codegen.language.views import indexed, reshaped


def index_by_label(lowering: Lowering, value: Value, label: Label, location: Location, goal: Destination) -> View:
    """`value[label]`."""

    def choose(place: Integer) -> View:
        return subscripts.index(value, place, lowering.emitter.index_ranges, location)

    return _gather(lowering, label, choose, location, goal)


def slice_by_label(
    lowering: Lowering,
    value: Value,
    spans: Sequence[Span],
    starts: Sequence[Value],
    location: Location,
    goal: Destination,
) -> View:
    """`value[a:+n][label:+m]`, with one label among the starts."""
    labels = [start for start in starts if isinstance(start, Label)]
    if len(labels) != 1:
        raise InputError.at(location, "starts of a slice", "at most one label", str(len(labels)))

    def choose(place: Integer) -> View:
        places = [place if isinstance(start, Label) else start for start in starts]
        return subscripts.take_slice(value, spans, places, lowering.emitter.index_ranges, location)

    return _gather(lowering, labels[0], choose, location, goal)


def _gather(
    lowering: Lowering, label: Label, choose: Callable[[Integer], View], location: Location, goal: Destination
) -> View:
    """The elements that `choose` gives for the label's value, in a new variable."""
    emitter = lowering.emitter
    unchanged = label.writes == emitter.write_count(label.seen.variable) and label.loops == emitter.open_loops
    if not unchanged and emitter.role(label.seen) is ir.Role.TEMPORARY:
        expected = "one of the same loop round, computed from elements that are still unchanged"
        raise InputError.at(location, "label as an index", expected, "an older one")
    if label.classes == 1:
        return choose(Integer(Affine()))
    if label.seen.size == 1:  # sgn
        zero, one = (choose(Integer(Affine(place))) for place in (0, 1))
        out = emitter.temporary(zero.shape, location, goal.name)
        emitter.emit(ir.Select(out, location, _scalar(label.seen), one, zero, strict=True))
        return out
    return _follow_largest(lowering, label, choose, location, goal)


def _follow_largest(
    lowering: Lowering, label: Label, choose: Callable[[Integer], View], location: Location, goal: Destination
) -> View:
    """One pass over what argmax saw: whenever an element beats the largest so far, so do its choices."""
    emitter = lowering.emitter
    flat = reshaped(label.seen, (label.classes,)) or _flat_copy(lowering, label.seen, location)
    first = choose(Integer(Affine()))
    largest = lowering.copy(indexed(flat, Affine()), location)
    chosen = lowering.copy(first, location, goal)
    index = emitter.claim("k")
    emitter.index_ranges[index] = (0, label.classes - 1)  # for checks: the loop starts at 1, but 0 is a choice too
    place = Affine(terms=((index, 1),))
    with emitter.open_body(index) as body:
        candidate = indexed(flat, place)
        lead = emitter.temporary((), location)
        emitter.emit(ir.Subtract(lead, location, candidate, largest))
        emitter.emit(ir.Select(chosen, location, lead, choose(Integer(place)), chosen, strict=True))
        emitter.emit(ir.Select(largest, location, lead, candidate, largest, strict=True))
    emitter.emit(ir.Loop(index, 1, label.classes - 1, tuple(body), location))
    return chosen


def _scalar(view: View) -> View:
    return replace(view, shape=(), strides=())


def _flat_copy(lowering: Lowering, view: View, location: Location) -> View:
    copied = lowering.copy(view, location)
    return replace(copied, shape=(view.size,), strides=(1,))
