"""Tables of `tune --space memory`: programs, challenge instances, random and tiled ones. CPU seconds; all outputs checked.

python -m kilotune.experiments.benchmarks.placement --programs a.csv b.csv --challenge A.csv --capacity 1048576 --random
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np

from kilotune.codegen.arrays import IntArray
from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.experiments.benchmarks.placement_instances import KINDS, over_points
from kilotune.search.budget import Budget
from kilotune.search.result import Progress, Result
from kilotune.search.strategy import make_strategy
from kilotune.search.study import Study
from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.banks import Bank, MemoryMap
from kilotune.spaces.memory.bounds import largest_live_sum
from kilotune.spaces.memory.checker import check_placement, check_residences
from kilotune.spaces.memory.csv_files import read_instance
from kilotune.spaces.memory.exact import PlacementSearchStep, minimise_peak
from kilotune.spaces.memory.instance import Buffer, Instance, Placement
from kilotune.spaces.memory.orders import GREEDY, place_in_order, sorted_by
from kilotune.spaces.memory.priced_space import PricedSpace
from kilotune.spaces.memory.procedure import block_allocation
from kilotune.spaces.memory.space import MemorySpace

MEGABYTE = 1 << 20


def main() -> None:
    """Print the tables that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", nargs="*", type=Path, default=[], help="CSV files to be solved to proof")
    parser.add_argument("--challenge", nargs="*", type=Path, default=[], help="CSV files to be fitted in --capacity")
    parser.add_argument("--capacity", type=int, default=MEGABYTE, help="bytes")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10.0, help="CPU limit of each solver on each instance")
    parser.add_argument(
        "--baseline-seconds",
        type=float,
        default=2.0,
        help="limit of annealing, TPE and CP-SAT on each challenge instance; 0: none",
    )
    parser.add_argument("--fragmented", type=int, default=0, help="instances that only fit when buffers move")
    parser.add_argument("--random", action="store_true", help="random and tiled instances")
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=tuple(KINDS), help="of --random")
    parser.add_argument("--counts", nargs="*", type=int, default=(20, 100, 1000, 10_000), help="buffers of --random")
    parser.add_argument("--seed", type=int, default=1, help="of --random and --points")
    parser.add_argument(
        "--points", nargs="*", type=int, default=(), help="points of time of 1000 tiles, as cut and smaller"
    )
    parser.add_argument(
        "--greedy-seconds",
        type=float,
        default=5.0,
        help="CPU limit of the greedy orders of --random together, of which one at least is tried to its end",
    )
    options = parser.parse_args()
    if options.programs:
        programs(options.programs, options.seeds, options.seconds)
    if options.challenge:
        challenge(options.challenge, options.capacity, options.seeds, options.seconds)
        if options.baseline_seconds > 0:
            baselines(options.challenge, options.capacity, options.baseline_seconds)
    if options.fragmented:
        fragmented(options.fragmented, options.seconds)
    if options.points:
        few_points(options.points, options.seed, options.seconds)
    if options.random:
        generated(options.kinds, options.counts, options.seed, (options.seconds, options.greedy_seconds))


def programs(paths: Sequence[Path], seeds: int, seconds: float) -> None:
    """The highest of the seeds' peaks, whether all are proved, and CPU seconds by seed, beside the paper's procedure, that procedure
    limited to the live sum, and the greedy orders."""
    spent = (f"CPU s, seed {seed}" for seed in range(seeds))
    row("program", "buffers", "live sum", "peak", "proved", *spent, "paper", "moved at live sum", *GREEDY)
    for path in paths:
        instance = read_instance(path)
        found = [solve(instance, None, seconds, seed) for seed in range(seeds)]
        paper = block_allocation(instance)
        check_residences(instance, paper.residences)
        live = largest_live_sum(instance).peak_bytes
        tight = block_allocation(instance, live) if all(b.alignment == 1 for b in instance.buffers) else None
        moved = "" if tight is None else f"{tight.bytes_migrated} B, {len(tight.migrations)}x"
        if tight is not None:
            check_residences(instance, tight.residences, live)
        peak, proved = max(step.peak_bytes for step, _ in found), all(step.done for step, _ in found)
        row(
            path.stem,
            len(instance.buffers),
            live,
            peak,
            proved,
            *(f"{cpu_s:.2f}" for _, cpu_s in found),
            paper.peak_bytes,
            moved,
            *greedy_peaks(instance),
        )


