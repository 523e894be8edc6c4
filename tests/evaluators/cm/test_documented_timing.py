"""The compiled simulator against the second one that follows the documentation: every start of every iteration, every image."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kilotune.codegen.cm import hardware as hardware_module
from kilotune.codegen.cm.blocks import Crossbar
from kilotune.codegen.cm.hardware import Hardware, parse_hardware
from kilotune.codegen.cm.lowering import lower
from kilotune.codegen.cm.partition import partition
from kilotune.codegen.cm.pipeline import Pipeline
from kilotune.codegen.cm.routing import route_tables
from kilotune.codegen.cm.streams import streams_of
from kilotune.codegen.onnx.importing import import_model
from kilotune.codegen.onnx.quantise import quantise, random_images
from kilotune.evaluators.cm.stream import Setting
from kilotune.evaluators.cm.timing import simulate
from kilotune.experiments.models.onnx_networks import MADE
from kilotune.spaces.cm.replication import Replication
from tests.codegen.cm.networks import RandomNetwork
from tests.evaluators.cm.documented_timing import GMEM, DocumentedRun, channels_of
from tests.spaces.cm.random_pipelines import random_pipeline

FILES = Path(hardware_module.__file__).parent / "hardware_files"


def random_file(rng: np.random.Generator, cores: int, in_bits: bool) -> dict[str, Any]:
    """A hardware file with links of any topology, ports anywhere, and everything that makes ticks."""
    rows = 2 + int(rng.integers(2))
    columns = max(2, -(-cores // rows))
    topology = [
        {"kind": "torus", "rows": rows, "columns": columns},
        {"kind": "tree", "cores": cores + int(rng.integers(1, 3))},
        {"kind": "mesh", "rows": rows, "columns": columns},
        {"kind": "ring", "cores": max(cores, 3)},
    ][int(rng.integers(4))]
    there = topology.get("cores", rows * columns)
    unit, scale = ("bits_per_tick", 8) if in_bits else ("elements_per_tick", 1)

    def ports() -> list[int]:
        return sorted(rng.choice(there, size=int(rng.integers(1, 3)), replace=False).tolist())

    file: dict[str, Any] = {
        "name": "random",
        "topology": topology,
        "link": {unit: int(rng.integers(1, 6 * scale)), "hop_ticks": int(rng.integers(1, 4))},
        "crossbar": {"rows": 64, "columns": 64, "per_core": 1},
        "core": {"sram_bytes": 1 << 20, "dpu_operations_per_tick": int(rng.integers(1, 40))},
        "gmem": {
            **{"input_ports": ports(), "output_ports": ports(), unit: int(rng.integers(1, 8 * scale))},
            **{"hop_ticks": int(rng.integers(1, 4)), "order": "row-major"},
        },
    }
    if in_bits:
        for name in ("input_bits_per_tick", "conversions_per_tick", "inputs_per_tick"):
            if rng.random() < 0.5:
                file["crossbar"][name] = int(rng.integers(1, 9))
        if rng.random() < 0.5:
            file["crossbar"]["converter_bits"] = int(rng.integers(1, 9))
    else:
        file["element_bytes"] = 1
    return file


def with_bits(rng: np.random.Generator, pipeline: Pipeline) -> Pipeline:
    """Packets of any width, operands too; some are not said."""
    stages = tuple(
        replace(
            stage,
            output_bits=int(rng.integers(0, 3)) * int(rng.integers(1, 90)),
            input_bits=int(rng.integers(1, 17)),
            conversion_bits=int(rng.integers(0, 9)),
        )
        for stage in pipeline.stages
    )
    edges = tuple(
        replace(edge, packet_bits=int(rng.integers(0, 3)) * int(rng.integers(1, 90))) for edge in pipeline.edges
    )
    return replace(pipeline, stages=stages, edges=edges)


def compared(
    rng: np.random.Generator, pipeline: Pipeline, file: dict[str, Any], images: int, sharing: int = 1
) -> tuple[Setting, bool]:
    """The simulators on a random mapping; equal in all that they tell. Whether it deadlocks, too. sharing: as many stages on a core."""
    hardware: Hardware = parse_hardware(file, "test")
    streams = streams_of(pipeline, hardware)
    seats = np.repeat(rng.permutation(hardware.cores)[: -(-len(pipeline.stages) // sharing)], sharing)
    cores = rng.permutation(seats)[: len(pipeline.stages)].tolist()
    nodes = [*cores, hardware.gmem]  # GMEM, -1, is the last one
    tables = route_tables(hardware)
    mapped = rng.random() < 0.9
    routes = tuple(
        tables.route(nodes[s.writer], nodes[s.reader], int(rng.integers(8))) if mapped else () for s in streams
    )
    bounded = rng.random() < 0.7
    room = tuple(
        max(1, s.minimum_capacity + int(rng.choice([-1, 0, 0, 1, 2]))) if bounded and s.reader >= 0 else 0
        for s in streams
    )
    pace = int(rng.integers(1, 60)) if rng.random() < 0.5 else 0
    ticks = tuple(hardware.iteration_ticks(stage) for stage in pipeline.stages)
    setting = Setting(pipeline, streams, ticks, routes, room, hardware.links, pace, tuple(cores) if sharing > 1 else ())
    names = {hardware.gmem: GMEM}
    paths = [
        [(names.get(k.source, k.source), names.get(k.target, k.target)) for k in (hardware.links[n] for n in route)]
        for route in routes
    ]
    slow = DocumentedRun(pipeline, file, channels_of(pipeline, file, paths, room), pace, images, cores).run()
    fast = simulate(setting, images, record_starts=True)
    assert fast.finish_ticks.tolist() == slow.finish
    assert (fast.deadlock is not None) == slow.stuck
    assert fast.starts is not None
    for core, starts in zip(slow.cores, fast.starts, strict=True):
        assert starts[: len(core.starts)].tolist() == core.starts
        assert not starts[len(core.starts) :].any()
    return setting, slow.stuck


@pytest.mark.slow
def test_generated_pipelines_take_the_ticks_that_the_documentation_says() -> None:
    kinds = {"deadlocks": 0, "bits": 0, "torus": 0, "tree": 0, "longer iterations": 0, "shared": 0}
    for seed in range(300):
        rng = np.random.default_rng(seed)
        pipeline, in_bits = random_pipeline(rng, int(rng.integers(1, 6))), seed % 2 == 0
        if in_bits:
            pipeline = with_bits(rng, pipeline)
        file = random_file(rng, len(pipeline.stages), in_bits)
        setting, stuck = compared(rng, pipeline, file, 3, sharing=1 + seed % 3)
        kinds["shared"] += len(setting.sharing) < len(pipeline.stages)
        kinds["deadlocks"] += stuck
        kinds["bits"] += in_bits
        kinds["longer iterations"] += max(setting.ticks) > 1
        if file["topology"]["kind"] in kinds:
            kinds[file["topology"]["kind"]] += 1
    assert min(kinds.values()) > 15, kinds  # the settings are worth the comparison


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_networks_take_the_ticks_that_the_documentation_says(seed: int) -> None:
    """Random networks cut into blocks and replicas, whose partial sums are wide, on cores of their own or shared by three."""
    rng = np.random.default_rng(seed)
    graph = import_model(RandomNetwork(seed).model(10), "random")
    network = partition(quantise(graph, random_images(graph.shapes[graph.input], 2, seed)).graph)
    replicas = {p.name: Replication(int(rng.integers(1, min(3, p.height) + 1))) for p in network.partitions}
    pipeline = lower(network, Crossbar(int(rng.integers(8, 40)), int(rng.integers(2, 6))), replicas).pipeline
    compared(rng, pipeline, random_file(rng, len(pipeline.stages), in_bits=True), 2, sharing=1 + seed % 2 * 2)


def test_a_network_on_a_shipped_accelerator_takes_the_ticks_that_the_documentation_says() -> None:
    """LeNet-5, 28 x 28 pixels, with blocks of rows, two replicas of what is slowest, and the paths of a search's first candidate."""
    graph = import_model(MADE["lenet5"](), "lenet5")
    network = partition(quantise(graph, random_images(graph.shapes[graph.input], 1, 0)).graph)
    replicas = {network.partitions[0].name: Replication(2, "columns")}
    pipeline = lower(network, Crossbar(128, 64), replicas).pipeline
    assert any("/1,0" in stage.name for stage in pipeline.stages)
    file = json.loads((FILES / "torus-16x16-bits.json").read_text())
    file["link"]["bits_per_tick"] = 24
    compared(np.random.default_rng(1), pipeline, file, 2)


def test_a_shipped_accelerator_takes_the_ticks_that_the_documentation_says() -> None:
    rng = np.random.default_rng(0)
    for name in ("torus-16x16-bits", "mesh-8x8-16"):
        pipeline = with_bits(rng, random_pipeline(rng, 5))
        compared(rng, pipeline, json.loads((FILES / f"{name}.json").read_text()), 3)
