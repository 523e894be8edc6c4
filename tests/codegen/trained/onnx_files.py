"""Small ONNX models, their results by onnxruntime, and every execution of what they are converted to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from kilotune.codegen.arrays import Array, FloatArray
from kilotune.codegen.float_evaluator import run_float
from kilotune.codegen.trained.conversion import Converted, convert
from kilotune.codegen.trained.endings import Returns
from kilotune.codegen.trained.onnx_models import read_onnx
from kilotune.codegen.trained.qlinear import DOMAIN


@dataclass(frozen=True)
class Case:
    """A model from `x` of `shape` to `y`. `nodes`: (operator, inputs, outputs, attributes), an operator of ONNX Runtime's own domain with
    that before its name."""

    name: str
    shape: tuple[int | str, ...]
    nodes: Sequence[tuple[str, Sequence[str], Sequence[str], Mapping[str, Any]]]
    constants: Mapping[str, Array] = field(default_factory=dict)
    opset: int = 17
    domain: str = ""

    def model(self) -> onnx.ModelProto:
        """As a file would hold it."""
        nodes = [
            helper.make_node(
                kind.removeprefix(DOMAIN),
                list(reads),
                list(writes),
                domain=DOMAIN.strip(".") if kind.startswith(DOMAIN) else self.domain,
                **attributes,
            )
            for kind, reads, writes, attributes in self.nodes
        ]
        given = helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)
        result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
        weights = [numpy_helper.from_array(values, name) for name, values in self.constants.items()]
        graph = helper.make_graph(nodes, self.name, [given], [result], weights)
        opsets = [helper.make_opsetid("", self.opset)]
        opsets += [helper.make_opsetid(self.domain, 3)] if self.domain else []
        own = any(kind.startswith(DOMAIN) for kind, *_ in self.nodes)
        opsets += [helper.make_opsetid(DOMAIN.strip("."), 1)] if own else []
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)

    def write(self, folder: Path) -> Path:
        """As a file."""
        path = folder / f"{self.name}.onnx"
        onnx.save(self.model(), str(path))
        return path

    @property
    def features(self) -> FloatArray:
        """Some samples [samples, features], those of zeros and of large numbers among them."""
        sizes = [1 if isinstance(extent, str) else extent for extent in self.shape]
        random = np.random.default_rng(len(self.name))
        samples = random.normal(0, 1.5, (12, int(np.prod(sizes))))
        samples[0], samples[1] = 0.0, 8.0 * samples[1]
        return np.asarray(samples.astype(np.float32), dtype=np.float64)


def reference(path: Path, features: FloatArray) -> FloatArray:
    """What onnxruntime makes of each sample [samples, elements]."""
    session = onnxruntime.InferenceSession(str(path))
    given = session.get_inputs()[0]
    shape = [extent if isinstance(extent, int) else 1 for extent in given.shape]
    rows = [session.run(None, {given.name: row.reshape(shape).astype(np.float32)})[0] for row in features]
    return np.array([np.asarray(row, dtype=np.float64).reshape(-1) for row in rows])


def converted(path: Path, returns: Returns = Returns.VALUE) -> Converted:
    """The program of a file."""
    return convert(read_onnx(path), path.stem, returns)


def float_results(made: Converted, features: FloatArray) -> FloatArray:
    """What the program makes of each sample over the Reals."""
    return run_float(made.program, made.parameters, features).outputs
