"""Our mappings beside PIMCOMP-NN's, each in both cost models, on PIMCOMP-NN's default configuration (`pimcomp-144`).

    python -m kilotune.experiments.benchmarks.cm_pimcomp [--seconds 8] FILE.json ...

A FILE holds runs of PIMCOMP-NN (Sun et al., 2023; batch mode) on one network: under `layers` the layers' `name`, `weight_rows`,
`weight_cols` and `sliding_windows`, under `runs` the `method`, `latency_us` and, as `per_layer`, of every layer its `replicas`,
the `core_of_row_block_per_replica` and the `windows_per_replica`, under `latency_us_by_method` what the tool said, and under `network`
resnet18, squeezenet or googlenet.

*Its model*: a core starts the matrix-vector products of its row blocks (128 rows) of a step one after the other, one every 200 ns, and a
step takes 600 ns more, for a product takes 800; the busiest core counts. It leaves out what that core waits for (global
memory, other cores), which the tool's own latency has. *Our model*: a core starts one row block every tick of 200 ns, for one stage
after the other, and poolings, the image, links and buffers count; ours is simulated. Of PIMCOMP-NN's mappings only the products of
the busiest core are said: no schedule of them is faster. Of our designs two are shown: that of the fewest microseconds in our model,
and the fewest in its model of designs that are replicated as often as brings every stage down to a tenth and up to a half of what a
core does, for there every step of a core's slowest stage costs three products more: stages of many steps lie together, as far as
crossbars let them (`packed_by_steps`).
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from kilotune.codegen.cm.hardware import Hardware, load_hardware
from kilotune.codegen.cm.pipeline import GMEM, Pipeline
from kilotune.codegen.cm.streams import Stream
from kilotune.codegen.onnx.quantise import integer_shape
from kilotune.experiments.problems.cm.networks import weightless
from kilotune.search.space import Assignment
from kilotune.spaces.cm.arrangement import arranged
from kilotune.spaces.cm.buffers import ALL_OF_IT
from kilotune.spaces.cm.joint import joint_annealing
from kilotune.spaces.cm.pacing import grained_replicas
from kilotune.spaces.cm.replication import Replication
from kilotune.spaces.cm.sharing import CoreFilling, StageNeeds
from kilotune.spaces.cm.space import CmSpace

NETWORKS = MappingProxyType({"resnet18": "resnet18", "squeezenet": "squeezenet1.1", "googlenet": "googlenet"})
COLUMNS = ("network", "mapping", "its latency, us", "its model, us", "our model, us", "cores", "CPU s")
GRAINS = (0.5, 0.35, 0.25, 0.15, 0.1)
STEP_WEIGHT = 3
"""What a stage's steps count beside its time and its crossbars, where stages are put together."""

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
        for row in own_rows(described["network"], hardware, options.seconds):
            print(" | ".join(row), flush=True)


def peer_row(described: Mapping[str, Any], run: Mapping[str, Any], hardware: Hardware) -> list[str]:
    """One of the tool's runs."""
    parts = []
    for placed in run["per_layer"]:
        for blocks, steps in zip(placed["core_of_row_block_per_replica"], placed["windows_per_replica"], strict=True):
            parts += [CorePart(core, 1, steps) for core in blocks]
    cells = f"{run['latency_us']:.0f}", f"{busiest_us(parts):.1f}", f"at least {busiest_us(parts, step_ns=0):.1f}"
    cpu_s = f"{run['cpu_s_self_reported_to_end_of_evaluation']:.1f}"
    return [described["network"], run["method"], *cells, str(len({part.core for part in parts})), cpu_s]


def own_rows(network: str, hardware: Hardware, seconds: float) -> Iterator[list[str]]:
    """The best mappings of our search, by our model and by theirs."""
    begun = time.process_time()
    space = CmSpace.of(integer_shape(weightless(NETWORKS[network])), hardware)
    best, row = math.inf, list[str]()
    for candidate in joint_annealing(space, 0):
        if candidate is not None:
            ours, cells = in_both(space, candidate)
            if ours < best:
                best, row = ours, [network, "ours", *cells, f"{time.process_time() - begun:.1f}"]
        if time.process_time() - begun > seconds:
            break
    yield row
    begun, found = time.process_time(), None
    for grain in GRAINS:
        packed = finely_replicated(space, grain)
        if packed is not None and (found is None or packed.theirs_us < found.theirs_us):
            found = packed
        if time.process_time() - begun > seconds:
            break
    if found is not None:
        _, cells = in_both(space, found.candidate(space))
        yield [network, "ours, its model", *cells, f"{time.process_time() - begun:.1f}"]


def in_both(space: CmSpace, candidate: Assignment) -> tuple[float, list[str]]:
    """Microseconds in our model, infinity where it can't be run; and the row's cells, which have those in theirs as well."""
    pipeline, cores = space.lowered(space.replicas(candidate)).pipeline, space.mapping(candidate).cores
    ours = space.measure(candidate).metrics.get("image_us", math.inf)
    theirs = busiest_us(own_parts(pipeline, cores, space.hardware))
    return ours, ["", f"{theirs:.1f}", f"{ours:.1f}", str(len(set(cores)))]


