"""Candidates per CPU-second of one process, beside the public tool's, on whole training sets.

    python -m kilotune.experiments.benchmarks.simulator [--batches SECONDS] [MODEL ...]

Each model: random 8/16-bit assignments of its shiftry space, lowered and run in batches; CPU seconds of this process
only. The multiply-accumulate rate is set against the machine's peak, which is measured here too: `peak.c`, products and
sums in registers, with no memory at all. Beside that rate of full evaluations, what a search gets (*effective*): all
changes of one decision of a candidate, which share beginnings and may be given up early, in batches as large as those of
random ones; and a whole local search, whose batches are small. `--batches`: the batches of random candidates alone, for so many
CPU-seconds, for a profiler to watch:

    OPENBLAS_NUM_THREADS=1 perf record -F 1500 python -m kilotune.experiments.benchmarks.simulator --batches 4 lenet-digits
    perf report --stdio --sort dso,symbol
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kilotune.codegen import ir
from kilotune.evaluators.compiled_library import load_library
from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.evaluators.fixed_point.simulator import Backend
from kilotune.experiments.problems.fixed_point.problem import build_problem, resolve_input
from kilotune.experiments.requests.request import TuneRequest
from kilotune.search.budget import Budget
from kilotune.search.front import Front, Ranking
from kilotune.search.procedure import run_procedure
from kilotune.search.racing import Hurdle
from kilotune.search.space import Assignment, Trial
from kilotune.search.strategies.moves import Moves
from kilotune.search.study import Study
from kilotune.spaces.shiftry.space import ShiftrySpace

PUBLIC_TOOL = {"protonn-digits": 1.86, "fastgrnn16-digits": 1.45}
"""Candidates per CPU-second of EdgeML's SeeDot tool (81025fc) in its Shiftry mode, 1200 training samples, same machine kind."""

BATCH = 64
REPEATS = 5
SEARCH_TRIALS = 4000


MODELS = ("protonn-digits", "fastgrnn16-digits", "fastgrnn32-digits", "bonsai-digits", "lenet-digits")


@dataclass(frozen=True)
class Speed:
    """Medians over REPEATS runs."""

    candidates_per_cpu_s: float
    macs_per_cpu_s: float


def random_candidates(space: ShiftrySpace, count: int, seed: int = 0) -> list[Assignment]:
    """Uniform over each decision's options."""
    rng = np.random.default_rng(seed)
    return [{d.name: d.options[rng.integers(len(d.options))] for d in space.decisions} for _ in range(count)]


def speed(space: ShiftrySpace, seconds: float = 1.0) -> Speed:
    """Evaluate fresh random candidates, batch after batch, all metrics included: those that have been met are known."""
    space.evaluate(random_candidates(space, BATCH))
    rates, seed = [], 0
    for _ in range(REPEATS):
        done, spent = 0, 0.0
        while spent < seconds / REPEATS:
            seed += 1
            candidates = random_candidates(space, BATCH, seed)
            start = time.process_time()
            done += len(space.evaluate(candidates))
            spent += time.process_time() - start
        rates.append(done / spent)
    rate = statistics.median(rates)
    return Speed(rate, rate * macs(space.task.program) * space.task.features.shape[0])


def change_rate(space: ShiftrySpace) -> float:
    """Candidates a CPU-second among all changes of one decision of the procedure's answer and of candidates near it; they have to be
    better than what they are changes of, as in a descent."""
    answer, moves, rng = run_procedure(space), Moves(space), np.random.default_rng(0)
    assert answer is not None
    done, spent = 0, 0.0
    for number in range(REPEATS):
        home = moves.kick(answer.assignment, number, rng)
        front = Front(Ranking.of(space))
        front.add(Trial(0, home, space.evaluate([home])[0]))
        changed = [moves.apply(home, dict([move])) for move in moves.of(home)]
        changed = [changed[i] for i in rng.permutation(len(changed))]
        start = time.process_time()
        for first in range(0, len(changed), BATCH):
            space.evaluate_against(changed[first : first + BATCH], Hurdle.of(front.best_rank, front))
        spent += time.process_time() - start
        done += len(changed)
    return done / spent


