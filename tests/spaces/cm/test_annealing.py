"""Routes, link loads, and annealing: the compiled walk counts as Python does, and finds what brute force finds."""

from __future__ import annotations

import dataclasses
import itertools
from collections import deque

import numpy as np
import pytest

from kilotune.codegen.cm import routing
from kilotune.codegen.cm.blocks import Crossbar
from kilotune.codegen.cm.hardware import Hardware, Link, load_hardware
from kilotune.codegen.cm.lowering import lower
from kilotune.codegen.cm.mapping import node_of
from kilotune.codegen.cm.partition import partition
from kilotune.codegen.cm.routing import SHAPES, route_tables
from kilotune.codegen.cm.streams import streams_of
from kilotune.evaluators.cm.bound import link_loads, link_ticks
from kilotune.experiments.problems.cm.networks import chain
from kilotune.spaces.cm import annealing
from kilotune.spaces.cm.annealing import AnnealedPlacement, Annealer, load_kernel
from kilotune.spaces.cm.sharing import StageNeeds
from tests.spaces.cm.random_pipelines import random_pipeline, small_hardware

needs_compiler = pytest.mark.skipif(load_kernel() is None, reason="no C compiler")


def distances_from(hardware: Hardware, start: int) -> dict[int, int]:
    """Breadth first along the links; GMEM ends a path."""
    found, queue = {start: 0}, deque([start])
    while queue:
        node = queue.popleft()
        if node == hardware.gmem != start:
            continue
        for link in hardware.links:
            if link.source == node and link.target not in found:
                found[link.target] = found[node] + 1
                queue.append(link.target)
    return found


@pytest.mark.parametrize("name", ["mesh-8x8", "mesh-diagonal-8x8", "ring-64", "5pp-65", "all-to-all-64"])
def test_every_route_leads_to_its_goal_without_meeting_a_node_twice(name: str) -> None:
    hardware = load_hardware(name)
    tables = route_tables(hardware)
    longer = 0
    for start in range(0, hardware.cores + 1, 3):
        shortest = distances_from(hardware, start)
        for goal in range(hardware.cores + 1):
            if goal == start:
                continue
            assert tables.distance[start, goal] == shortest[goal]
            for shape in range(SHAPES):
                nodes = [start]
                for number in tables.route(start, goal, shape):
                    assert hardware.links[number].source == nodes[-1]
                    nodes.append(hardware.links[number].target)
                assert nodes[-1] == goal
                assert len(set(nodes)) == len(nodes)
                assert hardware.gmem not in nodes[1:-1]
                extra = len(nodes) - 1 - shortest[goal]
                assert extra == 0 if shape < 6 else 0 <= extra <= 2
                longer += extra > 0
    assert longer > 50


def test_the_first_two_shapes_on_a_mesh_bend_once_and_differ() -> None:
    hardware = load_hardware("mesh-8x8")
    tables = route_tables(hardware)
    for shape, second in ((0, 1), (1, 8)):
        steps = [hardware.links[k].target - hardware.links[k].source for k in tables.route(0, 27, shape)]
        assert steps[0] == second
        assert sorted(steps) == [1, 1, 1, 8, 8, 8]
        assert sum(a != b for a, b in itertools.pairwise(steps)) == 1


def test_other_shapes_from_gmem_begin_at_the_next_ports() -> None:
    """Shape 6 at the nearest port that is not nearest of all, 7 at the one after it; from there on they are shortest."""
    hardware = load_hardware("mesh-16x16")
    tables, ports, gmem = route_tables(hardware), (0, 15, 240, 255), hardware.gmem
    assert [k.target for k in hardware.links if k.source == gmem] == list(ports)
    for goal in range(hardware.cores):
        away = {port: distances_from(hardware, port)[goal] for port in ports}
        least = min(away.values())
        others = sorted((far, port) for port, far in away.items() if far > least)[:2]
        for shape in range(SHAPES):
            route = tables.route(gmem, goal, shape)
            nodes = [hardware.links[number].target for number in route]
            assert nodes[-1] == goal
            wanted = others[shape - 6] if 0 <= shape - 6 < len(others) else None
            assert len(route) == 1 + (least if wanted is None else wanted[0])
            assert nodes[0] == wanted[1] if wanted else away[nodes[0]] == least
            assert gmem not in nodes
            assert len(set(nodes)) == len(nodes)


def ticks_of(placement: AnnealedPlacement, streams, hardware: Hardware) -> int:  # type: ignore[no-untyped-def]
    tables = route_tables(hardware)
    routes = []
    for stream, shape in zip(streams, placement.shapes, strict=True):
        ends = (node_of(hardware, placement.cores, end) for end in (stream.writer, stream.reader))
        routes.append(tables.route(*ends, shape))
    return link_ticks(link_loads(streams, routes, hardware.links), hardware.links)