def challenge(paths: Sequence[Path], capacity: int, seeds: int, seconds: float) -> None:
    """CPU seconds to a placement within the capacity, by seed, and what the greedy orders reach."""
    row("instance", "buffers", "live sum", *(f"seed {s}" for s in range(seeds)), "peak", *GREEDY)
    total = [0.0] * seeds
    for path in paths:
        instance = read_instance(path)
        cells, worst = [], 0
        for seed in range(seeds):
            standing, cpu_s = solve(instance, capacity, seconds, seed)
            total[seed] += cpu_s
            fits = standing.peak_bytes <= capacity
            cells.append(f"{cpu_s:.2f}" + ("" if fits else f" no: {standing.peak_bytes}"))
            worst = max(worst, standing.peak_bytes)
        live = largest_live_sum(instance).peak_bytes
        row(path.stem, len(instance.buffers), live, *cells, worst, *greedy_peaks(instance))
    row("together", "", "", *(f"{t:.2f}" for t in total))


def baselines(paths: Sequence[Path], capacity: int, seconds: float) -> None:
    """Peaks as per cent of the capacity: the greedy orders, then annealing, TPE and CP-SAT after the same limit each."""
    row("% of the capacity", *GREEDY, "annealing", "TPE of sort keys", "CP-SAT", "CPU s of the last three")
    for path in paths:
        instance = read_instance(path)
        peaks: list[int | None] = [*greedy_peaks(instance)]
        begun = time.process_time()
        peaks.append(peak_of(instance, anneal(BufferArrays.of(instance), seconds, seed=0)))
        spent = [time.process_time() - begun]
        for space, strategy in ((MemorySpace(instance), "tpe"), (MemorySpace(instance, capacity), "cp")):
            make_strategy(strategy, space, 0)  # loads its libraries
            result, cpu_s = run_for(space, strategy, seconds)
            spent.append(cpu_s)
            peaks.append(int(result.best.measurement.metrics["peak_bytes"]) if result.best else None)
        cells = ("none" if peak is None else f"{100 * peak / capacity:.1f}" for peak in peaks)
        row(path.stem, *cells, " ".join(f"{s:.2f}" for s in spent))


def run_for(space: MemorySpace, strategy: str, cpu_seconds: float) -> tuple[Result, float]:
    """A study that is stopped by the CPU's clock, which a busy machine does not slow down; a solver may overrun it."""
    study, begun = Study(space, strategy), time.process_time()

    def look(_: Progress) -> None:
        if time.process_time() - begun > cpu_seconds:
            study.stop()

    result = study.run(InProcessExecutor(space), Budget(seconds=20 * cpu_seconds), on_progress=look)
    return result, time.process_time() - begun


def fragmented(count: int, seconds: float) -> None:
    """Small random instances that no placement brings to their live sum: the least bytes moved that do, and the paper's."""
    row(
        "buffers",
        "capacity",
        "least peak",
        "paper moves",
        "least moved",
        "proved",
        "CPU ms",
        "CP-SAT",
        "proved",
        "CPU ms",
    )
    found, seed = 0, 0
    while found < count:
        instance, seed = crowded(seed), seed + 1
        live = largest_live_sum(instance).peak_bytes
        standing, _ = solve(instance, None, seconds)
        if standing.peak_bytes == live:
            continue
        found += 1
        paper = block_allocation(instance, live)
        check_residences(instance, paper.residences, live)
        cells: list[object] = []
        for strategy in ("exhaustive", "cp"):
            begun = time.process_time()
            space = PricedSpace(instance, MemoryMap((Bank("ram", live),), Fraction(1)))
            result = Study(space, strategy).run(InProcessExecutor(space), Budget(seconds=seconds))
            moved = int(result.best.measurement.metrics["bytes_migrated"]) if result.best else "none"
            cells += [moved, result.proved, f"{1000 * (time.process_time() - begun):.0f}"]
        row(len(instance.buffers), live, standing.peak_bytes, paper.bytes_migrated, *cells)


def crowded(seed: int) -> Instance:
    """Buffers that fill a small memory almost everywhere, up to 24 of them."""
    rng = np.random.default_rng(seed)
    points, capacity = int(rng.integers(8, 14)), 16 * int(rng.integers(8, 32))
    live = np.zeros(points, dtype=np.int64)
    rows: list[tuple[int, int, int]] = []
    for _ in range(120):
        lower = int(rng.integers(0, points - 1))
        upper = min(points, lower + int(rng.integers(1, 6)))
        size = 16 * int(rng.integers(1, 13))
        if len(rows) < 24 and (live[lower:upper] + size <= capacity).all():
            live[lower:upper] += size
            rows.append((lower, upper, size))
    return Instance(f"crowded-{seed}", tuple(Buffer(str(i), *r) for i, r in enumerate(rows)))


