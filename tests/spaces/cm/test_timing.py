"""Fidelity B: the compiled simulator, its definition, the recurrence, and what is known of uniform chains."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from kilotune.codegen.cm.blocks import Crossbar
from kilotune.codegen.cm.lowering import lower
from kilotune.codegen.cm.partition import partition
from kilotune.codegen.cm.pipeline import GMEM, Edge, Pipeline, Stage
from kilotune.codegen.cm.streams import streams_of
from kilotune.codegen.onnx.graph import Graph
from kilotune.evaluators.cm.occupancy import occupancies
from kilotune.evaluators.cm.recurrence import schedule
from kilotune.evaluators.cm.reference_timing import simulate_reference
from kilotune.evaluators.cm.stream import Setting
from kilotune.evaluators.cm.timing import simulate
from kilotune.experiments.problems.cm.networks import chain, topology_of, weightless
from tests.spaces.cm.random_pipelines import random_setting

ONE_CORE_A_LAYER = Crossbar(1 << 20, 1 << 20)
SETTINGS = range(500)


@pytest.mark.slow
def test_the_compiled_simulator_equals_the_plain_one_tick_for_tick_deadlocks_included() -> None:
    kinds = {"deadlock": 0, "mapped": 0, "late": 0, "shared": 0}
    for seed in SETTINGS:
        setting = random_setting(seed)
        fast, plain = simulate(setting, 3, record_starts=True), simulate_reference(setting, 3)
        assert fast.finish_ticks.tolist() == plain.finish_ticks.tolist(), seed
        assert fast.starts is not None
        assert plain.starts is not None
        for mine, yours in zip(fast.starts, plain.starts, strict=True):
            assert mine.tolist() == yours.tolist(), seed
        assert fast.deadlock == plain.deadlock, seed
        kinds["deadlock"] += fast.deadlock is not None
        kinds["mapped"] += any(setting.routes)
        if fast.deadlock is None:
            apart = simulate(dataclasses.replace(setting, cores=()), 3)
            kinds["shared"] += bool((apart.finish_ticks < fast.finish_ticks).any())
            alone = simulate(dataclasses.replace(setting, routes=((),) * len(setting.streams)), 3)
            kinds["late"] += bool((alone.finish_ticks < fast.finish_ticks).any())
    assert min(kinds.values()) > 15, kinds  # the settings are worth the comparison


def test_without_links_and_limits_the_simulator_equals_the_recurrence() -> None:
    for seed in range(60):
        setting = random_setting(seed)
        free = Setting.unmapped(setting.pipeline, setting.streams, setting.ticks)
        free = dataclasses.replace(free, pace_ticks=setting.pace_ticks)
        simulated = simulate(free, 3, record_starts=True)
        computed = schedule(setting.pipeline, setting.ticks, images=3, pace_ticks=setting.pace_ticks)
        assert simulated.starts is not None
        end = computed.finish_ticks[-1]
        for mine, yours in zip(simulated.starts, computed.starts, strict=True):
            # the simulator stops when the last result is out: what no result needs may come later, or not at all
            assert np.where(yours <= end, mine, yours).tolist() == yours.tolist(), seed
        assert simulated.finish_ticks.tolist() == computed.finish_ticks.tolist()


@pytest.mark.parametrize(("length", "width"), [(2, 8), (3, 16), (5, 32)])
def test_a_uniform_chain_takes_its_bottleneck_its_fill_and_one_tick(length: int, width: int) -> None:
    pipeline = lower(partition(chain(length, width)), Crossbar()).pipeline
    setting = Setting.unmapped(pipeline, streams_of(pipeline), [1] * length)
    # facts of the paper's model: the fill of a same-padded 3x3 stage is width + 2, the first stage has none
    finish = simulate(setting, 2).finish_ticks.tolist()
    assert finish[0] == width * width + (length - 1) * (width + 2)
    assert finish[1] - finish[0] == width * width
    # that counts from tick 0; to a clock that reads 1 during the first tick, one more
    assert finish[0] + 1 == width * width + (length - 1) * (width + 2) + 1


def finish_ticks(graph: Graph) -> list[int]:
    """Of two images, a tick an iteration, links and buffers without limits."""
    pipeline = lower(partition(graph), ONE_CORE_A_LAYER).pipeline
    setting = Setting.unmapped(pipeline, streams_of(pipeline), [1] * len(pipeline.stages))
    return simulate(setting, 2).finish_ticks.tolist()


@pytest.mark.parametrize(
    ("name", "last", "bottleneck", "latency"),
    [("resnet20", "relu2.2", 1024, 1370), ("vgg16", "conv4.2.relu", 50176, 50946)],
)
def test_the_ticks_of_convolutions_alone_are_those_measured_elsewhere(
    name: str, last: str, bottleneck: int, latency: int
) -> None:
    """Facts that another program measured of the layers up to the last convolution."""
    finish = finish_ticks(topology_of(name)[0].graph(last))
    assert finish == [latency, latency + bottleneck]


@pytest.mark.parametrize(
    ("name", "bottleneck", "last_convolution", "tail"),
    [("resnet20", 1024, "relu2.2", 2), ("resnet18", 12544, "relu3.1", 2), ("vgg16", 50176, "conv4.2.relu", 4)],
)
def test_a_classifier_waits_for_the_last_pixel_and_adds_an_iteration_a_layer(
    name: str, bottleneck: int, last_convolution: str, tail: int
) -> None:
    trunk, whole = finish_ticks(topology_of(name)[0].graph(last_convolution)), finish_ticks(weightless(name))
    assert whole[0] == trunk[0] + tail  # global pool and fully connected; VGG-16: last pool and three of them
    assert whole[1] - whole[0] == trunk[1] - trunk[0] == bottleneck


def residual(capacity: int) -> Setting:
    """a -> b -> c and a -> c, where b starts late: c must keep what comes from a meanwhile."""
    stages = tuple(Stage(name, name, 8, 1, 1, 1, 1) for name in "abc")
    one_by_one = np.arange(1, 9, dtype=np.int32)
    late = np.minimum(one_by_one + 3, 8).astype(np.int32)
    edges = (
        Edge(GMEM, 0, one_by_one, one_by_one, 1),
        Edge(0, 1, late, one_by_one, 1),
        Edge(1, 2, one_by_one, one_by_one, 1),
        Edge(0, 2, one_by_one, one_by_one, 1),
    )
    pipeline = Pipeline("residual", stages, edges, 8, 1, (2,))
    streams = streams_of(pipeline)
    setting = Setting.unmapped(pipeline, streams, (1, 1, 1))
    return dataclasses.replace(setting, capacities=(0, 0, 0, capacity, 0))


def test_a_deadlock_names_the_edge_whose_buffer_is_too_small() -> None:
    stuck = simulate(residual(3), 1)
    assert stuck.deadlock is not None
    assert stuck.deadlock.stream == 3
    assert set(stuck.deadlock.stages) == {0, 1, 2}
    assert "a -> c is full with 3 packets of 1 elements" in stuck.deadlock.sentence
    assert stuck.finish_ticks.tolist() == [0]
    assert simulate(residual(4), 1).deadlock is None


def test_a_buffer_as_large_as_what_it_holds_slows_nothing_down_and_one_packet_less_does() -> None:
    pipeline = lower(partition(weightless("resnet20")), Crossbar()).pipeline
    streams, ticks = streams_of(pipeline), (1,) * len(pipeline.stages)
    free = dataclasses.replace(Setting.unmapped(pipeline, streams, ticks), pace_ticks=1024)
    room = occupancies(pipeline, streams, ticks, [1] * len(streams), 1024)
    best = simulate(free, 3).finish_ticks.tolist()
    assert simulate(dataclasses.replace(free, capacities=room), 3).finish_ticks.tolist() == best
    slower = 0
    for number, stream in enumerate(streams):
        if stream.reader != GMEM and room[number] > 1:
            tight = (*room[:number], room[number] - 1, *room[number + 1 :])
            timing = simulate(dataclasses.replace(free, capacities=tight), 2, record_starts=True)
            whole = simulate(free, 2, record_starts=True)
            assert timing.starts is not None
            assert whole.starts is not None
            slower += timing.deadlock is not None or any(
                (a != b).any() for a, b in zip(timing.starts, whole.starts, strict=True)
            )
    assert slower > len(streams) // 2
