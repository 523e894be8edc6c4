"""What no mapping beats whatever the bits of weights."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from kilotune.codegen.cm.hardware import Hardware, crossbar_of, parse_hardware
from kilotune.codegen.onnx.importing import import_model
from kilotune.codegen.onnx.quantise import integer_shape
from kilotune.codegen.onnx.topology import IMAGE, Topology
from kilotune.evaluators.cm.bit_networks import BitNetworks
from kilotune.search.candidates import first_candidate
from kilotune.search.space import Option
from kilotune.spaces.cm.bit_candidates import BitQuestion
from kilotune.spaces.cm.bits import BitsSpace
from kilotune.spaces.cm.joint import joint_annealing
from kilotune.spaces.cm.space import CmSpace
from tests.codegen.cm.networks import model


def accelerator(
    link: dict[str, int], crossbar: dict[str, int], gmem: dict[str, Any], operations: int = 4096, rows: int = 3
) -> Hardware:
    """Rows of four cores."""
    return parse_hardware(
        {
            "name": "small",
            **({} if "bits_per_tick" in link else {"element_bytes": 1}),
            "topology": {"kind": "mesh", "rows": rows, "columns": 4},
            "link": {"hop_ticks": 1, **link},
            "crossbar": {"per_core": 1, **crossbar},
            "core": {"sram_bytes": 65536, "dpu_operations_per_tick": operations},
            "gmem": {"output_ports": list(range(12)), "hop_ticks": 1, "order": "row-major", **gmem},
        },
        "test",
    )


def space_of(nodes: list[onnx.NodeProto], sizes: dict[str, tuple[int, ...]], hardware: Hardware) -> BitsSpace:
    """A space of a network on an image of one pixel, with weights of these sizes, by name, that begins with `a`."""
    generator = np.random.default_rng(0)
    weights = {name: generator.normal(0, 0.3, size).astype(np.float32) for name, size in sizes.items()}
    shape = (1, sizes["a"][1], 1, 1)
    graph = import_model(model(nodes, list(shape), weights), "layers")
    images = generator.normal(0, 1, (20, *shape[1:])).astype(np.float32)
    networks = BitNetworks(graph, images, None, crossbar_of(hardware), hardware.input_bits_per_tick)
    return BitsSpace(networks, hardware, BitQuestion())


def two_layers(inputs: int, outputs: tuple[int, int], kernel: int, hardware: Hardware) -> BitsSpace:
    """A convolution, and one of 1 x 1 behind it."""
    nodes = [
        helper.make_node("Conv", ["x", "a"], ["u"], pads=[kernel // 2] * 4),
        helper.make_node("Relu", ["u"], ["v"]),
        helper.make_node("Conv", ["v", "b"], ["y"]),
    ]
    sizes = {"a": (outputs[0], inputs, kernel, kernel), "b": (outputs[1], outputs[0], 1, 1)}
    return space_of(nodes, sizes, hardware)


def bounds_by_bits(space: BitsSpace, levels: Sequence[Option], of_one: int = 1) -> dict[tuple[Option, ...], int]:
    """What no mapping beats with activations of 2 bits, by the bits of weights: of the first `of_one` layers one by one, and of the
    others together."""
    widest = {name: 2 if name.startswith("activation") else bits for name, bits in space.widest.items()}
    names = [name for name in widest if name.startswith("weight")]
    found = {}
    for bits in itertools.product(levels, repeat=of_one + 1):
        each = (*bits[:of_one], *(bits[-1] for _ in names[of_one:]))
        found[bits] = space.at({**widest, **dict(zip(names, each, strict=True))}).least_ticks
    return found


EVERY_PORT = {"input_ports": list(range(12)), "bits_per_tick": 256}


def test_more_bits_in_more_blocks_may_have_thinner_streams_and_less_for_each_digital_unit() -> None:
    """A layer of 2 bits sends all its channels on two streams, one of 8 bits on eight."""
    crossbar = {"rows": 64, "columns": 64, "cell_bits": 1}
    for link_bits, operations in ((1, 4096), (4096, 1)):
        space = two_layers(8, (64, 4), 1, accelerator({"bits_per_tick": link_bits}, crossbar, EVERY_PORT, operations))
        own = bounds_by_bits(space, (8, 6, 4, 2))
        assert own[8, 8] < own[2, 2], "which is why the narrowest network's bound would be none"
        assert 1 < space.least_ticks <= min(own.values())
    asked = first_candidate(space)
    assert list(space.in_order(dict(sorted(asked.items()))).items()) == list(asked.items())


def test_more_bits_in_more_row_blocks_may_be_chained() -> None:
    """With 2 bits two crossbars of a core lie one below the other and there are two row blocks, of 8 bits there are three."""
    crossbar = {"rows": 128, "columns": 128, "cell_bits": 1, "per_core": 2, "conversions_per_tick": 1}
    space = two_layers(40, (100, 20), 3, accelerator({"bits_per_tick": 64}, crossbar, EVERY_PORT, 1))
    own = bounds_by_bits(space, (8, 2))
    assert space.least_ticks == min(own.values()) == own[8, 2] < own[2, 2]


def test_more_bits_before_fewer_send_least() -> None:
    """One block of a layer of 2 bits sends all its channels to each of four layers; of 8 bits each of eight sends some, to one
    block of each where these have 2 bits."""
    readers = [f"b{i}" for i in range(4)]
    sizes = {"a": (64, 8, 1, 1), **dict.fromkeys(readers, (64, 64, 1, 1))}
    nodes = [helper.make_node("Conv", ["x", "a"], ["u"]), helper.make_node("Relu", ["u"], ["v"])]
    nodes += [helper.make_node("Conv", ["v", name], ["of " + name]) for name in readers]
    nodes.append(helper.make_node("Concat", ["of " + name for name in readers], ["y"], axis=1))
    ports = {"input_ports": list(range(40)), "output_ports": list(range(40)), "elements_per_tick": 8}
    hardware = accelerator({"elements_per_tick": 1}, {"rows": 64, "columns": 64, "cell_bits": 1}, ports, rows=10)
    space = space_of(nodes, sizes, hardware)
    own = bounds_by_bits(space, (8, 2))
    assert 1 < space.least_ticks <= min(own.values()) == own[8, 2] < own[8, 8]


def test_shares_of_the_ports_are_added_exactly() -> None:
    """Six layers that read seven pixels over three ports: 14 ticks, which a sum of 7 / 3 in floating point exceeds."""
    net = Topology("six", (1, 1, 7))
    branches = [net.conv(IMAGE, f"c{i}", 1, 1) for i in range(6)]
    graph = integer_shape(net.graph(net.node("Concat", branches, "cat", axis=1)))
    gmem = {"input_ports": [0, 3, 8], "elements_per_tick": 1}
    space = CmSpace.of(graph, accelerator({"elements_per_tick": 8}, {"rows": 16, "columns": 16}, gmem))
    assert space.least_ticks == 14
    found = (space.measure(c).metrics for c in itertools.islice(joint_annealing(space, 0), 40) if c is not None)
    assert min(metrics["ticks_per_image"] for metrics in found if metrics) == 14
