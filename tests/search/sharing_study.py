"""One of several tuners on a study: `python -m tests.search.sharing_study DATABASE TRIALS LOG PAUSE_S`; it logs what it measures."""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.search import work_sharing
from kilotune.search.budget import Budget
from kilotune.search.space import Assignment, Measurement
from kilotune.search.store import Store
from kilotune.search.study import Study
from tests.search.problems import FlatProblem


@dataclass(frozen=True)
class Logged(FlatProblem):
    """Appends every candidate that it measures to a file."""

    log: str = ""
    pause_s: float = 0.004

    @property
    def fingerprint(self) -> str:
        return "logged"

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        with Path(self.log).open("a") as log:
            log.writelines(f"{sorted(candidate.items())}\n" for candidate in batch)
        time.sleep(self.pause_s * len(batch))
        return super().evaluate(batch)


def space(log: str = "", pause_s: float = 0.004) -> Logged:
    return Logged(12, 4, 1, pairs=8, log=log, pause_s=pause_s)


if __name__ == "__main__":
    work_sharing.BEAT_S, work_sharing.DEAD_AFTER_S = 0.2, 2.0
    logged = space(sys.argv[3], float(sys.argv[4]))
    study = Study.resume(Store(sys.argv[1]), "shared", logged)
    print("started", flush=True)
    result = study.run(InProcessExecutor(logged), Budget(trials=int(sys.argv[2])))
    print(result.new_evaluations, result.evaluations, flush=True)
