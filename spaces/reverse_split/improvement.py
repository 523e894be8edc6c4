"""Large neighbourhoods: some values leave a program, and the compiled search looks for a cheaper way to all that stay.

A program is the set of its values. Without k of them, the ones that stay are targets, and k - 1 new ones may join: any
program found is cheaper by one. Where there is none, a different program of the same cost replaces the current one (one
of the values that left is forbidden), so that the walk goes on over the plateau. Seeded and deterministic: what bounds a
step is work, not time.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kilotune.codegen.scamp.plan import Plan, evaluate
from kilotune.codegen.scamp.sums import Sum
from kilotune.spaces.reverse_split.programs import Answer, Costs, Question, Searcher, Status

WORK_OF_A_QUESTION = 60_000
WORK_OF_A_STEP = 400_000
"""Values looked at between two standings; a fraction of a second."""

SPARE_CELLS = 1
"""How far new values may reach beyond the box of the current ones."""


@dataclass(frozen=True)
class Sets:
    """A program as its values, in an order of computation, without the image. All in units of `2**-depth`."""

    target: str
    depth: int
    values: tuple[Sum, ...]
    cost: int
    plan: Plan

    @classmethod
    def of(cls, plan: Plan, costs: Costs) -> Sets:
        values = evaluate(plan)[1:]
        return cls(plan.target, plan.depth, values, plan_cost(plan, costs), plan)


def plan_cost(plan: Plan, costs: Costs) -> int:
    """The sum over its instructions."""
    total = 0
    for step in plan.steps:
        far = len(step.directions) == 2
        halving = step.op in ("div2", "divq", "div")
        total += costs.far if far else costs.halve if halving else costs.plain
    return total


def improve(start: Plan, results: Sequence[Sum], costs: Costs, seed: int, most_removed: int = 5) -> Iterator[Plan]:
    """An endless walk from a program that computes `results` (units of `2**-start.depth`): the best plan so far, again and
    again."""
    walk = _Walk(start, tuple(results), costs, random.Random(seed), most_removed)
    while True:
        yield walk.advance(WORK_OF_A_STEP)


class _Walk:
    def __init__(
        self, start: Plan, results: tuple[Sum, ...], costs: Costs, generator: random.Random, most_removed: int
    ) -> None:
        self._costs = costs
        self._random = generator
        self._most_removed = most_removed
        self._results, self._depth = results, start.depth
        self.best = self.current = Sets.of(start, costs)
        self._idle = 0

    def advance(self, work: int) -> Plan:
        spent = 0
        while spent < work:
            spent += self._turn()
        return self.best.plan

    def _turn(self) -> int:
        """One question: for a cheaper program, or for another one as cheap."""
        removable = self._removable()
        if not removable:
            return WORK_OF_A_STEP
        plateau = self._random.random() < 0.35
        sizes = (1, 2, 2, 3) if plateau else (2, 3, 3, 3, 4, 4, self._most_removed)
        count = min(self._random.choice(sizes), len(removable))
        removed = self._neighbours(removable, count)
        forbidden = (self._random.choice(removed),) if plateau else ()
        budget = self.current.cost if plateau else self.current.cost - 1
        answer = self._ask(removed, forbidden, budget)
        if answer.status is Status.FOUND and answer.plan is not None:
            self._accept(answer.plan)
        return answer.work + 200

    def _removable(self) -> list[Sum]:
        scale = 1 << (self.current.depth - self._depth)
        wanted = {total.scaled(scale) for total in self._results}
        return [value for value in dict.fromkeys(self.current.values) if value not in wanted]

    def _neighbours(self, removable: list[Sum], count: int) -> list[Sum]:
        """Values that depend on one another, directly or through a common operand; now and then any."""
        plan, values = self.current.plan, (None, *self.current.values)
        if self._random.random() < 0.2:
            return self._random.sample(removable, count)
        links: dict[Sum, set[Sum]] = {value: set() for value in removable}
        for number, step in enumerate(plan.steps, start=1):
            around = [value for at in (number, *step.operands) if (value := values[at]) is not None]
            for value in around:
                if value in links:
                    links[value].update(other for other in around if other in links and other != value)
        chosen = [self._random.choice(removable)]
        while len(chosen) < count:
            border = [v for v in removable if v not in chosen and any(v in links[c] for c in chosen)]
            chosen.append(self._random.choice(border or [v for v in removable if v not in chosen]))
        return chosen

    def _ask(self, removed: Sequence[Sum], forbidden: tuple[Sum, ...], budget: int) -> Answer:
        image = Sum.image(self.current.depth)
        kept = [value for value in dict.fromkeys(self.current.values) if value not in removed and value != image]
        self._random.shuffle(kept)
        boxes = [value.box for value in self.current.values if value]
        west, south = min(box[0] for box in boxes), min(box[1] for box in boxes)
        east, north = max(box[2] for box in boxes), max(box[3] for box in boxes)
        reach = (
            SPARE_CELLS - min(west, 0),
            SPARE_CELLS - min(south, 0),
            SPARE_CELLS + max(east, 0),
            SPARE_CELLS + max(north, 0),
        )
        question = Question(
            self.current.target, self.current.depth, tuple(kept), self._costs, reach=reach, forbidden=forbidden
        )
        return Searcher(question).ask(budget, WORK_OF_A_QUESTION)

    def _accept(self, plan: Plan) -> None:
        self.current = Sets.of(plan, self._costs)
        if self.current.cost < self.best.cost:
            self.best = self.current
