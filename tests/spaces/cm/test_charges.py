"""What an accelerator charges when it counts bits: packets, buffers, products and energy, against figures by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from kilotune.codegen.cm import hardware as hardware_module
from kilotune.codegen.cm.energy import EnergyTable
from kilotune.codegen.cm.hardware import Hardware, load_hardware, parse_hardware
from kilotune.codegen.onnx.importing import import_model
from kilotune.codegen.onnx.quantise import integer_shape, quantise, random_images
from kilotune.evaluators.cm.reference_timing import simulate_reference
from kilotune.evaluators.cm.stream import Setting
from kilotune.evaluators.cm.timing import simulate
from kilotune.experiments.problems.cm.networks import weightless
from kilotune.spaces.cm.space import CmSpace
from tests.codegen.cm.networks import model

FILES = Path(hardware_module.__file__).parent / "hardware_files"


def described(name: str, **changes: dict[str, Any]) -> Hardware:
    found = json.loads((FILES / f"{name}.json").read_text())
    for key, value in changes.items():
        found[key] = {**found.get(key, {}), **value}
    return parse_hardware(found, f"{name}.json")


def two_blocks(hardware: Hardware) -> CmSpace:
    """A convolution of 6 * 9 = 54 rows in a crossbar of 32: two row blocks of 27, and 10 scores from 4 x 4 pixels."""
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Conv", ["r", "k"], ["a"], pads=[1] * 4),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "d"], ["y"]),
    ]
    weights = np.random.default_rng(0).normal(size=(8, 6, 3, 3)).astype(np.float32)
    dense = np.random.default_rng(1).normal(size=(10, 8, 1, 1)).astype(np.float32)
    graph = import_model(model(nodes, [1, 6, 4, 4], {"k": weights, "d": dense}), "net")
    return CmSpace.of(quantise(graph, random_images((6, 4, 4), 2, 0)).graph, hardware)


def small(crossbar: dict[str, Any] | None = None, **changes: dict[str, Any]) -> Hardware:
    return described("mesh-8x8-bits", crossbar={"rows": 32, "columns": 32, **(crossbar or {})}, **changes)


def test_packets_have_the_bits_of_what_they_hold() -> None:
    once = two_blocks(small()).lowered({})
    names = [stage.name for stage in once.pipeline.stages]
    loads = {(s.writer, s.reader): (s.elements, s.load, s.cell_bits) for s in once.streams}
    first, last = names.index("a/0,0"), names.index("a/1,0")
    sums = 7 + 8 + 5  # 27 products of 127 (what the Relu leaves of a signed image) times 127, and a sign
    assert loads[first, last] == (8, 8 * sums, 8 * sums)
    assert 27 * 127 * 127 < 2 ** (sums - 1) <= 2 * 32 * 127 * 127
    assert loads[-1, names.index("r")] == (6, 6 * 8, 6 * 8), "pixels"
    assert loads[last, names.index("y")] == (8, 8 * 8, 8 * 8), "behind a Relu: 8 bits without a sign"
    assert loads[names.index("y"), -1] == (10, 10 * 16, 10 * 16), "the network's output"


def test_elements_are_one_each_as_in_the_paper() -> None:
    once = two_blocks(described("mesh-8x8", crossbar={"rows": 32, "columns": 32})).lowered({})
    assert all((s.load, s.cell_bits) == (s.elements, 8 * s.elements) for s in once.streams)


def test_buffers_take_the_bytes_of_their_bits() -> None:
    space = two_blocks(small())
    stages = len(space.lowered({}).pipeline.stages)
    candidate = space.candidate({}, range(stages), buffer=0)
    lowered, mapping = space.lowered({}), space.mapping(candidate)
    expected = [0] * stages
    for stream, packets in zip(lowered.streams, mapping.capacities, strict=True):
        if stream.reader >= 0:
            expected[stream.reader] += int(np.ceil((packets or stream.packets) * stream.load / 8))
    metrics = space.measure(candidate).metrics
    assert (metrics["sram_bytes"], metrics["core_sram_bytes"]) == (sum(expected), max(expected))


def test_partial_sums_slow_resnet20_down() -> None:
    """The last layers' partial sums: 64 pixels of 64 channels, of 23 bits of 192 signed or 24 of unsigned products, over a link of 256
    bits (32 elements, of which the paper's charging takes any to be one)."""
    graph = integer_shape(weightless("resnet20"))
    assert CmSpace.of(graph, load_hardware("mesh-8x8")).least_ticks == 256
    assert CmSpace.of(graph, load_hardware("mesh-8x8-bits")).least_ticks == 64 * 64 * 24 // 256 == 384


def test_studies_with_the_papers_charging_go_on() -> None:
    """The fingerprint of before there was any other."""
    space = CmSpace.of(integer_shape(weightless("resnet20")), load_hardware("mesh-8x8"))
    assert space.fingerprint == "c73388c9afb90ff5623aab2179cd0a08"
    other = CmSpace.of(integer_shape(weightless("resnet20")), load_hardware("mesh-8x8-bits"))
    assert other.fingerprint != space.fingerprint


@pytest.mark.parametrize("width", [16, 50, 256])
def test_wide_packets_cross_narrow_links_as_the_definition_says(width: int) -> None:
    hardware = small(link={"bits_per_tick": width}, gmem={"bits_per_tick": width})
    space = two_blocks(hardware)
    candidate = space.candidate({}, [9, 3, 30, 14, 60][: len(space.lowered({}).pipeline.stages)])
    lowered, mapping = space.lowered({}), space.mapping(candidate)
    setting = Setting(
        lowered.pipeline,
        lowered.streams,
        lowered.ticks,
        mapping.routes,
        mapping.capacities,
        hardware.links,
        space.promised_ticks(lowered, mapping),
    )
    found, expected = simulate(setting, 4, record_starts=True), simulate_reference(setting, 4)
    np.testing.assert_array_equal(found.finish_ticks, expected.finish_ticks)
    assert found.starts is not None
    assert expected.starts is not None
    for one, other in zip(found.starts, expected.starts, strict=True):
        np.testing.assert_array_equal(one, other)
    slowest = max(-(-s.image_load // width) for s in lowered.streams)
    assert space.measure(candidate).metrics["ticks_per_image"] >= slowest


def test_energy_by_hand() -> None:
    """Each component priced alone, at 1000 pJ, counts what there is of it an image."""
    hardware = small({"input_bits_per_tick": 2})
    space = two_blocks(hardware)
    stages = space.lowered({}).pipeline.stages
    candidate = space.candidate({}, range(len(stages)))
    ticks = space.measure(candidate).metrics["ticks_per_image"]
    assert "energy_nj" not in space.measure(candidate).metrics

    def priced(name: str) -> float:
        table = EnergyTable("test", ((name, 1000.0),))
        measured = two_blocks(replace(hardware, energy=table)).measure(candidate)
        return float(measured.metrics["energy_nj"])

    pixels, packets = 16, 16
    partial, image, relu, hidden, scores = 8 * 20, 6 * 8, 6 * 7, 8 * 8, 10 * 16
    assert priced("cell_pj") == pixels * (54 * 8 + 8 * 10) * 4
    assert priced("conversion_pj") == pixels * (8 + 8 + 10) * 4, "operands of 7 and 8 bits enter in four pieces"
    assert priced("input_bit_pj") == pixels * (54 * 7 + 8 * 8)
    assert priced("dpu_operation_pj") == sum(s.iterations * s.dpu_operations for s in stages)
    assert priced("core_tick_pj") == len(stages) * ticks
    assert priced("gmem_bit_pj") == packets * (image + scores)
    read = image + 2 * 27 * 7 + partial + 8 * 8  # the Relu, two halves of the window, the other half's sums, the scores
    lowered = space.lowered({})
    written = packets * sum(s.load for s in lowered.streams if s.reader >= 0)
    assert written == packets * (image + 2 * relu - _unread(lowered) + partial + hidden)
    assert priced("sram_bit_pj") == pixels * read + written
    mapping = space.mapping(candidate)
    links = sum(packets * s.load * len(r) for s, r in zip(lowered.streams, mapping.routes, strict=True))
    assert priced("link_bit_pj") == links


def test_a_core_that_stages_share_takes_its_energy_once() -> None:
    """At one nanojoule a core and tick."""
    table = EnergyTable("test", (("core_tick_pj", 1000.0),))
    space = two_blocks(replace(small(core={"stages": 2}), energy=table))
    stages = len(space.lowered({}).pipeline.stages)
    assert stages == 4, "the Relu, two row blocks, the scores"
    for cores in ((0, 0, 1, 2), (3, 1, 0, 2)):
        metrics = space.measure(space.candidate({}, cores)).metrics
        assert metrics["energy_nj"] == metrics["cores"] * metrics["ticks_per_image"]
        assert metrics["cores"] == len(set(cores))


def test_studies_of_energy_on_shared_cores_begin_anew() -> None:
    """One that a core's energy was counted in once a stage does not go on; all others do."""
    table = EnergyTable("test", (("core_tick_pj", 1.0),))
    alone, shared = (replace(small(core={"stages": stages}), energy=table) for stages in (1, 2))
    assert two_blocks(alone).fingerprint == "2c895ec583c793da5416c9aed20b24c2"
    assert two_blocks(shared).fingerprint != "2a78b71536d4371ee099b21f30cfda0a"


def _unread(lowered: Any) -> int:
    """Bits a pixel of channels that one of the two halves does not read."""
    halves = [s for s in lowered.streams if s.edge is not None and lowered.pipeline.stages[s.reader].layer == "a"]
    whole = 6 * 7 * 2
    return whole - sum(s.load for s in halves if lowered.pipeline.stages[s.writer].layer == "r")
