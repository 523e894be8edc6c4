"""Our mappings beside PIMCOMP-NN's, each in both cost models, on PIMCOMP-NN's default configuration (`pimcomp-144`).

    python -m kilotune.experiments.benchmarks.cm_pimcomp [--seconds S] FILE.json ...

A FILE holds runs of PIMCOMP-NN (Sun et al., 2023; batch mode) on one network: under `layers` the layers' `name`, `weight_rows`,
`weight_cols` and `sliding_windows`, under `runs` the `method`, `latency_us` and, as `per_layer`, of every layer its `replicas`,
the `core_of_row_block_per_replica` and the `windows_per_replica`, under `latency_us_by_method` what the tool said, and under `network`
resnet18, squeezenet or googlenet.

*Its model*: a core starts the matrix-vector products of its row blocks (128 rows) of a step one after the other, one every 200 ns, and a
step takes 600 ns more, for a product takes 800; the busiest core counts. It leaves out what that core waits for (global
memory, other cores), which the tool's own latency has. *Our model*: a core starts one row block every tick of 200 ns, for one stage
after the other, and poolings, the image, links and buffers count; ours is simulated. Of PIMCOMP-NN's mappings only the products of
the busiest core are said: no schedule of them is faster. Of our designs two are shown: that of the fewest microseconds in our model,
and the fewest in its model, where every step of a core's slowest stage costs three products more. That one is found by a walk over
replications, from those that bring every stage down to a tenth of what a core does, each judged by how many cores hold its stages
(`core_patterns`); it is lowered and laid out once, and its CPU seconds are those of all this together.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from kilotune.codegen.cm.hardware import Hardware, load_hardware
from kilotune.codegen.cm.pipeline import GMEM, Pipeline
from kilotune.codegen.cm.replicas import replica_rectangles
from kilotune.codegen.cm.streams import Stream
from kilotune.codegen.onnx.quantise import integer_shape
from kilotune.experiments.benchmarks.core_patterns import CoreRoom, Pattern, StageKind, fractional_cores, whole_cores
from kilotune.experiments.problems.cm.networks import weightless
from kilotune.search.space import Assignment
from kilotune.spaces.cm.arrangement import arranged
from kilotune.spaces.cm.buffers import ALL_OF_IT
from kilotune.spaces.cm.evening import alike
from kilotune.spaces.cm.joint import joint_annealing
from kilotune.spaces.cm.lowered import LoweredPipeline
from kilotune.spaces.cm.pacing import grained_replicas
from kilotune.spaces.cm.replication import Replication
from kilotune.spaces.cm.sharing import CoreFilling, StageNeeds
from kilotune.spaces.cm.space import CmSpace

NETWORKS = MappingProxyType({"resnet18": "resnet18", "squeezenet": "squeezenet1.1", "googlenet": "googlenet"})
COLUMNS = ("network", "mapping", "its latency, us", "its model, us", "our model, us", "cores", "CPU s")
GRAIN = 0.15
"""What a stage does at first of what a core does, in our search for their model; so much of a layer's."""

WALKING = 0.3
"""How much of the seconds goes by before what has been found is lowered and laid out."""

STARTING_ABOVE, LOOSER, TIGHTER, NEAR = 1.5, 1.15, 0.1, 3
"""How many times as much as if all did the same a core may do at first, how many times as much where that is not enough, and what part of
what is above it is taken off at once; how many options a layer's replicas may go up or down."""
WHOLE_SECONDS = 1.0

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
    parser.add_argument(
        "--seconds", type=float, help="CPU seconds of our searches, each; else the median of the file's genetic ones"
    )
    options = parser.parse_args()
    hardware = load_hardware("pimcomp-144")
    print(" | ".join(COLUMNS), flush=True)
    for name in options.files:
        described = json.loads(Path(name).read_text(encoding="utf-8"))
        for run in described["runs"]:
            print(" | ".join(peer_row(described, run, hardware)), flush=True)
        genetic = [cpu_s_of(run) for run in described["runs"] if run["method"] == "GA"]
        for row in own_rows(described["network"], hardware, options.seconds or float(np.median(genetic))):
            print(" | ".join(row), flush=True)


