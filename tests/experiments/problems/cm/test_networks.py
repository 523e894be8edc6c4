"""Named networks are the published ones: parameters, multiply-accumulates and layers as their papers and torchvision say."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import onnx
import pytest

from kilotune.codegen.cm.blocks import Crossbar
from kilotune.codegen.cm.hardware import load_hardware
from kilotune.codegen.cm.lowering import lower
from kilotune.codegen.cm.partition import partition
from kilotune.codegen.cm.pipeline import Pipeline
from kilotune.codegen.onnx.graph import AveragePoolNode, ConvNode, MaxPoolNode, ReluNode, known
from kilotune.codegen.onnx.quantise import integer_shape
from kilotune.codegen.onnx.topology import Topology, crossbar_weights, multiply_accumulates
from kilotune.experiments.problems.cm.networks import LAYERS, topology_of, weightless
from kilotune.spaces.cm.space import CmSpace
from tests.codegen.cm.networks import import_file, without_weights

LEARNED = ("weight", "bias", "scale", "offset")
"""What gradients change; the means and variances of batch normalisation are counted by no publication."""


def parameters(topology: Topology) -> int:
    learned = [shape for name, shape in topology.weights.items() if name.rpartition(".")[2] in LEARNED]
    return sum(map(math.prod, learned))


PUBLISHED = {
    "resnet20": (269_722, 0.041),  # 0.27 M (He et al., Table 6)
    "resnet18": (11_689_512, 1.814),  # this and the following: torchvision's table of models
    "resnet50": (25_557_032, 4.089),
    "vgg16": (138_357_544, 15.470),
    "squeezenet1.0": (1_248_424, 0.819),
    "squeezenet1.1": (1_235_496, 0.349),
    "mobilenet-v2": (3_504_872, 0.301),
    "googlenet": (6_998_552, 1.583),  # Caffe's model of the paper; torchvision's has 3 x 3 where the paper has 5 x 5
}
"""All learned parameters, and 10^9 multiply-accumulates of convolutions and fully connected layers."""


@pytest.mark.parametrize("name", LAYERS)
def test_parameters_and_multiply_accumulates_are_the_published_ones(name: str) -> None:
    topology, output = topology_of(name)
    graph = topology.graph(output)
    assert (parameters(topology), round(multiply_accumulates(graph) / 1e9, 3)) == PUBLISHED[name]


@pytest.mark.parametrize(
    ("name", "matrices", "max_pools", "average_pools", "classes", "weights"),
    [
        ("resnet20", 20, 0, 1, 10, 268_336),
        ("resnet18", 17 + 3 + 1, 1, 1, 1000, 11_678_912),
        ("resnet50", 49 + 4 + 1, 1, 1, 1000, 25_502_912),
        ("vgg16", 13 + 3, 5, 0, 1000, 138_344_128),
        ("squeezenet1.0", 1 + 8 * 3 + 1, 3, 1, 1000, 1_244_448),
        ("squeezenet1.1", 1 + 8 * 3 + 1, 3, 1, 1000, 1_231_552),
        ("googlenet", 3 + 9 * 6 + 1 + 2, 4 + 9, 1, 1000, 6_990_272),  # two matrices sum the squares of LRNs
        ("mobilenet-v2", 2 + 16 * 3 + 2 + 1, 0, 1, 1000, 3_469_760),
    ],
)
def test_all_layers_are_there(
    name: str, matrices: int, max_pools: int, average_pools: int, classes: int, weights: int
) -> None:
    graph = weightless(name)
    kinds = [sum(isinstance(node, kind) for node in graph.nodes) for kind in (ConvNode, MaxPoolNode, AveragePoolNode)]
    assert kinds == [matrices, max_pools, average_pools]
    assert graph.shapes[graph.output] == (classes, 1, 1)
    assert crossbar_weights(graph) == weights
    learned = [shape for key, shape in topology_of(name)[0].weights.items() if key.endswith(".weight")]
    assert sum(map(math.prod, learned)) == weights  # folding loses none of them


def lowered(name: str) -> Pipeline:
    return lower(partition(integer_shape(weightless(name))), Crossbar()).pipeline


@pytest.mark.parametrize(
    ("name", "stages"),
    [
        ("resnet20", 35 + 2),
        ("resnet18", 203),
        ("resnet50", 424),
        ("squeezenet1.0", 48),
        ("squeezenet1.1", 48),
        ("googlenet", 226 + 2),
        ("mobilenet-v2", 370),
    ],
)
def test_stages_on_crossbars_of_256_by_256(name: str, stages: int) -> None:
    pipeline = lowered(name)
    assert len(pipeline.stages) == stages
    held = sum(stage.crossbar_rows * stage.crossbar_columns for stage in pipeline.stages)
    graph = weightless(name)
    squares = sum(
        node.weight.size for node in graph.nodes if isinstance(node, ConvNode) and node.output in (graph.parts or {})
    )
    # a depthwise layer's matrix is block-diagonal: crossbars hold its zeros too
    assert held == crossbar_weights(graph) + squares or name == "mobilenet-v2"
    assert squares == (64**2 + 192**2 if name == "googlenet" else 0)


def test_a_3x3_layer_of_512_to_512_channels_takes_36_crossbars() -> None:
    """4608 rows are 18 blocks of 256, 512 columns are 2."""
    layers = [stage.layer for stage in lowered("resnet18").stages]
    assert layers.count("conv3.1b") == 36


SHIPPED = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


@pytest.mark.parametrize(("name", "file"), [("resnet50", "light_resnet50"), ("squeezenet1.1", "light_squeezenet")])
def test_the_model_that_the_onnx_package_ships_makes_the_same_stages_and_edges(name: str, file: str) -> None:
    shipped = import_file(SHIPPED / f"{file}.onnx")
    pipelines = [
        lower(partition(integer_shape(without_weights(graph))), Crossbar()).pipeline
        for graph in (shipped, weightless(name))
    ]
    found = []
    for pipeline in pipelines:
        ends = [dataclasses.astuple(stage)[2:7] for stage in pipeline.stages]  # whose names and order are a file's own
        edges = [
            (ends[e.reader], e.writer >= 0 and ends[e.writer], e.elements, int(e.needed.sum())) for e in pipeline.edges
        ]
        found.append((sorted(ends), sorted(edges, key=str), len(pipeline.outputs)))
    assert found[0] == found[1]


def test_googlenet_has_the_matrices_of_the_model_that_the_onnx_package_ships() -> None:
    """Its pools round down where Caffe's and the paper's round up, so that its images are smaller. The second LRN is before the
    pooling in both."""
    graphs = import_file(SHIPPED / "light_inception_v1.onnx"), weightless("googlenet")
    found = [sorted(node.weight.shape for node in graph.nodes if isinstance(node, ConvNode)) for graph in graphs]
    assert found[0] == found[1]
    bands = [
        [known(n.weight) for n in graph.nodes if n.output in (graph.parts or {}) and isinstance(n, ConvNode)]
        for graph in graphs
    ]
    assert [band.shape[0] for band in bands[1]] == [64, 192]
    assert all(np.allclose(one, other, rtol=1e-6) for one, other in zip(*bands, strict=True))
    order = [[type(node) for node in graph.nodes if not isinstance(node, ReluNode)][:12] for graph in graphs]
    assert order[0] == order[1]


def test_option_a_reads_every_other_pixel_of_the_channels_that_there_are() -> None:
    pipeline = lowered("resnet20")
    numbers = {stage.name: number for number, stage in enumerate(pipeline.stages)}
    writer, reader = numbers["conv0.2b"], numbers["conv1.0b/1,0"]
    (edge,) = [edge for edge in pipeline.edges if (edge.writer, edge.reader) == (writer, reader)]
    assert edge.elements == 16
    assert edge.sent is not None
    rows = edge.sent.reshape(32, 32)
    assert rows[::2, ::2].all()
    assert rows.sum() == 256


@pytest.mark.parametrize(("name", "least"), [("resnet18", 1344), ("googlenet", 2352)])
def test_named_networks_fit_256_cores(name: str, least: int) -> None:
    assert CmSpace.of(integer_shape(weightless(name)), load_hardware("mesh-16x16")).least_ticks == least


def test_what_does_not_fit_says_what_is_short() -> None:
    hardware = load_hardware("mesh-16x16")
    with pytest.raises(ValueError, match="vgg16 needs 2126 cores and mesh-16x16 has 256: 1870 too few"):
        CmSpace.of(integer_shape(weightless("vgg16")), hardware)
