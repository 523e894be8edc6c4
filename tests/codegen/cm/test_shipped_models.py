"""The models of the onnx package: imported against their reference outputs, executed against onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from kilotune.codegen.cm.blocks import Crossbar
from kilotune.codegen.cm.lowering import lower
from kilotune.codegen.cm.partition import partition
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.onnx.importing import load_model
from kilotune.codegen.onnx.quantise import quantise, random_images
from kilotune.codegen.onnx.reference import evaluate
from kilotune.evaluators.cm.functional import run
from kilotune.experiments.benchmarks.cm_functional import compare
from tests.codegen.cm.networks import expected_integers, import_file, output_of, shipped

pytestmark = pytest.mark.slow

MODELS = {Path(path).parent.name.removeprefix("test_"): path for path in shipped("pytorch-converted")}
LARGE = ("MaxPool1d_stride_padding_dilation", "MaxPool2d_stride_padding_dilation")
"""A sequence of 220 000 and an image of 1000 x 1000."""

THREE_DIMENSIONS = tuple(name for name in MODELS if "3d" in name and "3d_input" not in name)
UNSUPPORTED = {
    "Embedding": "the constant '1'",
    "Embedding_sparse": "the constant '1'",
    "PixelShuffle": "[1, 9, 4, 4] to [1, 1, 3, 3, 4, 4]",
    "PoissonNLLLLoss_no_reduce": "shape [10, 10]",
    "ReflectionPad2d": "reflect",
    "ReplicationPad2d": "edge",
    "Softsign": "2 images",
    "PReLU_3d": "5 dimensions",
    "PReLU_3d_multiparam": "5 dimensions",
} | dict.fromkeys(THREE_DIMENSIONS, "5 dimensions")
SUPPORTED = [name for name in MODELS if name not in UNSUPPORTED]


def test_most_of_the_single_operator_models_are_supported() -> None:
    assert len(MODELS) == 82
    assert len(SUPPORTED) == 58


@pytest.mark.parametrize("name", sorted(UNSUPPORTED))
def test_what_is_refused_is_named(name: str) -> None:
    with pytest.raises(InputError) as error:
        import_file(Path(MODELS[name]))
    assert f"found {UNSUPPORTED[name]}" in str(error.value)


@pytest.mark.parametrize("name", SUPPORTED)
def test_import_computes_the_reference_output(name: str) -> None:
    graph = import_file(Path(MODELS[name]))
    data = Path(MODELS[name]).parent / "test_data_set_0"
    image, output = (
        numpy_helper.to_array(onnx.load_tensor(str(data / file))) for file in ("input_0.pb", "output_0.pb")
    )
    found = np.stack([output_of(graph, evaluate(graph, one)) for one in image])
    for operator in graph.outputs[0].host:
        found = np.exp(found - found.max(axis=operator.axis, keepdims=True))
        found = found / found.sum(axis=operator.axis, keepdims=True)
        found = np.log(found) if operator.operator == "LogSoftmax" else found
    np.testing.assert_allclose(found, output, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", [name for name in SUPPORTED if name not in LARGE])
def test_execution_is_onnxruntimes_for_images_back_to_back(name: str) -> None:
    proto = load_model(Path(MODELS[name]))
    graph = import_file(Path(MODELS[name]))
    quantised = quantise(graph, random_images(graph.shapes[graph.input], 1, 0))
    images = [quantised.image(image) for image in random_images(graph.shapes[graph.input], 3, 5)]
    lowered = lower(partition(quantised.graph), Crossbar(16, 4))
    expected = expected_integers(proto, quantised, images)
    assert len({image.tobytes() for image in images}) == 3
    for found, wanted in zip(run(lowered, images).outputs, expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("name", ["lenet5", "resnet20-projected", "squeezenet"])
def test_whole_networks(name: str) -> None:
    """Others, larger ones, are in the benchmark."""
    row = compare(name)
    assert row["different"] == 0
    assert row["distinct"] > 10