def peer_row(described: Mapping[str, Any], run: Mapping[str, Any], hardware: Hardware) -> list[str]:
    """One of the tool's runs."""
    parts = []
    for placed in run["per_layer"]:
        for blocks, steps in zip(placed["core_of_row_block_per_replica"], placed["windows_per_replica"], strict=True):
            parts += [CorePart(core, 1, steps) for core in blocks]
    cells = f"{run['latency_us']:.0f}", f"{busiest_us(parts):.1f}", f"at least {busiest_us(parts, step_ns=0):.1f}"
    return [
        described["network"],
        run["method"],
        *cells,
        str(len({part.core for part in parts})),
        f"{cpu_s_of(run):.1f}",
    ]


def cpu_s_of(run: Mapping[str, Any]) -> float:
    """As the tool itself says, to the end of its evaluation."""
    return float(run["cpu_s_self_reported_to_end_of_evaluation"])


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
    begun = time.process_time()
    replicas = grained_replicas(space.costs, GRAIN * space.least_ticks, space.cores)
    found = None if replicas is None else ReplicationWalk(space, replicas).walked(WALKING * seconds)
    candidate = None if found is None else found.candidate(space)
    if candidate is not None:
        _, cells = in_both(space, candidate)
        yield [network, "ours, its model", *cells, f"{time.process_time() - begun:.1f}"]


def in_both(space: CmSpace, candidate: Assignment) -> tuple[float, list[str]]:
    """Microseconds in our model, infinity where it can't be run; and the row's cells, which have those in theirs as well."""
    pipeline, cores = space.lowered(space.replicas(candidate)).pipeline, space.mapping(candidate).cores
    ours = space.measure(candidate).metrics.get("image_us", math.inf)
    theirs = busiest_us(own_parts(pipeline, cores, space.hardware))
    return ours, ["", f"{theirs:.1f}", f"{ours:.1f}", str(len(set(cores)))]


