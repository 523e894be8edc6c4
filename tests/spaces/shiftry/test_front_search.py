"""The search for a front: on a problem of which all candidates can be counted, and on a bundled model."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pytest

from kilotune.codegen.bundle import load_bundle
from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.experiments.models.catalogue import resolve_model
from kilotune.experiments.problems.fixed_point.model import task_of
from kilotune.search.budget import Budget
from kilotune.search.hypervolume import hypervolume
from kilotune.search.procedure import trials_of
from kilotune.search.space import Assignment, Constraint, Decision, Measurement, Metrics, Objective, Trial
from kilotune.search.study import Study
from kilotune.search.work_memory import NoMemory, WorkMemory
from kilotune.spaces.shiftry import front_search, known_candidates
from kilotune.spaces.shiftry.candidates import ShiftryOptions
from kilotune.spaces.shiftry.error_model import ErrorModel
from kilotune.spaces.shiftry.front_search import search_front
from kilotune.spaces.shiftry.known_candidates import FrontQuestion, KnownCandidates
from kilotune.spaces.shiftry.space import ShiftrySpace
from tests.search.problems import KeptTexts


@dataclass(frozen=True)
class Widths:
    """Bits that cost, errors that add up, a table that is free where all of the first `tied` variables are narrow, and `extra`
    interactions of two variables."""

    count: int
    seed: int
    tied: int = 2
    extra: int = 2
    error_metric: str = "error"
    work_memory: WorkMemory = field(default_factory=NoMemory)

    @property
    def fingerprint(self) -> str:
        return f"{self.count} {self.seed} {self.tied} {self.extra}"

    @cached_property
    def decisions(self) -> tuple[Decision, ...]:
        return tuple(Decision(f"v{i}", (16, 8, 6, 4)) for i in range(self.count))

    @property
    def objectives(self) -> tuple[Objective, ...]:
        return (Objective("bytes"), Objective("error"))

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        return (Constraint("error", 1.0),)

    @cached_property
    def reference_point(self) -> tuple[float, ...]:
        return (self.costs([{d.name: 16 for d in self.decisions}])[0]["bytes"], 1.0)

    @cached_property
    def drawn(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rng = np.random.default_rng(self.seed)
        pairs = np.array([rng.choice(self.count, 2, replace=False) for _ in range(self.extra)])
        return rng.integers(1, 40, self.count), rng.uniform(0.05, 1.0, self.count), pairs

    def costs(self, batch: Sequence[Assignment]) -> list[Metrics]:
        sizes = self.drawn[0]
        return [
            {
                "bytes": float(
                    sum(int(size) * int(bits) for size, bits in zip(sizes, one.values(), strict=True))
                    + 400 * any(one[f"v{i}"] == 16 for i in range(self.tied))
                )
            }
            for one in batch
        ]

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        _, weights, pairs = self.drawn
        found = []
        for one, costs in zip(batch, self.costs(batch), strict=True):
            errors = [
                float(weight) * 2.0 ** -int(bits) * 16 for weight, bits in zip(weights, one.values(), strict=True)
            ]
            square = sum(error**2 for error in errors)
            square += sum(8 * errors[i] * errors[j] for i, j in pairs)
            found.append(Measurement({**costs, "error": math.sqrt(square)}))
        return found

    def true_volume(self) -> float:
        names = [d.name for d in self.decisions]
        batch = [dict(zip(names, bits, strict=True)) for bits in itertools.product((16, 8, 6, 4), repeat=self.count)]
        losses = [(m.metrics["bytes"], m.metrics["error"]) for m in self.evaluate(batch)]
        return hypervolume(losses, self.reference_point)


def whole_front(space: Widths) -> FrontQuestion:
    return FrontQuestion.whole(space.objectives, space.reference_point)


def volume_after(space: Widths, trials: int) -> tuple[float, int]:
    """The hypervolume after so many trials, and how many there were."""
    met: list[Trial] = []
    for batch in trials_of(search_front(space, whole_front(space), 0), space.evaluate):
        met += batch
        if len(met) >= trials:
            break
    losses = [(t.metrics["bytes"], t.metrics["error"]) for t in met[:trials]]
    return hypervolume(losses, space.reference_point), len(met)


@pytest.mark.parametrize("seed", range(3))
def test_a_front_of_16384_candidates_is_found_with_a_twentieth_of_them(seed: int) -> None:
    space = Widths(7, seed)
    found, _ = volume_after(space, 800)
    assert found == pytest.approx(space.true_volume(), rel=2e-3)


def test_it_ends_when_every_candidate_has_been_measured_once() -> None:
    space = Widths(3, 1)
    met = [trial for batch in trials_of(search_front(space, whole_front(space), 0), space.evaluate) for trial in batch]
    assert len({tuple(trial.assignment.values()) for trial in met}) == len(met) == 64


def test_a_search_that_is_resumed_thinks_nothing_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    def met(space: Widths, most: int) -> list[Assignment]:
        search = trials_of(search_front(space, whole_front(space), 0), space.evaluate)
        return [trial.assignment for batch in itertools.islice(search, most) for trial in batch]

    alone, kept = Widths(7, 1), KeptTexts()
    remembering = replace(alone, work_memory=kept)
    assert met(remembering, 20) == met(alone, 20)
    thought, packed = len(kept.texts), front_search._packed
    monkeypatch.setattr(front_search, "_packed", None)
    again = met(remembering, 20)
    monkeypatch.setattr(front_search, "_packed", packed)
    assert again == met(alone, 20)
    assert met(remembering, 30) == met(alone, 30)
    assert len(kept.texts) > thought > 10


def test_costs_of_changes_are_those_of_the_point_they_are_asked_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when it is asked again, and after more points than are kept."""
    monkeypatch.setattr(known_candidates, "MOST_POINTS", 3)
    known = KnownCandidates(Widths(3, 1), whole_front(Widths(3, 1)))
    points = np.random.default_rng(0).integers(0, 4, (6, 3))
    for point in [*points, *points[::-1]]:
        found, here = known.singles_costs(point), known.costs(point[None])
        for variable, option in itertools.product(range(3), range(4)):
            changed = point.copy()
            changed[variable] = option
            np.testing.assert_array_equal(
                found[known.firsts[variable] + option], (known.costs(changed[None]) - here)[0]
            )


