"""A tuner in a process of its own, to be killed: `python -m tests.search.killed_study DATABASE STRATEGY`."""

import sys

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.search.budget import Budget
from kilotune.search.result import Progress
from kilotune.search.store import Store
from kilotune.search.study import Study
from tests.search.problems import FlatProblem

SPACE = FlatProblem(12, 4, 1, pairs=8, sleep_s=0.002)


def report(progress: Progress) -> None:
    print(progress.trials, flush=True)


if __name__ == "__main__":
    study = Study.create(Store(sys.argv[1]), "victim", SPACE, sys.argv[2], 5)
    print(study.run(InProcessExecutor(SPACE), Budget(seconds=60), on_progress=report).status.value)
