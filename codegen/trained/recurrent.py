"""GRU, LSTM and RNN as loops over the steps of a sequence, whose state is kept in variables of its own.

A converter raises ValueError "expected X, found Y"; who calls it adds file and node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.array_files import RealArray
from kilotune.codegen.ir import Affine, View
from kilotune.codegen.language.views import indexed, permuted, reshaped
from kilotune.codegen.trained.builder import Builder, History
from kilotune.codegen.trained.elementwise import bounded, maker
from kilotune.codegen.trained.model import TrainedNode
from kilotune.codegen.trained.rearranging import along

GATES = MappingProxyType({"GRU": 3, "LSTM": 4, "RNN": 1})

CELL_CLIP = "cell_clip"
"""The attribute of an LSTM beyond whose size the cell's state is cut off; no ONNX file has it."""

ACTIVATIONS = MappingProxyType({"sigmoid": "sigmoid", "tanh": "tanh", "relu": "relu"})
DEFAULTS = MappingProxyType({"GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh"), "RNN": ("Tanh",)})


@dataclass(frozen=True, eq=False)
class RecurrentCell:
    """One direction of a recurrent operator: constants [rows of all gates, ..], the functions of its gates, and its name. `offsets` are the
    biases of the input and of the state. `clip`: what the second state of an LSTM is cut off beyond."""

    weights: RealArray
    recurrent: RealArray
    offsets: tuple[RealArray, RealArray]
    functions: tuple[str, ...]
    name: str
    linear_before_reset: bool
    clip: float | None = None

    @property
    def units(self) -> int:
        """Elements of the state."""
        return int(self.recurrent.shape[1])


@dataclass(frozen=True)
class _Kept:
    """The state of a cell: (units, 1) each. `cell` is an LSTM's second one."""

    state: View
    cell: View | None = None


def recurrent(builder: Builder, node: TrainedNode) -> None:
    """GRU, LSTM or RNN in one direction or both."""
    sequence = builder.view(builder.tensor(node.inputs[0]))
    batch_first = bool(node.integer("layout", 0))
    steps = permuted(sequence, (1, 0, 2)) if batch_first and len(sequence.shape) == 3 else sequence
    if len(steps.shape) != 3 or steps.shape[1] != 1:
        raise ValueError(f"expected a sequence (steps, batch of 1, features), found shape {list(sequence.shape)}")
    _refuse_what_is_rare(builder, node, steps.shape[0])
    direction = node.text("direction", "forward")
    if direction not in ("forward", "reverse", "bidirectional"):
        raise ValueError(f"expected direction forward, reverse or bidirectional, found {direction}")
    backwards = {"forward": (False,), "reverse": (True,)}.get(direction, (False, True))
    count, units = steps.shape[0], node.integer("hidden_size", 0)
    wants_all = bool(node.output)
    states = builder.temporary((count, len(backwards), units), node.output or "states") if wants_all else None
    kept = []
    for number, backward in enumerate(backwards):
        cell = _cell(builder, node, number, len(backwards), steps)
        kept.append(_run(builder, node, cell, steps, number, backward, states))
    _bind_results(builder, node, states, kept, batch_first)


def _refuse_what_is_rare(builder: Builder, node: TrainedNode, count: int) -> None:
    if "clip" in node.attributes or node.integer("input_forget", 0):
        raise ValueError("expected a plain cell, found clip or input_forget (export it without)")
    if builder.optional(node, 7) is not None and np.any(builder.weights(node.inputs[7], "peepholes")):
        raise ValueError("expected an LSTM without peepholes, found some")
    lengths = builder.optional(node, 4)
    if lengths is not None and builder.whole_numbers(lengths, "sequence_lens") != (count,):
        raise ValueError(f"expected sequences of {count} steps, found sequence_lens")


