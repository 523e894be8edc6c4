"""The timing evaluator and the execution are two machines: they start every iteration in the same tick."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from kilotune.codegen.cm.blocks import Crossbar
from kilotune.codegen.cm.lowering import lower
from kilotune.codegen.cm.partition import partition
from kilotune.codegen.cm.streams import streams_of
from kilotune.codegen.onnx.importing import import_model
from kilotune.codegen.onnx.quantise import quantise, random_images
from kilotune.evaluators.cm.functional import ScheduleParameters, StallError, replay, run
from kilotune.evaluators.cm.stream import Setting
from kilotune.evaluators.cm.timing import simulate
from tests.codegen.cm.networks import RandomNetwork
from tests.effort import effort

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Split:
    count: int
    axis: str


@pytest.mark.parametrize("seed", range(effort(10, 30)))
def test_both_start_every_iteration_in_the_same_tick(seed: int) -> None:
    proto = RandomNetwork(seed + 100).model(8)
    graph = import_model(proto, "random")
    quantised = quantise(graph, random_images(graph.shapes[graph.input], 1, seed))
    images = [quantised.image(image) for image in random_images(graph.shapes[graph.input], 3, seed)]
    rng = np.random.default_rng(seed)
    network = partition(quantised.graph)
    replicas = {p.name: Split(int(rng.integers(1, min(3, p.height) + 1)), "rows") for p in network.partitions}
    lowered = lower(network, Crossbar(20, 4), replicas)
    pipeline = lowered.pipeline
    streams = streams_of(pipeline)
    ticks = tuple(int(n) for n in rng.integers(1, 4, len(pipeline.stages)))
    pace = int(rng.choice([0, pipeline.input_iterations, 3 * pipeline.input_iterations]))
    edges, stages = len(pipeline.edges), len(pipeline.stages)
    cores = tuple(rng.integers(0, stages, stages).tolist() if seed % 2 else range(stages))
    unbounded = ScheduleParameters(ticks, pace_ticks=pace, cores=cores)
    fullest = run(lowered, images, unbounded).fullest
    least = tuple(max(1, s.minimum_capacity) for s in streams[:edges])
    between = tuple(int(rng.integers(low, high + 1)) for low, high in zip(least, map(max, least, fullest), strict=True))
    for capacities in ((0,) * edges, fullest, between):
        bounds = capacities + (0,) * (len(streams) - edges)
        setting = Setting(pipeline, streams, ticks, ((),) * len(streams), bounds, (), pace, cores)
        timing = simulate(setting, len(images), record_starts=True)
        machine = ScheduleParameters(ticks, capacities=capacities, pace_ticks=pace, cores=cores)
        if timing.deadlock is not None:
            with pytest.raises(StallError):
                run(lowered, images, machine)
            continue
        assert timing.starts is not None
        execution = run(lowered, images, machine)
        done = timing.finish_ticks[-1]  # the timing ends here; what no result waits for may still run
        starts = tuple(
            np.where((b == 0) & (a >= done), a, b) for a, b in zip(execution.starts, timing.starts, strict=True)
        )
        for mine, theirs in zip(execution.starts, starts, strict=True):
            np.testing.assert_array_equal(mine, theirs)
        again = replay(lowered, images, starts, machine)
        assert all(np.array_equal(a, b) for a, b in zip(again.outputs, execution.outputs, strict=True))
