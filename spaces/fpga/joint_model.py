"""Widths and scales together with the hardware: a master of formats around the knapsack that is exact for given ones.

The first candidate is what the two papers' ways give one after the other, Shiftry's widths and then the best hardware for them, so that
nothing that follows is worse. Where latency is asked for, faster designs follow, each with the formats that it needs
(`joint_designs.py`). Where there are none, from the best candidate so far: what every other format of each variable does to the accuracy
is measured, and what it saves in this hardware is asked of the cost model. Changes that save are taken together, the most useful first, as
long as the accuracy holds, which is measured for every prefix of them. The knapsack then spends on lanes what the formats have saved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kilotune.search.front import Ranking
from kilotune.search.procedure import run_procedure
from kilotune.search.space import Assignment, Measurement, ModelAnswer, Option, SolveLimit, Trial
from kilotune.spaces.fpga.choices import PIPELINED, PORTS_NAME
from kilotune.spaces.fpga.joint_candidates import Formats, JointCandidates
from kilotune.spaces.fpga.joint_designs import FasterDesigns
from kilotune.spaces.fpga.model import KnapsackModel

MOST_FORMATS = 3
"""Sets of formats of one round, each of which costs a knapsack."""

LEAST_WORK = 5.0
"""What the first knapsack may take at least, of `SolveLimit`: with less it finds nothing on large models."""

LIFTED = 2
"""Variables whose formats are drawn anew where no change of one is of use."""

SECOND_WEIGHT = 1e-3
"""How much a share of the second objective counts where a share of the leading one counts 1."""

Saving = Callable[[Mapping[str, float]], float]


@dataclass(frozen=True)
class FormatChange:
    """Another format of one variable."""

    variable: str
    option: Option


class JointModel:
    """The candidates that are worth measuring next, by what the trials so far have shown: a `search.space.CandidateModel` without a
    bound."""

    def __init__(self, space: JointCandidates, trials: Sequence[Trial]) -> None:
        self._space, self._trials = space, trials
        self._ranking = Ranking.of(space)
        self._known = [_key(space.formats_in(trial.assignment)) for trial in trials]

    def solve(self, count: int, excluded: Sequence[Assignment], seed: int, limit: SolveLimit) -> ModelAnswer:
        """Up to `count` candidates of other formats than the trials'; each has the best hardware that its share of `limit` finds."""
        if self._trials and self._space.objectives[0].metric == "latency_us":
            faster = self._faster(seed, limit)
            if faster:
                return ModelAnswer(tuple(faster[::-1][:count]), -float("inf"))
        return self._packed_around(count, seed, limit)

    def _faster(self, seed: int, limit: SolveLimit) -> list[Assignment]:
        """Candidates that are faster than the best one, the last the fastest."""
        best = min(self._trials, key=lambda trial: self._ranking.rank(trial.measurement))
        return FasterDesigns(self._space, best, seed, limit).run(noisy=best is not self._trials[-1])

    def _packed_around(self, count: int, seed: int, limit: SolveLimit) -> ModelAnswer:
        """The first candidate; then packs of changes around the best one, each with the best hardware for it."""
        hardware = self._space.choices.answers({}, True, 1)
        if not self._trials:
            answer = run_procedure(self._space.formats)
            assert answer is not None
            proposed = [dict(answer.assignment)]
            limit = replace(limit, work=max(limit.work, LEAST_WORK))
        else:
            best = min(self._trials, key=lambda trial: self._ranking.rank(trial.measurement))
            hardware = {decision.name: best.assignment[decision.name] for decision in self._space.choices.decisions}
            proposed = self._proposed(best, hardware, np.random.default_rng(seed))[: min(count, MOST_FORMATS)]
        share = replace(limit, work=limit.work / max(1, len(proposed)), seconds=limit.seconds / max(1, len(proposed)))
        found = [{**formats, **self._hardware(formats, hardware, seed, share)} for formats in proposed]
        return ModelAnswer(tuple(found), -float("inf"))

    def _hardware(self, formats: Formats, known: Assignment, seed: int, limit: SolveLimit) -> Assignment:
        """The best for these formats; `known`, of others, where the solver finds nothing better, or the board has no room for any."""
        try:
            alone = self._space.unrolling(formats)
        except ValueError:
            return known
        if self._trials:
            alone = alone.narrowed(bool(known[PIPELINED]), int(known[PORTS_NAME]))
        start = Trial(0, known, alone.evaluate([known])[0])
        found = KnapsackModel(alone, [start]).solve(1, [], seed, limit).candidates
        return found[0] if found else known

    def _proposed(self, best: Trial, hardware: Assignment, rng: np.random.Generator) -> list[Formats]:
        """Formats that no trial has: packs of changes by what saves most of each objective, then draws around the best."""
        space = self._space
        formats = space.formats_in(best.assignment)
        changes = [
            FormatChange(decision.name, option)
            for decision in space.formats.decisions
            for option in decision.options
            if option != formats[decision.name]
        ]
        alone = space.evaluate([{**formats, **hardware, change.variable: change.option} for change in changes])
        result = []
        for saving in self._savings(best.measurement, rng):
            worth = [(saving(m.metrics), change) for m, change in zip(alone, changes, strict=True) if self._accurate(m)]
            useful = sorted((pair for pair in worth if pair[0] > 0.0), key=lambda pair: -pair[0])
            result.append(self._packed(formats, [change for _, change in useful]))
        while len(result) < 2 * MOST_FORMATS:
            lifted = rng.choice(len(changes), LIFTED)
            result.append({**formats, **{changes[place].variable: changes[place].option for place in lifted}})
        fresh = {_key(proposed): proposed for proposed in result if _key(proposed) not in self._known}
        return list(fresh.values())

    def _savings(self, best: Measurement, rng: np.random.Generator) -> Iterator[Saving]:
        """How much better than the best, in proportion: by the first objective, by the second, by a random mixture."""
        first, second = (objective.metric for objective in self._space.objectives[:2])
        for weight in (SECOND_WEIGHT, 1 / SECOND_WEIGHT, float(rng.lognormal())):
            yield lambda metrics, weight=weight: sum(  # type: ignore[misc]
                share * (1.0 - metrics[metric] / best.metrics[metric])
                for metric, share in ((first, 1.0), (second, weight))
                if best.metrics.get(metric)
            )

    def _packed(self, formats: Formats, changes: Sequence[FormatChange]) -> Formats:
        """As many of the changes, in order and one a variable, as the accuracy allows together."""
        prefixes, together, changed = [], dict(formats), set[str]()
        for change in changes:
            if change.variable not in changed:
                changed.add(change.variable)
                together = {**together, change.variable: change.option}
                prefixes.append(together)
        measured = self._space.formats.evaluate(prefixes)
        holding = [prefix for prefix, m in zip(prefixes, measured, strict=True) if self._accurate(m)]
        return holding[-1] if holding else formats

    def _accurate(self, measurement: Measurement) -> bool:
        """Whether the limits on accuracy hold."""
        limits = self._space.formats.constraints
        return measurement.failure is None and all(limit.violation(measurement.metrics) == 0.0 for limit in limits)


def _key(formats: Assignment) -> tuple[Option, ...]:
    return tuple(formats.values())
