"""Mutations: what a control unit or a buffer that is slightly wrong does must not go unnoticed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from kilotune.codegen.cm.blocks import Crossbar
from kilotune.codegen.cm.lcu import StateMachine
from kilotune.codegen.cm.lowering import lower
from kilotune.codegen.cm.partition import partition
from kilotune.codegen.cm.pipeline import GMEM
from kilotune.codegen.cm.programs import LoweredNetwork
from kilotune.codegen.cm.streams import streams_of
from kilotune.codegen.onnx.importing import import_model
from kilotune.codegen.onnx.quantise import quantise, random_images
from kilotune.evaluators.cm.cells import CircularBuffer, DataHazardError
from kilotune.evaluators.cm.functional import ScheduleParameters, StallError, replay, run
from kilotune.experiments.models.onnx_networks import lenet5, resnet20

pytestmark = pytest.mark.slow

NETWORKS = {"lenet5": lenet5, "resnet20": lambda: resnet20(0, 4, 8)}


@cache
def prepared(name: str) -> tuple[LoweredNetwork, list[Any]]:
    graph = import_model(NETWORKS[name](), name)
    quantised = quantise(graph, random_images(graph.shapes[graph.input], 1, 0))
    images = [quantised.image(image) for image in random_images(graph.shapes[graph.input], 3, 5)]
    return lower(partition(quantised.graph), Crossbar()), images


def least_capacities(name: str) -> tuple[int, ...]:
    """What each edge needs by itself on a chain; on branches, what an unhindered stream occupies."""
    lowered, images = prepared(name)
    if name == "lenet5":
        return tuple(edge.minimum_capacity for edge in lowered.pipeline.edges)
    return run(lowered, images, ScheduleParameters(pace_ticks=64)).fullest


@pytest.mark.parametrize("name", NETWORKS)
def test_least_buffers_are_enough(name: str) -> None:
    lowered, images = prepared(name)
    free = run(lowered, images)
    tight = run(lowered, images, ScheduleParameters(capacities=least_capacities(name)))
    assert all(np.array_equal(a, b) for a, b in zip(free.outputs, tight.outputs, strict=True))
    assert tight.fullest <= least_capacities(name)


def test_buffers_that_are_known_to_be_one_pixel_smaller_stop_a_chain() -> None:
    lowered, images = prepared("lenet5")
    least = least_capacities("lenet5")
    for number, capacity in enumerate(least):
        if capacity > 1:
            shorter = tuple(c - (n == number) for n, c in enumerate(least))
            with pytest.raises(StallError, match=r"stopped at image 0|finds no room|waits for"):
                run(lowered, images, ScheduleParameters(capacities=shorter))


def shortened(lowered: LoweredNetwork, victim: int) -> Callable[..., None]:
    """A buffer constructor whose `victim` has one cell less than its reader needs, which its writer does not know."""
    original, made = CircularBuffer.__init__, []
    streams = streams_of(lowered.pipeline)

    def constructed(self: CircularBuffer, *arguments: Any) -> None:
        original(self, *arguments)
        if len(made) == victim:
            self.size = streams[victim].minimum_capacity - 1
        made.append(self)

    return constructed


@pytest.mark.parametrize("name", NETWORKS)
def test_a_buffer_one_pixel_short_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lowered, images = prepared(name)
    least = least_capacities(name)
    for number, stream in enumerate(streams_of(lowered.pipeline)[: len(least)]):
        if stream.minimum_capacity < 2:
            continue
        assert name != "lenet5" or stream.minimum_capacity == least[number]
        monkeypatch.setattr(CircularBuffer, "__init__", shortened(lowered, number))
        with pytest.raises(DataHazardError, match="overwritten before its last read") as error:
            run(lowered, images, ScheduleParameters(capacities=least))
        monkeypatch.undo()
        assert error.value.stage == lowered.pipeline.stages[lowered.pipeline.edges[number].reader].name


def mutated(
    lowered: LoweredNetwork, change: Callable[[StateMachine, Any], StateMachine]
) -> Callable[[Any], StateMachine]:
    from kilotune.codegen.cm import lcu

    return lambda reading: change(lcu.state_machine(reading), reading)


def released_one_iteration_early(machine: StateMachine, reading: Any) -> StateMachine:
    """Each iteration gives back what only the one after it does without."""

    def keeps(oh: int, ow: int) -> tuple[int, int] | None:
        j = reading.reader.rank(oh, ow)
        return machine.keeps(*reading.reader.pixel(min(j + 1, reading.reader.size - 1)))

    return dataclasses.replace(machine, keeps=keeps)


def allowed_one_iteration_early(machine: StateMachine, reading: Any) -> StateMachine:
    """Each write allows one iteration more than S says."""

    def written(h: int, w: int) -> tuple[int, int] | None:
        reached = machine.written(h, w)
        if reached is None:
            return None
        return reading.reader.pixel(min(reading.reader.rank(*reached) + 1, reading.reader.size - 1))  # type: ignore[no-any-return]

    return dataclasses.replace(machine, written=written)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_release_one_iteration_early_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lowered, images = prepared(name)
    machine = ScheduleParameters(capacities=least_capacities(name))
    monkeypatch.setattr(
        "kilotune.evaluators.cm.functional.state_machine", mutated(lowered, released_one_iteration_early)
    )
    with pytest.raises(DataHazardError, match="overwritten before its last read"):
        run(lowered, images, machine)


@pytest.mark.parametrize("name", NETWORKS)
def test_an_iteration_allowed_early_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lowered, images = prepared(name)
    monkeypatch.setattr(
        "kilotune.evaluators.cm.functional.state_machine", mutated(lowered, allowed_one_iteration_early)
    )
    with pytest.raises(DataHazardError, match="read before its write"):
        run(lowered, images, ScheduleParameters(pace_ticks=1024))


@pytest.mark.parametrize("name", NETWORKS)
def test_a_schedule_one_tick_early_is_noticed(name: str) -> None:
    """Every start of the earliest schedule is needed: any stage's starts, one tick earlier, break a control unit's word."""
    lowered, images = prepared(name)
    machine = ScheduleParameters(pace_ticks=1024)
    starts = run(lowered, images, machine).starts
    assert replay(lowered, images, starts, machine).starts[0].tolist() == starts[0].tolist()
    for stage in range(len(starts)):
        if all(e.writer == GMEM for e in lowered.pipeline.edges if e.reader == stage):
            continue
        early = tuple(ticks - (number == stage) for number, ticks in enumerate(starts))
        with pytest.raises(DataHazardError) as error:
            replay(lowered, images, early, machine)
        assert error.value.stage == lowered.pipeline.stages[stage].name


def test_hazards_survive_pickling() -> None:
    import pickle

    hazard = DataHazardError("conv", 1, 2, 3, "read before its write: it holds nothing yet where packet 4 is wanted")
    again = pickle.loads(pickle.dumps(hazard))
    assert (str(again), again.cell) == (str(hazard), 3)
