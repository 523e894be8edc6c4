"""The runs of a comparison, several at once, each without the evaluation cache: so each pays for all it measures, with one core,
on the CPU clock of a process that makes one run after the other.

A worker is a process at the other end of a pipe. It is sent runs and sends news; a pipe at its end means that the other side
is dead, so neither outlives the other for long.
"""

from __future__ import annotations

import contextlib
import functools
import json
import multiprocessing
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.experiments.comparison.plan import ComparisonPlan, RunKey
from kilotune.experiments.problems.building import build_problem
from kilotune.experiments.requests.request import TuneRequest
from kilotune.search.budget import Budget
from kilotune.search.interrupts import stops_on_interrupt
from kilotune.search.result import Progress, Result
from kilotune.search.store import Store, StoreError
from kilotune.search.study import Study
from kilotune.search.work_sharing import at_work

WARM_UP = Budget(seconds=0.5, trials=4)
POLL_S = 0.1
GRACE_S = 5.0
"""For a worker to end by itself."""


@dataclass(frozen=True)
class RunNews:
    """Where a run stands: `best` is the first objective's metric of its best candidate, None before the first trial."""

    run: RunKey
    trials: int
    seconds: float  # of CPU
    best: float | None
    feasible: bool
    bound: float | None


@dataclass(frozen=True)
class RunFinished:
    """A run has come to an end, or was stopped; `problem`: a sentence when it could not be made."""

    run: RunKey
    problem: str | None = None


_CACHED = type(functools.cache(str))


class RunError(ValueError):
    """A run could not be made; the message says which and why. Finished trials are kept."""


def run_all(
    store: Store,
    name: str,
    plan: ComparisonPlan,
    missing: Sequence[RunKey],
    jobs: int,
    on_news: Callable[[RunNews | RunFinished], None],
) -> bool:
    """Make the missing runs, or what is missing of them; whether all were made. The first Ctrl-C ends
    each running one within a second and keeps what it has, the second ends at once. RunError: one cannot be made, or a worker died."""
    waiting, rounds = list(reversed(missing)), _Rounds()
    workers: list[_Worker] = []
    try:
        with stops_on_interrupt(rounds):
            workers.extend(_Worker(store.url, name, plan) for _ in range(jobs))
            while True:
                if rounds.stopped:
                    waiting.clear()
                    for worker in workers:
                        worker.stop()
                for worker in workers:
                    if worker.run is None and waiting:
                        worker.begin(waiting.pop())
                busy = {worker.connection: worker for worker in workers if worker.run is not None}
                if not busy:
                    return not rounds.stopped
                for worker in busy.values() if wait(list(busy), POLL_S) else ():
                    if worker.connection.poll():
                        on_news(worker.news())
    finally:
        for worker in workers:
            worker.end()


class _Rounds:
    """What Ctrl-C asks to end."""

    def __init__(self) -> None:
        self.stopped = False

    def stop(self) -> None:
        self.stopped = True


class _Worker:
    """A process and our end of its pipe. `run`: what it is making."""

    def __init__(self, url: str, name: str, plan: ComparisonPlan) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would copy our threads' locks in whatever state
        self._name, self._plan, self._stopped = name, plan, False
        self.run: RunKey | None = None
        self.connection, theirs = context.Pipe()
        self._process: BaseProcess = context.Process(target=_serve, args=(theirs, url, name, plan), daemon=True)
        self._process.start()
        theirs.close()  # so that its death is an end of file on our side

    def begin(self, run: RunKey) -> None:
        self.run = run
        with contextlib.suppress(OSError):  # a dead one: `news` says so
            self.connection.send(run)

    def stop(self) -> None:
        """The run ends, within a second."""
        if not self._stopped and self.run is not None:
            self._stopped = True
            with contextlib.suppress(OSError):
                self.connection.send(None)

    def news(self) -> RunNews | RunFinished:
        """What it has sent. RunError: its run could not be made, or it is dead."""
        assert self.run is not None
        case = self._plan.cases[self.run.case]
        which = f"{case.title}, {self.run.strategy}, seed {self.run.seed}"
        try:
            news: RunNews | RunFinished = self.connection.recv()
        except (EOFError, OSError):
            self._process.join(1.0)
            raise RunError(
                f"{which}: its process died ({_cause(self._process.exitcode)}). Finished trials are kept, and "
                f"`tune compare --name {self._name}` goes on."
            ) from None
        if isinstance(news, RunFinished):
            self.run = None
            if news.problem is not None:
                raise RunError(f"{which}: {news.problem}")
        return news

    def end(self) -> None:
        """An idle process ends when it sees its pipe closed, a busy one is not waited for."""
        self.connection.close()
        if self.run is None:
            self._process.join(GRACE_S)
        self._process.kill()
        self._process.join()


def _cause(exit_code: int | None) -> str:
    """In words, since a shell shows a signal as another number."""
    if exit_code is None or exit_code >= 0:
        return f"exit code {exit_code}"
    name = signal.Signals(-exit_code).name if -exit_code in set(signal.Signals) else f"signal {-exit_code}"
    return f"{name}, as when memory runs out" if name == "SIGKILL" else name


def _serve(connection: Connection, url: str, name: str, plan: ComparisonPlan) -> None:
    """In a worker: make runs until the pipe ends. Ctrl-C reaches the whole process group: the parent decides."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    store = Store(url)
    with contextlib.suppress(EOFError, BrokenPipeError):
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
            connection.send(RunFinished(run, problem))


def _make(connection: Connection, store: Store, name: str, plan: ComparisonPlan, run: RunKey) -> None:
    """Begin the run's study, or go on with it."""
    request = plan.cases[run.case].request(run.strategy, run.seed)
    _warm_up(json.dumps({**request.as_json(), "seed": 1_000_003}))
    forget_intermediate_results()
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


def forget_intermediate_results() -> None:
    """Bounded caches hold what was computed for some candidate: a run must not find what an earlier one has paid for.
    Unbounded ones hold what is loaded once in a process, and stay."""
    ours = [module for name, module in sys.modules.items() if name.startswith("kilotune.")]
    for thing in (thing for module in ours for thing in vars(module).values()):
        if isinstance(thing, _CACHED) and thing.cache_parameters()["maxsize"] is not None:
            thing.cache_clear()


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
