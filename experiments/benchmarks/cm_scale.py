"""How `cm` does at scale: what a search finds, the bound, the gap between them, and how many mappings it measures. CPU seconds.

    python -m kilotune.experiments.benchmarks.cm_scale [--seconds 60] [--seed 0] [NETWORK@TOPOLOGY-ROWSxCOLUMNS ...]
    python -m kilotune.experiments.benchmarks.cm_scale --random 20 --seconds 4

NETWORK is a named one, or the path of an ONNX file (a topology with constant weights will do). The accelerator is one of
`mesh-16x16`'s cores, links and ports at the corners, in a mesh or a torus of any size; `--bits` charges links by bits, as
`mesh-8x8-bits` does. Without a network: those of CASES. `--random` takes so many random networks of few layers on an 8x8 mesh.

Of each: stages of one replica; ticks an image in snake order, of the best mapping found, what no mapping beats, and the gap; the CPU
seconds until something was feasible and until the best; mappings measured, those of them that were simulated to their steady state (the
others go on as one before them does, tick for tick, for nothing waits in their buffers either), and how many were measured a CPU-second
of measuring; what the search promises itself of placements (fidelity A) a CPU-second of annealing; and candidates decided a CPU-second
of the whole search, placements and measured mappings alike: the busiest core and link of a placement, which are known exactly, are ticks
that no buffers bring it below, so that one that promises no fewer than the best needs no simulation.
"""

from __future__ import annotations

import argparse
import math
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from kilotune.codegen.cm.hardware import Hardware, parse_hardware
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.onnx.graph import Graph
from kilotune.codegen.onnx.importing import import_model, load_model
from kilotune.codegen.onnx.quantise import integer_shape
from kilotune.codegen.onnx.topology import IMAGE, Topology
from kilotune.experiments.commands.exit_status import ExitStatus
from kilotune.experiments.problems.cm.networks import LAYERS, weightless
from kilotune.search.abandoning import abandonable
from kilotune.search.space import Assignment, Measurement
from kilotune.spaces.cm.annealing import Annealer
from kilotune.spaces.cm.joint import joint_annealing
from kilotune.spaces.cm.procedure import snake_candidate
from kilotune.spaces.cm.space import CmSpace

CASES = (
    "resnet20@mesh-8x8",
    "resnet18@mesh-16x16",
    "resnet18@torus-16x16",
    "squeezenet1.0@mesh-16x16",
    "squeezenet1.0@torus-16x16",
    "resnet50@mesh-32x32",
    "vgg16@mesh-64x64",
)
COLUMNS = (
    *("network", "hardware", "stages", "snake", "best", "bound", "gap, %", "feasible after, s", "best after, s"),
    *("measured", "simulated", "measured a s", "placements a s", "decided a s"),
)
SMALL = "mesh-8x8"


