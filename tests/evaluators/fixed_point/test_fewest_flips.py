"""Which of many programs flips the fewest inputs that none of them was chosen by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kilotune.codegen import ir
from kilotune.codegen.bundle import load_bundle
from kilotune.evaluators.fixed_point import fewest_flips as ranking
from kilotune.evaluators.fixed_point.fewest_flips import (
    FIRST_INPUTS,
    MOST_INPUTS,
    MOST_RANKED,
    MOST_TOUCHED_RANKED,
    RANKED_SEED,
    FewestFlips,
    fewest_flips,
)
from kilotune.evaluators.fixed_point.fresh_inputs import MOST_FEATURES, MOST_TOUCHED_PAIRED, Finalist
from kilotune.evaluators.fixed_point.similar_inputs import similar_inputs
from kilotune.experiments.models.catalogue import resolve_model
from kilotune.experiments.problems.fixed_point.model import task_of
from kilotune.spaces.shiftry.space import ShiftrySpace

SAMPLES = 100


@dataclass
class Rates:
    """Stands for evaluators of one model; its programs are the share of inputs that they flip, or one for each round, and flip the next
    one whenever that makes one more. `met`: how many inputs each program was executed on, by call."""

    features: int = 1
    touched: int = 1
    kind: ir.ResultKind = ir.ResultKind.CLASS
    met: list[tuple[float, int]] = field(default_factory=list)
    inputs: list[np.ndarray] = field(default_factory=list)

    @property
    def task(self) -> Any:
        return replace(TASK, program=replace(TASK.program, result_kind=self.kind), features=self.samples)

    @property
    def samples(self) -> np.ndarray:
        return np.random.default_rng(5).standard_normal((SAMPLES, self.features))

    @property
    def simulator(self) -> Any:
        return SimpleNamespace(steps=SimpleNamespace(elements_touched=self.touched))

    def on(self, task: Any) -> Any:
        count = len(task.features)
        self.inputs.append(task.features)

        def run(program: float | Sequence[float]) -> np.ndarray:
            rate = program if isinstance(program, float) else program[len(self.inputs) - 1]
            self.met.append((rate, count))
            return np.diff(np.floor(rate * np.arange(count + 1) + 1e-9)).reshape(1, count, 1)

        return SimpleNamespace(simulator=SimpleNamespace(run=run), float_outputs=np.zeros((count, 1)))


def _task() -> Any:
    bundle = load_bundle(resolve_model("protonn-cancer"))
    return task_of(bundle, bundle.train)


TASK = _task()


def of_rates(
    model: Rates, rates: Sequence[float | Sequence[float]], expected: Sequence[float] | None = None
) -> FewestFlips | None:
    programs: list[Any] = [Finalist(model, rate) for rate in rates]  # type: ignore[arg-type]
    return fewest_flips(programs, [1.0] * len(rates) if expected is None else expected)


def test_the_fewest_flips_of_all_inputs_are_found_wherever_they_stand() -> None:
    rates = [0.01, *(0.02 + 0.0001 * k for k in range(59))]
    for place in (0, 17, 59):
        moved = [*rates[1 : place + 1], rates[0], *rates[place + 1 :]]
        found = of_rates(Rates(), moved)
        assert found == FewestFlips(place, 60, 16 * FIRST_INPUTS)


def test_each_half_of_the_programs_meets_as_many_inputs_again() -> None:
    model, rates = Rates(), [0.01 * (k + 1) for k in range(10)]
    assert of_rates(model, rates[::-1]) == FewestFlips(9, 10, 4 * FIRST_INPUTS)
    met = {rate: sum(count for one, count in model.met if one == rate) for rate in rates}
    assert [met[rate] for rate in rates] == [4 * FIRST_INPUTS] * 2 + [2 * FIRST_INPUTS] * 3 + [FIRST_INPUTS] * 5
    inputs = similar_inputs(model.samples, 4 * FIRST_INPUTS, RANKED_SEED)
    assert sorted(np.concatenate(model.inputs)[:, 0]) == sorted(inputs[:, 0])  # none twice
    noisy = set(inputs[: 2 * FIRST_INPUTS, 0].tolist())
    assert (
        0.4 < np.mean([one in noisy for one in model.inputs[0][:, 0].tolist()]) < 0.6
    )  # of both kinds from the first on


def test_flips_of_all_rounds_count() -> None:
    """The last inputs alone would choose another one."""
    rounds = [(0.02, 0.02), (0.0, 0.03), (0.5, 0.0), (0.5, 0.0)]
    assert of_rates(Rates(), rounds) == FewestFlips(1, 4, 2 * FIRST_INPUTS)


def test_what_is_expected_decides_where_counts_do_not_and_not_where_they_do() -> None:
    few = 16.5 / FIRST_INPUTS  # 16 flips
    assert of_rates(Rates(), [few, few, few], [3.0, 2.0, 4.0]) == FewestFlips(1, 3, FIRST_INPUTS)
    assert of_rates(Rates(), [few, few * 1.1], [4.0, 2.0]) == FewestFlips(1, 2, FIRST_INPUTS)  # 16 and 18
    assert of_rates(Rates(), [few, few * 4], [4.0, 2.0]) == FewestFlips(0, 2, FIRST_INPUTS)
    assert of_rates(Rates(), [few * 2, few * 4], [4.0, 0.0]) == FewestFlips(
        0, 2, FIRST_INPUTS
    )  # nothing expected, 66 flips
    assert of_rates(Rates(), [few, few]) == FewestFlips(0, 2, FIRST_INPUTS)  # the most promising of equals


def test_large_programs_are_fewer_and_meet_fewer_inputs() -> None:
    rates = [0.01 * (k + 1) for k in range(90)] * 2
    all_of_them = of_rates(Rates(), rates)
    assert all_of_them == FewestFlips(0, MOST_RANKED, MOST_INPUTS)
    for touched in (1000, 20_000, 200_000, 400_000):
        model = Rates(touched=touched)
        found = of_rates(model, rates)
        assert found is not None
        assert found.place == 0
        assert touched * sum(count for _, count in model.met) <= MOST_TOUCHED_RANKED
        assert touched * found.inputs <= MOST_TOUCHED_PAIRED
        assert found.programs in (128, 64, 32, 16, 8, 4, 2)
        assert found.programs == MOST_RANKED or 6 * FIRST_INPUTS * touched * found.programs > MOST_TOUCHED_RANKED / 2
    too_large = MOST_TOUCHED_PAIRED // FIRST_INPUTS + 1
    assert of_rates(Rates(touched=too_large), rates) is None
    assert of_rates(Rates(features=MOST_FEATURES // FIRST_INPUTS + 1), rates) is None
    wide = of_rates(Rates(features=MOST_FEATURES // 2000), rates)
    assert wide == FewestFlips(0, MOST_RANKED, 2000)


def test_nothing_is_chosen_where_there_is_nothing_to_choose() -> None:
    assert of_rates(Rates(), []) is None
    assert of_rates(Rates(), [0.1]) is None
    assert of_rates(Rates(kind=ir.ResultKind.REAL), [0.1, 0.2]) is None


@cache
def space() -> ShiftrySpace:
    return ShiftrySpace(TASK)


def test_programs_are_executed_beside_the_float_program_of_their_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of sixteen bits and of eight ones, and both once more with an evaluator of their own, as smaller models have."""
    monkeypatch.setattr(ranking, "MOST_INPUTS", 2 * FIRST_INPUTS)
    wide, narrow = (
        space().lower([{d.name: d.options[min(place, len(d.options) - 1)] for d in space().decisions}])
        for place in (0, 1)
    )
    own = space().evaluator
    programs = [
        Finalist(own, narrow),
        Finalist(own.afresh(), narrow),
        Finalist(own.afresh(), wide),
        Finalist(own, wide),
    ]
    assert fewest_flips(programs, [1.0, 1.0, 1.0, 1.1]) == FewestFlips(2, 4, 2 * FIRST_INPUTS)
    assert fewest_flips(programs, [1.0, 1.0, 1.1, 1.0]) == FewestFlips(3, 4, 2 * FIRST_INPUTS)
