"""Recurrent cells written out step by step, against NumPy: the steps are found, and the loop does what they do."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kilotune.codegen import ir
from kilotune.codegen.arrays import Array
from kilotune.codegen.float_evaluator import run_float
from kilotune.codegen.trained.constant_nodes import with_executed_constants
from kilotune.codegen.trained.conversion import convert
from kilotune.codegen.trained.endings import Returns
from kilotune.codegen.trained.model import TrainedGraph, TrainedNode
from kilotune.codegen.trained.rolling import rolled
from kilotune.codegen.trained.scan import ScanBody, TakenPlace

FEATURES, UNITS = 2, 3


@dataclass
class Unrolled:
    """A graph in the making, and its values for samples `x` [samples, steps, features]."""

    x: Array
    constants: dict[str, Array] = field(default_factory=dict)
    nodes: list[TrainedNode] = field(default_factory=list)
    values: dict[str, Array] = field(default_factory=dict)

    def constant(self, values: Array) -> str:
        """A new constant."""
        name = f"c{len(self.constants)}"
        self.constants[name] = values
        return name

    def add(self, kind: str, reads: list[str], value: Array, **attributes: object) -> str:
        """A node, whose value for every sample is known."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(TrainedNode(kind, tuple(reads), (name,), f"node {len(self.nodes)}", attributes))
        self.values[name] = value
        return name

    def place(self, step: int, style: str) -> str:
        """The features of a step, (1, FEATURES)."""
        value = self.x[:, step, None, :]
        if style == "gather":
            return self.add("Gather", ["x", self.constant(np.array(step))], value, axis=1)
        limits = [self.constant(np.array([number])) for number in (step, step + 1, 1)]
        cut = self.add("Slice", ["x", *limits], value[:, None])
        return self.add("Squeeze", [cut, self.constant(np.array([1]))], value)

    def binary(self, kind: str, a: str, b: str) -> str:
        """A sum, a difference or a product."""
        functions = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply}
        return self.add(kind, [a, b], functions[kind](self.known(a), self.known(b)))

    def known(self, name: str) -> Array:
        """The value of a constant, or of every sample."""
        return self.values[name] if name in self.values else self.constants[name]

    def product(self, a: str, weights: str) -> str:
        """A row times constant weights."""
        return self.add("MatMul", [a, weights], self.known(a) @ self.constants[weights])

    def function(self, kind: str, a: str) -> str:
        """Sigmoid or Tanh."""
        given = self.known(a)
        return self.add(kind, [a], np.tanh(given) if kind == "Tanh" else 1 / (1 + np.exp(-given)))


@dataclass(frozen=True)
class Cell:
    """`weights` of the features and of the state for each gate; `kind` is how the state is renewed."""

    kind: str
    weights: tuple[str, ...]
    bias: str

    def step(self, graph: Unrolled, features: str, states: list[str]) -> list[str]:
        """The states behind a step."""
        state = states[0]
        sums = [
            graph.binary("Add", graph.product(features, self.weights[k]), graph.product(state, self.weights[k + 1]))
            for k in (0, 2)
        ]
        new = graph.function("Tanh", graph.binary("Add", sums[0], self.bias))
        if self.kind == "plain":
            return [new]
        gate = graph.function("Sigmoid", sums[1])
        if self.kind == "leaky":
            return [graph.binary("Add", new, graph.binary("Mul", gate, graph.binary("Sub", state, new)))]
        cell = graph.binary("Add", graph.binary("Mul", gate, states[1]), new)
        if self.kind == "delayed":  # the second state is what the first one was
            return [graph.binary("Mul", gate, cell), state]
        return [graph.binary("Mul", gate, graph.function("Tanh", cell)), cell]


@dataclass(frozen=True)
class Drawn:
    """One unrolled layer: `begin` is how the state before the first step is there."""

    kind: str
    steps: int
    backward: bool
    style: str
    begin: str
    returns: str
    seed: int


