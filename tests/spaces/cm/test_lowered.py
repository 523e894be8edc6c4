"""Which streams of partial sums may be held up, and what comes of holding up others."""

from __future__ import annotations

import dataclasses
from typing import Any

from kilotune.codegen.cm.hardware import Hardware, parse_hardware
from kilotune.codegen.cm.streams import stream_name
from kilotune.codegen.onnx.graph import Graph
from kilotune.codegen.onnx.topology import IMAGE, Topology
from kilotune.spaces.cm.space import CmSpace


def fire_module() -> Graph:
    """A squeezing layer, both expansions of 4 channels, and a layer behind their concatenation."""
    net = Topology("fire", (4, 16, 16))
    squeezed = net.conv(IMAGE, "squeeze", 4, 1)
    expanded = [net.conv(squeezed, f"expand{kernel}", 4, kernel) for kernel in (1, 3)]
    return net.graph(net.conv(net.node("Concat", expanded, "joined", axis=1), "next", 4, 1))


def crossbars_of_four_rows() -> Hardware:
    described: dict[str, Any] = {
        "name": "small",
        "topology": {"kind": "mesh", "rows": 4, "columns": 4},
        "link": {"elements_per_tick": 64, "hop_ticks": 1},
        "crossbar": {"rows": 4, "columns": 256, "per_core": 1},
        "core": {"sram_bytes": 65536, "dpu_operations_per_tick": 64},
        "gmem": {
            "input_ports": [0],
            "output_ports": [0],
            "elements_per_tick": 64,
            "hop_ticks": 1,
            "order": "row-major",
        },
        "element_bytes": 1,
    }
    return parse_hardware(described, "small.json")


def test_sums_behind_a_concatenation_are_not_held_up() -> None:
    """The row block that reads expand1 runs a row ahead of the one that reads expand3. Held up, it holds up expand1, that the squeezing
    layer, and that expand3."""
    space = CmSpace.of(fire_module(), crossbars_of_four_rows())
    lowered = space.lowered({})
    names = [stream_name(lowered.pipeline, stream) for stream in lowered.streams]
    inner = {f"expand3/{row},0 -> expand3/8,0" for row in range(8)}
    assert {names[number] for number in lowered.may_be_held_up} == inner
    candidate = space.candidate({}, range(len(lowered.pipeline.stages)), buffer=0)
    mapping = space.mapping(candidate)
    assert space.simulate(lowered, mapping, 3).deadlock is None
    capacities = list(mapping.capacities)
    capacities[names.index("next/0,0 -> next/1,0")] = 4
    deadlock = space.simulate(lowered, dataclasses.replace(mapping, capacities=tuple(capacities)), 3).deadlock
    assert deadlock is not None
    held_up = {lowered.pipeline.stages[stage].layer for stage in deadlock.stages}
    assert held_up == {"squeeze", "expand1", "next", "expand3"}