def generated(kinds: Sequence[str], counts: Sequence[int], seed: int, limits: tuple[float, float]) -> None:
    """Random buffers, and tilings of a rectangle, whose optimum is its height. The first placement stands beside the last. `limits`: CPU
    seconds of the search, and of the greedy orders together."""
    seconds, greedy_seconds = limits
    greedy_title = "best greedy gap % (orders tried)"
    row("kind", "buffers", "bound", greedy_title, "first gap %", "CPU s", "gap %", "proved", "CPU s")
    for kind in kinds:
        for count in counts:
            instance = KINDS[kind](count, seed)
            bound = largest_live_sum(instance).peak_bytes
            first, first_s = solve(instance, None, 0.0)
            standing, cpu_s = solve(instance, None, seconds)
            tried = greedy_peaks(instance, greedy_seconds)
            peaks = (min(tried), first.peak_bytes, standing.peak_bytes)
            greedy, begun, gap = (f"{100 * (peak / bound - 1):.2f}" for peak in peaks)
            cells = (bound, f"{greedy} ({len(tried)})", begun, f"{first_s:.2f}", gap, standing.done, f"{cpu_s:.2f}")
            row(kind, len(instance.buffers), *cells)


def few_points(points: Sequence[int], seed: int, seconds: float) -> None:
    """1000 tiles over so many points of time, as they were cut and each smaller by up to a tenth. The rectangle's height, which some
    placement has by construction, stands beside what is found."""
    row("points", "sizes", "buffers", "live sum", "rectangle's gap %", "gap %", "proved", "CPU s")
    for count in points:
        for shrunk in (False, True):
            instance = over_points(1000, count, seed, shrunk)
            bound = largest_live_sum(instance).peak_bytes
            standing, cpu_s = solve(instance, None, seconds)
            gaps = (f"{100 * (peak / bound - 1):.2f}" for peak in (MEGABYTE, standing.peak_bytes))
            sizes = "smaller" if shrunk else "as cut"
            row(count, sizes, len(instance.buffers), bound, *gaps, standing.done, f"{cpu_s:.2f}")


def solve(instance: Instance, capacity: int | None, seconds: float, seed: int = 0) -> tuple[PlacementSearchStep, float]:
    """The last standing within the CPU limit, checked, and the CPU seconds from the buffers to it."""
    begun = time.process_time()
    bound = largest_live_sum(instance).peak_bytes

    def seconds_left() -> float:
        return max(begun + seconds - time.process_time(), 0.0)

    for standing in minimise_peak(BufferArrays.of(instance), bound, capacity, seed, seconds_left):  # noqa: B007 the last one counts
        if not seconds_left():
            break
    cpu_s = time.process_time() - begun
    assert peak_of(instance, standing.offsets) == standing.peak_bytes
    return standing, cpu_s


def greedy_peaks(instance: Instance, seconds: float = math.inf) -> list[int]:
    """In the order of GREEDY; no further ones are tried after so many CPU seconds."""
    buffers, begun = BufferArrays.of(instance), time.process_time()
    peaks: list[int] = []
    for order, fit in GREEDY.values():
        peaks.append(peak_of(instance, place_in_order(buffers, order(buffers), fit)))
        if time.process_time() - begun > seconds:
            break
    return peaks


def peak_of(instance: Instance, offsets: IntArray) -> int:
    """Checked."""
    named = zip((b.id for b in instance.buffers), offsets.tolist(), strict=True)
    return check_placement(instance, Placement(dict(named)))


def anneal(buffers: BufferArrays, seconds: float, seed: int) -> IntArray:
    """Simulated annealing over the order of first fit: two buffers change places; from by-size, cooled geometrically."""
    rng = np.random.default_rng(seed)
    order = sorted_by(-buffers.size)
    offsets = best = place_in_order(buffers, order)
    now = least = int((offsets + buffers.size).max())
    hot, cold, begun = 0.02 * now, 0.0002 * now, time.process_time()
    while (spent := (time.process_time() - begun) / seconds) < 1.0:
        temperature = hot * (cold / hot) ** spent
        i, j = rng.integers(len(order), size=2)
        order[[i, j]] = order[[j, i]]
        offsets = place_in_order(buffers, order)
        peak = int((offsets + buffers.size).max())
        if peak <= now or rng.random() < math.exp((now - peak) / temperature):
            now = peak
        else:
            order[[i, j]] = order[[j, i]]
        if peak < least:
            best, least = offsets, peak
    return best


def row(*cells: object) -> None:
    """One line, cells apart."""
    print(" | ".join(str(cell) for cell in cells), flush=True)


if __name__ == "__main__":
    main()
