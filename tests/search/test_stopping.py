"""When a run gives time back: the rules, and a search that is ended by them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import pytest

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.search.budget import Budget
from kilotune.search.executor import Executor, Finished
from kilotune.search.result import Progress, Status
from kilotune.search.space import Assignment, Measurement, Objective, Trial
from kilotune.search.stopping import StoppingState, StopRule
from kilotune.search.strategy import Outcome
from kilotune.search.study import Study
from tests.search.problems import Table

TWO = (Objective("bytes"), Objective("errors"))
SPACE = Table(
    4,
    10,
    1,
    objectives=TWO,
    measurements={
        (a, b, c, d): Measurement({"bytes": float(a), "errors": float(30 - b)})
        for a in range(10, 20)
        for b in range(10, 20)
        for c in range(10, 20)
        for d in range(10, 20)
    },
)


class Scripted:
    """Reaches the least bytes with its trial 10 and knows it with trial 20; trial 30 has fewer errors, and nothing after it."""

    outcome: Outcome | None = None
    bound = -math.inf

    def __init__(self, provable: bool = True) -> None:
        self._provable, self._count = provable, 0

    def propose(self, count: int) -> list[Assignment]:
        n = self._count
        self._count += 1
        self.bound = 10.0 if self._provable and n >= 20 else -math.inf
        first = 10 if n >= 10 else 11
        return [{"d0": first, "d1": 11 if n == 30 else 10, "d2": 10 + n // 10 % 10, "d3": 10 + n % 10}]

    def learn(self, trials: Sequence[Trial]) -> None:
        return None


@pytest.mark.parametrize(
    ("rule", "provable", "trials"),
    [
        ("settled", True, 31 + 20),  # a quarter of 80 after the last better one
        ("settled", False, 80),
        ("proved", True, 21),
        ("proved", False, 80),
        ("stalled", False, 31 + 20),
        ("stalled=5trials", True, 6),  # before anything is proved; the first one is the best for a while
        ("stalled=15trials", False, 11 + 15),
        ("never", True, 80),
    ],
)
def test_a_run_ends_when_its_rule_says_so(rule: str, provable: bool, trials: int) -> None:
    study = Study(SPACE, factory=lambda _space, _seed: Scripted(provable))
    result = study.run(InProcessExecutor(SPACE), Budget(trials=80), stop=StopRule.parse(rule))
    assert result.evaluations == trials
    assert result.status is (Status.BUDGET_SPENT if trials == 80 else Status.SETTLED)


class Hesitant(InProcessExecutor):
    """Says that each candidate took 50 ms, so that a chunk holds but a few."""

    def results(self, timeout_s: float) -> list[Finished]:
        return [
            dataclasses.replace(finished, work_s=0.05 * len(finished.measurements))
            for finished in super().results(timeout_s)
        ]


class InBatches:
    """Proposes 64 candidates at a time, a better one in the middle of each of the first three batches."""

    outcome: Outcome | None = None
    bound = 10.0

    def __init__(self) -> None:
        self._count = 0

    def propose(self, count: int) -> list[Assignment]:
        beginning = self._count
        self._count += 64
        digits = (
            (10 if n % 64 == 17 and n < 192 else 11, 19 - n // 64 if n < 192 else 10, 10 + n // 10 % 10, 10 + n % 10)
            for n in range(beginning, self._count)
        )
        return [{f"d{place}": digit for place, digit in enumerate(row)} for row in digits]

    def learn(self, trials: Sequence[Trial]) -> None:
        return None


@pytest.mark.parametrize("rule", ["stalled", "settled"])
def test_a_slow_machine_ends_after_the_same_trials(rule: str) -> None:
    """Rounds of many candidates are measured in chunks, whose sizes depend on how long a candidate takes."""

    def trials(executor: Executor) -> int:
        study = Study(SPACE, factory=lambda _space, _seed: InBatches())
        return study.run(executor, Budget(trials=400), stop=StopRule.parse(rule)).evaluations

    assert trials(Hesitant(SPACE)) == trials(InProcessExecutor(SPACE)) < 400


def test_what_was_ended_goes_on_when_it_is_told_to() -> None:
    study = Study(SPACE, factory=lambda _space, _seed: Scripted())
    study.run(InProcessExecutor(SPACE), Budget(trials=80), stop=StopRule.parse("proved"))
    result = study.run(InProcessExecutor(SPACE), Budget(trials=40))
    assert (result.evaluations, result.new_evaluations, result.status) == (61, 40, Status.BUDGET_SPENT)


def test_a_run_says_when_it_found_and_proved_its_best() -> None:
    seen: list[Progress] = []
    study = Study(SPACE, factory=lambda _space, _seed: Scripted())
    result = study.run(InProcessExecutor(SPACE), Budget(trials=50), on_progress=seen.append)
    course = result.course
    assert course is not None
    assert [trial.number for _, trial in course.improvements] == [0, 10, 30]
    assert [seconds for seconds, _ in course.improvements] == sorted(seconds for seconds, _ in course.improvements)
    assert course.proved_s is not None
    assert course.improvements[1][0] <= course.proved_s <= course.improvements[2][0]
    assert seen[-1].proved_s == course.proved_s
    assert (course.trials, course.budget) == (50, Budget(trials=50))


@pytest.mark.parametrize(
    ("seconds", "improved", "proved", "ends"),
    [
        (39.0, 1.0, 30.0, False),
        (45.0, 1.0, 30.0, True),  # a quarter of a minute after the proof, though nothing was better for longer
        (45.0, 31.0, 30.0, False),
        (46.0, 31.0, 30.0, True),
        (59.0, 1.0, None, False),
    ],
)
def test_settled_counts_from_the_later_of_proof_and_improvement(
    seconds: float, improved: float, proved: float | None, ends: bool
) -> None:
    standing = StoppingState(seconds, 7, (improved, 3), None if proved is None else (proved, 5))
    assert StopRule.parse("settled").ends(standing, Budget(seconds=60.0)) is ends
    assert not StopRule.parse("settled").ends(standing, Budget())


@pytest.mark.parametrize("text", ["soon", "settled=3s", "stalled=", "stalled=much", "never=1s", ""])
def test_what_is_no_rule_is_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match="--stop"):
        StopRule.parse(text)


@pytest.mark.parametrize("text", ["settled", "proved", "stalled", "stalled=30s", "stalled=500trials", "never"])
def test_a_rule_is_read_as_it_is_written(text: str) -> None:
    assert str(StopRule.parse(text)) == text
