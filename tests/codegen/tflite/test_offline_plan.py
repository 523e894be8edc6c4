"""Models with an offline memory plan: read back by the schema's code, and executed by TensorFlow Lite Micro."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import tflite

from kilotune.codegen.tflite.model_file import read_model
from kilotune.codegen.tflite.offline_plan import plan_words, with_plan
from tests.codegen.tflite.models import DATA
from tests.codegen.tflite.test_arena import branching


def plans(content: bytes) -> list[list[int]]:
    """The plans in a model, as its metadata name them."""
    model = tflite.Model.GetRootAs(content, 0)
    named = [model.Metadata(k) for k in range(model.MetadataLength())]
    return [
        model.Buffers(one.Buffer()).DataAsNumpy().view("<i4").tolist()
        for one in named
        if one.Name() == b"OfflineMemoryAllocation"
    ]


def described(path: Path) -> tuple:  # type: ignore[type-arg]
    model = read_model(path)
    tensors = [
        (t.number, t.name, t.shape, t.element_type, t.variable, None if t.data is None else t.data.tobytes())
        for t in model.tensors
    ]
    return tensors, [(o.kind, o.reads, o.writes) for o in model.operators], model.inputs, model.outputs


def test_words_of_a_plan() -> None:
    assert plan_words(4, {0: 0, 3: 64}) == (1, 1, 4, 0, -1, -1, 64)


@pytest.mark.parametrize("name", ["kws_int8", "ic_int8"])
def test_all_but_the_plan_is_what_it_was(name: str, tmp_path: Path) -> None:
    source = DATA / f"{name}.tflite"
    content = source.read_bytes()
    words = plan_words(len(read_model(source).tensors), {1: 16, 2: 1 << 20})
    planned = with_plan(content, words)
    path = tmp_path / "p.tflite"
    path.write_bytes(planned)
    assert described(path) == described(source)
    assert planned.endswith(content)
    assert (len(planned) - len(content)) % 16 == 0
    assert plans(planned) == [list(words)]
    old, new = tflite.Model.GetRootAs(content, 0), tflite.Model.GetRootAs(planned, 0)
    assert (new.Version(), new.Description(), new.BuffersLength()) == (
        old.Version(),
        old.Description(),
        old.BuffersLength() + 1,
    )
    assert new.MetadataLength() == old.MetadataLength() + 1
    assert new.Metadata(0).Name() == old.Metadata(0).Name()
    other = plan_words(len(words) - 3, {})
    assert plans(with_plan(planned, other)) == [list(other)]  # in place of the one before


def test_operators_in_another_order(tmp_path: Path) -> None:
    path = branching(tmp_path / "b.tflite")
    before = read_model(path).operators
    path.write_bytes(with_plan(path.read_bytes(), plan_words(6, {}), (1, 0, 2)))
    after = read_model(path).operators
    assert [(o.reads, o.writes) for o in after] == [(before[k].reads, before[k].writes) for k in (1, 0, 2)]


@pytest.mark.slow
def test_tensorflow_lite_micro_keeps_to_it(capfd: pytest.CaptureFixture[str]) -> None:
    """A plan moves the tensors, and with them the end of the arena's head; one that puts everything at 0 is wrong, which results show."""
    runtime = pytest.importorskip("tflite_micro").runtime
    source = DATA / "kws_int8.tflite"
    model = read_model(source)
    image = np.random.default_rng(1).integers(-128, 128, size=(1, 49, 10, 1)).astype(np.int8)

    def run(content: bytes) -> tuple[list[int], int]:
        interpreter = runtime.Interpreter.from_bytes(content)
        interpreter.set_input(image, 0)
        interpreter.invoke()
        result = interpreter.get_output(0)[0].tolist()
        interpreter.print_allocations()
        said = "".join(capfd.readouterr())
        return result, int(re.search(r"allocation head (\d+) bytes", said)[1])  # type: ignore[index]

    computed = [t.number for t in model.tensors if t.data is None]
    content = source.read_bytes()
    right, head = run(content)
    turns = {number: 32768 * (k % 2) + 1024 for k, number in enumerate(computed)}
    assert run(with_plan(content, plan_words(len(model.tensors), turns))) == (right, 32768 + 1024 + 8000)
    overlapping = with_plan(content, plan_words(len(model.tensors), dict.fromkeys(computed, 0)))
    wrong, less = run(overlapping)
    assert wrong != right
    assert less < head == 16000
