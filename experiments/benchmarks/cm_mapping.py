"""Tables of `tune --space cm`: timing, mapping ResNet-20 on a mesh, the paper's embedding, buffers. CPU seconds.

python -m kilotune.experiments.benchmarks.cm_mapping --timing --designs --embedding --buffers --resnet20 --seconds 120

Figures called "known" are those measured before for ResNet-20's convolutions, without its pool and its fully connected
layer, on the same mesh (best of three annealing runs of 60 000 moves each, not proved); their
model of a link is the same (elements per image over elements per tick), but replicas exchanged more elements there.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import TypeVar

import numpy as np

from kilotune.codegen.cm.blocks import Crossbar
from kilotune.codegen.cm.hardware import Hardware, Link, load_hardware
from kilotune.codegen.cm.lowering import lower
from kilotune.codegen.cm.partition import partition
from kilotune.codegen.cm.routing import route_tables
from kilotune.codegen.cm.streams import Stream, streams_of
from kilotune.codegen.cm.topologies import CorePair, diagonal_mesh, mesh
from kilotune.codegen.onnx.quantise import integer_shape
from kilotune.evaluators.cm.bound import link_loads, link_ticks
from kilotune.evaluators.cm.recurrence import schedule
from kilotune.evaluators.cm.stream import Setting
from kilotune.evaluators.cm.timing import simulate
from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.experiments.problems.cm.networks import LAYERS, chain, weightless
from kilotune.search.budget import Budget
from kilotune.search.procedure import run_procedure
from kilotune.search.space import Measurement
from kilotune.search.study import Study
from kilotune.spaces.cm.annealing import AnnealedPlacement, Annealer
from kilotune.spaces.cm.baselines import snake_cores
from kilotune.spaces.cm.embedding import (
    Embedding,
    EmbeddingResult,
    solve_as_in_the_paper,
    solve_with_cp_sat,
    solve_without_quantifiers,
)
from kilotune.spaces.cm.joint import joint_annealing
from kilotune.spaces.cm.network import PartitionedNetwork
from kilotune.spaces.cm.procedure import snake_candidate
from kilotune.spaces.cm.replication import Replication
from kilotune.spaces.cm.sharing import StageNeeds
from kilotune.spaces.cm.space import CmSpace

ResultT = TypeVar("ResultT")

WIDTHS = (16, 32, 64)
KNOWN = MappingProxyType({16: 1109, 32: 656, 64: 360})
KNOWN_DESIGNS = MappingProxyType(
    {
        **{(35, 16): 1109, (35, 32): 1024, (35, 64): 1024},
        **{(42, 16): 1312, (42, 32): 656, (42, 64): 512},
        **{(56, 16): 1440, (56, 32): 720, (56, 64): 360},
    }
)
WITHOUT_CONVOLUTION = 2
"""Stages of ResNet-20 that the known designs lack."""

SOLVER_S = 40.0
"""Wall clock, at most, of each encoding of each instance, however many `--seconds` there are: two of the paper's use that up, so that the
table takes two minutes of an idle core."""

UNKNOWN = 1 << 60
ONE_CORE_A_LAYER = Crossbar(1 << 20, 1 << 20)


def main() -> None:
    """Print the tables that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, table in TABLES.items():
        parser.add_argument(f"--{name}", action="store_true", help=table.__doc__)
    parser.add_argument("--seconds", type=float, default=120.0, help="wall clock of a search, or of a solver")
    options = parser.parse_args()
    for name, table in TABLES.items():
        if getattr(options, name):
            print(f"\n{table.__doc__}")
            table(options.seconds)


def timing(_seconds: float) -> None:
    """Ticks with unbounded buffers and no contention; CPU ms of lowering and of an evaluation."""
    columns = ("lowering, ms", "A: bound, us", "recurrence, ms", "B: simulation, ms")
    row("network", "cores", "bottleneck", "latency", *columns)
    networks = [integer_shape(weightless(name)) for name in LAYERS]
    cases = [(chain(8, 32), Crossbar()), *((network, ONE_CORE_A_LAYER) for network in networks)]
    for network, crossbar in [*cases, *((network, Crossbar()) for network in networks)]:
        lowering_s, lowered = timed(partial(lower, partition(network), crossbar), 2)
        pipeline = lowered.pipeline
        streams = streams_of(pipeline)
        setting = Setting.unmapped(pipeline, streams, [1] * len(pipeline.stages))
        hardware = load_hardware("mesh-16x16")
        routes = [(n % len(hardware.links),) for n in range(len(streams))]
        bound_s, _ = timed(partial(link_ticks, link_loads(streams, routes, hardware.links), hardware.links), 100)
        loads_s, _ = timed(partial(link_loads, streams, routes, hardware.links), 100)
        recurrence_s, starts = timed(partial(schedule, pipeline, [1] * len(pipeline.stages)), 5)
        simulate_s, finished = timed(partial(simulate, setting, 1), 5)
        two = simulate(setting, 2).finish_ticks
        assert starts.finish_ticks.tolist() == finished.finish_ticks.tolist()
        cells = (
            f"{1e3 * lowering_s:.0f}",
            f"{1e6 * (loads_s + bound_s):.0f}",
            f"{1e3 * recurrence_s:.2f}",
            f"{1e3 * simulate_s:.2f}",
        )
        row(network.name, len(pipeline.stages), two[1] - two[0], two[0], *cells)