def _cell(builder: Builder, node: TrainedNode, number: int, directions: int, steps: View) -> RecurrentCell:
    count, features = steps.shape[0], steps.shape[2]
    gates, units = GATES[node.kind], node.integer("hidden_size", 0)
    weights, recurrent = builder.weights(node.inputs[1], "weights"), builder.weights(node.inputs[2], "weights")
    rows = gates * units
    if weights.shape != (directions, rows, features) or recurrent.shape != (directions, rows, units) or not rows:
        expected = f"weights ({directions}, {rows}, {features}) and ({directions}, {rows}, {units})"
        raise ValueError(f"expected {expected}, found {list(weights.shape)} and {list(recurrent.shape)}")
    bias = builder.optional(node, 3)
    offsets = np.zeros((directions, 2 * rows)) if bias is None else builder.weights(bias, "bias")
    if offsets.shape != (directions, 2 * rows):
        raise ValueError(f"expected a bias ({directions}, {2 * rows}), found shape {list(offsets.shape)}")
    mine = offsets[number]
    name = _name_of(node, number)
    return RecurrentCell(
        weights[number],
        recurrent[number],
        (mine[:rows], mine[rows:]),
        _functions(node, number),
        name,
        bool(node.integer("linear_before_reset", 0)),
        _clip_that_acts(node, count),
    )


def _clip_that_acts(node: TrainedNode, count: int) -> float | None:
    """The bound of a cell's state, which a step changes by at most 1; None where no step reaches it."""
    clip = node.number(CELL_CLIP, 0.0)
    return clip if 0 < clip < count else None


def _name_of(node: TrainedNode, number: int) -> str:
    """What the variables of a direction are called after."""
    stem = next((name for name in node.outputs if name), node.kind)
    return stem if number == 0 else f"{stem}_backward"


def _functions(node: TrainedNode, number: int) -> tuple[str, ...]:
    default = DEFAULTS[node.kind]
    named = node.attributes.get("activations") or ()
    given = [n.decode(errors="replace") if isinstance(n, bytes) else str(n) for n in named] or list(default) * 2
    mine = given[number * len(default) : (number + 1) * len(default)]
    unknown = [name for name in mine if name.lower() not in ACTIVATIONS]
    if unknown or len(mine) != len(default):
        raise ValueError(f"expected activations Sigmoid, Tanh or Relu, found {', '.join(given)}")
    return tuple(ACTIVATIONS[name.lower()] for name in mine)


def _run(
    builder: Builder,
    node: TrainedNode,
    cell: RecurrentCell,
    steps: View,
    number: int,
    backward: bool,
    states: View | None,
) -> _Kept:
    """The loop of one direction."""
    state = _initial(builder, node, 5, number, cell)
    second = _initial(builder, node, 6, number, cell) if node.kind == "LSTM" else None
    count, emitter = steps.shape[0], builder.emitter
    index = emitter.claim("step")
    emitter.index_ranges[index] = (0, count - 1)
    place = Affine(count - 1, ((index, -1),)) if backward else Affine(0, ((index, 1),))
    with emitter.open_body(index) as body:
        given = permuted(indexed(steps, place), (1, 0))
        made = _CELLS[node.kind](builder, cell, given, _Kept(state, second))
        if states is not None:
            written = indexed(along(states, 1, number, 1, 1), place)
            builder.emit(ir.Copy(permuted(written, (1, 0)), builder.location, made.state))
    builder.emit(ir.Loop(index, 0, count, tuple(body), builder.location))
    if states is not None and states.shape[1] == 1:
        last = 0 if backward else (count - 1) * cell.units
        builder.histories.append(History(states.variable, made.state.variable, last))
    return made


