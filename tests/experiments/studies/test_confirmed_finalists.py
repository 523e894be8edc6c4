"""Whether the best of a search is delivered, or the procedure's answer that costs as much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from kilotune.codegen.bundle import load_bundle
from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.evaluators.fixed_point import fresh_inputs
from kilotune.evaluators.fixed_point.fresh_inputs import LEAST_PAIRED, Finalist, PairedFlips, paired_flips
from kilotune.experiments.models.catalogue import resolve_model
from kilotune.experiments.problems.fixed_point.model import task_of
from kilotune.experiments.studies.command_time import never
from kilotune.experiments.studies.confirmed_finalists import confirmed_finalist
from kilotune.experiments.studies.measured_finalists import kept_finalist
from kilotune.search.budget import Budget
from kilotune.search.result import Result
from kilotune.search.space import Assignment, Constraint, Measurement, Objective, Trial
from kilotune.search.study import Study
from kilotune.spaces.shiftry.space import ShiftrySpace
from tests.search.problems import FlatProblem

MEMORY, FLIPS = Objective("memory_bytes"), Objective("expected_flips")


@dataclass(frozen=True)
class Classifying(FlatProblem):
    """Two decisions of four options, 10 and on: the first costs memory, the second are the expected flips."""

    objectives: tuple[Objective, ...] = (MEMORY, FLIPS)
    constraints: tuple[Constraint, ...] = (Constraint("memory_bytes", 12),)

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        pairs = [[float(option) for option in one.values()] for one in batch]
        return [Measurement({"memory_bytes": m, "expected_flips": flips, "cycles": m}) for m, flips in pairs]


@dataclass
class Comparing:
    """A problem whose candidates flip what `found` says."""

    space: Classifying
    found: PairedFlips | None
    compared: list[tuple[Trial, Trial]] = field(default_factory=list)

    def paired_flips(self, first: Trial, second: Trial) -> PairedFlips | None:
        self.compared.append((first, second))
        return self.found


def chosen(found: PairedFlips | None, paper: tuple[int, int], space: Classifying) -> tuple[Trial | None, str | None]:
    """What is kept instead of the best of all sixteen candidates, with the procedure's answer of these options, and what is said."""
    study = Study(space, "exhaustive", 0)
    result = study.run(InProcessExecutor(space), Budget(trials=16))
    problem = Comparing(space, found)
    answer = next(t for t in study.trials() if tuple(map(int, t.assignment.values())) == paper)
    finalist = confirmed_finalist(problem, study, result, replace(answer, number=99), never)  # type: ignore[arg-type]
    kept: Result = kept_finalist(problem, study, study.result())  # type: ignore[arg-type]
    if finalist is None:
        assert kept.best == result.best
        return None, None
    assert [pair[0] for pair in problem.compared] == [result.best]
    assert finalist.result.best == kept.best == answer  # also where the search has proved its best
    return finalist.result.best, finalist.said


@pytest.mark.parametrize(
    ("inputs", "only_best", "only_paper", "kept"),
    [
        (20000, 0, 5, False),  # of five that only one flips, all by the same one, a coin gives 1/32, of four 1/16
        (20000, 0, 4, True),
        (20000, 30, 30, True),
        (20000, 0, 0, False),  # who flips the very same is as good
        (1000, 20, 40, False),  # of 1000 new inputs 20.5 against 40 are more once in 200 times,
        (20000, 20, 40, True),  # 1.025 against 2 once in 5
        (20000, 4, 29, True),  # 0.225 against 1.45 once in 18
        (20000, 4, 33, False),  # 0.225 against 1.65 once in 21
    ],
)
def test_the_answer_is_kept_unless_the_best_is_surely_better(
    inputs: int, only_best: int, only_paper: int, kept: bool
) -> None:
    """Beyond chance on the inputs, and unlikely to be worse on as many new ones as there are samples, which are 1000."""
    space = Classifying(2, 4, 0)
    trial, said = chosen(PairedFlips(inputs, 1000, only_best, only_paper, 7), (10, 11), space)
    assert (trial is not None) == kept
    if kept:
        assert said is not None
        assert f"{inputs} made-up inputs like the training samples {7 + only_paper} change" in said
        assert f"and {7 + only_best} by trial" in said


def test_only_candidates_that_differ_in_precision_first_are_compared() -> None:
    worse = PairedFlips(1000, 1000, 50, 0, 0)
    space = Classifying(2, 4, 0)
    assert chosen(worse, (10, 11), space)[0] is not None
    assert chosen(worse, (11, 11), space)[0] is None  # takes more memory
    assert chosen(worse, (10, 10), space)[0] is None  # is the best
    assert chosen(None, (10, 11), space)[0] is None
    first = replace(space, objectives=(FLIPS, MEMORY))
    assert chosen(worse, (10, 11), first)[0] is None  # the precision of the best is proved
    assert chosen(worse, (10, 11), replace(space, objectives=(Objective("cycles"), FLIPS)))[0] is None


def test_flips_are_those_of_the_same_inputs_whoever_is_first() -> None:
    bundle = load_bundle(resolve_model("protonn-cancer"))
    space = ShiftrySpace(task_of(bundle, bundle.train))
    formats = [{d.name: d.options[min(place, len(d.options) - 1)] for d in space.decisions} for place in (0, 1)]
    wide, narrow = (Finalist(space.evaluator, space.lower([one])) for one in formats)
    found, turned = paired_flips(wide, narrow), paired_flips(narrow, wide)
    assert found is not None
    assert turned == found._replace(only_first=found.only_second, only_second=found.only_first)
    assert found.inputs >= LEAST_PAIRED
    assert found.samples == len(space.evaluator.task.features)
    assert found.only_first < found.only_second / 4
    assert paired_flips(wide, wide) == found._replace(only_first=0, only_second=0, both=found.only_first + found.both)


def test_programs_that_touch_much_are_compared_on_fewer_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = load_bundle(resolve_model("protonn-cancer"))
    space = ShiftrySpace(task_of(bundle, bundle.train))
    one = Finalist(space.evaluator, space.lower([{d.name: d.options[0] for d in space.decisions}]))
    touched = space.evaluator.simulator.steps.elements_touched
    monkeypatch.setattr(
        fresh_inputs, "MOST_TOUCHED_PAIRED", 934 * touched
    )  # as of a CNN of 2 million products an input
    found = paired_flips(one, one)
    assert found is not None
    assert found.inputs == 934
    monkeypatch.setattr(fresh_inputs, "MOST_TOUCHED_PAIRED", (LEAST_PAIRED - 1) * touched)
    assert paired_flips(one, one) is None
