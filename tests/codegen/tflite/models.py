"""Small TensorFlow Lite files, written with the schema's own builders."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import flatbuffers
import numpy as np
import tflite

DATA = Path(__file__).parent / "data"
INT8, FLOAT32, STRING = tflite.TensorType.INT8, tflite.TensorType.FLOAT32, tflite.TensorType.STRING


@dataclass(frozen=True)
class MadeTensor:
    """`buffer`: 0 for one that is computed, else a constant's place among `constants`, from 1."""

    name: str
    shape: tuple[int, ...]
    type: int = INT8
    buffer: int = 0
    variable: bool = False


def write_model(
    path: Path,
    tensors: Sequence[MadeTensor],
    operators: Sequence[tuple[Sequence[int], Sequence[int]]],
    inputs: Sequence[int],
    outputs: Sequence[int],
    constants: Sequence[bytes] = (),
    subgraphs: int = 1,
) -> Path:
    """A model of ADD operators that read and write tensors of those numbers."""
    builder = flatbuffers.Builder(1024)
    code = _table(builder, tflite.OperatorCode, builtin_code=tflite.BuiltinOperator.ADD)
    buffers = [_table(builder, tflite.Buffer, data=builder.CreateByteVector(data)) for data in (b"", *constants)]
    graph = _graph(builder, tensors, operators, inputs, outputs)
    model = _table(
        builder,
        tflite.Model,
        version=3,
        operator_codes=offset_vector(builder, [code]),
        subgraphs=offset_vector(builder, [graph] * subgraphs),
        buffers=offset_vector(builder, buffers),
    )
    builder.Finish(model, b"TFL3")
    path.write_bytes(bytes(builder.Output()))
    return path


def _graph(
    builder: flatbuffers.Builder,
    tensors: Sequence[MadeTensor],
    operators: Sequence[tuple[Sequence[int], Sequence[int]]],
    inputs: Sequence[int],
    outputs: Sequence[int],
) -> int:
    made = [
        _table(
            builder,
            tflite.Tensor,
            shape=ints(builder, t.shape),
            type=t.type,
            buffer=t.buffer,
            name=builder.CreateString(t.name),
            is_variable=t.variable,
        )
        for t in tensors
    ]
    ran = [
        _table(builder, tflite.Operator, opcode_index=0, inputs=ints(builder, reads), outputs=ints(builder, writes))
        for reads, writes in operators
    ]
    return _table(
        builder,
        tflite.SubGraph,
        tensors=offset_vector(builder, made),
        inputs=ints(builder, inputs),
        outputs=ints(builder, outputs),
        operators=offset_vector(builder, ran),
    )


def ints(builder: flatbuffers.Builder, numbers: Sequence[int]) -> int:
    """A vector of whole numbers."""
    return int(builder.CreateNumpyVector(np.array(numbers, dtype=np.int32)))


def offset_vector(builder: flatbuffers.Builder, offsets: Sequence[int]) -> int:
    """A vector of places of tables."""
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return int(builder.EndVector())


def _table(builder: flatbuffers.Builder, kind: type, **fields: object) -> int:
    module = importlib.import_module(f"tflite.{kind.__name__}")
    name = kind.__name__
    getattr(module, f"{name}Start")(builder)
    for field, value in fields.items():
        camel = "".join(word.capitalize() for word in field.split("_"))
        getattr(module, f"{name}Add{camel}")(builder, value)
    return int(getattr(module, f"{name}End")(builder))
