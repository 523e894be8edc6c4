"""First placements: the least wirelength that brute force finds, and what annealing link loads gains from them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from kilotune.codegen.cm.hardware import Hardware, load_hardware
from kilotune.codegen.cm.mapping import node_of
from kilotune.codegen.cm.routing import route_tables
from kilotune.codegen.cm.streams import Stream, streams_of
from kilotune.codegen.onnx.quantise import integer_shape
from kilotune.experiments.problems.cm.networks import weightless
from kilotune.spaces.cm import arrangement
from kilotune.spaces.cm.annealing import AnnealedPlacement, Annealer
from kilotune.spaces.cm.arrangement import arranged, load_kernel
from kilotune.spaces.cm.baselines import snake_cores
from kilotune.spaces.cm.pacing import thinned_replicas
from kilotune.spaces.cm.space import CmSpace
from tests.spaces.cm.random_pipelines import random_pipeline, small_hardware

needs_compiler = pytest.mark.skipif(load_kernel() is None, reason="no C compiler")


def wirelength(streams: Sequence[Stream], hardware: Hardware, cores: Sequence[int]) -> int:
    distance = route_tables(hardware).distance
    ends = ([node_of(hardware, cores, end) for end in (s.writer, s.reader)] for s in streams)
    return sum(s.image_load * int(distance[start, goal]) for s, (start, goal) in zip(streams, ends, strict=True))


@needs_compiler
def test_the_least_wirelength_of_small_problems_is_found() -> None:
    for seed in range(30):
        rng = np.random.default_rng(seed)
        pipeline, hardware = random_pipeline(rng, int(rng.integers(1, 6))), small_hardware(rng)
        streams, stages = streams_of(pipeline), len(pipeline.stages)
        orders = itertools.permutations(range(hardware.cores), stages)
        least = min(wirelength(streams, hardware, cores) for cores in orders)
        start = rng.permutation(hardware.cores)[:stages].tolist()
        runs = [arranged(streams, hardware, start, run) for run in range(3)]
        assert all(len(set(cores)) == stages for cores in runs)
        assert min(wirelength(streams, hardware, cores) for cores in runs) == least, seed


@needs_compiler
def test_streams_are_short_and_link_loads_lower_than_from_snake_order() -> None:
    space = CmSpace.of(integer_shape(weightless("squeezenet1.0")), load_hardware("mesh-16x16"))
    replicas = thinned_replicas(space.costs, space.flows, 1200.0, 900.0, space.hardware.cores)
    assert replicas is not None
    lowered, hardware = space.lowered(replicas), space.hardware
    streams, stages = lowered.streams, len(lowered.pipeline.stages)
    snake = snake_cores(hardware, stages)
    near = arranged(streams, hardware, snake, 0)
    assert near == arranged(streams, hardware, snake, 0)
    assert wirelength(streams, hardware, near) < 0.4 * wirelength(streams, hardware, snake)
    annealer = Annealer(streams, stages, hardware)
    found = []
    for cores in (snake, near):
        start = AnnealedPlacement(cores, (0,) * len(streams), 1 << 60)
        placement = annealer.run(start, 1 << 60, 20_000, 1200, 1200, 0)
        assert placement is not None
        found.append(placement.ticks)
    assert found[1] < 0.9 * found[0]


def test_without_a_compiler_stages_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrangement, "load_kernel", lambda: None)
    assert arranged((), load_hardware("ring-64"), (5, 3, 1), 0) == (5, 3, 1)
