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
from kilotune.experiments.benchmarks.cm_scale import hardware
from kilotune.experiments.problems.cm.networks import weightless
from kilotune.spaces.cm import arrangement
from kilotune.spaces.cm.annealing import AnnealedPlacement, Annealer
from kilotune.spaces.cm.arrangement import arranged, load_kernel, shared_ports
from kilotune.spaces.cm.baselines import snake_cores
from kilotune.spaces.cm.pacing import thinned_replicas
from kilotune.spaces.cm.replication import Replication
from kilotune.spaces.cm.sharing import Cores, StageNeeds
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
        runs = [arranged(streams, StageNeeds.unshared(len(start)), hardware, start, run) for run in range(3)]
        assert all(len(set(cores)) == stages for cores in runs)
        assert min(wirelength(streams, hardware, cores) for cores in runs) == least, seed


@needs_compiler
def test_streams_are_short_and_link_loads_lower_than_from_snake_order() -> None:
    space = CmSpace.of(integer_shape(weightless("squeezenet1.0")), load_hardware("mesh-16x16"))
    replicas = thinned_replicas(space.costs, space.flows, 1200.0, 900.0, Cores(space.hardware.cores))
    assert replicas is not None
    lowered, hardware = space.lowered(replicas), space.hardware
    streams, stages = lowered.streams, len(lowered.pipeline.stages)
    snake = snake_cores(hardware, stages)
    near = arranged(streams, StageNeeds.unshared(stages), hardware, snake, 0)
    assert near == arranged(streams, StageNeeds.unshared(stages), hardware, snake, 0)
    assert wirelength(streams, hardware, near) < 0.5 * wirelength(streams, hardware, snake)
    annealer = Annealer(streams, StageNeeds.unshared(stages), hardware)
    found = []
    for cores in (snake, near):
        start = AnnealedPlacement(cores, (0,) * len(streams), 1 << 60)
        placement = annealer.run(start, 1 << 60, 20_000, 1200, 1200, 0)
        assert placement is not None
        found.append(placement.ticks)
    assert found[1] < 0.9 * found[0]


def test_ports_have_as_much_to_send_and_neighbours_the_same_port() -> None:
    """The image goes to 8 replicas, and every two have a port. With the port that is nearest, three of four had nothing to send."""
    space = CmSpace.of(integer_shape(weightless("squeezenet1.0")), hardware("mesh-16x16", bits=False))
    first = space.shapes[0].name
    lowered = space.lowered({first: Replication(8, "columns")})
    ports, port = shared_ports(lowered.streams, space.hardware)
    read = [n for n, stream in enumerate(lowered.streams) if stream.writer == -1]
    assert [ports[port[n]] for n in read] == [0, 0, 15, 15, 255, 255, 240, 240], "around the mesh"
    written = [n for n, stream in enumerate(lowered.streams) if stream.reader == -1]
    assert {port[n] for n in written} <= set(range(4, 8)), "those that lead to GMEM"


@needs_compiler
def test_the_image_is_sent_through_all_ports() -> None:
    space = CmSpace.of(integer_shape(weightless("squeezenet1.0")), hardware("mesh-16x16", bits=False))
    lowered = space.lowered({shape.name: Replication(8, "columns") for shape in space.shapes[:5]})
    cores = arranged(
        lowered.streams, lowered.needs, space.hardware, snake_cores(space.hardware, len(lowered.pipeline.stages)), 0
    )
    corners = (0, 15, 240, 255)
    nearest = []
    for stream in lowered.streams:
        if stream.writer == -1:
            nearest.append(min(corners, key=lambda corner: space.tables.distance[corner, cores[stream.reader]]))
    assert len(nearest) == 8
    assert set(nearest) == set(corners)


def test_without_a_compiler_stages_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrangement, "load_kernel", lambda: None)
    assert arranged((), StageNeeds.unshared(3), load_hardware("ring-64"), (5, 3, 1), 0) == (5, 3, 1)
