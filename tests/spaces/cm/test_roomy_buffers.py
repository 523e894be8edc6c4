"""Buffers as large as the cores hold."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from kilotune.codegen.cm.hardware import Link, load_hardware
from kilotune.codegen.cm.mapping import sram_bytes
from kilotune.codegen.cm.topologies import torus
from kilotune.codegen.onnx.quantise import integer_shape
from kilotune.experiments.problems.cm.networks import weightless
from kilotune.spaces.cm import designer, joint, speeds
from kilotune.spaces.cm.buffers import ALL_OF_IT, MOST_ROOM
from kilotune.spaces.cm.space import CmSpace


@pytest.mark.parametrize(("name", "hardware"), [("resnet20", "mesh-8x8"), ("resnet20", "mesh-8x8-bits")])
def test_buffers_that_fill_a_core_fit_and_a_tick_more_does_not(name: str, hardware: str) -> None:
    space = CmSpace.of(integer_shape(weightless(name)), load_hardware(hardware))
    lowered = space.lowered({})
    stages, streams = lowered.pipeline.stages, lowered.streams
    mapping = space.mapping(space.candidate({}, range(len(stages)), buffer=ALL_OF_IT))
    pace = space.promised_ticks(lowered, mapping)
    none = space.capacities(lowered, mapping.cores, mapping.routes, {s.layer: 0 for s in stages})
    used = sram_bytes(streams, mapping.capacities, len(stages))
    assert max(used) <= space.hardware.sram_bytes
    filled = 0
    for s in range(len(stages)):
        own = [n for n in lowered.touching[s] if streams[n].reader == s]

        def with_room(ticks: int, own: list[int] = own, s: int = s) -> list[int]:
            packets = {n: none[n] - -ticks * streams[n].packets // pace for n in own}
            return [packets[n] for n in own] + [sum(-(-packets[n] * streams[n].cell_bits // 8) for n in own)]

        mine = [mapping.capacities[n] for n in own]
        fitting = [ticks for ticks in range(MOST_ROOM * pace + 2) if with_room(ticks)[:-1] == mine]
        assert fitting, "all buffers of a core have the same room, in ticks"
        if fitting[-1] < MOST_ROOM * pace:
            filled += 1
            assert with_room(fitting[-1] + 1)[-1] > space.hardware.sram_bytes
    assert filled > 5


def test_layers_whose_buffers_do_not_fit_get_more_replicas(monkeypatch: pytest.MonkeyPatch) -> None:
    """SqueezeNet's last pooling but one has no room on a torus with the fewest replicas that are fast enough: without more of them, all
    but the slowest replications were given up."""
    for module, name in ((joint, "FIRST_MOVES"), (designer, "FIRST_MOVES"), (joint, "LONG_MOVES")):
        monkeypatch.setattr(module, name, 3000)
    monkeypatch.setattr(speeds, "MOST_SPEEDS", 2)
    mesh = load_hardware("mesh-16x16")
    around = [Link(a, b, 64, 1) for a, b in torus(16, 16)]
    links = tuple(around + [link for link in mesh.links if mesh.gmem in (link.source, link.target)])
    space = CmSpace.of(integer_shape(weightless("squeezenet1.0")), dataclasses.replace(mesh, links=links))
    steps = itertools.islice(joint.joint_annealing(space, 0), 8)
    metrics = [space.measure(candidate).metrics for candidate in steps if candidate is not None]
    assert all(found["core_sram_bytes"] <= mesh.sram_bytes for found in metrics)
    once, *others = metrics
    assert max(found["cores"] for found in others) > max(90, once["cores"]), "the fastest replications take that many"


def test_a_search_with_little_memory_ends_with_what_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 2 KiB a core annealing makes of a ResNet-20 with replicas enough for its buffers, each time, one of longer ways whose buffers
    are too large: the search had that for its best design, and nothing that fits."""
    for module, name in ((joint, "FIRST_MOVES"), (designer, "FIRST_MOVES"), (joint, "LONG_MOVES")):
        monkeypatch.setattr(module, name, 3000)
    monkeypatch.setattr(speeds, "MOST_SPEEDS", 3)
    hardware = dataclasses.replace(load_hardware("mesh-8x8"), sram_bytes=2048)
    space = CmSpace.of(integer_shape(weightless("resnet20")), hardware)
    shown = (candidate for candidate in itertools.islice(joint.joint_annealing(space, 0), 6) if candidate is not None)
    assert any(space.measure(candidate).metrics["core_sram_bytes"] <= 2048 for candidate in shown)
