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
from kilotune.codegen.trained.tflite_models import read_tflite

DATA = Path(__file__).parent / "data"
LOOPS = {"lstm": 1, "gru_states": 2, "both_ways": 2, "lstm_unrolled": 2, "both_ways_unrolled": 2}
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
    kept = {"gru_states": 1, "both_ways": 2, "lstm_unrolled": 1}.get(name, 0)
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
        (2, "TANH", {"kind": "FLOOR"}, r"found FLOOR \(body operator 13 \(FLOOR that writes"),
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
