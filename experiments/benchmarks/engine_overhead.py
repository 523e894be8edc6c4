"""What the engine costs a trial: in process, worker processes, Ray; beside Optuna's own loop and plain Ray tasks.

`python -m kilotune.experiments.benchmarks.engine_overhead [--seconds 5] [--trials 2000] [--scaling]`

Evaluations sleep for 0, 1, 10 and 100 ms. Trials a second of wall time (an evaluation that sleeps takes no processor);
overhead is what is missing to the workers' plain loop over the same evaluations. Every engine writes to a SQLite file of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import logging
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.evaluators.executors.pool import PoolExecutor
from kilotune.evaluators.executors.ray_cluster import RayExecutor
from kilotune.search.budget import Budget
from kilotune.search.executor import Executor
from kilotune.search.space import Assignment, Constraint, Decision, Measurement, Objective, Option, State
from kilotune.search.store import Store
from kilotune.search.study import Study

DECISIONS = 50
SLEEPS_MS = (0, 1, 10, 100)
SIMULATED_WORKERS = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True)
class Sleeping:
    """50 decisions of four options; an evaluation sleeps."""

    sleep_s: float
    name: str = "sleeping"
    objectives: tuple[Objective, ...] = (Objective("loss"),)
    constraints: tuple[Constraint, ...] = ()
    decisions: tuple[Decision, ...] = tuple(Decision(f"d{i}", (0, 1, 2, 3)) for i in range(DECISIONS))

    @property
    def fingerprint(self) -> str:
        """A hash of the space's name, which says all about it."""
        return hashlib.sha256(self.name.encode()).hexdigest()

    def start(self) -> State:
        """Nothing decided."""
        return _Answered(self.decisions, {})

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        """A sum, after a rest each."""
        results = []
        for candidate in batch:
            if self.sleep_s:
                time.sleep(self.sleep_s)
            results.append(Measurement({"loss": float(sum(int(v) for v in candidate.values()))}))
        return results


@dataclass(frozen=True)
class _Answered:
    decisions: tuple[Decision, ...]
    assignment: Assignment

    @property
    def decision(self) -> Decision | None:
        return self.decisions[len(self.assignment)] if len(self.assignment) < len(self.decisions) else None

    def take(self, option: Option) -> _Answered:
        assert self.decision is not None
        return _Answered(self.decisions, {**self.assignment, self.decision.name: option})

    def bound(self) -> float:
        return float("-inf")


def ours(make: Callable[[Sleeping], Executor], sleep_s: float, budget: Budget) -> float:
    """Trials a second of a random search; workers are started before the clock is."""
    space = Sleeping(sleep_s)
    executor = make(space)
    with tempfile.TemporaryDirectory() as folder, contextlib.closing(executor):
        warm = Study(Sleeping(sleep_s), "random", seed=1)
        warm.run(executor, Budget(trials=2 * executor.workers))
        store = Store(str(Path(folder) / "studies.db"))
        study = Study.create(store, "s", space, "random")
        start = time.perf_counter()
        result = study.run(executor, budget)
        elapsed_s = time.perf_counter() - start
        store.close()
    return result.evaluations / elapsed_s


