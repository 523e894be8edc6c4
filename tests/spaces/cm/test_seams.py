"""What GMEM's links carry for replicas of the layers at its ends, and the bound that follows."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from kilotune.codegen.cm.hardware import Hardware, parse_hardware
from kilotune.codegen.cm.pipeline import GMEM
from kilotune.codegen.onnx.graph import Graph
from kilotune.codegen.onnx.quantise import integer_shape
from kilotune.codegen.onnx.topology import IMAGE, Topology
from kilotune.experiments.benchmarks.cm_scale import hardware, random_network
from kilotune.search.candidates import random_candidate
from kilotune.spaces.cm.joint import joint_annealing
from kilotune.spaces.cm.lowered import cores_needed, least_ticks
from kilotune.spaces.cm.replication import Replication
from kilotune.spaces.cm.seams import PortTicks, busiest_load
from kilotune.spaces.cm.sharing import Cores
from kilotune.spaces.cm.space import CmSpace


def narrow_ports(
    width: int,
    order: str = "row-major",
    cores: tuple[int, int] = (3, 4),
    kind: str = "mesh",
    inputs: Sequence[int] = (0,),
) -> Hardware:
    described: dict[str, Any] = {
        "name": "narrow",
        "topology": {"kind": kind, "rows": cores[0], "columns": cores[1]},
        "link": {"elements_per_tick": 64, "hop_ticks": 1},
        "crossbar": {"rows": 64, "columns": 256, "per_core": 1},
        "core": {"sram_bytes": 65536, "dpu_operations_per_tick": 256},
        "gmem": {
            "input_ports": list(inputs),
            "output_ports": [0, 1],
            "elements_per_tick": width,
            "hop_ticks": 1,
            "order": order,
        },
        "element_bytes": 1,
    }
    return parse_hardware(described, "narrow.json")


def two_readers(seed: int) -> Graph:
    """Two layers that read the image, with kernels, strides and pads at random, and what they compute, joined where it fits."""
    rng = np.random.default_rng(seed)
    net = Topology(f"readers-{seed}", (int(rng.integers(1, 4)), int(rng.integers(6, 13)), int(rng.integers(6, 13))))
    kernels, stride = rng.choice([1, 3, 5], 2), int(rng.integers(1, 4))
    a, b = (net.conv(IMAGE, f"conv{k}", 4, int(kernel), stride) for k, kernel in enumerate(kernels))
    return integer_shape(net.graph(net.node("Add", [a, b], "sum")))


@pytest.mark.parametrize("order", ["row-major", "column-major"])
def test_what_is_sent_to_a_layer_is_what_its_lowered_streams_send(order: str) -> None:
    seams = 0
    for seed in range(6):
        space = CmSpace.of(two_readers(seed), narrow_ports(2, order, (8, 8)))
        rng = np.random.default_rng(seed)
        readers = [cost for cost in space.costs if cost.ports.shared]
        assert len(readers) == 2
        for _ in range(8):
            chosen = {}
            for shape in space.shapes:
                options = [r for r in shape.replications() if r.count <= 4]
                chosen[shape.name] = options[int(rng.integers(len(options)))]
            lowered = space.lowered(chosen)
            for cost in readers:
                name = cost.shape.name
                sent = sum(
                    s.image_load
                    for s in lowered.streams
                    if s.writer == GMEM and lowered.pipeline.stages[s.reader].layer == name
                )
                assert cost.ports.shared[chosen[name]] == sent / 2, (seed, name, chosen[name])
                seams += sent / 2 > cost.ports.shared[Replication()]
    assert seams > 10


def test_of_two_windows_on_the_image_the_wider_one_counts() -> None:
    """A convolution of the image plus the image itself: its core reads a window of 3x3 and the pixel in the middle, each pixel once."""
    net = Topology("residual", (3, 9, 9))
    convolved = net.conv(IMAGE, "conv", 3, 3)
    graph = integer_shape(net.graph(net.node("Add", [convolved, IMAGE], "sum")))
    space = CmSpace.of(graph, narrow_ports(2, cores=(8, 8)))
    (cost,) = (cost for cost in space.costs if cost.ports.shared)
    for replication in (r for r in cost.ports.shared if r.count < 5):
        lowered = space.lowered({cost.shape.name: replication})
        sent = sum(stream.image_load for stream in lowered.streams if stream.writer == GMEM)
        assert cost.ports.shared[replication] == sent / 2


def test_the_bound_is_the_best_of_all_replications() -> None:
    """Over all pairs: cores that fit, and the longer of the slowest layer and what GMEM sends to both."""
    tighter = 0
    for seed in range(12):
        space = CmSpace.of(two_readers(seed), narrow_ports(2))
        cores = space.hardware.cores
        best = math.inf
        for chosen in itertools.product(*(shape.replications() for shape in space.shapes)):
            replicas = {shape.name: r for shape, r in zip(space.shapes, chosen, strict=True)}
            if cores_needed(space.costs, replicas, Cores(64)) <= cores:
                slowest = max(cost.ticks(r) for cost, r in zip(space.costs, chosen, strict=True))
                ports = sum(cost.ports.shared.get(r, 0.0) for cost, r in zip(space.costs, chosen, strict=True))
                best = min(best, max(slowest, ports))
        assert least_ticks(space.costs, Cores(cores)) <= best
        assert least_ticks(space.costs, Cores(cores)) >= max(
            c.ports.shared.get(Replication(), 0.0) for c in space.costs
        )
        tighter += least_ticks(space.costs, Cores(cores)) == best
    assert tighter >= 10, (
        "layers are looked at one by one: of fewest cores and least sent are not always the same replication"
    )


def test_no_mapping_is_faster_than_the_bound() -> None:
    met = 0
    for seed in range(10):
        space = CmSpace.of(two_readers(seed), narrow_ports(3, cores=(2, 3)))
        rng = np.random.default_rng(seed)
        for _ in range(4):
            measured = space.measure(random_candidate(space, rng))
            if measured.failure is None:
                assert measured.metrics["ticks_per_image"] >= space.least_ticks
                met += measured.metrics["ticks_per_image"] < 1.2 * space.least_ticks
    assert met, "the bound is near to what is measured"


def least_of_all_ways(loads: Sequence[int], links: int) -> int:
    """The busiest link's load, at best, of all ways to give each load a link."""
    ways = itertools.product(range(links), repeat=len(loads))
    return min(max(sum(x for x, own in zip(loads, way, strict=True) if own == k) for k in range(links)) for way in ways)


