"""When finished trials are written: a process that is killed loses those that are not."""

from __future__ import annotations

import time
from pathlib import Path

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.search.budget import Budget
from kilotune.search.store import Store
from kilotune.search.strategy import UNKNOWN_BOUND, Outcome, SteppedStrategy, Steps
from kilotune.search.study import Study
from tests.search.problems import FlatProblem

PATIENCE_S = 30.0


def test_what_has_been_measured_is_written_while_a_strategy_thinks(tmp_path: Path) -> None:
    space, store, written = FlatProblem(4, 3, 1), Store(str(tmp_path / "studies.db")), list[int]()

    class Thinker:
        bound = UNKNOWN_BOUND

        def steps(self) -> Steps:
            for value in range(3):
                yield [{one.name: one.options[value] for one in space.decisions}]
                end_s = time.monotonic() + PATIENCE_S
                while store.study("thinks").trials <= value and time.monotonic() < end_s:
                    time.sleep(0.05)
                written.append(store.study("thinks").trials)
            return Outcome.FINISHED

    Study.create(store, "thinks", space)
    study = Study(space, name="thinks", store=store, factory=lambda *_: SteppedStrategy(Thinker()))
    study.run(InProcessExecutor(space), Budget())
    assert written == [1, 2, 3]
