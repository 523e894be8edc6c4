"""TensorFlow Lite files of one operator, and what TensorFlow Lite Micro makes of a file."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import tflite

from kilotune.codegen.arrays import Array, FloatArray
from kilotune.codegen.tflite.model_file import read_model
from tests.codegen.tflite.models import ints, offset_vector

TYPES = {np.dtype(np.float32): tflite.TensorType.FLOAT32, np.dtype(np.int32): tflite.TensorType.INT32}


@dataclass(frozen=True)
class OneOperator:
    """An operator that reads a tensor of `shape` (its place among the operands is `first`) and constants, and writes tensors of `results`,
    of which the last is returned. `options`: the schema's table and its fields."""

    kind: str
    shape: tuple[int, ...]
    results: Sequence[tuple[int, ...]]
    constants: Sequence[Array] = ()
    options: tuple[str, Mapping[str, Any]] | None = None
    first: int = 0
    name: str = field(default="")

    def write(self, path: Path) -> Path:
        """As a file."""
        builder = flatbuffers.Builder(1024)
        data = [b"", *(np.ascontiguousarray(c).tobytes() for c in self.constants)]
        buffers = [table(builder, "Buffer", Data=builder.CreateByteVector(content)) for content in data]
        shapes = [(self.shape, np.dtype(np.float32), 0)]
        shapes += [(c.shape, c.dtype, number) for number, c in enumerate(self.constants, start=1)]
        shapes += [(tuple(result), np.dtype(np.float32), 0) for result in self.results]
        tensors = [
            table(builder, "Tensor", Shape=ints(builder, shape), Type=TYPES[kind], Buffer=buffer,
                   Name=builder.CreateString(f"t{number}"))
            for number, (shape, kind, buffer) in enumerate(shapes)
        ]  # fmt: skip
        reads = list(range(1, 1 + len(self.constants)))
        reads.insert(self.first, 0)
        writes = list(range(1 + len(self.constants), len(shapes)))
        operator = {"OpcodeIndex": 0, "Inputs": ints(builder, reads), "Outputs": ints(builder, writes)}
        if self.options is not None:
            kind_of_options, values = self.options
            operator["BuiltinOptionsType"] = getattr(tflite.BuiltinOptions, kind_of_options)
            operator["BuiltinOptions"] = table(builder, kind_of_options, **values)
        graph = table(
            builder, "SubGraph", Tensors=offset_vector(builder, tensors), Inputs=ints(builder, [0]),
            Outputs=ints(builder, writes[-1:]), Operators=offset_vector(builder, [table(builder, "Operator", **operator)]),
        )  # fmt: skip
        number = getattr(tflite.BuiltinOperator, self.kind)
        code = table(builder, "OperatorCode", BuiltinCode=number, DeprecatedBuiltinCode=min(number, 127), Version=1)
        model = table(
            builder, "Model", Version=3, OperatorCodes=offset_vector(builder, [code]), Subgraphs=offset_vector(builder, [graph]),
            Buffers=offset_vector(builder, buffers),
        )  # fmt: skip
        builder.Finish(model, b"TFL3")
        path.write_bytes(bytes(builder.Output()))
        return path

    @property
    def features(self) -> FloatArray:
        """Some samples [samples, features]."""
        samples = np.random.default_rng(len(self.kind)).normal(0, 1.5, (6, int(np.prod(self.shape))))
        return np.asarray(samples.astype(np.float32), dtype=np.float64)


def executed(path: Path, features: FloatArray) -> FloatArray:
    """What TensorFlow Lite Micro makes of each sample [samples, elements], as real numbers."""
    from tflite_micro import runtime

    model = read_model(path)
    given, result = model.tensors[model.inputs[0]], model.tensors[model.outputs[0]]
    interpreter = runtime.Interpreter.from_file(str(path), arena_size=2_000_000)
    rows = []
    for row in features:
        sample = row.reshape(given.shape).astype(np.float32)
        steps = given.quantisation
        if steps is not None:
            sample = np.clip(np.rint(sample / steps.scales[0]) + steps.zero_points[0], -128, 127).astype(np.int8)
        interpreter.set_input(sample, 0)
        interpreter.invoke()
        found = interpreter.get_output(0).astype(np.float64).reshape(-1)
        steps = result.quantisation
        rows.append(found if steps is None else (found - steps.zero_points[0]) * steps.scales[0])
    return np.array(rows)


def table(builder: flatbuffers.Builder, kind: str, **fields: Any) -> int:
    """A table of the schema; tuples become vectors of 32-bit integers."""
    module = importlib.import_module(f"tflite.{kind}")
    made = {name: ints(builder, list(value)) if isinstance(value, tuple) else value for name, value in fields.items()}
    getattr(module, f"{kind}Start")(builder)
    for name, value in made.items():
        getattr(module, f"{kind}Add{name}")(builder, value)
    return int(getattr(module, f"{kind}End")(builder))