def designs(_seconds: float) -> None:
    """ResNet-20 on an 8x8 mesh with fixed replications: ticks per image of the busiest core or link."""
    row("cores", "width", "compute", "snake", "median random", "3 x 60k moves", "3 x 1M moves", "known", "CPU s")
    network = PartitionedNetwork(partition(integer_shape(weightless("resnet20"))), load_hardware("mesh-8x8"))
    for compute in (1024, 512, 352, 256):
        replicas = cheapest(network, compute)
        pipeline = network.pipeline(replicas)
        stages, streams = len(pipeline.stages), streams_of(pipeline)
        for width in WIDTHS:
            hardware = load_hardware(f"mesh-8x8-{width}")
            begun = time.process_time()
            snake = placed(streams, snake_cores(hardware, stages), hardware)
            rng = np.random.default_rng(0)
            drawn = [placed(streams, rng.permutation(64)[:stages].tolist(), hardware).ticks for _ in range(101)]
            annealer = Annealer(streams, StageNeeds.unshared(stages), hardware)
            best = []
            for moves in (60_000, 1_000_000):
                target = max(compute, snake.ticks // 3)
                runs = [annealer.run(snake, snake.ticks, moves, target, compute, seed) for seed in range(3)]
                best.append(max(compute, min(run.ticks if run else snake.ticks for run in runs)))
            cpu_s = time.process_time() - begun
            known = KNOWN_DESIGNS.get((stages - WITHOUT_CONVOLUTION, width), "")
            snake_ticks = max(compute, snake.ticks)
            row(stages, width, compute, snake_ticks, int(np.median(drawn)), *best, known, f"{cpu_s:.1f}")


def mapping(seconds: float) -> None:
    """ResNet-20 on an 8x8 mesh, replication and placement together: simulated (promised) ticks per image."""
    columns = ("snake", "balanced, snake", "paper's embedding", "random", "tpe", "count_tpe", "refine", "cp", "anneal")
    row("width", *columns, "bound", "known", "CPU s of anneal")
    for width in WIDTHS:
        space = CmSpace.of(integer_shape(weightless("resnet20")), load_hardware(f"mesh-8x8-{width}"))
        cells = [shown(space.measure(snake_candidate(space, balanced))) for balanced in (False, True)]
        procedure = run_procedure(space)
        cells.append(shown(procedure.measurement) if procedure else "none")
        cpu_s = 0.0
        for strategy in columns[3:]:
            begun = time.process_time()
            result = Study(space, strategy).run(InProcessExecutor(space), Budget(seconds=seconds))
            cpu_s = time.process_time() - begun
            proof = ", proved" if result.proved else ""
            cells.append(shown(result.best.measurement) + proof if result.best else "none")
        row(width, *cells, space.least_ticks, KNOWN[width], f"{cpu_s:.0f}")


def embedding(seconds: float) -> None:
    """The paper's problem, every edge on a link: CPU seconds of the encodings, each of which gives up after 40 s of wall clock, and of
    strict annealing."""
    limit_s = min(seconds, SOLVER_S)
    row("instance", "paper's encoding in Z3", "Z3 without quantifiers", "CP-SAT", "annealing")
    for name, edges, pairs, cores in embedding_instances():
        near = np.zeros((cores, cores), dtype=bool)
        for a, b in pairs:
            near[a, b] = True
        problem = Embedding(cores, edges, near)
        cells = []
        for solver in (solve_as_in_the_paper, solve_without_quantifiers, solve_with_cp_sat):
            cpu_s, answer = timed(partial(solver, problem, limit_s), 1)
            cells.append(verdict(problem, answer, cpu_s, limit_s))
        row(name, *cells, anneal_strictly(problem))


def buffers(_seconds: float) -> None:
    """Simulated ticks per image of one design by the ticks that readers may fall behind, and the SRAM that this takes."""
    row("width", "promised", *(f"{room} ticks" for room in (0, 32, 64, 128, 256)))
    for width in WIDTHS:
        space = CmSpace.of(integer_shape(weightless("resnet20")), load_hardware(f"mesh-8x8-{width}"))
        found = [c for c in islice(joint_annealing(space, 0), 12) if c is not None][-1]
        cells, promised = [], 0.0
        for room in (0, 32, 64, 128, 256):
            answers = {name: room if name.startswith("buffer") else answer for name, answer in found.items()}
            metrics = space.measure(answers).metrics
            promised = metrics["promised_ticks"]
            cells.append(f"{metrics['ticks_per_image']:.1f} ({metrics['sram_bytes'] / 1024:.0f} KiB)")
        row(width, int(promised), *cells)


def embedding_instances() -> list[tuple[str, tuple[CorePair, ...], list[CorePair], int]]:
    """As many partitions as cores: chains, and every other stage bridged by a residual edge."""
    found = []
    for cores, rows in ((32, 4), (64, 8)):
        line = tuple((k, k + 1) for k in range(cores - 1))
        residual = line + tuple((k, k + 2) for k in range(0, cores - 2, 2))
        found.append((f"chain, mesh {cores}/{cores}", line, mesh(rows, 8), cores))
        found.append((f"residual, mesh + diagonals {cores}/{cores}", residual, diagonal_mesh(rows, 8), cores))
    return found


def anneal_strictly(problem: Embedding) -> str:
    """CPU seconds until every edge is on a link, at most 20 runs."""
    links = [Link(a, b, 1, 1) for a, b in np.argwhere(problem.near).tolist()]
    gmem = [Link(problem.cores, 0, 1, 1), Link(0, problem.cores, 1, 1)]
    hardware = Hardware("grid", problem.cores, (*links, *gmem), 1, 1, 1, 1, 1)
    nothing = np.zeros(0, dtype=np.int32)
    streams = [
        Stream(a, b, np.ones(1, dtype=bool), nothing, nothing, 1, k, 1, 8) for k, (a, b) in enumerate(problem.edges)
    ]
    annealer = Annealer(streams, StageNeeds.unshared(problem.partitions), hardware, strict=True)
    here = AnnealedPlacement(tuple(range(problem.partitions)), (0,) * len(streams), UNKNOWN)
    begun = time.process_time()
    for seed in range(20):
        found = annealer.run(here, UNKNOWN, 2_000_000, 1 << 30, 1, seed, hot=50.0, cold=2.0)
        if found is not None and problem.holds(found.cores):
            return f"{time.process_time() - begun:.2f}"
    return f"not in {time.process_time() - begun:.1f}"


def verdict(problem: Embedding, answer: EmbeddingResult, cpu_s: float, limit_s: float) -> str:
    """CPU seconds, checked; of one that gave up the wall clock as well."""
    if answer.cores is None:
        return (
            f"impossible {cpu_s:.2f}"
            if answer.impossible
            else f"given up after {limit_s:g} s of wall clock, {cpu_s:.1f}"
        )
    assert problem.holds(answer.cores)
    return f"{cpu_s:.2f}"


def cheapest(network: PartitionedNetwork, ticks: int) -> dict[str, Replication]:
    """Row blocks only, as few as let every layer run in so many ticks."""
    found = {}
    for shape in network.shapes():
        by_rows = (r for r in shape.replications() if r.axis == "rows" and shape.iterations(r) <= ticks)
        found[shape.name] = next(by_rows)
    return found


def placed(streams: Sequence[Stream], cores: Sequence[int], hardware: Hardware) -> AnnealedPlacement:
    """On first routes."""
    tables, gmem = route_tables(hardware), hardware.gmem
    nodes = [*cores, gmem]  # GMEM, -1, is the last one
    routes = [tables.route(nodes[s.writer], nodes[s.reader], 0) for s in streams]
    ticks = link_ticks(link_loads(streams, routes, hardware.links), hardware.links)
    return AnnealedPlacement(tuple(cores), (0,) * len(streams), ticks)


def shown(measurement: Measurement) -> str:
    """Simulated ticks, promised ones, cores."""
    if measurement.failure is not None:
        return "failed"
    m = measurement.metrics
    return f"{m['ticks_per_image']:.0f} ({m['promised_ticks']:.0f}; {m['cores']:.0f} cores)"


def timed(work: Callable[[], ResultT], repeats: int) -> tuple[float, ResultT]:
    """CPU seconds of one repetition, after one that is not counted where there are more."""
    result = work() if repeats > 1 else None
    begun = time.process_time()
    for _ in range(repeats):
        result = work()
    assert result is not None
    return (time.process_time() - begun) / repeats, result


def row(*cells: object) -> None:
    """One line, cells apart."""
    print(" | ".join(str(cell) for cell in cells), flush=True)


TABLES = MappingProxyType(
    {"timing": timing, "designs": designs, "embedding": embedding, "buffers": buffers, "resnet20": mapping}
)

if __name__ == "__main__":
    main()
