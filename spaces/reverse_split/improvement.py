"""Large neighbourhoods: some values leave a program, and the compiled search looks for a cheaper way to all that need them.

A program is the set of its values. When k of them leave, the ones that took them become targets, and fewer new ones may
join: any program found is cheaper. Where there is none, a different program of the same cost replaces the current one (one
of the values that left is forbidden), so that the walk goes on over the plateau. What the search may start from is a
window: what the removed values and the targets took, and a few more. Seeded and deterministic: what bounds a step is
work, not time.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from kilotune.codegen.scamp.instructions import REGISTERS
from kilotune.codegen.scamp.plan import Plan, PlanStep
from kilotune.codegen.scamp.sums import Sum
from kilotune.spaces.reverse_split.programs import Costs, ProgramQuery, ProgramStatus, Searcher, SumMeasures, verified
from kilotune.spaces.reverse_split.scheduling import MOST_REGISTERS, fitted, least_registers

WORK_OF_A_QUESTION = (500, 500, 1_000, 1_000, 2_000, 3_000)
"""Values looked at for one question on a long program; one of these limits, at random."""

SHORT_PROGRAM = 14
WORK_ON_SHORT = (1_000, 1_000, 1_000, 3_000, 3_000, 10_000, 40_000)
"""Values looked at for one question on a program of at most `SHORT_PROGRAM` instructions: little is left to find nearby."""

WORK_OF_A_STEP = 300_000
"""Values looked at between two standings; a fraction of a second."""

WORK_OF_SETTING_UP = 300
"""The work of setting up a query on a program of up to 20 instructions, in Python."""

SPARE_CELLS = 1
"""How far new values may reach beyond the box of the current ones."""

MOST_GIVEN = 22
MOST_TARGETS = 30

ValueKey = tuple[Sum, bool]
"""A value, and whether it is a copy."""


@dataclass(frozen=True)
class _Made:
    """One instruction of a program, its operands by value."""

    key: ValueKey
    op: str
    operands: tuple[ValueKey, ...]
    directions: tuple[str, ...]
    cost: int


def plan_cost(plan: Plan, costs: Costs) -> int:
    """The sum over its instructions."""
    return sum(step_cost(step, costs) for step in plan.steps)


def step_cost(step: PlanStep, costs: Costs) -> int:
    """What one instruction costs."""
    if step.op in ("div2", "divq"):
        return costs.halve
    if step.op == "div":
        return costs.plain + 3 * (costs.far - costs.plain)  # five transfers, where a plain one has two
    return costs.far if len(step.directions) == 2 else costs.plain


class ProgramWalk:
    """An endless walk from a program that computes `results` (units of `2**-start.depth`).

    It never takes more registers than before where those are more than `registers` (None: any number). It may become dearer up
    to `limit`. `kept`: the results stay in their registers to the end.
    """

    def __init__(
        self,
        start: Plan,
        results: Sequence[Sum],
        costs: Costs,
        seed: int,
        registers: int | None = len(REGISTERS),
        limit: int = 0,
        kept: bool = True,
    ) -> None:
        self._costs, self._random = costs, random.Random(seed)
        self._measures = SumMeasures()
        self._target, self._depth, self._results = start.target, start.depth, tuple(results)
        self._program = self._made(start)
        self.cost = sum(made.cost for made in self._program)
        self.limit = limit
        self._registers = registers
        self._kept = kept
        self._taken = 0 if registers is None else max(registers, least_registers(start, MOST_REGISTERS, kept))

    def advance(self, work: int = WORK_OF_A_STEP) -> Plan:
        """Questions until the work is done; then the program, which is never dearer than the last one, or the limit."""
        spent = 0
        while spent < work:
            spent += self._turn()
        return self._plan()

    @property
    def excess(self) -> int:
        """How many registers the program takes more than it should."""
        return 0 if self._registers is None else max(0, self._taken - self._registers)

    def _made(self, plan: Plan, given: Sequence[Sum] = ()) -> list[_Made]:
        values = [Sum.image(plan.depth), *given]
        for step in plan.steps:
            values.append(plan.instruction(step).apply([values[at] for at in step.operands], step.directions))
        first = len(values) - len(plan.steps)
        keys = [(value, False) for value in values]
        made = []
        for number, step in enumerate(plan.steps, start=first):
            keys[number] = (values[number], step.op in ("mov", "copy"))
            operands = tuple(keys[at] for at in step.operands)
            made.append(_Made(keys[number], step.op, operands, step.directions, step_cost(step, self._costs)))
        return made

    def _plan(self) -> Plan:
        return verified(self._written(), self._results)

    def _written(self) -> Plan:
        number: dict[ValueKey, int] = {(Sum.image(self._depth), False): 0}
        steps = []
        for made in self._program:
            steps.append(PlanStep(made.op, tuple(number[key] for key in made.operands), made.directions))
            number[made.key] = len(steps)
        results = tuple(number[total, False] for total in self._results)
        return Plan(self._target, self._depth, tuple(steps), results)

    def _turn(self) -> int:
        """One question: for a cheaper program, or for another one as cheap. What it took."""
        setting_up = WORK_OF_SETTING_UP * (1 + len(self._program) // 20)
        wanted = {(total, False) for total in self._results}
        removable = [made for made in self._program if made.key not in wanted]
        if not removable:
            return WORK_OF_A_STEP
        plateau = self._random.random() < 0.4
        sizes = (1, 2, 2, 3) if plateau else (2, 3, 3, 4, 4, 5, 5, 6)
        removed = self._neighbours(removable, min(self._random.choice(sizes), len(removable)))
        window = self._window({made.key for made in removed}, wanted)
        if window is None:
            return setting_up
        given, targets = window
        gone = sum(made.cost for made in removed) + sum(made.cost for made in targets)
        spare = self._random.randint(0, self.limit - self.cost) if self.limit > self.cost else 0
        forbidden = (self._random.choice(removed).key[0],) if plateau else ()
        boxes = [key[0].box for key in (*given, *(made.key for made in (*removed, *targets))) if key[0]]
        reach = tuple(SPARE_CELLS + max(0, *(-box[i] if i < 2 else box[i] for box in boxes)) for i in range(4))
        question = ProgramQuery(
            self._target,
            self._depth,
            tuple(made.key[0] for made in targets),
            self._costs,
            reach=(reach[0], reach[1], reach[2], reach[3]),
            given=tuple(key[0] for key in given),
            forbidden=forbidden,
        )
        searcher = Searcher(question, self._measures)
        short = len(self._program) <= SHORT_PROGRAM
        works = WORK_ON_SHORT if short else WORK_OF_A_QUESTION
        answer = searcher.ask(gone + spare if plateau else gone - 1, self._random.choice(works))
        if answer.status is ProgramStatus.FOUND and answer.plan is not None and answer.plan.depth == self._depth:
            self._replace({made.key for made in (*removed, *targets)}, self._made(answer.plan, question.given))
        return answer.work + setting_up

    def _neighbours(self, removable: list[_Made], count: int) -> list[_Made]:
        """Instructions that depend on one another, directly or through a common operand; now and then any."""
        if self._random.random() < 0.15:
            return self._random.sample(removable, count)
        chosen = [self._random.choice(removable)]
        touched = {chosen[0].key, *chosen[0].operands}
        while len(chosen) < count:
            rest = [made for made in removable if made not in chosen]
            border = [made for made in rest if made.key in touched or any(key in touched for key in made.operands)]
            chosen.append(self._random.choice(border or rest))
            touched.update((chosen[-1].key, *chosen[-1].operands))
        return chosen

    def _window(self, removed: set[ValueKey], wanted: set[ValueKey]) -> tuple[list[ValueKey], list[_Made]] | None:
        """What the search starts from and what it must reach; None when that is too much."""
        pending: set[ValueKey] = set()
        for made in self._program:
            if made.key not in removed and any(key in removed or key in pending for key in made.operands):
                pending.add(made.key)
        need = {made.key for made in self._program if made.key in pending and any(k in removed for k in made.operands)}
        for made in reversed(self._program):
            if made.key in need:
                need.update(key for key in made.operands if key in pending)
        targets = [made for made in self._program if made.key in need]
        if any(made.key[1] for made in targets):
            return None  # a copy is no target
        around = [made for made in self._program if made.key in removed or made.key in need]
        taken = {key for made in around for key in made.operands} - removed - need
        image = (Sum.image(self._depth), False)
        others = [m.key for m in self._program if m.key not in removed and m.key not in pending and not m.key[1]]
        given = [key for key in others if key in taken]
        extra = [key for key in others if key not in taken]
        self._random.shuffle(extra)
        given += extra[: self._random.choice((2, 4, 8, 8, 16))]
        given = [key for key in dict.fromkeys(given) if key != image and not key[1]]
        if len(given) > MOST_GIVEN or len(targets) > MOST_TARGETS:
            return None
        self._random.shuffle(given)
        return given, targets

    def _replace(self, gone: set[ValueKey], new: list[_Made]) -> None:
        """Puts new instructions in the place of others, in an order of computation, without dead ones."""
        order = _ordered([made for made in self._program if made.key not in gone] + new, self._depth)
        if order is None:
            return  # an operand was a copy that left
        needed = {(total, False) for total in self._results}
        kept: list[_Made] = []
        for made in reversed(order):
            if made.key in needed:
                kept.append(made)
                needed.update(made.operands)
        cost = sum(made.cost for made in kept)
        if cost > max(self.cost, self.limit):
            return
        before, self._program = self._program, kept[::-1]
        if self._takes_more_registers():
            self._program = before
        else:
            self.cost = cost

    def _takes_more_registers(self) -> bool:
        """Whether the program has no order that takes as few as before; where it has, and may take fewer, how few it takes."""
        if self._registers is None:
            return False
        plan = fitted(self._written(), self._taken, self._kept)
        if plan is not None and self._taken > self._registers:
            self._taken = max(self._registers, least_registers(plan, self._taken, self._kept))
        return plan is None


def _ordered(waiting: list[_Made], depth: int) -> list[_Made] | None:
    """Instructions in an order of computation, none twice; None where an operand is missing."""
    there: set[ValueKey] = {(Sum.image(depth), False)}
    order: list[_Made] = []
    while waiting:
        ready = [made for made in waiting if all(key in there for key in made.operands)]
        if not ready:
            return None
        for made in ready:
            if made.key not in there:
                there.add(made.key)
                order.append(made)
        waiting = [made for made in waiting if made not in ready]
    return order