def layers() -> st.SearchStrategy[Drawn]:
    """Layers of every kind."""
    return st.builds(
        Drawn, st.sampled_from(["plain", "leaky", "two", "delayed"]), st.integers(4, 7), st.booleans(),
        st.sampled_from(["gather", "slice"]), st.sampled_from(["zeros", "numbers", "folded"]),
        st.sampled_from(["last", "all", "rows", "middle", "sum"]), st.integers(0, 1 << 20),
    )  # fmt: skip


def written_out(drawn: Drawn) -> tuple[TrainedGraph, Array, Array]:
    """The graph, its samples, and what it returns for them."""
    random = np.random.default_rng(drawn.seed)
    graph = Unrolled(random.normal(0, 1.2, (5, drawn.steps, FEATURES)))
    sizes = (FEATURES, UNITS, FEATURES, UNITS)
    weights = tuple(graph.constant(random.normal(0, 0.8, (size, UNITS))) for size in sizes)
    cell = Cell(drawn.kind, weights, graph.constant(random.normal(0, 0.5, (1, UNITS))))
    count = 2 if drawn.kind in ("two", "delayed") else 1
    order = range(drawn.steps)[::-1] if drawn.backward else range(drawn.steps)
    kept: list[tuple[int, str]] = []
    states: list[str] = []
    for step in order:
        features = graph.place(step, drawn.style)
        if not states and drawn.begin == "folded":
            states = _folded_first(graph, cell, features, count)
        else:
            shape = (1, UNITS)
            begin = np.zeros(shape) if drawn.begin == "zeros" else random.normal(0, 1, shape)
            states = states or [graph.constant(begin) for _ in range(count)]
            states = cell.step(graph, features, states)
        kept.append((step, states[0]))
    by_place = [name for _, name in sorted(kept)]
    if drawn.returns == "last":
        result = states[0]
    elif drawn.returns == "middle":
        result = graph.binary("Add", by_place[1], states[0])
    elif drawn.returns == "sum":
        result = by_place[0]
        for name in by_place[1:]:
            result = graph.binary("Add", result, name)
    elif drawn.returns == "rows":
        result = graph.add("Concat", by_place, np.concatenate([graph.known(n) for n in by_place], axis=1), axis=0)
    else:
        axis = graph.constant(np.array([0]))
        parts = [graph.add("Unsqueeze", [name, axis], graph.known(name)[:, None]) for name in by_place]
        result = graph.add("Concat", parts, np.concatenate([graph.known(name) for name in parts], axis=1), axis=0)
    model = TrainedGraph("file", tuple(graph.nodes), graph.constants, "x", (1, drawn.steps, FEATURES), (result,))
    return model, graph.x.reshape(len(graph.x), -1), graph.known(result).reshape(len(graph.x), -1)


def _folded_first(graph: Unrolled, cell: Cell, features: str, count: int) -> list[str]:
    """The first step as converters simplify it where the state is zero."""
    new = graph.function("Tanh", graph.binary("Add", graph.product(features, cell.weights[0]), cell.bias))
    gate = graph.function("Sigmoid", graph.product(features, cell.weights[2]))
    if cell.kind == "plain":
        return [new]
    if cell.kind == "leaky":
        less = graph.binary("Sub", graph.constant(np.zeros((1, UNITS))), new)
        return [graph.binary("Add", new, graph.binary("Mul", gate, less))]
    if cell.kind == "delayed":
        return [graph.binary("Mul", gate, new), graph.constant(np.zeros((1, UNITS)))]
    return [graph.binary("Mul", gate, graph.function("Tanh", new)), new][:count]


