"""Fields of a TensorFlow Lite file: all are found, and what is written into them is read by whoever reads the file."""

from __future__ import annotations

import struct
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.tflite.model_file import read_model
from kilotune.experiments.fuzz.kind import corpus_files
from kilotune.experiments.fuzz.kinds.tflite_fields import _fields_of_table, mutate_fields

FILES = corpus_files("tflite")


@pytest.mark.parametrize("name", sorted(FILES))
def test_every_number_that_the_reader_sees_is_a_field(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(FILES[name])
    model, content = read_model(path), FILES[name]
    found = Counter(field.meaning for field in _fields_of_table(content, struct.unpack_from("<I", content)[0], "Model"))
    shapes = sum(len(tensor.shape) for tensor in model.tensors)
    assert found["i4"] >= shapes
    wires = sum(len(operator.reads) + len(operator.writes) for operator in model.operators)
    assert found["place"] >= wires + len(model.inputs) + len(model.outputs)
    assert found["f4"] >= sum(tensor.data.size // 4 for tensor in model.tensors if tensor.data is not None)


def test_mutated_fields_are_refused_for_what_they_say_more_often_than_for_damage(tmp_path: Path) -> None:
    """Bytes that are flipped lead out of the file, and then nothing behind the reader is tried."""
    content, path, said = FILES["dense.tflite"], tmp_path / "net.tflite", Counter[str]()
    for seed in range(200):
        changed = mutate_fields(content, Random(seed))
        assert len(changed) == len(content)
        path.write_bytes(changed)
        try:
            read_model(path)
        except InputError as error:
            said["damaged" if "damaged or cut short" in str(error) else "named"] += 1
        else:
            said["read"] += changed != content
    assert said["damaged"] < 100 < said["named"] + said["read"]
    assert mutate_fields(b"no flatbuffer", Random(1)) == b"no flatbuffer"
