"""Integer-exact execution against onnxruntime: CPU seconds and stages of whole networks.

    python -m kilotune.experiments.benchmarks.cm_functional [NAME ...]

NAME: lenet5, resnet20-projected, a large single-operator model, or one of the topologies that the onnx package ships
(squeezenet, resnet50, vgg19, shufflenet, densenet121, inception_v2), with seeded weights at a reduced resolution.
Three images back to back each.
"""

from __future__ import annotations

import math
import os
import sys
import time
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from kilotune.codegen.cm.blocks import Crossbar
from kilotune.codegen.cm.lowering import lower
from kilotune.codegen.cm.partition import partition
from kilotune.codegen.onnx.graph import ConvNode
from kilotune.codegen.onnx.importing import import_model
from kilotune.codegen.onnx.quantise import quantise, random_images
from kilotune.codegen.onnx.random_weights import with_random_weights
from kilotune.codegen.onnx.rewriting import integer_model
from kilotune.evaluators.cm.functional import run
from kilotune.experiments.models.onnx_networks import MADE

SIZES = MappingProxyType(
    {"squeezenet": 64, "resnet50": 64, "vgg19": 32, "shufflenet": 64, "densenet121": 64, "inception_v2": 64}
)
"""Pixels a side at which a topology is run: what keeps it within seconds."""

ORIGINAL_SIZE = 224
LARGE_OPERATORS = ("MaxPool1d_stride_padding_dilation", "MaxPool2d_stride_padding_dilation")
"""Single-operator models of the onnx package on 220 000 and 1 000 000 pixels."""


def operator_model(name: str) -> Any:
    """A single-operator model that the onnx package ships."""
    import onnx

    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "pytorch-converted"
    return onnx.load(str(folder / f"test_{name}" / "model.onnx"))


def light_model(name: str) -> Any:
    """A shipped topology at its size in SIZES: averages over 7 x 7 become global, the first matrix shrinks."""
    import onnx
    from onnx import helper, numpy_helper, shape_inference

    size = SIZES[name]
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    model = onnx.load(str(folder / f"light_{name}.onnx"))
    initial = {tensor.name: tensor for tensor in model.graph.initializer}
    image = next(value for value in model.graph.input if value.name not in initial)
    for dim in image.type.tensor_type.shape.dim[2:]:
        dim.dim_value = size
    flat = None
    for node in model.graph.node:
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        if node.op_type == "AveragePool" and attributes["kernel_shape"] == [7, 7]:
            node.op_type = "GlobalAveragePool"
            del node.attribute[:]
        if node.op_type == "Reshape":
            target = numpy_helper.to_array(initial[node.input[1]]).copy()
            if len(target) == 2:
                target, flat = np.array([1, -1]), node.output[0]
            else:  # of a channel shuffle
                target[-2:] = target[-2:] * size // ORIGINAL_SIZE
            initial[node.input[1]].CopyFrom(numpy_helper.from_array(target, node.input[1]))
    if flat is not None:
        first = next(node for node in model.graph.node if node.op_type == "Gemm")
        del model.graph.value_info[:]
        inferred = {v.name: v for v in shape_inference.infer_shapes(model).graph.value_info}
        inputs = inferred[flat].type.tensor_type.shape.dim[1].dim_value
        filled = next(node for node in model.graph.node if node.output[0] == first.input[1])
        shape = numpy_helper.to_array(initial[filled.input[0]])
        wanted = numpy_helper.from_array(np.array([shape[0], inputs]), filled.input[0])
        initial[filled.input[0]].CopyFrom(wanted)
    return model


def compare(name: str, images: int = 3) -> dict[str, Any]:
    """Run a network both ways: its size, the differences (0) and CPU seconds."""
    import onnxruntime

    graph_of = light_model if name in SIZES else operator_model
    model = MADE[name]() if name in MADE else graph_of(name)
    graph = import_model(model, name)
    if name in SIZES:
        graph = with_random_weights(graph, seed=1)
    shape = graph.shapes[graph.input]
    quantised = quantise(graph, random_images(shape, 1, seed=0))
    began = time.process_time()
    lowered = lower(partition(quantised.graph), Crossbar())
    lowering_s = time.process_time() - began
    inputs = [quantised.image(image) for image in random_images(shape, images, seed=5)]
    began = time.process_time()
    execution = run(lowered, inputs)
    running_s = time.process_time() - began
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    proto = integer_model(model, quantised).SerializeToString()
    session = onnxruntime.InferenceSession(proto, options, providers=["CPUExecutionProvider"])
    batch = [1, *session.get_inputs()[0].shape[1:]]
    feeds = [{graph.input: x.astype(np.float32).reshape(batch)} for x in inputs]
    expected = [session.run(None, feed)[0][0] for feed in feeds]
    pairs = list(zip(execution.outputs, expected, strict=True))
    iterations = images * sum(stage.iterations for stage in lowered.pipeline.stages)
    return {
        "network": name,
        "image": "x".join(map(str, shape)),
        "stages": len(lowered.pipeline.stages),
        "edges": len(lowered.pipeline.edges),
        "weight bits": min(quantised.weight_bits.values(), default=0),
        "weights": sum(math.prod(n.weight.shape) for n in graph.nodes if isinstance(n, ConvNode)),
        "outputs": expected[0].size,
        "distinct": len(np.unique(np.stack(expected))),
        "different": sum(int((a != b).sum()) for a, b in pairs) if pairs[0][0].shape == pairs[0][1].shape else -1,
        "ticks": int(execution.finish_ticks[-1]),
        "lowering s": round(lowering_s, 3),
        "run s": round(running_s, 2),
        "iterations/s": int(iterations / max(running_s, 1e-9)),
    }


def main(names: list[str]) -> None:
    """Print a row a network."""
    header = True
    for name in names or [*MADE, *SIZES, *LARGE_OPERATORS]:
        row = compare(name)
        if header:
            print("  ".join(row))
            header = False
        print("  ".join(str(value) for value in row.values()), flush=True)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main(sys.argv[1:])