@settings(max_examples=40)
@given(layers())
def test_rolled_layers_do_what_they_did(drawn: Drawn) -> None:
    graph, samples, expected = written_out(drawn)
    made = convert(with_executed_constants(rolled(graph)), "rolled", Returns.VALUE)
    found = run_float(made.program, made.parameters, samples).outputs
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@settings(max_examples=40)
@given(layers())
def test_every_step_is_in_the_loop(drawn: Drawn) -> None:
    graph, _, _ = written_out(drawn)
    assume(drawn.kind != "delayed")  # its steps read the step before the last, too: they are left as they are
    assume((drawn.returns, drawn.begin) != ("sum", "numbers"))  # the first sum is the first state: no sum at all
    body = convert(rolled(graph), "rolled", Returns.VALUE).program.body
    loops = [statement for statement in body if isinstance(statement, ir.Loop)]
    assert [loop.count for loop in loops] == [drawn.steps]
    assert not any(isinstance(statement, ir.MatMul) for statement in body)
    copies = sum(
        isinstance(statement, ir.Copy) for statement in body
    )  # of first states, and of two results put together
    assert copies <= (2 if drawn.kind == "two" else 1) or drawn.returns == "middle"


def test_steps_of_different_weights_are_left_alone() -> None:
    graph, samples, _ = written_out(Drawn("plain", 5, False, "gather", "zeros", "last", 1))
    reads = [node for node in graph.nodes if node.kind == "MatMul"][8]
    other = dict(graph.constants, other=2 * graph.constants[reads.inputs[1]])
    nodes = tuple(
        TrainedNode("MatMul", (node.inputs[0], "other"), node.outputs, node.place) if node is reads else node
        for node in graph.nodes
    )
    changed = TrainedGraph("file", nodes, other, "x", graph.input_shape, graph.outputs)
    made, before = (convert(with_executed_constants(one), "x", Returns.VALUE) for one in (rolled(changed), changed))
    results = [run_float(one.program, one.parameters, samples).outputs for one in (made, before)]
    np.testing.assert_allclose(results[0], results[1], rtol=1e-9)
    assert not any(isinstance(statement, ir.Loop) for statement in made.program.body)


@pytest.mark.parametrize(
    ("scale", "rounded", "count"), [(1.0, False, 5), (1.001, False, 4), (1.001, True, 5), (1.1, True, 4)]
)
def test_a_first_step_of_other_weights_stays_outside(scale: float, rounded: bool, count: int) -> None:
    """Whatever the weights' size: random features might show nothing of it."""
    for size in (1e-9, 1.0, 1e9):
        graph, samples, _ = written_out(Drawn("leaky", 5, False, "gather", "folded", "last", 1))
        constants = {
            name: size * values if values.dtype.kind == "f" else values for name, values in graph.constants.items()
        }
        first = next(node for node in graph.nodes if node.kind == "MatMul")
        constants["other"] = scale * constants[first.inputs[1]]
        nodes = tuple(
            TrainedNode("MatMul", (node.inputs[0], "other"), node.outputs, node.place) if node is first else node
            for node in graph.nodes
        )
        changed = replace(graph, nodes=nodes, constants=constants, rounded=rounded)
        made, before = (convert(with_executed_constants(one), "x", Returns.VALUE) for one in (rolled(changed), changed))
        results = [run_float(one.program, one.parameters, samples).outputs for one in (made, before)]
        if not rounded:
            np.testing.assert_allclose(results[0], results[1], rtol=1e-9)
        loops = [statement for statement in made.program.body if isinstance(statement, ir.Loop)]
        assert [loop.count for loop in loops] == [count]