def test_what_failed_is_left_aside() -> None:
    space = Widths(3, 1)

    def evaluate(batch: Sequence[Assignment]) -> list[Measurement]:
        measured = space.evaluate(batch)
        return [Measurement({}, "No.") if one["v0"] == 4 else m for one, m in zip(batch, measured, strict=True)]

    met = [trial for batch in trials_of(search_front(space, whole_front(space), 0), evaluate) for trial in batch]
    assert len(met) == 64
    nothing = list(
        trials_of(search_front(space, whole_front(space), 0), lambda batch: [Measurement({}, "No.")] * len(batch))
    )
    assert [len(batch) for batch in nothing] == [1]


def test_the_model_is_exact_where_errors_add_up_and_learns_where_they_do_not() -> None:
    for extra in (0, 3):
        space = Widths(6, 5, extra=extra)
        known = KnownCandidates(space, whole_front(space))
        base = np.zeros(6, dtype=np.int64)
        candidates = [base, *known.singles(base)]
        rng = np.random.default_rng(0)
        some = rng.integers(0, 3, size=(200, 6))
        for rows in (np.array(candidates), some):
            batch = known.assignments(rows)
            known.take_in([Trial(i, a, m) for i, (a, m) in enumerate(zip(batch, space.evaluate(batch), strict=True))])
        model = ErrorModel(known, base)

        def error(model: ErrorModel, known: KnownCandidates = known, some: np.ndarray = some) -> float:
            relative = [abs(model.predict(row) / (known.square(row) or 1.0) - 1.0) for row in some]
            return float(np.mean(relative))

        before = error(model)
        model.refit(some, np.array([known.square(row) for row in some]))
        if extra:
            assert error(model) < 0.9 * before
        else:
            assert before < 1e-9
            assert error(model) < 1e-9


