"""The runs of a comparison, several at once, each in a process of its own without the evaluation cache: so each pays for all it
measures, with one core, on its own CPU clock."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.experiments.comparison.plan import Case, Plan, RunKey
from kilotune.experiments.problem import build_problem
from kilotune.search.budget import Budget
from kilotune.search.interrupts import stops_on_interrupt
from kilotune.search.result import Progress, Result, Status
from kilotune.search.store import Store, StoreError
from kilotune.search.study import Study

WARM_UP = Budget(seconds=0.5, trials=4)
POLL_S = 0.2


@dataclass(frozen=True)
class RunNews:
    """Where a run stands: `loss_metric` is the first objective's metric of its best, None before the first trial."""

    run: RunKey
    trials: int
    seconds: float  # of CPU
    best: float | None
    feasible: bool
    bound: float | None
    finished: bool = False


class _Rounds:
    """What Ctrl-C asks to end."""

    def __init__(self) -> None:
        self.stopped = False

    def stop(self) -> None:
        self.stopped = True


def run_all(
    store: Store, name: str, plan: Plan, missing: Sequence[RunKey], jobs: int, on_news: Callable[[RunNews], None]
) -> bool:
    """Make the missing runs, or what is missing of them; whether all were made. The first Ctrl-C lets each running one end its
    chunk and keeps it, the second ends at once. OSError, a sentence, when a worker dies."""
    context, rounds = multiprocessing.get_context("spawn"), _Rounds()
    with context.Manager() as manager, stops_on_interrupt(rounds):
        news: Any = manager.Queue()
        stop: Any = manager.Event()
        pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin_worker)
        try:
            waiting = list(reversed(missing))
            running: dict[Future[None], RunKey] = {}
            while waiting or running:
                if rounds.stopped:
                    stop.set()
                    waiting.clear()
                while waiting and len(running) < jobs:
                    run = waiting.pop()
                    running[pool.submit(_run_one, store.url, name, plan, run, news, stop)] = run
                done, _ = wait(running, timeout=POLL_S, return_when=FIRST_COMPLETED)
                while not news.empty():
                    on_news(news.get())
                for future in done:
                    _outcome(future, plan, running.pop(future))
            return not rounds.stopped
        except KeyboardInterrupt:
            for child in multiprocessing.active_children():
                child.terminate()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _run_one(url: str, name: str, plan: Plan, run: RunKey, news: Any, stop: Any) -> None:
    """In a worker: begin the run's study, or go on with it."""
    case = plan.cases[run.case]
    request = case.request(run.strategy, run.seed)
    _warm_up(case, run.strategy)
    problem = build_problem(request)
    store, study_name, limits = Store(url), plan.study_name(name, run), plan.limits
    try:
        if store.studies(study_name):
            study = Study.resume(store, study_name, problem.space, clock=time.process_time)
        else:
            study = Study.create(
                store,
                study_name,
                problem.space,
                run.strategy,
                run.seed,
                budget=limits,
                request={**request.as_json(), "comparison": name},
                clock=time.process_time,
            )
        before = study.result()
        if before.elapsed_s >= limits.seconds or before.evaluations >= limits.trials:
            return
        left = Budget(limits.seconds - before.elapsed_s, limits.trials - before.evaluations)

        def report(progress: Progress) -> None:
            if stop.is_set():
                study.stop()
            news.put(_news(run, problem.space.objectives[0].metric, progress, before.elapsed_s))

        result = study.run(InProcessExecutor(problem.space), left, on_progress=report, handle_interrupts=False)
        news.put(_finished(run, problem.space.objectives[0].metric, result))
    finally:
        store.close()


def _warm_up(case: Case, strategy: str) -> None:
    """Libraries are imported and kernels loaded before a run's clock starts, not on it. The run itself begins afresh."""
    problem = build_problem(case.request(strategy))
    with contextlib.suppress(Exception):  # what fails here fails in the run, which says so
        Study(problem.space, strategy, seed=1_000_003, clock=time.process_time).run(
            InProcessExecutor(problem.space), WARM_UP, handle_interrupts=False
        )


def _news(run: RunKey, metric: str, progress: Progress, before_s: float) -> RunNews:
    best = progress.incumbent
    return RunNews(
        run,
        progress.trials,
        before_s + progress.elapsed_s,
        None if best is None else best.measurement.metrics.get(metric),
        progress.feasible,
        progress.bound,
    )


def _finished(run: RunKey, metric: str, result: Result) -> RunNews:
    best = None if result.best is None else result.best.measurement.metrics.get(metric)
    done = result.status is not Status.INTERRUPTED
    return RunNews(run, result.evaluations, result.elapsed_s, best, result.feasible, result.bound, done)


def _outcome(future: Future[None], plan: Plan, run: RunKey) -> None:
    which = f"{plan.cases[run.case].title}, {run.strategy}, seed {run.seed}"
    try:
        future.result()
    except BrokenProcessPool:
        raise OSError(f"A worker died during {which}: finished trials are kept; the same command goes on.") from None
    except StoreError as error:
        raise StoreError(f"{which}: {error}") from error
    except ValueError as error:
        raise ValueError(f"{which}: {error}") from error


def _begin_worker() -> None:
    """Ctrl-C reaches the whole process group: the parent decides. A worker whose parent is gone ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True, name="kilotune-parent-watch").start()
