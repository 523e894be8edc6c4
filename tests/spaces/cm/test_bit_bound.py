"""What no mapping beats whatever the bits of weights."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from onnx import helper

from kilotune.codegen.cm.hardware import Hardware, crossbar_of, parse_hardware
from kilotune.codegen.onnx.importing import import_model
from kilotune.codegen.onnx.quantise import integer_shape
from kilotune.codegen.onnx.topology import IMAGE, Topology
from kilotune.evaluators.cm.bit_networks import BitNetworks
from kilotune.spaces.cm.bit_candidates import BitQuestion
from kilotune.spaces.cm.bits import BitsSpace
from kilotune.spaces.cm.joint import joint_annealing
from kilotune.spaces.cm.space import CmSpace
from tests.codegen.cm.networks import model


def accelerator(
    link: dict[str, int], crossbar: dict[str, int], gmem: dict[str, Any], operations: int = 4096
) -> Hardware:
    """Three rows of four cores."""
    return parse_hardware(
        {
            "name": "small",
            **({} if "bits_per_tick" in link else {"element_bytes": 1}),
            "topology": {"kind": "mesh", "rows": 3, "columns": 4},
            "link": {"hop_ticks": 1, **link},
            "crossbar": {"per_core": 1, **crossbar},
            "core": {"sram_bytes": 65536, "dpu_operations_per_tick": operations},
            "gmem": {"output_ports": list(range(12)), "hop_ticks": 1, "order": "row-major", **gmem},
        },
        "test",
    )


def layers_of_bits(link_bits: int, operations: int) -> BitsSpace:
    """Two dense layers, of 64 outputs and of 4, on crossbars of 64 columns of one bit."""
    gmem = {"input_ports": list(range(12)), "bits_per_tick": 256}
    hardware = accelerator({"bits_per_tick": link_bits}, {"rows": 64, "columns": 64, "cell_bits": 1}, gmem, operations)
    generator = np.random.default_rng(0)
    weights = {
        "a": generator.normal(0, 0.4, (64, 8, 1, 1)).astype(np.float32),
        "b": generator.normal(0, 0.2, (4, 64, 1, 1)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "a"], ["u"]),
        helper.make_node("Relu", ["u"], ["v"]),
        helper.make_node("Conv", ["v", "b"], ["y"]),
    ]
    graph = import_model(model(nodes, [1, 8, 1, 1], weights), "layers")
    images = generator.normal(0, 1, (20, 8, 1, 1)).astype(np.float32)
    networks = BitNetworks(graph, images, None, crossbar_of(hardware), hardware.input_bits_per_tick)
    return BitsSpace(networks, hardware, BitQuestion())


def test_more_bits_in_more_blocks_may_have_thinner_streams_and_less_for_each_digital_unit() -> None:
    """A layer of 2 bits sends all its channels on two streams, one of 8 bits on eight."""
    for link_bits, operations in ((1, 4096), (4096, 1)):
        space = layers_of_bits(link_bits, operations)
        widest = {name: 2 if name.startswith("activation") else bits for name, bits in space.widest.items()}
        names = [name for name in widest if name.startswith("weight")]
        levels = next(d.options for d in space.bit_decisions if d.name == names[0])
        own = {
            bits: space.at({**widest, **dict(zip(names, bits, strict=True))}).least_ticks
            for bits in itertools.product(levels[::2], repeat=2)
        }
        assert own[8, 8] < own[2, 2], "which is why the narrowest network's bound would be none"
        assert 1 < space.least_ticks <= min(own.values())


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