def optuna_loop(sleep_s: float, budget: Budget) -> float:
    """Trials a second of `study.optimize` with Optuna's random sampler and SQLite."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    space = Sleeping(sleep_s)

    def objective(trial: optuna.Trial) -> float:
        candidate = {d.name: str(trial.suggest_categorical(d.name, d.options)) for d in space.decisions}
        return float(space.evaluate([candidate])[0].metrics["loss"])

    with tempfile.TemporaryDirectory() as folder:
        study = optuna.create_study(
            storage=f"sqlite:///{folder}/optuna.db", sampler=optuna.samplers.RandomSampler(seed=0)
        )
        start = time.perf_counter()
        study.optimize(objective, timeout=budget.seconds, n_trials=int(min(budget.trials, 1_000_000)))
        return len(study.get_trials(deepcopy=False)) / (time.perf_counter() - start)


def ray_tasks(sleep_s: float, budget: Budget, workers: int) -> float:
    """Trials a second of one plain Ray task a candidate, 2 * workers in flight."""
    import ray

    space = Sleeping(sleep_s)
    ray.init(
        address="local", num_cpus=workers, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False
    )
    task = ray.remote(_evaluate)
    candidate: Assignment = {d.name: 0 for d in space.decisions}
    ray.get([task.remote(space, candidate) for _ in range(2 * workers)])
    start, done = time.perf_counter(), 0
    flying: list[Any] = []
    while time.perf_counter() - start < budget.seconds and done < budget.trials:
        while len(flying) < 2 * workers:
            flying.append(task.remote(space, candidate))
        ready, flying = ray.wait(flying)
        done += len(ready)
    elapsed_s = time.perf_counter() - start
    ray.shutdown()
    return done / elapsed_s


def _evaluate(space: Sleeping, candidate: Assignment) -> Measurement:
    return space.evaluate([candidate])[0]


def rows() -> Iterator[tuple[str, int, Callable[[float, Budget], float]]]:
    """Name, workers, and the measurement at a sleep in seconds."""
    yield "ours, in process", 1, lambda s, b: ours(InProcessExecutor, s, b)
    yield "ours, 2 processes", 2, lambda s, b: ours(lambda space: PoolExecutor(space, 2), s, b)
    yield "ours, Ray, 2 actors", 2, lambda s, b: ours(lambda space: RayExecutor(space, workers=2), s, b)
    yield "Optuna's loop, SQLite", 1, lambda s, b: optuna_loop(s, b)
    yield "plain Ray tasks, 2", 2, lambda s, b: ray_tasks(s, b, 2)


def plain_loop(sleep_s: float, budget: Budget) -> float:
    """Evaluations a second without any engine."""
    space = Sleeping(sleep_s)
    candidate: Assignment = {d.name: 0 for d in space.decisions}
    start = time.perf_counter()
    for _ in range(int(budget.trials)):
        space.evaluate([candidate])
    return budget.trials / (time.perf_counter() - start)


def overheads(seconds: float, trials: int) -> None:
    """The table of engines; each runs as many trials as fill the seconds."""
    print(f"{'trials/s (overhead)':<24}" + "".join(f"{f'{ms} ms':>20}" for ms in SLEEPS_MS))
    budgets = {
        ms: Budget(seconds=2 * seconds, trials=min(trials, int(seconds * 1000 / ms) if ms else trials))
        for ms in SLEEPS_MS
    }
    plain = {ms: plain_loop(ms / 1000, budgets[ms]) for ms in SLEEPS_MS}
    print(f"{'plain loop':<24}" + "".join(f"{plain[ms]:>20.1f}" for ms in SLEEPS_MS))
    for name, workers, measure in rows():
        cells = []
        for ms in SLEEPS_MS:
            budget = replace(budgets[ms], trials=workers * budgets[ms].trials)
            rate = measure(ms / 1000, budget)
            missing = f" ({100 * (1 - rate / plain[ms] / workers):.1f} %)" if ms else ""
            cells.append(f"{f'{rate:.1f}{missing}':>20}")
        print(f"{name:<24}" + "".join(cells), flush=True)


def scaling(budget: Budget) -> None:
    """Efficiency on more workers than there are processors: evaluations that sleep 100 ms."""
    print(f"{'workers':<10}{'processes':>24}{'Ray':>24}")
    for workers in SIMULATED_WORKERS:
        pool = ours(lambda space, n=workers: PoolExecutor(space, n), 0.1, budget)  # type: ignore[misc]
        ray = ours(lambda space, n=workers: RayExecutor(space, workers=n), 0.1, budget)  # type: ignore[misc]
        cells = (f"{rate:.1f}/s ({100 * rate / (10 * workers):.0f} %)" for rate in (pool, ray))
        print(f"{workers:<10}" + "".join(f"{cell:>24}" for cell in cells), flush=True)


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--trials", type=int, default=20_000)
    parser.add_argument("--scaling", action="store_true", help="1 to 64 simulated workers instead")
    arguments = parser.parse_args()
    if arguments.scaling:
        scaling(Budget(arguments.seconds, arguments.trials))
    else:
        overheads(arguments.seconds, arguments.trials)


if __name__ == "__main__":
    main()
