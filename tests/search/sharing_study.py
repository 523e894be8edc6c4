"""One of several tuners on a study: `python -m tests.search.sharing_study DATABASE TRIALS LOG`; it logs what it measures."""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.search import division
from kilotune.search.budget import Budget
from kilotune.search.space import Assignment, Measurement
from kilotune.search.store import Store
from kilotune.search.study import Study
from tests.search.problems import FlatProblem


@dataclass(frozen=True)
class Logged(FlatProblem):
    """Appends every candidate that it measures to a file."""

    log: str = ""

    @property
    def fingerprint(self) -> str:
        return "logged"

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        with Path(self.log).open("a") as log:
            log.writelines(f"{sorted(candidate.items())}\n" for candidate in batch)
        time.sleep(100.0 if "hang" in sys.argv else 0.004 * len(batch))
        return super().evaluate(batch)


def space(log: str = "") -> Logged:
    return Logged(12, 4, 1, pairs=8, log=log)


if __name__ == "__main__":
    division.BEAT_S, division.DEAD_AFTER_S = 0.2, 2.0
    logged = space(sys.argv[3])
    study = Study.resume(Store(sys.argv[1]), "shared", logged)
    print("started", flush=True)
    result = study.run(InProcessExecutor(logged), Budget(trials=int(sys.argv[2])))
    print(result.new_evaluations, result.evaluations, flush=True)