@pytest.fixture(scope="module")
def cancer() -> ShiftrySpace:
    bundle = load_bundle(resolve_model("protonn-cancer"))
    return ShiftrySpace(task_of(bundle, bundle.train), ShiftryOptions(narrow=True, front=("flash", "ram")))


def test_the_front_of_a_model_is_ahead_of_the_procedure_everywhere(cancer: ShiftrySpace) -> None:
    result = Study(cancer, "front", 1).run(InProcessExecutor(cancer), Budget(trials=1500))
    losses = [cancer_losses(cancer, trial.metrics) for trial in result.front]
    procedure = [trial for batch in trials_of(cancer.procedure(), cancer.evaluate) for trial in batch]
    for trial in procedure:
        loss = cancer_losses(cancer, trial.metrics)
        assert any(all(a <= b for a, b in zip(one, loss, strict=True)) for one in losses) or loss[2] > 3.8
    assert cancer.reference_point == (870.0, 18.0, pytest.approx(0.02 * len(cancer.task.features)))
    assert hypervolume(losses, cancer.reference_point) > 1.05 * hypervolume(
        [cancer_losses(cancer, trial.metrics) for trial in procedure], cancer.reference_point
    )


def cancer_losses(space: ShiftrySpace, metrics: Metrics) -> tuple[float, ...]:
    return tuple(objective.loss(metrics) for objective in space.objectives)


def test_the_same_seed_proposes_the_same(cancer: ShiftrySpace) -> None:
    facts = []
    for _ in range(2):
        study = Study(cancer, "front", 3)
        study.run(InProcessExecutor(cancer), Budget(trials=900))
        facts.append([trial.assignment for trial in study.trials()])
    assert facts[0] == facts[1]


def test_costs_are_known_without_a_measurement(cancer: ShiftrySpace) -> None:
    rng = np.random.default_rng(2)
    batch: list[Assignment] = [
        {d.name: d.options[int(rng.integers(len(d.options)))] for d in cancer.decisions} for _ in range(20)
    ]
    for costs, measured in zip(cancer.costs(batch), cancer.evaluate(batch), strict=True):
        assert costs == {name: measured.metrics[name] for name in costs}
        assert {"flash_bytes", "ram_bytes"} <= costs.keys()


def test_a_front_needs_quantities_that_there_are() -> None:
    with pytest.raises(ValueError, match="at most once; found flash,flash"):
        ShiftryOptions(front=("flash", "flash"))
    with pytest.raises(ValueError, match="needs --device"):
        ShiftryOptions(front=("flash", "cycles"))
    with pytest.raises(ValueError, match="no objective besides"):
        ShiftryOptions(front=("flash",), objective="bops")


def test_what_is_exact_does_not_end_the_search() -> None:
    """Weighted by their relative errors such candidates leave nothing of the others but a singular matrix."""
    space = Widths(5, 1)
    known = KnownCandidates(space, whole_front(space))
    base = np.zeros(5, dtype=np.int64)
    for batch in (known.assignments(base[None]), known.assignments(known.singles(base))):
        measured = space.evaluate(batch)
        known.take_in([Trial(i, one, m) for i, (one, m) in enumerate(zip(batch, measured, strict=True))])
    model, together = ErrorModel(known, base), np.array([[1, 1, 0, 0, 0], [2, 2, 0, 0, 0], [1, 1, 0, 0, 0]])
    model.refit(together, np.zeros(3))
    assert [model.predict(point) for point in together] == pytest.approx([0.0] * 3, abs=1e-9)
