"""Recurrent layers as Keras writes them into TensorFlow Lite files, loops and unrolled, against TensorFlow's own results."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kilotune.codegen import ir
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.float_evaluator import run_float
from kilotune.codegen.tflite.model_file import TfliteModel, read_subgraphs
from kilotune.codegen.trained import tflite_models
from kilotune.codegen.trained.conversion import Converted, convert
from kilotune.codegen.trained.endings import Returns
from kilotune.codegen.trained.importing import read_trained
from kilotune.codegen.trained.model import TrainedGraph, TrainedNode
from kilotune.codegen.trained.recurrent import CELL_CLIP
from kilotune.codegen.trained.tflite_models import read_tflite

DATA = Path(__file__).parent / "data"
LOOPS = {"lstm": 1, "gru_states": 2, "both_ways": 2, "lstm_unrolled": 2, "both_ways_unrolled": 2, "lstm_fused": 3}
"""How many loops there are in each."""


def _converted(name: str) -> Converted:
    return convert(read_trained(DATA / f"{name}.tflite"), name, Returns.VALUE)


@pytest.mark.parametrize("name", LOOPS)
def test_the_program_is_the_file(name: str) -> None:
    made, known = _converted(name), np.load(DATA / "recurrent.npz")
    found = run_float(made.program, made.parameters, np.asarray(known["X"], dtype=np.float64)).outputs
    np.testing.assert_allclose(found, known[name], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", LOOPS)
def test_all_steps_are_in_loops(name: str) -> None:
    """Every product of weights is: the first step of an unrolled layer, which a converter simplifies, is one of the others too."""
    body = _converted(name).program.body
    assert sum(isinstance(statement, ir.Loop) for statement in body) == LOOPS[name]
    assert not any(isinstance(statement, ir.MatMul) for statement in body)


@pytest.mark.parametrize("name", LOOPS)
def test_no_state_is_copied(name: str) -> None:
    """Copies in loops are those of results that are read for every step."""
    program = _converted(name).program
    loops = [statement for statement in program.body if isinstance(statement, ir.Loop)]
    copies = [operation for loop in loops for operation in ir.operations(loop.body) if isinstance(operation, ir.Copy)]
    kept = {"lstm_fused": 2, "gru_states": 1, "both_ways": 2, "lstm_unrolled": 1}.get(name, 0)
    assert len(copies) == kept
    assert all(copy.out.offset.terms for copy in copies)


def _with_operator(
    graphs: tuple[TfliteModel, ...], graph: int, kind: str, changes: dict[str, Any]
) -> tuple[TfliteModel, ...]:
    """The subgraphs with other fields in every operator of a kind in one of them."""
    operators = tuple(replace(one, **changes) if one.kind == kind else one for one in graphs[graph].operators)
    return tuple(replace(one, operators=operators) if k == graph else one for k, one in enumerate(graphs))


@pytest.mark.parametrize(
    ("graph", "kind", "changes", "found"),
    [
        (1, "LESS", {"kind": "GREATER"}, "a counter from 0 is less than a constant"),
        (1, "LESS", {"reads": (1, 0)}, "a counter from 0 is less than a constant"),
        (0, "WHILE", {"options": {"CondSubgraphIndex": 1, "BodySubgraphIndex": 7}}, "found others"),
        (2, "GATHER", {"options": {"Axis": 1}}, "inputs that were written before, found"),
        (
            2,
            "TANH",
            {"kind": "FLOOR"},
            r"a body of operators that are supported, found body operator 13 \(FLOOR that writes",
        ),
    ],
)
def test_other_loops_are_refused_in_words(
    monkeypatch: pytest.MonkeyPatch, graph: int, kind: str, changes: dict[str, Any], found: str
) -> None:
    path = DATA / "lstm.tflite"
    graphs = _with_operator(read_subgraphs(path), graph, kind, changes)
    monkeypatch.setattr(tflite_models, "read_subgraphs", lambda path: graphs)
    with pytest.raises(InputError, match=found):
        convert(read_tflite(path), "lstm", Returns.VALUE)


def test_a_counter_that_begins_later_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    path = DATA / "lstm.tflite"
    model, *others = read_subgraphs(path)
    loop = next(one for one in model.operators if one.kind == "WHILE")
    tensors = tuple(
        replace(t, data=np.array([1], np.int32).view(np.uint8)) if t.number == loop.reads[0] else t
        for t in model.tensors
    )
    monkeypatch.setattr(tflite_models, "read_subgraphs", lambda path: (replace(model, tensors=tensors), *others))
    with pytest.raises(InputError, match="a counter from 0 is less than a constant"):
        convert(read_tflite(path), "lstm", Returns.VALUE)


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({9: 5}, "expected a plain LSTM, found peepholes"),
        ({16: 5}, "expected a plain LSTM, found a projection"),
        ({20: 5}, "expected a plain LSTM, found layer normalisation"),
        ({1: -1}, "expected weights for each of four gates and tanh, found others"),
    ],
)
def test_rare_parts_of_an_lstm_are_named(monkeypatch: pytest.MonkeyPatch, changes: dict[int, int], found: str) -> None:
    path = DATA / "lstm_fused.tflite"
    (graph,) = read_subgraphs(path)
    operator = next(one for one in graph.operators if one.kind == "UNIDIRECTIONAL_SEQUENCE_LSTM")
    reads = tuple(changes.get(place, number) for place, number in enumerate(operator.reads))
    operators = tuple(replace(one, reads=reads) if one is operator else one for one in graph.operators)
    monkeypatch.setattr(tflite_models, "read_subgraphs", lambda path: (replace(graph, operators=operators),))
    with pytest.raises(InputError, match=found):
        convert(read_tflite(path), "lstm", Returns.VALUE)


@pytest.mark.parametrize("clip", [0.25, 1.5, 4.0, 9.0])
def test_the_state_of_an_lstms_cell_is_cut_off(clip: float) -> None:
    random = np.random.default_rng(4)
    constants = {
        "w": random.normal(0, 1, (1, 8, 2)),
        "r": random.normal(0, 1, (1, 8, 2)),
        "b": random.normal(0, 2, (1, 16)),
    }
    node = TrainedNode("LSTM", ("x", "w", "r", "b"), ("", "y"), "node", {"hidden_size": 2, CELL_CLIP: clip})
    made = convert(TrainedGraph("file", (node,), constants, "x", (6, 1, 2), ("y",)), "x", Returns.VALUE)
    samples = random.normal(0, 2, (9, 12))
    found = run_float(made.program, made.parameters, samples).outputs
    states, cell = np.zeros((9, 2)), np.zeros((9, 2))
    for step in range(6):
        sums = samples[:, 2 * step : 2 * step + 2] @ constants["w"][0].T + states @ constants["r"][0].T
        sums = sums + constants["b"][0][:8] + constants["b"][0][8:]
        take, show, keep = (1 / (1 + np.exp(-sums[:, 2 * gate : 2 * gate + 2])) for gate in range(3))
        cell = np.clip(keep * cell + take * np.tanh(sums[:, 6:]), -clip, clip)
        states = show * np.tanh(cell)
    np.testing.assert_allclose(found, states, rtol=1e-9, atol=1e-9)
    assert any(isinstance(operation, ir.Relu) for operation in ir.operations(made.program.body)) == (clip < 6)


@pytest.mark.parametrize("value", [0.0, 0.5])
@pytest.mark.parametrize(
    ("direction", "shape"),
    [
        ("forward", (1, 1, 5)),
        ("forward", (2, 1, 2)),
        ("forward", (1, 2, 2)),
        ("forward", (0, 1, 2)),
        ("reverse", (2,)),
        ("bidirectional", (1, 1, 2)),
        ("bidirectional", (1, 2, 2)),
    ],
)
def test_an_initial_state_has_the_cells_shape(direction: str, shape: tuple[int, ...], value: float) -> None:
    """Of zeros, too: PyTorch writes a projected LSTM as one of the projection's size, whose cell's state gives it away."""
    random = np.random.default_rng(5)
    count = 2 if direction == "bidirectional" else 1
    constants = {name: random.normal(0, 1, (count, 8, 2)) for name in ("w", "r")}
    constants |= {"b": np.zeros((count, 16)), "h": np.zeros((count, 1, 2)), "c": np.full(shape, value)}
    inputs = ("x", "w", "r", "b", "", "h", "c")
    node = TrainedNode("LSTM", inputs, ("", "y"), "node", {"hidden_size": 2, "direction": direction})
    with pytest.raises(InputError, match=rf"expected an initial state of shape \[{count}, 1, 2\], found "):
        convert(TrainedGraph("file", (node,), constants, "x", (6, 1, 2), ("y",)), "x", Returns.VALUE)