def _initial(builder: Builder, node: TrainedNode, place: int, number: int, cell: RecurrentCell) -> View:
    """A variable (units, 1) with the state before the first step."""
    name = builder.optional(node, place)
    label = f"{cell.name}_{'cell' if place == 6 else 'state'}"
    out = builder.temporary((cell.units, 1), label)
    if name is None:
        builder.emit(ir.Fill(out, builder.location, 0.0))
        return out
    batch_first = bool(node.integer("layout", 0))
    directions = 2 if node.text("direction", "forward") == "bidirectional" else 1
    expected = (1, directions, cell.units) if batch_first else (directions, 1, cell.units)
    constant = name in builder.constants
    shape = builder.constants[name].shape if constant else builder.view(builder.tensor(name)).shape
    if tuple(shape) != expected:  # of zeros, too: such a file means another cell than its weights say
        raise ValueError(f"expected an initial state of shape {list(expected)}, found {list(shape)}")
    if constant and not np.any(builder.constants[name]):
        builder.emit(ir.Fill(out, builder.location, 0.0))
        return out
    given = (
        builder.parameter(name, builder.weights(name, "initial state"))
        if constant
        else builder.view(builder.tensor(name))
    )
    column = reshaped(along(given, 1 if batch_first else 0, number, 1, 1), (cell.units, 1))
    if column is None:
        raise ValueError(f"expected an initial state that lies together, found shape {list(given.shape)}")
    builder.emit(ir.Copy(out, builder.location, column))
    return out


def _bind_results(
    builder: Builder, node: TrainedNode, states: View | None, kept: list[_Kept], batch_first: bool
) -> None:
    if states is not None:
        count, directions, units = states.shape
        shaped = reshaped(states, (count, directions, 1, units))
        assert shaped is not None
        builder.bind(node.outputs[0], permuted(shaped, (2, 0, 1, 3)) if batch_first else shaped)
    for place, last in ((1, [one.state for one in kept]), (2, [one.cell for one in kept])):
        if len(node.outputs) <= place or not node.outputs[place]:
            continue
        views = [view for view in last if view is not None]
        if not views:
            raise ValueError(f"expected {place} outputs, found another one")
        result = _together(builder, views, node.outputs[place])
        builder.bind(node.outputs[place], permuted(result, (1, 0, 2)) if batch_first else result)


def _together(builder: Builder, views: list[View], name: str) -> View:
    """The states of all directions as (directions, 1, units)."""
    units = views[0].shape[0]
    if len(views) == 1:
        single = reshaped(views[0], (1, 1, units))
        assert single is not None
        return single
    out = builder.temporary((len(views), 1, units), name)
    for number, view in enumerate(views):
        target = reshaped(along(out, 0, number, 1, 1), (units, 1))
        assert target is not None
        builder.emit(ir.Copy(target, builder.location, view))
    return out


@dataclass(frozen=True)
class _Gates:
    """Sums of gates: rows `first` to `last` of a cell's constants, of what is read and of the state."""

    builder: Builder
    cell: RecurrentCell
    first: int
    last: int
    name: str

    def of_input(self, given: View) -> View:
        """The weights times what is read."""
        return self._product(self.cell.weights, "W", given)

    def of_state(self, state: View) -> View:
        """The recurrent weights times the state."""
        return self._product(self.cell.recurrent, "R", state)

    def plus(self, a: View, b: View) -> View:
        """A sum of two columns."""
        out = self.builder.temporary(a.shape, f"{self.cell.name}_{self.name}")
        self.builder.emit(ir.Add(out, self.builder.location, a, b))
        return out

    def with_bias(self, a: View, *offsets: RealArray) -> View:
        """A column plus biases of all gates."""
        total = np.asarray(sum(offsets))[self.first : self.last]
        if not np.any(total):
            return a
        return self.plus(a, self.builder.parameter(f"{self.cell.name}_B{self.name}", total.reshape(-1, 1), "bias"))

    def function(self, name: str, a: View) -> View:
        """A function of a column."""
        out = self.builder.temporary(a.shape, f"{self.cell.name}_{self.name}")
        self.builder.emit(maker(self.builder, name)(out, a))
        return out

    def _product(self, constants: RealArray, letter: str, column: View) -> View:
        stored = self.builder.parameter(
            f"{self.cell.name}_{letter}{self.name}", np.ascontiguousarray(constants[self.first : self.last])
        )
        out = self.builder.temporary((self.last - self.first, 1), f"{self.cell.name}_{self.name}")
        self.builder.emit(ir.MatMul(out, self.builder.location, stored, column))
        return out


