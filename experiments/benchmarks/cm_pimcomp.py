"""Our mappings beside PIMCOMP-NN's, each in both cost models, on PIMCOMP-NN's default configuration (`pimcomp-144`).

    python -m kilotune.experiments.benchmarks.cm_pimcomp [--seconds S] FILE.json ...

A FILE holds runs of PIMCOMP-NN (Sun et al., 2023; batch mode) on one network: under `layers` what `pimcomp_latency.PeerLayer` reads, under
`runs` the `method`, `latency_us` and, as `per_layer`, of every layer its `name` and the `core_of_row_block_per_replica`, and under
`network` resnet18, squeezenet or googlenet.

*Its model*: the latency that its own evaluator would tell, rebuilt in `pimcomp_latency`, with loads, copies, products, transfers, stores;
beside its own runs the latency that the tool itself told. *Our model*: a core starts one row block every tick of 200 ns, for one stage
after the other, and poolings, the image, links and buffers count; ours is simulated. Of PIMCOMP-NN's mappings only the products of
the busiest core are said: no schedule of them is faster. Of ours two are shown: that of the fewest microseconds in our model, which
PIMCOMP-NN's rule deals its windows for its own, and that of the fewest in its model, found by a walk over mappings of its
kind (`pimcomp_search`), whose windows go round on a core as no block of ours does. *Memory*: how long its global memory takes for all
that is loaded and stored; the least is of all ways to lay out each layer alone that the walk knows.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from kilotune.codegen.cm.hardware import Hardware, load_hardware
from kilotune.codegen.onnx.quantise import integer_shape
from kilotune.experiments.benchmarks.pimcomp_latency import PeerLayer, RowBlockCores, peer_latency, windows_of
from kilotune.experiments.benchmarks.pimcomp_search import BLOCK, PRODUCT_NS, LayerLayouts, PeerWalk
from kilotune.experiments.problems.cm.networks import weightless
from kilotune.search.space import Assignment
from kilotune.spaces.cm.joint import joint_annealing
from kilotune.spaces.cm.space import CmSpace

NETWORKS = MappingProxyType({"resnet18": "resnet18", "squeezenet": "squeezenet1.1", "googlenet": "googlenet"})
COLUMNS = (
    "network",
    "mapping",
    "its latency, us",
    "its model, us",
    "its memory, us",
    "our model, us",
    "cores",
    "CPU s",
)
MEMORY_BYTES_A_NS = 64


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE.json")
    parser.add_argument(
        "--seconds", type=float, help="CPU seconds of our searches, each; else the median of the file's genetic ones"
    )
    options = parser.parse_args()
    hardware = load_hardware("pimcomp-144")
    print(" | ".join(COLUMNS), flush=True)
    for name in options.files:
        described = json.loads(Path(name).read_text(encoding="utf-8"))
        layers = [PeerLayer.of(layer) for layer in described["layers"] if "weight_rows" in layer]
        for run in described["runs"]:
            print(" | ".join(peer_row(described, layers, run, hardware.cores)), flush=True)
        genetic = [cpu_s_of(run) for run in described["runs"] if run["method"] == "GA"]
        for row in own_rows(described["network"], layers, hardware, options.seconds or float(np.median(genetic))):
            print(" | ".join(row), flush=True)


def peer_row(
    described: Mapping[str, Any], layers: Sequence[PeerLayer], run: Mapping[str, Any], cores: int
) -> list[str]:
    """One of the tool's runs."""
    by_name = {placed["name"]: placed["core_of_row_block_per_replica"] for placed in run["per_layer"]}
    placed = [by_name[layer.name] for layer in layers]
    return [
        described["network"],
        run["method"],
        f"{run['latency_us']:.1f}",
        *in_its_model(layers, placed, cores),
        f"at least {busiest_us(layers, placed):.1f}",
        str(len({core for replicas in placed for blocks in replicas for core in blocks})),
        f"{cpu_s_of(run):.1f}",
    ]


def cpu_s_of(run: Mapping[str, Any]) -> float:
    """As the tool itself says, to the end of its evaluation."""
    return float(run["cpu_s_self_reported_to_end_of_evaluation"])


