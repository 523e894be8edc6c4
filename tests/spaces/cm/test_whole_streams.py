"""What no mapping beats because streams between layers are not split over several routes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from kilotune.codegen.cm.hardware import Hardware, load_hardware, parse_hardware
from kilotune.codegen.cm.pipeline import GMEM
from kilotune.codegen.onnx.graph import Graph
from kilotune.codegen.onnx.quantise import integer_shape
from kilotune.codegen.onnx.topology import IMAGE, Topology
from kilotune.experiments.problems.cm.networks import weightless
from kilotune.search.candidates import random_candidate
from kilotune.spaces.cm.lowered import LoweredPipeline, cores_needed, least_ticks
from kilotune.spaces.cm.replication import Replication
from kilotune.spaces.cm.space import CmSpace
from kilotune.spaces.cm.whole_streams import layer_streams, whole_stream_ticks


def thin_links(topology: dict[str, Any], stages: int = 1) -> Hardware:
    """Links of one element a tick, GMEM's as wide as is never short; crossbars of 16 rows, so that layers have row blocks."""
    described: dict[str, Any] = {
        "name": "thin",
        "topology": topology,
        "link": {"elements_per_tick": 1, "hop_ticks": 1},
        "crossbar": {"rows": 16, "columns": 16, "per_core": 1},
        "core": {"sram_bytes": 65536, "dpu_operations_per_tick": 256, "stages": stages},
        "gmem": {
            "input_ports": [0, 1],
            "output_ports": [0, 1],
            "elements_per_tick": 64,
            "hop_ticks": 1,
            "order": "row-major",
        },
        "element_bytes": 1,
    }
    return parse_hardware(described, "thin.json")


def small_network(seed: int, layers: int, residual: bool = False) -> Graph:
    """Convolutions and poolings with kernels and strides at random, one behind the other; residual: the last is added to what it reads."""
    rng = np.random.default_rng(seed)
    net = Topology(f"small-{seed}", (int(rng.integers(1, 3)), int(rng.integers(5, 10)), int(rng.integers(5, 10))))
    x = IMAGE
    for k in range(layers):
        channels = int(rng.integers(2, 9))
        if k and rng.random() < 0.3:
            x = net.pool("MaxPool", x, f"pool{k}", 2, 1)
        else:
            x = net.conv(x, f"conv{k}", channels, int(rng.choice([1, 3])), int(rng.choice([1, 1, 2])))
    if residual:
        x = net.node("Add", [x, net.conv(x, "last", net.shape(x)[0], 3)], "sum")
    return integer_shape(net.graph(x))


def replications(space: CmSpace) -> Iterator[tuple[dict[str, Replication], LoweredPipeline]]:
    """All that fit the cores."""
    for chosen in itertools.product(*(shape.replications() for shape in space.shapes)):
        replicas = {shape.name: r for shape, r in zip(space.shapes, chosen, strict=True)}
        if cores_needed(space.costs, replicas, space.cores) <= space.hardware.cores:
            yield replicas, space.lowered(replicas)


def thickest(lowered: LoweredPipeline) -> dict[tuple[str, str], int]:
    """What the thickest stream from a layer to another carries an image."""
    stages, found = lowered.pipeline.stages, dict[tuple[str, str], int]()
    for stream in lowered.streams:
        if GMEM not in (stream.writer, stream.reader):
            pair = stages[stream.writer].layer, stages[stream.reader].layer
            found[pair] = max(found.get(pair, 0), stream.image_load)
    return found


def test_the_thickest_stream_of_replicas_is_that_of_the_lowered_network() -> None:
    compared = 0
    for seed in range(12):
        space = CmSpace.of(
            small_network(seed, 2, residual=True), thin_links({"kind": "mesh", "rows": 16, "columns": 16})
        )
        plain = space.network.lower({})
        streams = layer_streams(plain, space.lowered({}).streams, space.shapes, space.hardware)
        rng = np.random.default_rng(seed)
        for _ in range(6):
            replicas = {
                shape.name: shape.replications()[int(rng.integers(len(shape.replications())))] for shape in space.shapes
            }
            actual = thickest(space.lowered(replicas))
            said = dict[tuple[str, str], float]()
            for stream in streams:
                ends = stream.writer.name, stream.reader.name
                cuts = [(replicas[name].count, replicas[name].axis) for name in ends]
                said[ends] = max(said.get(ends, 0.0), stream.ticks(*cuts))
            between = {pair: load for pair, load in actual.items() if pair[0] != pair[1]}
            assert said.keys() == between.keys()
            windows = {pair: sum((s.writer.name, s.reader.name) == pair for s in streams) for pair in between}
            for pair, load in between.items():
                assert said[pair] <= load
                if windows[pair] == 1:
                    assert said[pair] == load
                    compared += 1
    assert compared > 60


@pytest.mark.parametrize(
    "topology",
    [
        {"kind": "mesh", "rows": 2, "columns": 2},
        {"kind": "torus", "rows": 2, "columns": 3},
        {"kind": "tree", "cores": 7},
        {"kind": "mesh", "rows": 2, "columns": 4},
    ],
)
def test_the_bound_is_below_every_replication_wherever_its_stages_are(topology: dict[str, Any]) -> None:
    """A link carries each stream between two layers, and a core does what a stage does: of all replications that fit, none is faster."""
    raised = met = 0
    for seed in range(14):
        try:
            space = CmSpace.of(small_network(seed, 3), thin_links(topology))
        except ValueError:  # too many stages
            continue
        best = min(max(lowered.compute_ticks, *thickest(lowered).values()) for _, lowered in replications(space))
        plain = space.network.lower({})
        streams = layer_streams(plain, space.lowered({}).streams, space.shapes, space.hardware)
        alone = math.ceil(least_ticks(space.costs, space.cores))
        said = whole_stream_ticks(space.costs, streams, space.hardware.cores, alone)
        assert alone <= said <= max(best, alone), seed
        raised += said > alone
        met += said == best
        rng = np.random.default_rng(seed)
        for _ in range(3):
            measured = space.measure(random_candidate(space, rng))
            assert measured.failure is not None or measured.metrics["ticks_per_image"] >= space.least_ticks
    assert raised >= 3, "streams are thicker than what a core does takes"
    assert met >= 3


def test_stages_that_may_share_a_core_need_no_link() -> None:
    graph = small_network(0, 2)
    apart, together = (CmSpace.of(graph, thin_links({"kind": "mesh", "rows": 2, "columns": 2}, n)) for n in (1, 4))
    assert together.least_ticks < apart.least_ticks


def test_the_bound_of_a_full_accelerator_counts_the_replicas_that_thin_its_streams() -> None:
    """GoogLeNet on 256 cores: within 2351 ticks the streams of three poolings and sums have to be cut, for which three cores are missing;
    3a.pool sends 2352 ticks' worth to the layer behind it."""
    space = CmSpace.of(integer_shape(weightless("googlenet")), load_hardware("mesh-16x16"))
    assert math.ceil(least_ticks(space.costs, space.cores)) == 2128
    assert space.least_ticks == 2352


def test_more_stages_than_cores_that_they_share_have_a_bound_all_the_same() -> None:
    space = CmSpace.of(small_network(0, 3), thin_links({"kind": "mesh", "rows": 1, "columns": 2}, 8))
    assert len(space.lowered({}).pipeline.stages) > space.hardware.cores
    assert space.least_ticks >= sum(space.lowered({}).image_ticks) / 2
