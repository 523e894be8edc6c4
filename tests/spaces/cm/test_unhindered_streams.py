"""Streams in which nothing waits for room: the same with any buffers that hold as much, so that nobody need simulate them again."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pytest

from kilotune.codegen.cm.hardware import load_hardware
from kilotune.codegen.onnx.quantise import integer_shape
from kilotune.evaluators.cm.followed_stream import FollowedStream
from kilotune.evaluators.cm.occupancy import held_packets, held_with_room
from kilotune.evaluators.cm.stream import Setting, StreamTiming
from kilotune.evaluators.cm.timing import load_timing, simulate
from kilotune.experiments.problems.cm.networks import weightless
from kilotune.search.space import Option
from kilotune.spaces.cm.space import CmSpace
from tests.spaces.cm.random_pipelines import random_setting

pytestmark = pytest.mark.skipif(load_timing() is None, reason="no C compiler")

IMAGES = 4


def streamed(setting: Setting, capacities: tuple[int, ...]) -> StreamTiming:
    return simulate(dataclasses.replace(setting, capacities=capacities), IMAGES, record_starts=True)


def starts(timing: StreamTiming) -> list[list[int]]:
    assert timing.starts is not None
    return [stage.tolist() for stage in timing.starts]


def test_buffers_of_what_was_held_change_no_tick_and_with_a_packet_less_something_waits() -> None:
    waiting = shared = 0
    for seed in range(120):
        setting = random_setting(seed)
        free = streamed(setting, (0,) * len(setting.streams))
        assert free.held is not None, seed
        assert free.starts is not None, seed
        by_starts = held_packets(setting.pipeline, setting.streams, setting.ticks, free.starts, setting.pace_ticks)
        assert held_with_room(setting.streams, free.held) == by_starts, seed
        same = streamed(setting, free.held)
        assert starts(same) == starts(free), seed
        is_shared = len(setting.sharing) < len(setting.ticks)
        # On a shared core a stage may lack room while another one has its turn: whether that hinders is not known.
        assert same.held == free.held or (is_shared and same.held is None), seed
        assert same.finish_ticks.tolist() == free.finish_ticks.tolist(), seed
        shared += is_shared
        tight = [
            number for number, packets in enumerate(free.held) if packets > 1 and setting.streams[number].reader >= 0
        ]
        for number in tight[:3]:
            less = tuple(packets - (n == number) for n, packets in enumerate(free.held))
            assert streamed(setting, less).held is None, seed
            waiting += 1
        bounded = simulate(setting, IMAGES, record_starts=True)
        if bounded.held is not None:
            assert (starts(bounded), bounded.held) == (starts(free), free.held), seed
    assert min(waiting, shared) > 15


def told(timing: StreamTiming, images: int) -> tuple[object, ...]:
    return timing.finish_ticks[:images].tolist(), timing.held, timing.deadlock


def test_what_a_stream_and_its_first_images_alone_hold_is_simulated_together_as_far_as_they_are_one() -> None:
    apart = bounded = endless = 0
    for seed in range(60):
        for room in (False, True):
            setting = random_setting(seed)
            if not room:
                setting = dataclasses.replace(setting, capacities=(0,) * len(setting.streams))
            followed = FollowedStream.of(setting, 9, 7)
            assert followed is not None
            held, alone = followed.held(IMAGES), simulate(setting, IMAGES)
            found = followed.all()
            if held != alone.held:  # the state has come back before that
                assert held is not None, seed
                later = simulate(setting, 40, wanted=30).held
                assert later is not None, seed
                assert held_with_room(setting.streams, held) == held_with_room(setting.streams, later), seed
                endless += 1
            assert told(found, 7) == told(simulate(setting, 9, settle=True, wanted=7), 7), seed
            apart += bool(found.finish_ticks[IMAGES - 1] != alone.finish_ticks[-1])
            bounded += found.held is None
    assert endless > 3
    assert apart > 5
    assert bounded > 15


def test_a_candidate_whose_buffers_hinder_nothing_measures_what_a_simulation_of_its_own_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    network, hardware = integer_shape(weightless("resnet20")), load_hardware("mesh-8x8-16")
    space, simulated = CmSpace.of(network, hardware), 0
    plain = CmSpace.simulate

    def counted(space: CmSpace, *of: object, **named: object) -> object:
        nonlocal simulated
        simulated += 1
        return plain(space, *of, **named)  # type: ignore[arg-type]

    def measured(space: CmSpace, buffer: Option) -> Mapping[str, float]:
        stages = len(space.lowered({}).pipeline.stages)
        return space.measure(space.candidate({}, range(stages), buffer=buffer)).metrics

    monkeypatch.setattr(CmSpace, "simulate", counted)
    asked = {}
    for buffer in ("held", "all", 0, 0):
        before, found = simulated, measured(space, buffer)
        asked[buffer] = asked.get(buffer, 0) + simulated - before
        assert found == measured(CmSpace.of(network, hardware), buffer), buffer
    assert asked["held"] == 1  # one image; what streams hold and many are simulated together
    assert asked["all"] == 0
    assert asked[0] == 2  # they hold things up; once