def own_rows(network: str, layers: Sequence[PeerLayer], hardware: Hardware, seconds: float) -> Iterator[list[str]]:
    """The best mappings of our searches, by our model and by theirs."""
    begun = time.process_time()
    graph = weightless(NETWORKS[network])
    space = CmSpace.of(integer_shape(graph), hardware)
    best, found, taken = math.inf, None, 0.0
    for candidate in joint_annealing(space, 0):
        if candidate is not None:
            ours = space.measure(candidate).metrics.get("image_us", math.inf)
            if ours < best:
                best, found, taken = ours, candidate, time.process_time() - begun
        if time.process_time() - begun > seconds:
            break
    if found is not None:
        theirs = in_its_model(layers, row_block_cores(space, found, layers, graph.parts or {}), hardware.cores)
        used = len(set(space.mapping(found).cores))
        yield [network, "ours", "", *theirs, f"{best:.1f}", str(used), f"{taken:.1f}"]
    least = sum(LayerLayouts(layer).least_loading_ns for layer in layers) / 1000 + stored_us(layers)
    yield [network, "least that its memory takes", "", "", f"{least:.1f}", "", "", ""]
    begun = time.process_time()
    placed = PeerWalk(layers, hardware.cores).walked(seconds)
    if placed is None:
        yield [network, "ours, its model", "none found"]
    else:
        used = len({core for replicas in placed for blocks in replicas for core in blocks})
        theirs = in_its_model(layers, placed, hardware.cores)
        yield [network, "ours, its model", "", *theirs, "", str(used), f"{time.process_time() - begun:.1f}"]


def in_its_model(layers: Sequence[PeerLayer], placed: RowBlockCores, cores: int) -> list[str]:
    """Cells of the latency, and of what global memory takes for it."""
    latency = peer_latency(layers, placed, cores)
    if latency is None:
        return ["", ""]
    return [f"{latency.us:.1f}", f"{latency.loaded_bytes / MEMORY_BYTES_A_NS / 1000 + stored_us(layers):.1f}"]


def stored_us(layers: Sequence[PeerLayer]) -> float:
    """How long global memory takes for all results."""
    return sum(layer.windows * -(-2 * layer.columns // MEMORY_BYTES_A_NS) for layer in layers) / 1000


def row_block_cores(
    space: CmSpace, candidate: Assignment, layers: Sequence[PeerLayer], parts: Container[str]
) -> RowBlockCores:
    """A design of ours as PIMCOMP-NN has it: layers are told by the size of their matrices and their windows, in order. parts: layers that
    it has no matrices of, by which ours sums the squares of an LRN. ValueError for a layer that the other side has not."""
    pipeline, cores = space.lowered(space.replicas(candidate)).pipeline, space.mapping(candidate).cores
    ours: dict[str, dict[int, list[tuple[int, int, int]]]] = {}
    windows: dict[str, int] = defaultdict(int)
    sizes: dict[str, tuple[int, int]] = {}
    for core, stage in zip(cores, pipeline.stages, strict=True):
        if not stage.crossbar_rows or stage.layer in parts:
            continue
        replica = ours.setdefault(stage.layer, {}).setdefault(stage.replica, [])
        replica.append((stage.row_block, core, stage.crossbar_rows))
        windows[stage.layer] += stage.iterations * (stage.row_block == 0)
        sizes.setdefault(stage.layer, (stage.replica, stage.crossbar_columns))
    left = list(ours)
    placed = []
    for layer in layers:
        for name in left:
            rows = sum(rows for *_, rows in ours[name][sizes[name][0]])
            if (rows, sizes[name][1], windows[name]) == (layer.rows, layer.columns, layer.windows):
                break
        else:
            raise ValueError(
                f"{layer.name}: expected a layer of {layer.rows} x {layer.columns}, {layer.windows} windows."
            )
        left.remove(name)
        placed.append(
            [
                [core for _, core, rows in sorted(blocks) for _ in range(-(-rows // BLOCK))]
                for _, blocks in sorted(ours[name].items())
            ]
        )
    return placed


def busiest_us(layers: Sequence[PeerLayer], placed: RowBlockCores) -> float:
    """Products of the busiest core, one every 200 ns."""
    products: dict[int, int] = defaultdict(int)
    for layer, replicas in zip(layers, placed, strict=True):
        steps = windows_of(layer.windows, [blocks[0] for blocks in replicas])[:, 2]
        for blocks, count in zip(replicas, steps, strict=True):
            for core in blocks:
                products[core] += int(count)
    return PRODUCT_NS * max(products.values()) / 1000


if __name__ == "__main__":
    main()
