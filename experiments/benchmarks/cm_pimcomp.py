"""Our mappings beside PIMCOMP-NN's, each in both cost models, on PIMCOMP-NN's default configuration (`pimcomp-144`).

    python -m kilotune.experiments.benchmarks.cm_pimcomp [--seconds 8] FILE.json ...

A FILE holds runs of PIMCOMP-NN (Sun et al., 2023; batch mode) on one network: under `layers` the layers' `name`, `weight_rows`,
`weight_cols` and `sliding_windows`, under `runs` the `method`, `latency_us` and, as `per_layer`, of every layer its `replicas`,
the `core_of_row_block_per_replica` and the `windows_per_replica`, under `latency_us_by_method` what the tool said, and under `network`
resnet18, squeezenet or googlenet.

*Its model*: a core starts the matrix-vector products of its row blocks (128 rows) of a step one after the other, one every 200 ns, and a
step takes 600 ns more, for a product takes 800; the busiest core counts. It leaves out what that core waits for (global
memory, other cores), which the tool's own latency has. *Our model*: a layer's largest replica takes a tick of 200 ns an
iteration; a core holds one part of one layer, all its crossbars at once. Of PIMCOMP-NN's mappings, which put parts of
several layers on a core, only the time of the slowest layer can be said there, and how many of our cores they would take.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from kilotune.codegen.cm.hardware import Hardware, load_hardware
from kilotune.codegen.cm.pipeline import Pipeline
from kilotune.codegen.onnx.quantise import integer_shape
from kilotune.experiments.problems.cm.networks import weightless
from kilotune.spaces.cm.joint import joint_annealing
from kilotune.spaces.cm.space import CmSpace

NETWORKS = MappingProxyType({"resnet18": "resnet18", "squeezenet": "squeezenet1.0", "googlenet": "googlenet"})
COLUMNS = ("network", "mapping", "its latency, us", "its model, us", "our model, us", "cores", "our cores", "CPU s")
START_NS, STEP_NS = 200, 600
"""From one product of a core to the next; what a step takes beyond those."""


@dataclass(frozen=True)
class CorePart:
    """Row blocks that a core multiplies with in each of so many steps."""

    core: int
    row_blocks: int
    steps: int


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE.json")
    parser.add_argument("--seconds", type=float, default=8.0, help="CPU seconds of our search")
    options = parser.parse_args()
    hardware = load_hardware("pimcomp-144")
    print(" | ".join(COLUMNS), flush=True)
    for name in options.files:
        described = json.loads(Path(name).read_text(encoding="utf-8"))
        for run in described["runs"]:
            print(" | ".join(peer_row(described, run, hardware)), flush=True)
        print(" | ".join(own_row(described["network"], hardware, options.seconds)), flush=True)


def peer_row(described: Mapping[str, Any], run: Mapping[str, Any], hardware: Hardware) -> list[str]:
    """One of the tool's runs."""
    layers = {layer["name"]: layer for layer in described["layers"]}
    parts, ticks, cores = [], 0, 0
    for placed in run["per_layer"]:
        layer = layers[placed["name"]]
        ticks = max(ticks, *placed["windows_per_replica"])
        across = -(-layer["weight_cols"] // hardware.crossbar_columns)
        cores += placed["replicas"] * across * -(-layer["weight_rows"] // hardware.core_rows)
        for blocks, steps in zip(placed["core_of_row_block_per_replica"], placed["windows_per_replica"], strict=True):
            parts += [CorePart(core, 1, steps) for core in blocks]
    cells = f"{run['latency_us']:.0f}", f"{busiest_us(parts):.1f}", f"at least {ticks * hardware.tick_ns / 1000:.1f}"
    counted = str(len({part.core for part in parts})), str(cores)
    cpu_s = f"{run['cpu_s_self_reported_to_end_of_evaluation']:.1f}"
    return [described["network"], run["method"], *cells, *counted, cpu_s]


def own_row(network: str, hardware: Hardware, seconds: float) -> list[str]:
    """The best mapping of our search, by our model."""
    begun = time.process_time()
    space = CmSpace.of(integer_shape(weightless(NETWORKS[network])), hardware)
    best, parts, cores, found_s = float("inf"), list[CorePart](), 0, 0.0
    for candidate in joint_annealing(space, 0):
        if candidate is not None:
            measurement = space.measure(candidate)
            if measurement.failure is None and measurement.metrics["image_us"] < best:
                best, found_s = measurement.metrics["image_us"], time.process_time() - begun
                pipeline = space.lowered(space.replicas(candidate)).pipeline
                parts, cores = own_parts(pipeline, hardware), len(pipeline.stages)
        if time.process_time() - begun > seconds:
            break
    return [network, "ours", "", f"{busiest_us(parts):.1f}", f"{best:.1f}", "", str(cores), f"{found_s:.1f}"]


def own_parts(pipeline: Pipeline, hardware: Hardware) -> list[CorePart]:
    """What their model charges of a pipeline: matrices only."""
    return [
        CorePart(core, -(-stage.crossbar_rows // hardware.crossbar_rows), stage.iterations)
        for core, stage in enumerate(pipeline.stages)
        if stage.crossbar_rows
    ]


def busiest_us(parts: Sequence[CorePart]) -> float:
    """Their model, without waiting."""
    products: dict[int, int] = defaultdict(int)
    steps: dict[int, int] = defaultdict(int)
    for part in parts:
        products[part.core] += part.row_blocks * part.steps
        steps[part.core] = max(steps[part.core], part.steps)
    return max(START_NS * products[core] + STEP_NS * steps[core] for core in products) / 1000


if __name__ == "__main__":
    main()