@dataclass(frozen=True)
class PackedStages:
    """Replications with patterns of cores that hold all stages, and products that the busiest core may do, with its steps."""

    replicas: Mapping[str, Replication]
    patterns: Sequence[Pattern]
    most: int

    def candidate(self, space: CmSpace) -> Assignment | None:
        """Cores that talk laid out near one another, buffers that fill them. None: stages without products find no room."""
        lowered = space.lowered(self.replicas)
        cores = self._cores(lowered, space.hardware)
        if cores is None:
            return None
        places = _laid_out(space, lowered.streams, cores)
        return space.candidate(self.replicas, [places[core] for core in cores], buffer=ALL_OF_IT)

    def _cores(self, lowered: LoweredPipeline, hardware: Hardware) -> list[int] | None:
        """By stage: one whose pattern has its kind; of stages without products the one with room that does least, in our model."""
        filling, cores = CoreFilling(hardware, lowered.needs), [-1] * lowered.needs.stages
        open_ones: dict[StageKind, list[int]] = defaultdict(list)
        for core, pattern in enumerate(self.patterns):
            for kind, count in pattern:
                open_ones[kind] += [core] * count
        blocks = [-(-stage.crossbar_rows // hardware.crossbar_rows) for stage in lowered.pipeline.stages]
        for stage in sorted(range(lowered.needs.stages), key=lambda k: (not blocks[k], -lowered.needs.ticks[k])):
            steps, rows = lowered.pipeline.stages[stage].iterations, lowered.needs.rows[stage]
            if blocks[stage]:
                core = open_ones[StageKind(blocks[stage] * steps, steps, rows)].pop()
            else:
                core = min(filling.with_room(stage), key=lambda c: filling.ticks[c], default=-1)
            if core < 0 or not filling.has_room(stage, core, sram=False):
                return None
            filling.put(stage, core)
            cores[stage] = core
        return cores


class ReplicationWalk:
    """From replications to others, a layer at a time, for which their model needs no more cores; and down with what a core may do as soon
    as there are cores enough."""

    def __init__(self, space: CmSpace, replicas: Mapping[str, Replication], seed: int = 0) -> None:
        self._space, self._rng = space, np.random.default_rng(seed)
        once, blocks = space.lowered({}).pipeline, defaultdict[str, list[int]](list)
        for stage in once.stages:
            blocks[stage.layer].append(-(-stage.crossbar_rows // space.hardware.crossbar_rows))
        self._blocks = blocks
        self._costs = [cost for cost in space.costs if any(blocks[cost.shape.name])]
        self._replicas = dict(replicas)
        products = sum(kind.products * count for kind, count in self._counts(self._replicas).items())
        self._evenly = products / space.hardware.cores
        self._most = math.ceil(STARTING_ABOVE * self._evenly)
        self._known: dict[Pattern, None] = {}
        self._least = math.inf
        self.best: PackedStages | None = None

    def walked(self, seconds: float) -> PackedStages | None:
        """What has been found after so many CPU seconds; None: nothing."""
        begun = time.process_time()
        moved = self._look_at(self._replicas)
        while self._least > self._space.hardware.cores:
            self._most, self._least = math.ceil(LOOSER * self._most), math.inf
            self._look_at(self._replicas)
        while time.process_time() - begun < seconds:
            if moved and self._least <= self._space.hardware.cores:
                moved = self._tightened()
            else:
                other = self._neighbour()
                moved = other is not None and self._look_at(other)
        return self.best

    def _room(self) -> CoreRoom:
        return CoreRoom(self._most, self._space.hardware.core_rows, STEP_NS // START_NS)

    def _look_at(self, replicas: dict[str, Replication]) -> bool:
        """Go there if it needs no more cores."""
        found = fractional_cores(self._counts(replicas), self._room(), self._known, self._least)
        self._known.update((pattern, None) for pattern in found.patterns)
        if not found.patterns:
            return False
        self._replicas, self._least = replicas, found.cores
        return True

    def _tightened(self) -> bool:
        """There are cores enough: whether there are whole ones as well, so that each may do less from now on."""
        counts, cores = self._counts(self._replicas), self._space.hardware.cores
        patterns = whole_cores(counts, list(self._known), self._room(), cores, WHOLE_SECONDS)
        if patterns is None:
            return False
        steps = STEP_NS // START_NS
        busiest = max(sum(k.products * n for k, n in p) + steps * max(k.steps for k, _ in p) for p in patterns)
        self.best = PackedStages(self._replicas, patterns, busiest)
        self._most, self._least = math.ceil(busiest - TIGHTER * (busiest - self._evenly)) - 1, math.inf
        self._look_at(self._replicas)
        return True

    def _neighbour(self) -> dict[str, Replication] | None:
        """One layer a few options more or less often there, cut along the same axis."""
        cost = self._costs[int(self._rng.integers(len(self._costs)))]
        name = cost.shape.name
        options = alike(cost, self._replicas[name])
        here = options.index(self._replicas[name])
        other = options[int(np.clip(here + self._rng.integers(-NEAR, NEAR + 1), 0, len(options) - 1))]
        return None if other == self._replicas[name] else {**self._replicas, name: other}

    def _counts(self, replicas: Mapping[str, Replication]) -> dict[StageKind, int]:
        """How many stages with products there are of each kind."""
        found = Counter[StageKind]()
        for cost in self._costs:
            shape, one = cost.shape, replicas[cost.shape.name]
            for part in replica_rectangles(shape.height, shape.width, one.count, one.axis):
                steps = part.height * part.width
                found.update(
                    StageKind(blocks * steps, steps, rows)
                    for blocks, rows in zip(self._blocks[shape.name], cost.stage_rows, strict=True)
                )
        return found


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