def test_loads_that_are_not_split_make_the_busiest_link_no_less_than_is_said() -> None:
    rng = np.random.default_rng(0)
    met = more_than_shared = 0
    for _ in range(300):
        links, count = int(rng.integers(1, 4)), int(rng.integers(0, 7))
        loads = (rng.integers(0, 6, count) * int(rng.integers(1, 4))).tolist()
        least, said = least_of_all_ways(loads, links), busiest_load(loads, links)
        assert said <= least, (loads, links)
        met += said == least
        more_than_shared += said > max([*loads, -(-sum(loads) // links)])
    assert met > 280
    assert more_than_shared > 20
    assert busiest_load([7, 7, 7, 7, 5], 4) == 12, "the fifth comes to one of the others"
    assert busiest_load([3] * 5 + [1], 2) == 9, "three of the five largest share a link"
    assert busiest_load([6, 6, 4, 4, 4], 2) == 12, "24 over two links, and 10 + 14 is not better"
    assert busiest_load([4, 4, 4, 2, 2, 2], 4) == 6, "18 over four links, in steps of two"


@pytest.mark.parametrize(("kind", "cores"), [("mesh", (2, 2)), ("mesh", (2, 3)), ("torus", (2, 3))])
def test_the_bound_is_below_the_ports_of_every_placement_of_every_replication(
    kind: str, cores: tuple[int, int]
) -> None:
    """Every stream to or from GMEM takes one of its links, wherever stages are: all ways to do that are tried."""
    by_ports = 0
    for seed in range(8):
        space = CmSpace.of(two_readers(seed), narrow_ports(2, cores=cores, kind=kind, inputs=(0, 3)))
        best = math.inf
        for chosen in itertools.product(*(shape.replications() for shape in space.shapes)):
            replicas = {shape.name: r for shape, r in zip(space.shapes, chosen, strict=True)}
            if cores_needed(space.costs, replicas, space.cores) > space.hardware.cores:
                continue
            lowered = space.lowered(replicas)
            to = [s.image_load for s in lowered.streams if s.writer == GMEM]
            back = [s.image_load for s in lowered.streams if s.reader == GMEM]
            ports = max(math.ceil(least_of_all_ways(loads, 2) / 2) for loads in (to, back))
            best = min(best, max(ports, lowered.compute_ticks))
        assert space.least_ticks <= best, seed
        shared = tuple(dataclasses.replace(cost, ports=PortTicks(cost.ports.shared)) for cost in space.costs)
        by_ports += least_ticks(shared, space.cores) < space.least_ticks
    assert by_ports >= 3, "streams that are not split take longer"


def test_searches_of_random_networks_come_to_the_bound_and_never_below_it() -> None:
    """Of each, the bound says what takes longest: results that leave through four ports, in whole columns of 41 and 21."""
    for seed, bound in ((10, 205), (181113, 121)):
        space = CmSpace.of(random_network(seed), hardware("mesh-8x8", False))
        assert space.least_ticks == bound
        found = (c for c in itertools.islice(joint_annealing(space, 0), 12) if c is not None)
        ticks = (space.measure(candidate).metrics["ticks_per_image"] for candidate in found)
        below_or_at = next((each for each in ticks if each <= bound), None)
        assert below_or_at == bound
