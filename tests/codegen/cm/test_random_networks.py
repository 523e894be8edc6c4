"""Random networks, lowered at random, executed from finite buffers: the integers of onnxruntime, image after image."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from kilotune.codegen.cm.blocks import Crossbar
from kilotune.codegen.cm.lowering import lower
from kilotune.codegen.cm.partition import partition
from kilotune.codegen.onnx.importing import import_model
from kilotune.codegen.onnx.quantise import quantise, random_images
from kilotune.evaluators.cm.functional import ScheduleParameters, replay, run
from tests.codegen.cm.networks import RandomNetwork, expected_integers
from tests.effort import effort

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Split:
    count: int
    axis: str


@pytest.mark.parametrize("seed", range(effort(14, 40)))
def test_lowered_networks_compute_what_onnxruntime_computes(seed: int) -> None:
    proto = RandomNetwork(seed).model(10)
    graph = import_model(proto, "random")
    quantised = quantise(graph, random_images(graph.shapes[graph.input], 2, seed))
    images = [quantised.image(image) for image in random_images(graph.shapes[graph.input], 3, seed + 1000)]
    expected = expected_integers(proto, quantised, images)
    network = partition(quantised.graph)
    rng = np.random.default_rng(seed)
    replicas = {
        p.name: Split(int(rng.integers(1, min(3, p.height) + 1)), "rows")
        if rng.random() < 0.5
        else Split(int(rng.integers(1, min(3, p.width) + 1)), "columns")
        for p in network.partitions
    }
    crossbar = Crossbar(int(rng.integers(4, 40)), int(rng.integers(1, 6)), int(rng.integers(1, 3)))
    chained = {p.name for p in network.partitions if rng.random() < 0.5}
    lowered = lower(network, crossbar, replicas, by_columns=seed % 3 == 0, chained=chained, most_pooled=seed % 2 * 24)
    ticks = tuple(int(n) for n in rng.integers(1, 4, len(lowered.pipeline.stages)))
    delays = tuple(int(n) for n in rng.integers(0, 3, len(lowered.pipeline.edges)))
    free = run(lowered, images, ScheduleParameters(ticks, delays))
    tight = ScheduleParameters(ticks, delays, capacities=free.fullest)
    for execution in (free, run(lowered, images, tight), replay(lowered, images, free.starts, tight)):
        assert all(np.array_equal(a, b) for a, b in zip(execution.outputs, expected, strict=True))
        assert all(np.array_equal(a, b) for a, b in zip(execution.starts, free.starts, strict=True))