@needs_compiler
def test_the_compiled_walk_counts_links_as_python_does() -> None:
    for seed in range(40):
        rng = np.random.default_rng(seed)
        pipeline, hardware = random_pipeline(rng, int(rng.integers(2, 6))), small_hardware(rng)
        second_port = Link(hardware.gmem, hardware.cores - 1, 3, 1)
        hardware = dataclasses.replace(hardware, links=(*hardware.links, second_port))
        streams = streams_of(pipeline)
        cores = tuple(rng.permutation(hardware.cores)[: len(pipeline.stages)].tolist())
        shapes = tuple(rng.integers(0, SHAPES, len(streams)).tolist())
        annealer = Annealer(streams, StageNeeds.unshared(len(pipeline.stages)), hardware)
        start = annealer.run(AnnealedPlacement(cores, shapes, 0), 1 << 60, 0, 1, 1, 0)
        assert start is not None
        assert (start.cores, start.shapes) == (cores, shapes)
        assert start.ticks == ticks_of(start, streams, hardware)
        found = annealer.run(start, start.ticks, 3000, start.ticks - 1, 1, seed)
        if found is not None:  # after thousands of moves taken and taken back the loads are still right
            assert found.ticks < start.ticks
            assert found.ticks == ticks_of(found, streams, hardware)
            assert len(set(found.cores)) == len(found.cores)


@needs_compiler
def test_the_compiled_walk_follows_a_route_from_a_far_port_to_its_end() -> None:
    """From the port at core 240 to core 17, whose last link another stream takes as well: no link before it is as busy."""
    hardware = load_hardware("mesh-16x16")
    streams = streams_of(lower(partition(chain(3, 8)), Crossbar()).pipeline)
    annealer, found = Annealer(streams, StageNeeds.unshared(3), hardware), []
    for shape in (0, 7):
        start = annealer.run(AnnealedPlacement((17, 33, 1), (shape, 0, 0, 0), 0), 1 << 60, 0, 1, 1, 0)
        assert start is not None
        assert start.ticks == ticks_of(start, streams, hardware)
        found.append(start.ticks)
    assert found[1] > found[0]


@needs_compiler
def test_annealing_finds_the_optimum_of_small_problems() -> None:
    for seed in range(12):
        rng = np.random.default_rng(seed + 100)
        pipeline, hardware = random_pipeline(rng, 3), small_hardware(rng)
        streams, tables = streams_of(pipeline), route_tables(hardware)
        best = 1 << 60
        for cores in itertools.permutations(range(hardware.cores), 3):
            ends = [[node_of(hardware, cores, end) for end in (s.writer, s.reader)] for s in streams]
            choices = [tables.alternatives(*pair) for pair in ends]
            for routes in itertools.product(*choices):
                best = min(best, link_ticks(link_loads(streams, routes, hardware.links), hardware.links))
            if best == 1:
                break
        annealer = Annealer(streams, StageNeeds.unshared(3), hardware)
        placement = annealer.run(AnnealedPlacement((0, 1, 2), (0,) * len(streams), 0), 1 << 60, 0, 1, 1, 0)
        for run in range(6):
            assert placement is not None
            placement = annealer.run(placement, placement.ticks, 20_000, placement.ticks - 1, 1, run) or placement
        assert placement is not None
        assert placement.ticks == best, seed


@needs_compiler
def test_strict_annealing_puts_a_chain_on_linked_cores() -> None:
    pipeline, hardware = lower(partition(chain(40, 8)), Crossbar()).pipeline, load_hardware("mesh-8x8")
    streams = streams_of(pipeline)
    annealer = Annealer(streams, StageNeeds.unshared(40), hardware, strict=True)
    start = AnnealedPlacement(
        tuple(np.random.default_rng(0).permutation(64)[:40].tolist()), (0,) * len(streams), 1 << 60
    )
    found = annealer.run(start, 1 << 60, 1_500_000, 1 << 20, 1, 0)
    assert found is not None
    distance = route_tables(hardware).distance
    assert all(distance[a, b] == 1 for a, b in itertools.pairwise(found.cores))


@needs_compiler
def test_a_walk_is_the_same_by_tables_of_either_size(monkeypatch: pytest.MonkeyPatch) -> None:
    hardware, walks = load_hardware("mesh-8x8"), []
    pipeline = lower(partition(chain(20, 12)), Crossbar()).pipeline
    streams, ticks = streams_of(pipeline, hardware), tuple(s.iterations for s in pipeline.stages)
    stages = len(ticks)
    start = AnnealedPlacement(tuple(range(stages)), (0,) * len(streams), 1 << 60)
    for narrow in (routing.NARROW_LINKS, 0):
        monkeypatch.setattr(routing, "NARROW_LINKS", narrow)
        tables = route_tables.__wrapped__(hardware)
        assert tables.is_wide == (narrow == 0)
        monkeypatch.setattr(annealing, "route_tables", lambda _, tables=tables: tables)
        needs = StageNeeds((0,) * stages, (0,) * stages, ticks)
        walks.append(Annealer(streams, needs, hardware).run(start, 1 << 60, 20_000, 300, 10, 1))
    assert walks[0] is not None
    assert walks[0].cores != start.cores
    assert len(set(walks[0].shapes)) > 6
    assert walks[0] == walks[1]
