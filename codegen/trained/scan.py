"""A sequence taken place by place (ONNX's Scan): the operators of one step are the body of a loop, and what a step hands on is kept in
variables.

A converter raises ValueError "expected X, found Y"; who calls it adds file and node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.ir import Affine, View
from kilotune.codegen.language.views import indexed, permuted, reshaped, scaled
from kilotune.codegen.trained.builder import Builder, History
from kilotune.codegen.trained.model import TrainedNode
from kilotune.codegen.trained.rearranging import along, axis_of

BODY = "body"
"""The attribute of a Scan that holds its `ScanBody`."""


@dataclass(frozen=True)
class TakenPlace:
    """The value `name` of a step: one place of a sequence along `axis`, which is kept with extent 1 or left out."""

    name: str
    axis: int = 0
    keeps_axis: bool = False


@dataclass(frozen=True, eq=False)
class ScanBody:
    """One step: `nodes`, which read the places `taken`, the states (by the names that they have before the step) and values from outside,
    and write `next_states` and what is `collected` of every step.

    A Scan reads the first states, then the sequences of `taken`, then the values from outside; it writes the last states, then what is
    collected with the steps as its first axis. It runs `count` steps over the places `first`, `first` + 1, ..., or, `backward`, over the
    same places from the last one on; what is collected stands where its place was.
    """

    nodes: tuple[TrainedNode, ...]
    states: tuple[str, ...]
    next_states: tuple[str, ...]
    taken: tuple[TakenPlace, ...]
    collected: tuple[str, ...]
    count: int
    first: int = 0
    backward: bool = False

    def check(self) -> None:
        """ValueError "expected X, found Y" for a body that cannot run."""
        if self.count < 1 or self.first < 0 or len(self.states) != len(self.next_states):
            raise ValueError(f"expected at least one step and as many states behind it as before, found {self.count}")


def scan(builder: Builder, node: TrainedNode) -> None:
    """The loop of a Scan."""
    body = node.attributes[BODY]
    if not isinstance(body, ScanBody):
        raise ValueError("expected a body that can be read, found another one")
    body.check()
    initial = node.inputs[: len(body.states)]
    sequences = [_operand(builder, name) for name in node.inputs[len(initial) : len(initial) + len(body.taken)]]
    read = {name for inner in body.nodes for name in inner.inputs}.union(body.collected, body.next_states)
    kept = {
        name: _state(builder, name, first) for name, first in zip(body.states, initial, strict=True) if name in read
    }
    index = builder.emitter.claim("step")
    builder.emitter.index_ranges[index] = (0, body.count - 1)
    place = Affine(body.count - 1, ((index, -1),)) if body.backward else Affine(0, ((index, 1),))
    location = builder.location
    with builder.emitter.open_body(index) as statements:
        for taken, sequence in zip(body.taken, sequences, strict=True):
            builder.bind(taken.name, _place_of(sequence, taken, body, place))
        for name, state in kept.items():
            builder.bind(name, state)
        for inner in body.nodes:
            builder.location = replace(location, place=inner.place)
            builder.convert(builder, inner)
        builder.location = location
        handed_on = [_operand(builder, name) for name in body.next_states]
        collected = [_collected(builder, name, body, place) for name in body.collected]
        last = _hand_on(builder, body, kept, handed_on)
    builder.emit(ir.Loop(index, 0, body.count, tuple(statements), location))
    for name, view in zip(node.outputs, [*last, *(one.states for one in collected)], strict=True):
        if name:
            builder.bind(name, view)
    for one in collected:
        _note_history(builder, one, body, handed_on, last)


def _operand(builder: Builder, name: str) -> View:
    if name in builder.constants:
        return builder.parameter(name, builder.weights(name, "values of a sequence"))
    return builder.view(builder.tensor(name))


def _state(builder: Builder, name: str, first: str) -> View:
    """A variable with the state before the first step."""
    constant = builder.constants.get(first)
    if constant is not None and not np.any(constant):
        out = builder.temporary(constant.shape, name)
        builder.emit(ir.Fill(out, builder.location, 0.0))
        return out
    given = _operand(builder, first)
    out = builder.temporary(given.shape, name)
    builder.emit(ir.Copy(out, builder.location, given))
    return out


def _place_of(sequence: View, taken: TakenPlace, body: ScanBody, place: Affine) -> View:
    axis = axis_of(taken.axis, len(sequence.shape))
    if sequence.shape[axis] < body.first + body.count:
        expected = f"a sequence of at least {body.first + body.count} places"
        raise ValueError(f"expected {expected} along axis {axis}, found shape {list(sequence.shape)}")
    if taken.keeps_axis:
        one = along(sequence, axis, body.first, 1, 1)
        return View(one.variable, one.shape, one.strides, one.offset + scaled(place, sequence.strides[axis]))
    rest = [number for number in range(len(sequence.shape)) if number != axis]
    return indexed(permuted(sequence, [axis, *rest]), place + Affine(body.first))


@dataclass(frozen=True)
class _Collected:
    """`value` of one step, and the variable that keeps it of all."""

    value: View
    states: View


def _collected(builder: Builder, name: str, body: ScanBody, place: Affine) -> _Collected:
    value = _operand(builder, name)
    states = builder.temporary((body.count, *value.shape), f"{name}_all")
    builder.emit(ir.Copy(indexed(states, place), builder.location, value))
    return _Collected(value, states)


def _hand_on(builder: Builder, body: ScanBody, kept: dict[str, View], handed_on: Sequence[View]) -> list[View]:
    """Write the states of the next step; where all of them stand behind the loop."""
    states = {view.variable for view in kept.values()}
    values = list(handed_on)
    for number, view in enumerate(values):
        own = kept.get(body.states[number])
        if view.variable in states and view != own:  # another state, which may be written first
            values[number] = builder.temporary(view.shape)
            builder.emit(ir.Copy(values[number], builder.location, view))
    last: list[View | None] = [None] * len(values)
    for number, (name, view) in enumerate(zip(body.states, values, strict=True)):
        if name in kept:
            last[number] = _written(builder, kept[name], view)
    for number, view in enumerate(values):
        if last[number] is None:  # a state that no step reads: where another one is the same, it is that one
            same = (reshaped(other, view.shape) for k, other in enumerate(last)
                    if other is not None and _elements(handed_on[k]) == _elements(handed_on[number]))  # fmt: skip
            last[number] = next((one for one in same if one is not None), None)
        if last[number] is None:
            last[number] = _written(builder, builder.temporary(view.shape), view)
    return [view for view in last if view is not None]


def _written(builder: Builder, state: View, value: View) -> View:
    shaped = value if value.shape == state.shape else reshaped(value, state.shape)
    if shaped is None or shaped.size != state.size:
        raise ValueError(f"expected a state of shape {list(state.shape)} behind a step, found {list(value.shape)}")
    if shaped != state:
        builder.emit(ir.Copy(state, builder.location, shaped))
    return state


def _elements(view: View) -> tuple[str, Affine, View | None]:
    """Which elements in which order, as far as that is plain."""
    return view.variable, view.offset, reshaped(view, (view.size,))


def _note_history(
    builder: Builder, one: _Collected, body: ScanBody, handed_on: Sequence[View], last: Sequence[View]
) -> None:
    """Where nobody reads more than what was collected last, and that is a state, the state is enough."""
    for view, state in zip(handed_on, last, strict=True):
        if _elements(view) == _elements(one.value) and state.size == one.value.size:
            place = 0 if body.backward else (body.count - 1) * state.size
            builder.histories.append(History(one.states.variable, state.variable, place))
            return