def search_rate(space: ShiftrySpace) -> float:
    """Candidates a CPU-second of a local search, all that it does included."""
    study = Study(space, "local", 0)
    start = time.process_time()
    study.run(InProcessExecutor(space), Budget(trials=SEARCH_TRIALS))
    return SEARCH_TRIALS / (time.process_time() - start)


def macs(program: ir.Program) -> int:
    """Multiply-accumulates of one inference: matrix products, convolutions and elementwise products."""

    def count(body: tuple[ir.Statement, ...]) -> int:
        total = 0
        for statement in body:
            match statement:
                case ir.Loop(count=times, body=inner):
                    total += times * count(inner)
                case ir.MatMul(out=out, a=a):
                    total += out.size * a.shape[-1]
                case ir.Conv2D(out=out, b=b):
                    total += out.size * ir.count_elements(b.shape[1:4])
                case ir.Multiply(out=out):
                    total += out.size
        return total

    return count(program.body)


def peak_macs_per_cpu_s() -> float:
    """The machine's integer peak: products of int16 pairs summed in registers by the widest vector unit, best of several runs."""
    loaded = load_library(Path(__file__).with_name("peak.c"))
    if loaded is None:
        raise RuntimeError("no working C compiler was found: install gcc or set CC")
    multiply_adds = loaded.library.kilotune_multiply_adds
    multiply_adds.restype = ctypes.c_int64
    sums = (ctypes.c_int32 * 16)(*range(3, 19))
    best = 0.0
    for _ in range(20):
        start = time.process_time_ns()
        done = multiply_adds(ctypes.c_int64(2_000_000), sums)
        best = max(best, done * 1e9 / (time.process_time_ns() - start))
    return best


def main() -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=MODELS, metavar="MODEL", help="bundled models, or folders")
    parser.add_argument(
        "--batches", type=float, metavar="SECONDS", help="only these, of the first backend, for a profiler"
    )
    asked = parser.parse_args()
    if asked.batches:
        for name in asked.models:
            print(
                f"{Path(name).name}: {speed(space_of(name), asked.batches).candidates_per_cpu_s:.0f} candidates a CPU-second"
            )
        return
    print_rates(asked.models)


def space_of(name: str, backend: Backend = Backend.AUTO) -> ShiftrySpace:
    """The shiftry space of a bundled model or a model's folder, measured that way."""
    problem = build_problem(TuneRequest("shiftry", str(resolve_input(name)), "random"))
    assert isinstance(problem.space, ShiftrySpace)
    return ShiftrySpace(problem.space.task, problem.space.options, backend)


def print_rates(names: Sequence[str]) -> None:
    """One row a model and backend."""
    peak = peak_macs_per_cpu_s()
    print(f"integer peak of this machine: {peak / 1e9:.0f} G multiply-accumulates per CPU-second\n")
    print(
        f"{'model':<22}{'backend':<34}{'candidates/CPU-s':>17}{'public tool':>12}{'ratio':>8}{'of peak':>9}{'changes':>9}{'search':>8}"
    )
    for name in names:
        for backend in (Backend.AUTO, Backend.NUMPY):
            space = space_of(name, backend)
            measured = speed(space, 2.0)
            tool = PUBLIC_TOOL.get(Path(name).name)
            effective = ""
            if backend is Backend.AUTO:
                effective = f"{change_rate(space):>9.0f}{search_rate(space):>8.0f}"
            ratio = f"{measured.candidates_per_cpu_s / tool:.0f}x" if tool else ""
            print(
                f"{Path(name).name:<22}{space.evaluator.simulator.description:<34}{measured.candidates_per_cpu_s:>17.0f}"
                f"{tool or '':>12}{ratio:>8}{measured.macs_per_cpu_s / peak:>9.1%}{effective}"
            )


if __name__ == "__main__":
    main()
