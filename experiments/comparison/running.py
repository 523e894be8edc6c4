"""The runs of a comparison, several at once, each without the evaluation cache: so each pays for all it measures, with one core,
on the CPU clock of a process that makes one run after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kilotune.evaluators.executors.dispatch import Death
from kilotune.evaluators.executors.processes import ProcessWorker, heard
from kilotune.experiments.comparison.plan import ComparisonPlan, RunKey
from kilotune.experiments.comparison.run_news import RunFinished, RunNews
from kilotune.experiments.comparison.run_worker import make_runs
from kilotune.search.interrupts import stops_on_interrupt
from kilotune.search.store import Store

POLL_S = 0.1
GRACE_S = 5.0
"""For a worker to end by itself."""


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
    rounds = _Rounds(name, plan, missing)
    workers: list[ProcessWorker] = []
    try:
        with stops_on_interrupt(rounds):
            workers.extend(ProcessWorker.start(make_runs, store.url, name, plan) for _ in range(jobs))
            while True:
                rounds.hand_out(workers)
                if not rounds.running:
                    return not rounds.stopped
                for worker, news in heard(rounds.running, POLL_S):
                    on_news(rounds.understood(worker, news))
    finally:
        for worker in workers:
            if worker in rounds.running:  # in the middle of something: it is not waited for
                worker.kill()
            else:
                worker.end(GRACE_S)


class _Rounds:
    """Which runs are still to be made, and who makes which. Ctrl-C asks it to `stop`."""

    def __init__(self, name: str, plan: ComparisonPlan, missing: Sequence[RunKey]) -> None:
        self._name, self._plan = name, plan
        self._waiting = list(reversed(missing))
        self._told: set[ProcessWorker] = set()
        self.running: dict[ProcessWorker, RunKey] = {}
        self.stopped = False

    def stop(self) -> None:
        self.stopped = True

    def hand_out(self, workers: Sequence[ProcessWorker]) -> None:
        """A run for each idle worker; after `stop` none, and the running ones are told to end, within a second."""
        if self.stopped:
            self._waiting.clear()
            for worker in self.running.keys() - self._told:
                self._told.add(worker)
                worker.send(None)
        for worker in workers:
            if worker not in self.running and self._waiting:
                self.running[worker] = self._waiting.pop()
                worker.send(self.running[worker])  # to a dead one in vain: what is heard of it says so

    def understood(self, worker: ProcessWorker, news: RunNews | RunFinished | Death) -> RunNews | RunFinished:
        """The news of a worker's run. RunError: it could not be made, or the worker is dead."""
        run = self.running[worker]
        which = f"{self._plan.cases[run.case].title}, {run.strategy}, seed {run.seed}"
        if isinstance(news, Death):
            raise RunError(
                f"{which}: its process died ({news.cause}). Finished trials are kept, and `tune compare --name {self._name}` goes on."
            )
        if isinstance(news, RunFinished):
            del self.running[worker]
            if news.problem is not None:
                raise RunError(f"{which}: {news.problem}")
        return news