@dataclass(frozen=True)
class PackedStages:
    """Replications, cores by stage, not laid out yet, and what their model says of the busiest."""

    replicas: Mapping[str, Replication]
    cores: tuple[int, ...]
    theirs_us: float

    def candidate(self, space: CmSpace) -> Assignment:
        """Cores that talk laid out near one another, buffers that fill them."""
        places = _laid_out(space, space.lowered(self.replicas).streams, self.cores)
        return space.candidate(self.replicas, [places[core] for core in self.cores], buffer=ALL_OF_IT)


def finely_replicated(space: CmSpace, grain: float) -> PackedStages | None:
    """Stages of so much of what a core does an image, on the cores where their model has the busiest one do least. None: they do not
    fit."""
    replicas = grained_replicas(space.costs, grain * space.least_ticks, space.cores)
    if replicas is None:
        return None
    lowered = space.lowered(replicas)
    parts = {part.core: part for part in own_parts(lowered.pipeline, range(lowered.needs.stages), space.hardware)}
    work = [
        (parts[k].row_blocks * parts[k].steps, parts[k].steps) if k in parts else (0, 0)
        for k in range(lowered.needs.stages)
    ]
    low = START_NS * sum(lowered.needs.ticks) / space.hardware.cores
    high, cores = 4 * low, None
    while high - low > START_NS:
        found = packed_by_steps(space.hardware, lowered.needs, work, (low + high) / 2)
        if found is None:
            low = (low + high) / 2
        else:
            high, cores = (low + high) / 2, found
    if cores is None:
        return None
    return PackedStages(replicas, cores, busiest_us(own_parts(lowered.pipeline, cores, space.hardware)))


def _laid_out(space: CmSpace, streams: Sequence[Stream], cores: Sequence[int]) -> tuple[int, ...]:
    """Where cores go, with all of their stages, so that those that talk are near. cores: by stage."""
    hardware = space.hardware
    full = (hardware.core_rows,) * hardware.cores
    nothing = (0,) * hardware.cores
    between = [
        replace(
            s,
            writer=s.writer if s.writer == GMEM else cores[s.writer],
            reader=s.reader if s.reader == GMEM else cores[s.reader],
        )
        for s in streams
        if GMEM in (s.writer, s.reader) or cores[s.writer] != cores[s.reader]
    ]
    return arranged(between, StageNeeds(full, nothing, nothing), hardware, range(hardware.cores), 0)


def packed_by_steps(
    hardware: Hardware, needs: StageNeeds, work: Sequence[tuple[int, int]], most_ns: float
) -> tuple[int, ...] | None:
    """Cores by stage, none of which their model charges more than so much, nor ours. work: of each stage, products and steps an image.
    The stages that take most come first, each on the core whose room it fits best: by time and crossbars, a stage's and what is left of
    the core's, multiplied and added up (vector packing by dot products, Panigrahy et al. 2011), less what it makes a core's steps
    longer. None: not all find room this way."""
    filling, cores = CoreFilling(hardware, needs), [0] * needs.stages
    products, steps = [0] * hardware.cores, [0] * hardware.cores
    time_part = [START_NS * ticks / most_ns for ticks in needs.ticks]
    rows_part = [rows / hardware.core_rows for rows in needs.rows]
    step_part = [STEP_WEIGHT * STEP_NS * s / most_ns for _, s in work]

    def busy_ns(core: int, stage: int) -> float:
        theirs = START_NS * (products[core] + work[stage][0]) + STEP_NS * max(steps[core], work[stage][1])
        return max(theirs, START_NS * (filling.ticks[core] + needs.ticks[stage]))

    def fit(core: int, stage: int) -> float:
        left = 1 - (START_NS * products[core] + STEP_NS * steps[core]) / most_ns
        longer = STEP_WEIGHT * STEP_NS * max(0, work[stage][1] - steps[core]) / most_ns
        return left * time_part[stage] + (1 - filling.rows[core] / hardware.core_rows) * rows_part[stage] - longer

    for stage in sorted(range(needs.stages), key=lambda k: -max(time_part[k], rows_part[k]) - step_part[k]):
        open_ones = [core for core in filling.with_room(stage) if busy_ns(core, stage) <= most_ns]
        if not open_ones:
            return None
        core = max(open_ones, key=lambda c: (fit(c, stage), -c))
        filling.put(stage, core)
        products[core], steps[core] = products[core] + work[stage][0], max(steps[core], work[stage][1])
        cores[stage] = core
    return tuple(cores)


def own_parts(pipeline: Pipeline, cores: Sequence[int], hardware: Hardware) -> list[CorePart]:
    """What their model charges of a pipeline: matrices only. cores: by stage."""
    return [
        CorePart(core, -(-stage.crossbar_rows // hardware.crossbar_rows), stage.iterations)
        for core, stage in zip(cores, pipeline.stages, strict=True)
        if stage.crossbar_rows
    ]


def busiest_us(parts: Sequence[CorePart], step_ns: int = STEP_NS) -> float:
    """Their model, without waiting. step_ns: what a step takes beyond its products."""
    products: dict[int, int] = defaultdict(int)
    steps: dict[int, int] = defaultdict(int)
    for part in parts:
        products[part.core] += part.row_blocks * part.steps
        steps[part.core] = max(steps[part.core], part.steps)
    return max(START_NS * products[core] + step_ns * steps[core] for core in products) / 1000


if __name__ == "__main__":
    main()
