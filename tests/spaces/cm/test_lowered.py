"""What layers cost before they are lowered; which streams of partial sums may be held up, and what comes of holding up others."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

from kilotune.codegen.cm.hardware import Hardware, parse_hardware
from kilotune.codegen.cm.streams import stream_name
from kilotune.codegen.onnx.graph import Graph
from kilotune.codegen.onnx.topology import IMAGE, Topology
from kilotune.spaces.cm.replication import CHAINED, ONCE
from kilotune.spaces.cm.space import CmSpace


def fire_module() -> Graph:
    """A squeezing layer, both expansions of 4 channels, and a layer behind their concatenation."""
    net = Topology("fire", (4, 16, 16))
    squeezed = net.conv(IMAGE, "squeeze", 4, 1)
    expanded = [net.conv(squeezed, f"expand{kernel}", 4, kernel) for kernel in (1, 3)]
    return net.graph(net.conv(net.node("Concat", expanded, "joined", axis=1), "next", 4, 1))


def crossbars_of_four_rows(cores: int = 4, operations: int = 64) -> Hardware:
    """cores: of a side of the mesh. operations: of a digital unit a tick."""
    described: dict[str, Any] = {
        "name": "small",
        "topology": {"kind": "mesh", "rows": cores, "columns": cores},
        "link": {"elements_per_tick": 64, "hop_ticks": 1},
        "crossbar": {"rows": 4, "columns": 256, "per_core": 1},
        "core": {"sram_bytes": 65536, "dpu_operations_per_tick": operations},
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


def four_row_blocks() -> CmSpace:
    """16 pixels of 16 channels in crossbars of four rows; a digital unit adds the 8 sums of a row block in a tick. As many cores as row
    blocks, so that there are no replicas."""
    net = Topology("blocks", (16, 4, 4))
    return CmSpace.of(net.graph(net.conv(IMAGE, "a", 8, 1)), crossbars_of_four_rows(2, 8))


def test_the_bound_knows_that_a_chain_adds_one_sum_where_the_last_block_adds_all() -> None:
    """Three ticks of the digital unit for three sums, one for the sum so far."""
    space = four_row_blocks()
    (cost,) = space.costs
    assert (cost.once_ticks, cost.chained_ticks) == ((1, 1, 1, 3), (1, 1, 1, 1))
    assert space.least_ticks == 16
    every = [
        space.measure(space.candidate({"a": replication}, cores, buffer=256)).metrics["ticks_per_image"]
        for replication in (ONCE, CHAINED)
        for cores in itertools.permutations(range(4))
    ]
    assert (min(every[24:]), min(every)) == (16, 16), "chained, the bound is met"
    assert min(every[:24]) == 48


def test_layers_cost_what_their_lowered_stages_take() -> None:
    """Every replication of every layer, with digital units from fast to so slow that sums are all that counts."""
    for operations, kernel in itertools.product((64, 8, 3, 1), (1, 3)):
        hardware = crossbars_of_four_rows(10, operations)
        net = Topology("two", (5, 6, 4))
        graph = net.graph(net.node("Relu", [net.conv(net.conv(IMAGE, "a", 12, kernel), "b", 3, 1)], "r"))
        space = CmSpace.of(graph, hardware)
        for cost in space.costs:
            for replication in cost.shape.replications(4):
                lowered = space.lowered({cost.shape.name: replication})
                own = [k for k, stage in enumerate(lowered.pipeline.stages) if stage.layer == cost.shape.name]
                assert cost.compute_ticks(replication) == max(lowered.image_ticks[k] for k in own)
                stages = [*cost.stage_ticks(replication)] * replication.count
                assert stages == [lowered.ticks[k] for k in own]


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
