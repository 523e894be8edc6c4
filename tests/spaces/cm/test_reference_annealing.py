"""Annealing without a C compiler: the placements are what they say, and better than where the walk began."""

from __future__ import annotations

import pytest

from kilotune.codegen.cm.blocks import Crossbar
from kilotune.codegen.cm.hardware import load_hardware
from kilotune.codegen.cm.lowering import lower
from kilotune.codegen.cm.mapping import node_of
from kilotune.codegen.cm.partition import partition
from kilotune.codegen.cm.streams import streams_of
from kilotune.evaluators.cm import timing
from kilotune.evaluators.cm.bound import link_loads, link_ticks
from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.experiments.problems.cm.networks import chain, weightless
from kilotune.search.budget import Budget
from kilotune.search.study import Study
from kilotune.spaces.cm import annealing
from kilotune.spaces.cm.annealing import AnnealedPlacement, Annealer
from kilotune.spaces.cm.baselines import snake_cores
from kilotune.spaces.cm.sharing import StageNeeds
from kilotune.spaces.cm.space import CmSpace


@pytest.fixture(autouse=True)
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(annealing, "load_kernel", lambda: None)
    monkeypatch.setattr(timing, "load_timing", lambda: None)


@pytest.mark.parametrize("strict", [False, True])
def test_a_walk_s_ticks_are_those_of_its_routes(strict: bool) -> None:
    hardware = load_hardware("mesh-8x8-16")
    graph = chain(6, 8) if strict else weightless("resnet20")
    pipeline = lower(partition(graph), Crossbar()).pipeline
    streams, stages = streams_of(pipeline), len(pipeline.stages)
    annealer = Annealer(streams, StageNeeds.unshared(stages), hardware, strict)
    scattered = tuple(range(0, 64, 9))[:stages] if strict else snake_cores(hardware, stages)
    start = AnnealedPlacement(scattered, (0,) * len(streams), 1 << 60)
    target = 1_000 if strict else 1_800
    found = annealer.run(start, 2_048, 400_000, target, 64, seed=3)
    assert found is not None
    assert found.ticks < 2_048
    assert len(set(found.cores)) == stages
    routes = []
    for stream, shape in zip(streams, found.shapes, strict=True):
        start_node, goal = (node_of(hardware, found.cores, end) for end in (stream.writer, stream.reader))
        routes.append(annealer.tables.route(start_node, goal, shape))
        inside = -1 not in (stream.writer, stream.reader)
        assert not strict or not inside or len(routes[-1]) == 1
    assert found.ticks == link_ticks(link_loads(streams, routes, hardware.links), hardware.links)
    assert found == annealer.run(start, 2_048, 400_000, target, 64, seed=3)


def test_the_default_strategy_maps_a_network() -> None:
    """It was refused: exit status 4."""
    study = Study(CmSpace.of(chain(3, 8), load_hardware("ring-64")), "anneal")
    result = study.run(InProcessExecutor(study.space), Budget(trials=2))
    assert result.feasible
