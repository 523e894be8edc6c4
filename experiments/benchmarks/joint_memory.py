"""RAM of the paper's allocator, of the best placement, of in-place operators, and of widths chosen together with them.

    python -m kilotune.experiments.benchmarks.joint_memory [--maps N] [--trials N] [--drop POINTS]

First table, bundled FastGRNN models and a program of RNNPool's shape: bytes of RAM of the same program under each step;
"joint" is the smallest RAM limit at which a search still finds a program that keeps the accuracy constraint. Second
table: random 8/16/32-bit width maps of a low-rank FastGRNN, how many defeat every greedy order, and by how much.
CPU seconds of this process.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.buffers import LiveBuffer, buffers
from kilotune.codegen.bundle import load_bundle
from kilotune.codegen.interference import find_interference
from kilotune.codegen.placement import Placer
from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.evaluators.fixed_point.measuring import Task
from kilotune.experiments.benchmarks.low_rank import write_low_rank_bundle
from kilotune.experiments.benchmarks.rnnpool import write_bundle
from kilotune.experiments.problems.fixed_point.buffers import as_instance
from kilotune.experiments.problems.fixed_point.problem import build_problem, resolve_input
from kilotune.experiments.requests.request import TuneRequest
from kilotune.search.budget import Budget
from kilotune.search.procedure import run_procedure
from kilotune.search.space import Assignment, Trial
from kilotune.search.study import Study
from kilotune.spaces.memory.procedure import block_allocation
from kilotune.spaces.shiftry.candidates import ShiftryOptions
from kilotune.spaces.shiftry.placement_model import best_placement
from kilotune.spaces.shiftry.space import ShiftrySpace

SOLVER_SECONDS = 20.0


def paper_peak_bytes(listed: Sequence[LiveBuffer]) -> int:
    """Shiftry Algorithms 15 and 16 without a limit, so without defragmentation (17)."""
    return block_allocation(as_instance("listed", listed)).peak_bytes


def first_fit_peak_bytes(order: Sequence[LiveBuffer]) -> int:
    """Each buffer in turn at the lowest aligned offset that is free while it lives."""
    placed: list[tuple[int, LiveBuffer]] = []
    for buffer in order:
        offset = 0
        for start, other in sorted(placed, key=lambda pair: pair[0]):
            if other.lower < buffer.upper and buffer.lower < other.upper:
                if offset + buffer.size <= start:
                    break
                offset = max(offset, -(-(start + other.size) // buffer.alignment) * buffer.alignment)
        placed.append((offset, buffer))
    return max((offset + b.size for offset, b in placed), default=0)


def greedy_peaks_bytes(listed: Sequence[LiveBuffer]) -> list[int]:
    """Peaks of first fit in the orders of TFLite-Micro (size), XLA (area), TVM (size, conflicts), and by time."""

    def conflicts(b: LiveBuffer) -> list[LiveBuffer]:
        return [o for o in listed if o is not b and o.lower < b.upper and b.lower < o.upper]

    keys: list[Callable[[LiveBuffer], tuple[int, ...]]] = [
        lambda b: (-b.size,),
        lambda b: (-b.size, b.lower - b.upper),
        lambda b: (-b.size, -b.lower),
        lambda b: (b.lower - b.upper, -b.size),
        lambda b: (-b.size * (b.upper - b.lower),),
        lambda b: (b.lower, -b.size),
        lambda b: (b.lower, b.upper),
        lambda b: (-b.upper, -b.size),
        lambda b: (b.upper, -b.size),
        lambda b: (-len(conflicts(b)), -b.size),
        lambda b: (-sum(o.size for o in conflicts(b)), -b.size),
    ]
    return [first_fit_peak_bytes(sorted(listed, key=key)) for key in keys]


@dataclass(frozen=True)
class LeastRam:
    """Bytes of RAM, and whether they are proved to be the least."""

    peak_bytes: int
    proved: bool = True

    def __str__(self) -> str:
        return f"{self.peak_bytes}{'' if self.proved else '*'}"


def best(program: ir.Program, bits: Mapping[str, int], in_place: bool) -> LeastRam:
    """The least placement of one width map."""
    placed, bound = best_placement(Placer(find_interference(program, in_place)), bits, SOLVER_SECONDS)
    return LeastRam(placed.peak_bytes, placed.peak_bytes <= bound)


def widths(space: ShiftrySpace, assignment: Assignment) -> dict[str, int]:
    """Bits by variable of a candidate."""
    row = space.lower([assignment]).bits[0]
    return {v.name: int(b) for v, b in zip(space.task.program.variables, row, strict=True)}


def least_ram(task: Task, options: ShiftryOptions, known: Trial, trials: int) -> Trial:
    """The candidate at the smallest RAM limit at which a search keeps the accuracy, by bisection below a known one."""
    reference = ShiftrySpace(task, options)
    metric = "accuracy_percent"
    needed = reference.evaluator.float_metrics[metric] - options.accuracy_drop
    low = int(reference.evaluator.footprint.least_ram_bytes(reference.smallest_bits({}))[0])
    high = int(known.measurement.metrics["ram_bytes"]) - 1
    found = known
    while low <= high:
        limit = (low + high) // 2
        space = ShiftrySpace(task, replace(options, ram_limit_bytes=limit))
        best_there = None
        for strategy in ("cp", "refine"):
            study = Study(space, strategy)
            result = study.run(InProcessExecutor(space), Budget(trials=trials), handle_interrupts=False)
            if result.feasible and result.best and result.best.measurement.metrics[metric] >= needed:
                best_there = result.best
                break
        if best_there is None:
            low = limit + 1
        else:
            found, high = best_there, int(best_there.measurement.metrics["ram_bytes"]) - 1
    return found


def compare_steps(name: str, path: str, trials: int, drop: float) -> str:
    """One row of the first table."""
    start = time.process_time()
    problem = build_problem(TuneRequest("shiftry", path, "refine", options={"accuracy_drop": drop}))
    assert isinstance(problem.space, ShiftrySpace)
    task, program = problem.space.task, problem.space.task.program
    sixteen = {v.name: 16 for v in program.variables}
    plain = ShiftrySpace(task, replace(problem.space.options, in_place=False))
    answer = run_procedure(plain)
    assert answer is not None
    chosen = widths(plain, answer.assignment)
    known = Trial(0, answer.assignment, problem.space.evaluate([answer.assignment])[0])
    found = least_ram(task, problem.space.options, known, trials)
    cells = [
        paper_peak_bytes(buffers(program, sixteen)),
        best(program, sixteen, False),
        best(program, sixteen, True),
        paper_peak_bytes(buffers(program, chosen)),
        best(program, chosen, False),
        best(program, chosen, True),
        int(found.measurement.metrics["ram_bytes"]),
        f"{found.measurement.metrics['accuracy_percent']:.1f}",
        f"{answer.measurement.metrics['accuracy_percent']:.1f}",
        f"{time.process_time() - start:.1f}",
    ]
    return f"{name:<20}" + "".join(f"{cell!s:>11}" for cell in cells)


def random_maps(path: Path, count: int) -> None:
    """The second table."""
    program = load_bundle(path).program
    rng = np.random.default_rng(0)
    for in_place in (False, True):
        placer = Placer(find_interference(program, in_place))
        lost, unproved, seconds = [], 0, []
        for _ in range(count):
            bits = {v.name: int(rng.choice([8, 16, 32])) for v in program.variables}
            found = placer.place(bits)
            greedy = found.peak_bytes if in_place else min(greedy_peaks_bytes(buffers(program, bits)))
            if greedy <= found.bound_bytes:
                continue
            start = time.process_time()
            exact, bound = best_placement(placer, bits, SOLVER_SECONDS)
            seconds.append(time.process_time() - start)
            unproved += exact.peak_bytes > bound
            if exact.peak_bytes < greedy:
                lost.append(greedy / exact.peak_bytes - 1)
        title = "in place: the repaired greedy" if in_place else "no in-place: all 11 greedy orders"
        mean, worst = (100 * float(np.mean(lost)), 100 * max(lost)) if lost else (0.0, 0.0)
        print(
            f"{title:<36}{100 * len(lost) / count:>8.1f}%{mean:>12.1f}%{worst:>8.1f}%"
            f"{1000 * float(np.median(seconds or [0.0])):>12.1f}{1000 * max(seconds or [0.0]):>10.1f}{unproved:>10}"
        )


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--maps", type=int, default=1000, help="random width maps")
    parser.add_argument("--trials", type=int, default=400, help="trials of each search at one RAM limit")
    parser.add_argument("--drop", type=float, default=2.0, help="points of training accuracy that may be lost")
    options = parser.parse_args()
    titles = [
        "16: paper",
        "placed",
        "in place",
        "proc: paper",
        "placed",
        "in place",
        "joint",
        "train %",
        "proc %",
        "CPU s",
    ]
    print("bytes of RAM; 16: all variables of 16 bits; proc: widths of the paper's procedure; * not proved least")
    print(f"{'model':<20}" + "".join(f"{title:>11}" for title in titles))
    with tempfile.TemporaryDirectory() as folder:
        for name in ("fastgrnn16-digits", "fastgrnn32-digits"):
            print(compare_steps(name, str(resolve_input(name)), options.trials, options.drop), flush=True)
        pool = str(write_bundle(Path(folder) / "rnnpool-shaped"))
        print(compare_steps("rnnpool-shaped", pool, options.trials, options.drop), flush=True)
        print(f"\n{options.maps} random 8/16/32-bit width maps of a low-rank FastGRNN")
        print(f"{'':<36}{'defeated':>9}{'mean loss':>13}{'worst':>9}{'median ms':>12}{'max ms':>10}{'unproved':>10}")
        random_maps(write_low_rank_bundle(Path(folder) / "low-rank"), options.maps)


if __name__ == "__main__":
    main()