def _gru(builder: Builder, cell: RecurrentCell, given: View, kept: _Kept) -> _Kept:
    """h = n + z * (h - n), both gates at once."""
    units, (of_input, of_state) = cell.units, cell.offsets
    gates = _Gates(builder, cell, 0, 2 * units, "zr")
    sums = gates.with_bias(gates.plus(gates.of_input(given), gates.of_state(kept.state)), of_input, of_state)
    opened = gates.function(cell.functions[0], sums)
    update, reset = along(opened, 0, 0, 1, units), along(opened, 0, units, 1, units)
    new = _Gates(builder, cell, 2 * units, 3 * units, "n")
    if cell.linear_before_reset:
        masked = _multiplied(builder, cell, reset, new.with_bias(new.of_state(kept.state), of_state))
        total = new.with_bias(new.plus(new.of_input(given), masked), of_input)
    else:
        product = new.of_state(_multiplied(builder, cell, reset, kept.state))
        total = new.with_bias(new.plus(new.of_input(given), product), of_input, of_state)
    candidate = new.function(cell.functions[1], total)
    distance = builder.temporary((units, 1), f"{cell.name}_d")
    builder.emit(ir.Subtract(distance, builder.location, kept.state, candidate))
    builder.emit(ir.Add(kept.state, builder.location, candidate, _multiplied(builder, cell, update, distance)))
    return kept


def _lstm(builder: Builder, cell: RecurrentCell, given: View, kept: _Kept) -> _Kept:
    """c = f * c + i * g and h = o * tanh(c), the three gates at once."""
    assert kept.cell is not None
    units, location = cell.units, builder.location
    gates = _Gates(builder, cell, 0, 3 * units, "iof")
    sums = gates.with_bias(gates.plus(gates.of_input(given), gates.of_state(kept.state)), *cell.offsets)
    opened = gates.function(cell.functions[0], sums)
    take, show, keep = (along(opened, 0, number * units, 1, units) for number in range(3))
    new = _Gates(builder, cell, 3 * units, 4 * units, "g")
    total = new.with_bias(new.plus(new.of_input(given), new.of_state(kept.state)), *cell.offsets)
    candidate = new.function(cell.functions[1], total)
    remembered = _multiplied(builder, cell, keep, kept.cell)
    taken = _multiplied(builder, cell, take, candidate)
    builder.emit(ir.Add(kept.cell, location, remembered, taken))
    if cell.clip is not None:
        builder.emit(ir.Copy(kept.cell, location, bounded(builder, kept.cell, -cell.clip, cell.clip, f"{cell.name}_c")))
    builder.emit(ir.Multiply(kept.state, location, show, new.function(cell.functions[2], kept.cell)))
    return kept


def _rnn(builder: Builder, cell: RecurrentCell, given: View, kept: _Kept) -> _Kept:
    """h = f(W x + R h + b)."""
    gates = _Gates(builder, cell, 0, cell.units, "h")
    sums = gates.with_bias(gates.plus(gates.of_input(given), gates.of_state(kept.state)), *cell.offsets)
    builder.emit(maker(builder, cell.functions[0])(kept.state, sums))
    return kept


def _multiplied(builder: Builder, cell: RecurrentCell, a: View, b: View) -> View:
    out = builder.temporary(a.shape, f"{cell.name}_p")
    builder.emit(ir.Multiply(out, builder.location, a, b))
    return out


_CELLS: Mapping[str, Callable[[Builder, RecurrentCell, View, _Kept], _Kept]] = MappingProxyType(
    {"GRU": _gru, "LSTM": _lstm, "RNN": _rnn}
)
