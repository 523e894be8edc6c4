"""What of a TensorFlow Lite file is planned, and one sentence for everything that is no whole model."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.tflite.arena import read_arena
from kilotune.codegen.tflite.model_file import read_model
from tests.codegen.tflite.models import DATA, FLOAT32, STRING, MadeTensor, write_model

BRANCHING = (
    MadeTensor("in", (1, 10)),
    MadeTensor("weights", (3,), buffer=1),
    MadeTensor("left", (1, 30)),
    MadeTensor("right", (1, 5), FLOAT32),
    MadeTensor("state", (7,), variable=True),
    MadeTensor("out", (1, 4)),
)


def branching(path: Path) -> Path:
    """in -> left, in -> right, both -> out; weights are constant, the state is kept."""
    return write_model(
        path, BRANCHING, [((0, 1, -1), (2,)), ((0, 4), (3,)), ((2, 3, 2), (5,))], (0,), (5,), (b"\x01\x02\x03",)
    )


def test_only_what_is_computed_is_planned(tmp_path: Path) -> None:
    graph = read_arena(branching(tmp_path / "b.tflite"))
    assert [(t.name, t.size_bytes, t.number) for t in graph.tensors] == [
        ("in", 10, 0), ("left", 30, 2), ("right", 20, 3), ("out", 4, 5),
    ]  # fmt: skip
    assert [(o.name, o.reads, o.writes) for o in graph.operators] == [
        ("ADD 0", ("in",), ("left",)), ("ADD 1", ("in",), ("right",)), ("ADD 2", ("left", "right"), ("out",)),
    ]  # fmt: skip
    assert graph.lifetimes(graph.file_order) == {"in": (0, 2), "left": (0, 3), "right": (1, 3), "out": (2, 3)}


def test_tensors_of_one_name_stay_apart(tmp_path: Path) -> None:
    tensors = [MadeTensor("x", (2,)), MadeTensor("x", (3,)), MadeTensor("", (4,))]
    graph = read_arena(write_model(tmp_path / "m.tflite", tensors, [((0,), (1,)), ((1,), (2,))], (0,), (2,)))
    assert [t.name for t in graph.tensors] == ["x", "x#2", "tensor"]
    assert graph.operators[1].reads == ("x#2",)


@pytest.mark.parametrize(
    ("operators", "changes", "sentence"),
    [
        ([((1,), (2,)), ((0,), (1,))], {}, "expected 'b' to be written before ADD 0 reads it, found no writer"),
        ([((0,), (1,)), ((0,), (1,))], {}, "expected one writer of 'b', found ADD 1 beside another one"),
        ([((2,), (1,))], {}, "expected a value of tensor 2 'c' for operator 0 (ADD), found none"),
        ([((0,), (9,))], {}, "found tensor 9 of 3 among the outputs of operator 0 (ADD)"),
        ([((-2,), (1,))], {}, "found tensor -2 of 3 among the inputs of operator 0 (ADD)"),
        ([((0,), (1,))], {"outputs": (7,)}, "found tensor 7 of 3 among the outputs"),
        ([((0,), (1,))], {"subgraphs": 2}, "expected a model with one subgraph, found 2"),
    ],
)
def test_what_cannot_run_is_refused(tmp_path: Path, operators, changes, sentence: str) -> None:  # type: ignore[no-untyped-def]
    tensors = [MadeTensor(name, (4,)) for name in "abc"]
    path = write_model(tmp_path / "m.tflite", tensors, operators, **{"inputs": (0,), "outputs": (1,), **changes})
    with pytest.raises(InputError) as caught:
        read_arena(path)
    assert sentence in str(caught.value)
    assert str(path) in str(caught.value)


def test_elements_without_a_size_are_refused(tmp_path: Path) -> None:
    tensors = [MadeTensor("a", (4,)), MadeTensor("b", (4,), STRING)]
    path = write_model(tmp_path / "m.tflite", tensors, [((0,), (1,))], (0,), (1,))
    with pytest.raises(InputError, match="expected elements of a fixed size, found STRING"):
        read_arena(path)


def test_public_models() -> None:
    """Largest live sums as TFLM's planner sees them: keyword spotting reads 125 x 64 and writes as much, image classification adds two of
    16 x 32 x 32 while it keeps a third."""
    for name, operators, largest in (("kws_int8", 13, 16000), ("ic_int8", 16, 49152)):
        graph = read_arena(DATA / f"{name}.tflite")
        assert len(graph.operators) == operators
        lives = graph.lifetimes(graph.file_order)
        size = {t.name: t.size_bytes for t in graph.tensors}
        live = [sum(size[n] for n, (a, b) in lives.items() if a <= p < b) for p in range(operators)]
        assert max(live) == largest
    assert {operator.kind for operator in read_model(DATA / "kws_int8.tflite").operators} == {
        "CONV_2D", "DEPTHWISE_CONV_2D", "AVERAGE_POOL_2D", "RESHAPE", "FULLY_CONNECTED", "SOFTMAX",
    }  # fmt: skip


def test_damaged_files_are_refused_in_one_sentence(tmp_path: Path) -> None:
    """Cut and mutated: a model or an InputError, nothing else."""
    whole = branching(tmp_path / "b.tflite").read_bytes()
    rng = random.Random(5)
    path, said = tmp_path / "damaged.tflite", []
    for turn in range(400):
        damaged = bytearray(whole[: rng.randrange(8, len(whole))] if turn % 4 == 0 else whole)
        for _ in range(turn % 4):
            damaged[rng.randrange(8 if turn % 8 else 0, len(damaged))] = rng.randrange(256)
        path.write_bytes(damaged)
        try:
            read_arena(path)
        except InputError as error:
            said.append(str(error))
    assert len(said) > 100
    assert all(len(sentence.splitlines()) == 1 for sentence in said)
    path.write_bytes(b"id,lower,upper,size\n")
    with pytest.raises(InputError, match="expected a TFLite model, found bytes that are none"):
        read_arena(path)
