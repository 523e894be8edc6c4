"""Programs of decision trees: how features and leaves are written, and which comparisons of each tree are code: those that many samples
meet. The rest is a table that a loop walks. Code is fast, tables are small."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

import numpy as np

from kilotune.codegen.arrays import FloatArray, IntArray
from kilotune.codegen.forest.costs import COSTS, ForestCosts
from kilotune.codegen.forest.integers import (
    IntegerForest,
    counted,
    feature_formats,
    integer_forest,
    leaf_formats,
    undecided,
)
from kilotune.codegen.forest.model import Forest
from kilotune.codegen.forest.plan import CODE, STORED, ForestPlan, plan_forest
from kilotune.search.fingerprint import fingerprint
from kilotune.search.flat_state import FlatState
from kilotune.search.space import Assignment, Constraint, Decision, Measurement, Metrics, Objective, Procedure

SEMANTICS = 3
"""Version of what the decisions mean and cost; part of the fingerprint."""

_PARTS = tuple(parts for power in range(1, 10) for parts in (2**power, 3 * 2 ** (power - 1)))
SHARES: Mapping[str, float] = MappingProxyType(
    {"none": STORED, "1": 1.0, **{f"1/{parts}": 1 / parts for parts in _PARTS}, "all": CODE}
)
"""Which comparisons of a tree are code: those that at least such a share of all samples meets; by name, the smallest programs first."""

FEATURES, LEAVES = "features", "leaves"
"""The decisions that all trees share."""


def code_of(number: int) -> str:
    """The decision about a tree."""
    return f"code of tree {number}"


@dataclass(frozen=True, eq=False)
class ForestTask:
    """A forest with samples [samples, features] and what it should return for them [samples] (classes, or values [samples, scores]; None:
    what it does return)."""

    forest: Forest
    features: FloatArray
    targets: FloatArray | None


@dataclass(frozen=True)
class ForestOptions:
    """`metric`: what is to be small, `flash_bytes` or `cycles`; the other one breaks ties. `limits`: of metrics. `processor`: the family in
    `COSTS` that costs are of; `clock_hz` makes milliseconds of cycles."""

    metric: str = "flash_bytes"
    limits: Mapping[str, float] = field(default_factory=dict)
    processor: str = "avr"
    clock_hz: float = 16e6


class ForestSpace:
    """See the module's text. A classifier that gives a training sample another class than the floats do is not feasible."""

    name = "forest"

    def __init__(self, task: ForestTask, options: ForestOptions = ForestOptions()) -> None:
        self.task = task
        self.options = options
        self.given = {form.name: form for form in feature_formats(task.forest, task.features)}
        self.written = leaf_formats(task.forest)
        self._costs: dict[tuple[str, str], ForestCosts] = {}
        self._quality: dict[tuple[str, str], Metrics] = {}

    def __reduce__(self) -> tuple[type[ForestSpace], tuple[ForestTask, ForestOptions]]:
        """A worker process makes costs anew: their tables cannot be sent."""
        return type(self), (self.task, self.options)

    @cached_property
    def decisions(self) -> tuple[Decision, ...]:
        """Those of all trees, then one a tree."""
        return (
            Decision(FEATURES, tuple(self.given)),
            Decision(LEAVES, tuple(self.written)),
            *(Decision(code_of(number), tuple(SHARES)) for number in range(len(self.task.forest.trees))),
        )

    @property
    def objectives(self) -> tuple[Objective, ...]:
        """What was asked for, then the other one of bytes and cycles."""
        other = "cycles" if self.options.metric == "flash_bytes" else "flash_bytes"
        return (Objective(self.options.metric), Objective(other))

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """The limits, and of a classifier that no training sample changes its class."""
        kept = () if self.task.forest.class_count is None else (Constraint("disagreements", 0.0),)
        return (*kept, *(Constraint(metric, limit) for metric, limit in self.options.limits.items()))

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the forest, the samples, what they should be and the options."""
        targets = "the forest's" if self.task.targets is None else self.task.targets
        return fingerprint(self.name, SEMANTICS, self.task.forest.content, self.task.features, targets, self.options)

    def start(self) -> FlatState:
        """No answers yet; nothing is known of what follows."""
        return FlatState(self.decisions, -math.inf)

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        """Bytes and cycles by the cost model, disagreements by executing the integers."""
        return [Measurement(self.metrics(candidate)) for candidate in batch]

    def metrics(self, candidate: Assignment) -> Metrics:
        """A candidate on the training samples: what `quality` says, and what it takes."""
        key = (str(candidate[FEATURES]), str(candidate[LEAVES]))
        costs = self.costs_of(candidate)
        flash, cycles = costs.of(self.least(candidate))
        milliseconds = 1000.0 * cycles / self.options.clock_hz
        forest = costs.plan.forest
        ram = forest.source.score_count * forest.leaves.score_bits // 8
        sample = forest.source.feature_count * forest.features.bits // 8
        return {
            "flash_bytes": float(round(flash)),
            "ram_bytes": float(ram),
            "total_ram_bytes": float(ram + sample),
            "cycles": round(cycles, 1),
            "latency_ms": milliseconds,
            **self._quality[key],
        }

    def least(self, candidate: Assignment) -> list[float]:
        """How many samples the comparisons of each tree must meet to be code."""
        count = len(self.task.features)
        return [SHARES[str(candidate[code_of(number)])] * count for number in range(len(self.task.forest.trees))]

    def plan(self, candidate: Assignment) -> ForestPlan:
        """The program of a candidate."""
        return plan_forest(self.costs_of(candidate).plan.forest, self.least(candidate))

    def costs_of(self, candidate: Assignment) -> ForestCosts:
        """What programs cost that write features and leaves as this one does."""
        key = (str(candidate[FEATURES]), str(candidate[LEAVES]))
        if key not in self._costs:
            made = integer_forest(self.task.forest, self.given[key[0]], self.written[key[1]])
            plan = plan_forest(counted(made, made.quantise(self.task.features)), [STORED] * len(made.trees))
            self._costs[key] = ForestCosts(plan, COSTS[self.options.processor], self.options.processor == "avr")
            self._quality[key] = quality(made, self.task)
        return self._costs[key]

    def procedure(self) -> Procedure:
        """Everything in tables with each way of writing numbers; from the best of them the same share as code of all trees, as much as the
        limits allow; then tree after tree where more code saves most cycles a byte, until the limits or the last comparison."""
        keys = [{FEATURES: given, LEAVES: written} for given in self.given for written in self.written]
        trials = yield [{**key, **self._everywhere("none")} for key in keys]
        allowed = [t for t in trials if t.metrics.get("disagreements", 0.0) == 0.0] or list(trials)
        here: Assignment = min(allowed, key=lambda trial: trial.metrics["flash_bytes"]).assignment
        metric = self.options.metric
        alike = [{**here, **self._everywhere(share)} for share in SHARES]
        here = min(alike, key=lambda one: (not self._permitted(found := self.metrics(one)), found[metric]))
        yield [here]
        while metric != "flash_bytes" and (more := self._with_more_code(here)) is not None:
            here = more
            yield [here]
        yield [here]

    def _everywhere(self, share: str) -> Assignment:
        return {code_of(number): share for number in range(len(self.task.forest.trees))}

    def _permitted(self, found: Metrics) -> bool:
        return all(constraint.violation(found) <= 0 for constraint in self.constraints)

    def _with_more_code(self, here: Assignment) -> Assignment | None:
        """One tree with more of it as code, that which saves most cycles a byte within the limits."""
        now, best, shares = self.metrics(here), None, list(SHARES)
        least = 0.0
        for decision in self.decisions[2:]:
            for option in shares[shares.index(str(here[decision.name])) + 1 :]:
                candidate = {**here, decision.name: option}
                found = self.metrics(candidate)
                saved, paid = now["cycles"] - found["cycles"], found["flash_bytes"] - now["flash_bytes"]
                if saved <= 0 or any(c.violation(found) > 0 for c in self.constraints if c.metric != "cycles"):
                    continue
                worth = saved / paid if paid > 0 else math.inf
                if worth > least:
                    least, best = worth, candidate
        return best


def quality(forest: IntegerForest, task: ForestTask) -> Metrics:
    """How a forest in integers does on samples: of a classifier its accuracy, how many samples get another class than by the floats, and of
    how many rounding alone does not exclude that; of values the mean and the largest error."""
    outputs = forest.outputs(forest.quantise(task.features))
    if task.forest.class_count is None:
        found = outputs / forest.leaves.factor
        wanted = task.forest.scores(task.features)
        errors = np.abs(found - wanted)
        return {"mean_absolute_error": _mean_error(found, task), "largest_error": float(errors.max(initial=0.0))}
    labels = outputs[:, 0]
    return {
        "accuracy_percent": _accuracy(labels, task),
        "disagreements": float((labels != task.forest.labels(task.features)).sum()),
        "undecided": float(undecided(forest, task.features)),
    }


def _mean_error(found: FloatArray, task: ForestTask) -> float:
    wanted = task.forest.scores(task.features) if task.targets is None else task.targets.reshape(len(found), -1)
    return float(np.abs(found - wanted).mean())


def _accuracy(labels: IntArray, task: ForestTask) -> float:
    wanted = task.forest.labels(task.features) if task.targets is None else task.targets.reshape(-1)
    return 100.0 * float((labels == wanted).mean())