def main() -> None:
    """Print the table, a row as soon as it is known."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=CASES, metavar="NETWORK@HARDWARE")
    parser.add_argument("--seconds", type=float, default=60.0, help="CPU seconds a search")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--random", type=int, default=0, metavar="N", help="so many random networks instead")
    parser.add_argument("--bits", action="store_true", help="links and buffers count bits")
    parser.add_argument("--stages", type=int, default=1, metavar="N", help="so many stages may share a core")
    options = parser.parse_args()
    try:
        found = list(_printed(options))
    except InputError as error:
        parser.exit(ExitStatus.BAD_INPUT, f"cm_scale: {error}\n")
    ratios = [row.best / row.bound for row in found]
    proved = sum(ratio <= 1 for ratio in ratios)
    print(f"at the bound: {proved} of {len(found)}; above 1.5 times it: {sum(ratio > 1.5 for ratio in ratios)}")


def _printed(options: argparse.Namespace) -> Iterator[SearchedNetwork]:
    """What is asked for. All names are read before anything is searched: a mistake in the last one is told at once."""
    cases = list(_cases(options.cases, options.random, options.bits))
    print(" | ".join(COLUMNS), flush=True)
    for graph, plain in cases:
        row = searched(graph, replace(plain, stages_per_core=options.stages), options.seconds, options.seed)
        print(" | ".join(row.cells()), flush=True)
        yield row


def _cases(names: list[str], random: int, bits: bool) -> Iterator[tuple[Graph, Hardware]]:
    for seed in range(random):
        yield random_network(seed), hardware(SMALL, bits)
    for name in [] if random else names:
        network, _, accelerator = name.partition("@")
        yield network_of(network), hardware(accelerator or SMALL, bits)


def network_of(name: str) -> Graph:
    """A named one or a file, in integers without weights. InputError where it is neither."""
    if name in LAYERS:
        return integer_shape(weightless(name))
    if not Path(name).exists():
        raise InputError(name, expected=f"an ONNX file, or one of {', '.join(sorted(LAYERS))}", found="neither")
    return integer_shape(import_model(load_model(Path(name)), name))


def hardware(name: str, bits: bool) -> Hardware:
    """`mesh-ROWSxCOLUMNS` or `torus-ROWSxCOLUMNS`. InputError where the size is none."""
    return parse_hardware(hardware_file(name, bits), name)


def hardware_file(name: str, bits: bool = False) -> dict[str, Any]:
    """The content of a hardware file for `mesh-ROWSxCOLUMNS` or `torus-ROWSxCOLUMNS`."""
    asked = re.fullmatch(r"(mesh|torus)-(\d{1,4})x(\d{1,4})", name)
    if asked is None:
        raise InputError(name, expected="mesh-ROWSxCOLUMNS or torus-ROWSxCOLUMNS", found="another accelerator")
    kind, rows, columns = asked[1], int(asked[2]), int(asked[3])
    width = {"bits_per_tick": 512} if bits else {"elements_per_tick": 64}
    described: dict[str, Any] = {
        "name": name,
        "topology": {"kind": kind, "rows": rows, "columns": columns},
        "link": {**width, "hop_ticks": 1},
        "crossbar": {"rows": 256, "columns": 256, "per_core": 1},
        "core": {"sram_bytes": 65536, "dpu_operations_per_tick": 4096},
    }
    last = rows * columns - 1
    corners = [0, columns - 1, last - columns + 1, last]
    ports = {"input_ports": corners, "output_ports": corners}
    described["gmem"] = {**ports, **width, "hop_ticks": 1, "order": "row-major"}
    return described if bits else {**described, "element_bytes": 1}


def random_network(seed: int) -> Graph:
    """Convolutions of 1x1 to 5x5 with strides, groups and residual additions, poolings, and sometimes a classifier."""
    rng = np.random.default_rng(seed)
    side = int(rng.integers(16, 49))
    net = Topology(f"random-{seed}", (int(rng.integers(1, 5)), side, side))
    x = IMAGE
    for k in range(int(rng.integers(2, 8))):
        channels, high, _ = net.shape(x)
        kind = rng.random()
        if kind < 0.2 and high >= 6:
            x = net.pool(str(rng.choice(["MaxPool", "AveragePool"])), x, f"pool{k}", 2, 2)
        elif kind < 0.5 and k:
            y = net.node("Relu", [net.conv(x, f"conv{k}", channels, 3, bias=True)], f"relu{k}")
            x = net.node("Add", [x, net.conv(y, f"conv{k}b", channels, 1)], f"add{k}")
        else:
            kernel, stride = int(rng.choice([1, 3, 3, 5])), int(rng.choice([1, 1, 2]))
            x = net.conv(x, f"conv{k}", int(rng.integers(4, 65)), kernel, stride, bias=True)
            x = net.node("Relu", [x], f"relu{k}")
    if rng.random() < 0.5:
        x = net.linear(net.node("GlobalAveragePool", [x], "average"), "fc", 10)
    return integer_shape(net.graph(x))


@dataclass
class SearchedNetwork:
    """What a search has come to, in ticks and CPU seconds."""

    network: str
    hardware: str
    stages: int
    snake: float
    bound: int
    best: float = math.inf
    feasible_s: float = math.inf
    best_s: float = math.inf
    measured: int = 0
    measuring_s: float = 0.0
    simulated: int = 0
    placements: int = 0
    annealing_s: float = 0.0
    searching_s: float = 0.0

    def note(self, measurement: Measurement, begun: float, since: float) -> None:
        """A mapping that has been measured, by the CPU clock at the beginning of the search and of the measurement."""
        now = time.process_time()
        self.measured += 1
        self.measuring_s += now - since
        ticks = ticks_of(measurement)
        if math.isfinite(ticks):
            self.feasible_s = min(self.feasible_s, now - begun)
        if ticks < self.best:
            self.best, self.best_s = ticks, now - begun

    def cells(self) -> list[str]:
        """As COLUMNS has them."""
        gap = f"{100 * (self.best / self.bound - 1):.1f}" if math.isfinite(self.best) else "none found"
        shown = [f"{self.snake:.0f}", f"{self.best:.1f}", str(self.bound), gap]
        shown += [f"{self.feasible_s:.1f}", f"{self.best_s:.1f}", str(self.measured), str(self.simulated)]
        decided = self.placements + self.measured
        rates = (self.measured, self.measuring_s), (self.placements, self.annealing_s), (decided, self.searching_s)
        return [self.network, self.hardware, str(self.stages), *shown, *(f"{n / max(s, 1e-9):.1f}" for n, s in rates)]


def ticks_of(measurement: Measurement) -> float:
    """Ticks an image; infinity for what fails."""
    return math.inf if measurement.failure is not None else measurement.metrics["ticks_per_image"]


def searched(graph: Graph, accelerator: Hardware, seconds: float, seed: int) -> SearchedNetwork:
    """What `--strategy anneal` does, with a clock at its parts; what it is at when its time is over is abandoned. Mappings whose buffers
    exceed a core are not counted as found. InputError where the network does not fit."""
    begun = time.process_time()
    try:
        space = CmSpace.of(graph, accelerator)
    except ValueError as error:
        raise InputError(graph.name, expected="an accelerator that it fits", found=str(error).rstrip(".")) from None
    stages = len(space.lowered({}).pipeline.stages)
    snake = ticks_of(space.measure(snake_candidate(space, balanced=False)))
    row = SearchedNetwork(graph.name, accelerator.name, stages, snake, space.least_ticks)
    with SearchClock() as clock:
        with abandonable(
            lambda: time.process_time() - begun >= seconds
        ):  # a step of a large network takes many seconds
            for candidate in joint_annealing(space, seed):
                if candidate is not None:
                    since = time.process_time()
                    row.note(_measured(space, candidate), begun, since)
                if row.best <= row.bound:
                    break
        row.placements, row.annealing_s, row.simulated = clock.moves, clock.seconds, clock.simulated
        row.searching_s = time.process_time() - begun
    return row


def _measured(space: CmSpace, candidate: Assignment) -> Measurement:
    """A failure where the buffers exceed a core."""
    measurement = space.measure(candidate)
    if any(constraint.violation(measurement.metrics) for constraint in space.constraints):
        return Measurement(failure="The buffers exceed a core.")
    return measurement


class SearchClock:
    """Counts moves of all annealing meanwhile, each of which is a placement whose links are known exactly, and simulations of steady
    states."""

    def __init__(self) -> None:
        self.moves, self.seconds, self.simulated = 0, 0.0, 0

    def __enter__(self) -> SearchClock:
        self._run = run = Annealer.run
        self._settled = settled = CmSpace.settled

        def timed(annealer: Annealer, start: Any, best_ticks: int, moves: int, *others: Any, **named: Any) -> Any:
            since = time.process_time()
            found = run(annealer, start, best_ticks, moves, *others, **named)
            self.moves, self.seconds = self.moves + moves, self.seconds + time.process_time() - since
            return found

        def counted(space: CmSpace, *of: Any) -> Any:
            self.simulated += 1
            return settled(space, *of)

        Annealer.run = timed  # type: ignore[method-assign, assignment]
        CmSpace.settled = counted  # type: ignore[method-assign, assignment]
        return self

    def __exit__(self, *_: object) -> None:
        Annealer.run = self._run  # type: ignore[method-assign]
        CmSpace.settled = self._settled  # type: ignore[method-assign]


if __name__ == "__main__":
    main()