def test_states_change_places() -> None:
    """Each step hands on the first state as the second one, before it is renewed, and the second as the third."""
    random = np.random.default_rng(5)
    x = random.normal(size=(6, 4, FEATURES))
    weights = random.normal(size=(FEATURES, UNITS))
    nodes = tuple(
        TrainedNode(kind, reads, (write,), kind)
        for kind, reads, write in (
            ("MatMul", ("place", "w"), "product"),
            ("Sub", ("product", "third"), "sum"),
            ("Add", ("sum", "first"), "new"),
        )
    )
    body = ScanBody(
        nodes, ("first", "second", "third"), ("new", "first", "second"), (TakenPlace("place", 1),), ("sum", "second"), 4
    )
    reads = ("a", "b", "c", "x", "w")
    scan = TrainedNode("Scan", reads, ("one", "two", "three", "sums", "seconds"), "node", {"body": body})
    constants = {"w": weights} | {name: random.normal(size=(1, UNITS)) for name in "abc"}
    wanted = ("one", "two", "three", "sums", "seconds")
    states, kept = [np.repeat(constants[name], 6, axis=0) for name in "abc"], []
    for step in range(4):
        total = x[:, step] @ weights - states[2]
        kept.append((total, states[1]))
        states = [total + states[0], states[0], states[1]]
    expected = [*states, *(np.stack(part, axis=1).reshape(6, -1) for part in zip(*kept, strict=True))]
    for name, result in zip(wanted, expected, strict=True):
        graph = TrainedGraph("file", (scan,), constants, "x", (1, 4, FEATURES), (name,))
        made = convert(graph, "scan", Returns.VALUE)
        found = run_float(made.program, made.parameters, x.reshape(6, -1)).outputs
        np.testing.assert_allclose(found, result, rtol=1e-9, err_msg=name)


@pytest.mark.parametrize(("kind", "count"), [("Add", 5), ("Sub", 4)])
def test_operands_change_places_only_in_sums_and_products(kind: str, count: int) -> None:
    """The first step has the operands of the others the other way round."""
    x = np.random.default_rng(3).normal(size=(6, 5, FEATURES))
    graph = Unrolled(x)
    weights, offset = graph.constant(np.full((1, FEATURES), 0.5)), graph.constant(np.full((1, FEATURES), 0.25))
    state = graph.function("Tanh", graph.binary(kind, offset, graph.binary("Mul", graph.place(0, "gather"), weights)))
    for step in range(1, 5):
        moved = graph.binary("Add", state, offset)
        state = graph.function(
            "Tanh", graph.binary(kind, graph.binary("Mul", graph.place(step, "gather"), weights), moved)
        )
    model = TrainedGraph("file", tuple(graph.nodes), graph.constants, "x", (1, 5, FEATURES), (state,))
    made = convert(rolled(model), "rolled", Returns.VALUE)
    found = run_float(made.program, made.parameters, x.reshape(6, -1)).outputs
    np.testing.assert_allclose(found, graph.known(state).reshape(6, -1), rtol=1e-9, atol=1e-12)
    loops = [statement for statement in made.program.body if isinstance(statement, ir.Loop)]
    assert [loop.count for loop in loops] == [count]


@pytest.mark.parametrize("other", [0.25, 0.5])
def test_steps_of_other_attributes_are_left_alone(other: float) -> None:
    x = np.random.default_rng(3).normal(size=(6, 6, FEATURES))
    graph = Unrolled(x)
    state = graph.constant(np.full((1, FEATURES), 0.25))
    for step in range(6):
        total = graph.binary("Add", graph.place(step, "gather"), state)
        alpha = other if step == 3 else 0.25
        known = graph.known(total)
        state = graph.add("LeakyRelu", [total], np.where(known < 0, alpha * known, known), alpha=alpha)
    model = TrainedGraph("file", tuple(graph.nodes), graph.constants, "x", (1, 6, FEATURES), (state,))
    made = convert(rolled(model), "rolled", Returns.VALUE)
    found = run_float(made.program, made.parameters, x.reshape(6, -1)).outputs
    np.testing.assert_allclose(found, graph.known(state).reshape(6, -1), rtol=1e-9, atol=1e-12)
    loops = [statement for statement in made.program.body if isinstance(statement, ir.Loop)]
    assert [loop.count for loop in loops] == ([6] if other == 0.25 else [])
