"""The process that makes runs of a comparison, one after the other: each alone, as a study on the process's CPU clock.

Nothing that a run computes is left to the next one: it belongs to the run's problem and study, which are dropped.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import json
import threading
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.experiments.comparison.plan import ComparisonPlan, RunKey
from kilotune.experiments.comparison.run_news import RunFinished, RunNews
from kilotune.experiments.problems.building import build_problem
from kilotune.experiments.requests.request import TuneRequest
from kilotune.search.budget import Budget
from kilotune.search.result import Progress, Result
from kilotune.search.store import Store, StoreError
from kilotune.search.study import Study
from kilotune.search.work_sharing import at_work

WARM_UP = Budget(seconds=0.5, trials=4)
POLL_S = 0.1


def make_runs(connection: Connection, url: str, name: str, plan: ComparisonPlan) -> None:
    """Make the runs that come until the pipe ends, and send news of them; None, while one is made, ends it within a second."""
    with contextlib.closing(Store(url)) as store, contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            run = connection.recv()
            if run is None:
                continue  # the run that it was to stop had ended meanwhile
            problem = None
            try:
                _make(connection, store, name, plan, run)
            except BrokenPipeError:
                raise
            except (StoreError, ValueError) as error:
                problem = str(error)
            except Exception as error:
                problem = f"{type(error).__name__}: {error}"
            gc.collect()  # of what it leaves in circles, not on the next one's clock
            connection.send(RunFinished(run, problem))


def _make(connection: Connection, store: Store, name: str, plan: ComparisonPlan, run: RunKey) -> None:
    """Begin the run's study, or go on with it."""
    request = plan.cases[run.case].request(run.strategy, run.seed)
    _warm_up(json.dumps({**request.as_json(), "seed": 1_000_003}))
    problem = build_problem(request)
    study_name, limits, metric = plan.study_name(name, run), plan.limits, problem.space.objectives[0].metric
    if store.studies(study_name):
        if at_work(store, study_name):  # two would divide the trials, and each would spend a whole budget on its share
            raise ValueError("another process is making this run; wait for it, then the same command goes on.")
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

    def report(progress: Progress) -> None:
        connection.send(_news(run, metric, progress, before.elapsed_s))

    left = Budget(limits.seconds - before.elapsed_s, limits.trials - before.evaluations)
    with _stopped_by(connection, study):
        result = study.run(InProcessExecutor(problem.space), left, on_progress=report, handle_interrupts=False)
    connection.send(_last_news(run, metric, result))


@contextlib.contextmanager
def _stopped_by(connection: Connection, study: Study) -> Iterator[None]:
    """Inside, whatever comes in stops the study, and so does the end of the other side: at once, also in the middle of a step."""
    ended = threading.Event()

    def listen() -> None:
        with contextlib.suppress(EOFError, OSError):
            while not connection.poll(POLL_S):
                if ended.is_set():
                    return
            connection.recv()
        while not ended.is_set():  # a run that is only beginning forgets that it was stopped before
            study.stop()
            ended.wait(POLL_S)

    listener = threading.Thread(target=listen, name="stop of a run", daemon=True)
    listener.start()
    try:
        yield
    finally:
        ended.set()
        listener.join()


@functools.cache
def _warm_up(request: str) -> None:
    """Libraries are imported and kernels loaded before a run's clock starts, not on it. The run itself begins afresh."""
    asked = TuneRequest.from_json(json.loads(request))
    problem = build_problem(asked)
    with contextlib.suppress(Exception):  # what fails here fails in the run, which says so
        Study(problem.space, asked.strategy, asked.seed, clock=time.process_time).run(
            InProcessExecutor(problem.space), WARM_UP, handle_interrupts=False
        )


def _news(run: RunKey, metric: str, progress: Progress, before_s: float) -> RunNews:
    best = progress.incumbent
    value = None if best is None else best.measurement.metrics.get(metric)
    return RunNews(run, progress.trials, before_s + progress.elapsed_s, value, progress.feasible, progress.bound)


def _last_news(run: RunKey, metric: str, result: Result) -> RunNews:
    value = None if result.best is None else result.best.measurement.metrics.get(metric)
    return RunNews(run, result.evaluations, result.elapsed_s, value, result.feasible, result.bound)
