"""What is compared: cases, strategies, seeds, one budget."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kilotune.experiments.requests.request import TuneRequest, stored_fields
from kilotune.search.budget import Budget


@dataclass(frozen=True)
class Case:
    """One space on one input; `title` is short and a file name. `input` and `options` as in `TuneRequest`."""

    title: str
    space: str
    input: str
    strategies: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)

    def request(self, strategy: str = "random", seed: int = 0) -> TuneRequest:
        """The request of a run. The problem is the same for every strategy, so whoever only wants that need not name one."""
        return TuneRequest(self.space, self.input, strategy, seed, self.options)


@dataclass(frozen=True)
class RunKey:
    """Which run: of which case, by which strategy, from which seed."""

    case: int
    strategy: str
    seed: int


@dataclass(frozen=True)
class ComparisonPlan:
    """All runs of a comparison. The budget's seconds are CPU seconds of a run."""

    cases: tuple[Case, ...]
    repeats: int
    budget: str
    seed: int = 0

    @property
    def limits(self) -> Budget:
        """The budget, read."""
        return Budget.parse(self.budget)

    @property
    def seeds(self) -> range:
        """The seeds of the runs, one a repeat, equal for all strategies: runs are compared in pairs."""
        return range(self.seed, self.seed + self.repeats)

    def runs(self) -> Iterator[RunKey]:
        """Every strategy once, then once more: an interrupted comparison has whole rounds."""
        for seed in self.seeds:
            for number, case in enumerate(self.cases):
                for strategy in case.strategies:
                    yield RunKey(number, strategy, seed)

    def study_name(self, comparison: str, run: RunKey) -> str:
        """The name of the study in which a run is stored."""
        return f"{comparison}.{self.cases[run.case].title}.{run.strategy.replace(':', '-')}.{run.seed}"

    def extends(self, earlier: ComparisonPlan) -> bool:
        """Whether the runs of an earlier plan are also runs of this one: more seeds, more budget, more strategies."""
        then, now = earlier.limits, self.limits
        same_cases = _without_strategies(earlier) == _without_strategies(self)
        return (
            same_cases
            and self.seed == earlier.seed
            and self.repeats >= earlier.repeats
            and now.seconds >= then.seconds
            and now.trials >= then.trials
            and all(
                set(old.strategies) <= set(new.strategies) for old, new in zip(earlier.cases, self.cases, strict=True)
            )
        )

    def as_json(self) -> dict[str, Any]:
        """A JSON object that `from_json` reads."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> ComparisonPlan:
        """The plan of a stored comparison. ValueError, a sentence, for one that is damaged; keys of other versions
        are left out."""
        listed = stored.get("cases")
        if not isinstance(listed, list) or not listed or not all(isinstance(case, Mapping) for case in listed):
            raise ValueError(f"the stored plan is damaged: expected a list of cases, found {repr(listed)[:60]}")
        cases = tuple(stored_fields(Case, case, "case") for case in listed)
        cases = tuple(dataclasses.replace(case, strategies=tuple(case.strategies)) for case in cases)
        plan = stored_fields(cls, {**stored, "cases": ()}, "plan")
        if plan.repeats < 1:
            raise ValueError(f"the stored plan is damaged: expected 1 or more repeats, found {plan.repeats}")
        return dataclasses.replace(plan, cases=cases)


def _without_strategies(plan: ComparisonPlan) -> list[Any]:
    """As they are stored, where tuples are lists."""
    cases: list[Any] = json.loads(json.dumps(plan.as_json()["cases"]))
    return [{**case, "strategies": []} for case in cases]


def case_title(space: str, name: str) -> str:
    """A short file name: the space, and the last part of the input's name."""
    return re.sub(r"[^\w-]+", "-", f"{space}-{name.rstrip('/').rsplit('/', 1)[-1].rsplit('.', 1)[0]}").strip("-")
