"""Large neighbourhoods: some values leave a program, and the compiled search looks for a cheaper way to all that need them.

A program is the set of its values. When k of them leave, the ones that took them become targets, and fewer new ones may
join: any program found is cheaper. Where there is none, a different program of the same cost replaces the current one (one
of the values that left is forbidden), so that the walk goes on over the plateau. What the search may start from is a
window: what the removed values and the targets took, and a few more. Seeded and deterministic: what bounds a step is
work, not time.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from functools import partial

from kilotune.codegen.scamp.instructions import REGISTERS
from kilotune.codegen.scamp.plan import Plan, PlanStep
from kilotune.codegen.scamp.sums import Sum
from kilotune.spaces.reverse_split.exchanging import LONGEST as LONGEST_EXCHANGED
from kilotune.spaces.reverse_split.exchanging import exchanged
from kilotune.spaces.reverse_split.made_values import IMAGE, MadeValue, WalkValues, in_order
from kilotune.spaces.reverse_split.move_choice import MoveChoice, MoveKind
from kilotune.spaces.reverse_split.pebbling import pebbled
from kilotune.spaces.reverse_split.prepared_question import ProgramStatus
from kilotune.spaces.reverse_split.programs import Costs, ProgramQuery, Searcher, SumMeasures, verified
from kilotune.spaces.reverse_split.scheduling import MOST_REGISTERS, fitting_order, least_registers

WORK_OF_A_QUESTION = (500, 500, 1_000, 1_000, 2_000, 3_000)
"""Values looked at for one question on a long program; one of these limits, at random."""

SHORT_PROGRAM = 14
WORK_ON_SHORT = (1_000, 1_000, 1_000, 3_000, 3_000, 10_000, 40_000)
"""Values looked at for one question on a program of at most `SHORT_PROGRAM` instructions: little is left to find nearby."""

WORK_OF_A_STEP = 300_000
"""Values looked at between two standings; a fraction of a second."""

WORK_OF_SETTING_UP = 120
"""The work of setting up a query on a program of up to 20 instructions, in Python: a fifth of a millisecond where a million values are
looked at in a second."""

SPARE_CELLS = 1
"""How far new values may reach beyond the box of the current ones."""

MOST_GIVEN = 22
MOST_TARGETS = 30

LONGEST_SQUEEZED = 32
"""Instructions of a program that is fitted to the registers on the way: some milliseconds each time."""

SHARE_OF_EXCHANGES, LOOKS_OF_A_VALUE = 0.5, 30
"""How much of a walk's work is exchanges of single values, and how many looks of theirs take as long as one of a question's."""

COPIES = ("mov", "copy")


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
    to `limit`. `kept`: the results stay in their registers to the end. `squeezed`: the cheapest program on the way that takes no more
    registers than `registers`, with values computed twice; it is cheaper than the `aim` was. Whoever asks may set both.
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
        self._costs, self._random, self._choice = costs, random.Random(seed), MoveChoice()
        self._measures = SumMeasures()
        self._target, self._depth, self._results = start.target, start.depth, tuple(results)
        self._values = WalkValues(Sum.image(start.depth))
        self._program = self._started(start)
        self._wanted = self._results_of(start)
        self.cost = sum(made.cost for made in self._program)
        self.limit = limit
        self.aim = 0
        self.squeezed: Plan | None = None
        self._squeezed_ones = set[frozenset[int]]()
        self._registers = registers
        self._kept = kept
        self._taken = 0 if registers is None else max(registers, least_registers(start, MOST_REGISTERS, kept))

    def advance(self, work: int = WORK_OF_A_STEP) -> Plan:
        """Questions until the work is done; then the program, which is never dearer than the last one, or the limit."""
        spent = self._exchange(int(SHARE_OF_EXCHANGES * work))
        while spent < work:
            spent += self._turn()
        return self._plan()

    def _exchange(self, work: int) -> int:
        """Single values exchanged for so much work; what it took."""
        if not self.exchanges:
            return 0
        limit = None if self._registers is None else self._taken
        plan, looks = exchanged(
            self._written(self._program), limit, self._random.getrandbits(63), LOOKS_OF_A_VALUE * work, self._kept
        )
        if plan is None:
            return 0
        before = self.cost
        self._program = self._started(plan)
        self._wanted = self._results_of(plan)
        self.cost = sum(made.cost for made in self._program)
        if self.excess and self.cost < before:
            self._taken = max(self._taken - self.excess, least_registers(plan, self._taken, self._kept))
            if self.cost < self.aim:
                self._squeeze()
        return looks // LOOKS_OF_A_VALUE

    def _results_of(self, plan: Plan) -> tuple[int, ...]:
        return tuple((IMAGE, *(made.key for made in self._program))[at] for at in plan.results)

    @property
    def instructions(self) -> int:
        """How many the program has."""
        return len(self._program)

    @property
    def exchanges(self) -> bool:
        """Whether single values are exchanged in a program so long, at these prices."""
        return len(self._program) <= LONGEST_EXCHANGED and len(set(self._costs)) == 1

    @property
    def excess(self) -> int:
        """How many registers the program takes more than it should."""
        return 0 if self._registers is None else max(0, self._taken - self._registers)

    def _started(self, plan: Plan) -> list[MadeValue]:
        """The instructions of a plan, each with a value of its own."""
        values, program = [IMAGE], list[MadeValue]()
        times = Counter({(self._values.sums[IMAGE], False): 1})
        for step in plan.steps:
            total, copy = self._computed(plan, step, values), step.op in COPIES
            values.append(self._values.number(total, copy, times[total, copy]))
            times[total, copy] += 1
            program.append(self._instruction(step, values))
        return program

    def _answered(self, plan: Plan, given: Sequence[int], targets: Sequence[MadeValue]) -> list[MadeValue]:
        """The instructions of an answer to a question with those given values and targets."""
        values, program = [IMAGE, *given], list[MadeValue]()
        wanted = {self._values.sums[made.key]: made.key for made in targets}
        for step in plan.steps:
            total, copy = self._computed(plan, step, values), step.op in COPIES
            known = None if copy else wanted.get(total)
            values.append(self._values.number(total, copy) if known is None else known)
            program.append(self._instruction(step, values))
        return program

    def _computed(self, plan: Plan, step: PlanStep, values: Sequence[int]) -> Sum:
        return plan.instruction(step).apply([self._values.sums[values[at]] for at in step.operands], step.directions)

    def _instruction(self, step: PlanStep, values: Sequence[int]) -> MadeValue:
        operands = tuple(values[at] for at in step.operands)
        return MadeValue(values[-1], step.op, operands, step.directions, step_cost(step, self._costs))

    def _plan(self) -> Plan:
        return verified(self._written(self._program), self._results)

    def _written(self, program: Sequence[MadeValue]) -> Plan:
        number = {IMAGE: 0}
        steps = []
        for made in program:
            steps.append(PlanStep(made.op, tuple(number[key] for key in made.operands), made.directions))
            number[made.key] = len(steps)
        return Plan(self._target, self._depth, tuple(steps), tuple(number[key] for key in self._wanted))

    def _turn(self) -> int:
        """One question: for a cheaper program, or for another one as cheap. What it took."""
        setting_up = WORK_OF_SETTING_UP * (1 + len(self._program) // 20)
        removable = [made for made in self._program if made.key not in self._wanted]
        if not removable:
            return WORK_OF_A_STEP
        kind, before = self._choice.kind(self._random, len(self._program) > SHORT_PROGRAM), self.cost
        work = setting_up + self._asked(kind, self._neighbours(removable, min(kind.removed, len(removable))))
        self._choice.note(kind, max(0, before - self.cost) / self._costs.plain, work)
        return work

    def _asked(self, kind: MoveKind, removed: list[MadeValue]) -> int:
        """A question without those instructions, and what comes of it. The work of the answer."""
        window = self._window({made.key for made in removed})
        if window is None:
            return 0
        given, targets = window
        gone = sum(made.cost for made in removed) + sum(made.cost for made in targets)
        spare = self._random.randint(0, self.limit - self.cost) if self.limit > self.cost else 0
        sums = self._values.sums
        question = ProgramQuery(
            self._target,
            self._depth,
            tuple(sums[made.key] for made in targets),
            self._costs,
            reach=self._reach([*given, *(made.key for made in (*removed, *targets))]),
            given=tuple(sums[key] for key in given),
            forbidden=(sums[self._random.choice(removed).key],) if kind.plateau else (),
            nearby=True,
        )
        searcher = Searcher(question, self._measures)
        works = WORK_ON_SHORT if len(self._program) <= SHORT_PROGRAM else WORK_OF_A_QUESTION
        answer = searcher.ask(gone + spare if kind.plateau else gone - 1, self._random.choice(works))
        if answer.status is ProgramStatus.FOUND and answer.plan is not None and answer.plan.depth == self._depth:
            self._replace({made.key for made in (*removed, *targets)}, self._answered(answer.plan, given, targets))
        return answer.work

    def _reach(self, keys: Sequence[int]) -> tuple[int, int, int, int]:
        """How far west, south, east and north new values may extend."""
        boxes = [
            self._measures.shape(self._values.sums[key], self._depth)[:4] for key in keys if self._values.sums[key]
        ]
        west, south, east, north = (SPARE_CELLS + max(0, *(int(box[i]) for box in boxes)) for i in range(4))
        return west, south, east, north

    def _neighbours(self, removable: list[MadeValue], count: int) -> list[MadeValue]:
        """Instructions that depend on one another, directly or through a common operand; now and then any."""
        if self._random.random() < 0.15:
            return self._random.sample(removable, count)
        chosen = [self._random.choice(removable)]
        touched = {chosen[0].key, *chosen[0].operands}
        rest = removable
        while len(chosen) < count:
            last = chosen[-1].key
            rest = [made for made in rest if made.key != last]
            border = [made for made in rest if made.key in touched or not touched.isdisjoint(made.operands)]
            chosen.append(self._random.choice(border or rest))
            touched.update((chosen[-1].key, *chosen[-1].operands))
        return chosen

    def _window(self, removed: set[int]) -> tuple[list[int], list[MadeValue]] | None:
        """What the search starts from and what it must reach; None when that is too much."""
        program, copies = self._program, self._values.copies
        gone = set(removed)  # what leaves, and all that is computed from it
        direct: set[int] = set()
        for made in program:
            if made.key not in removed and not gone.isdisjoint(made.operands):
                gone.add(made.key)
                if not removed.isdisjoint(made.operands):
                    direct.add(made.key)
        need = direct
        targets = []
        for made in reversed(program):
            if made.key in need:
                need.update(key for key in made.operands if key in gone and key not in removed)
                targets.append(made)
        targets.reverse()
        if len(targets) > MOST_TARGETS or any(copies[made.key] for made in targets):
            return None  # a copy is no target
        given = self._given(removed, need, gone)
        sums = self._values.sums
        asked = [*(sums[made.key] for made in targets), *(sums[key] for key in given)]
        if len(given) > MOST_GIVEN or len(set(asked)) < len(asked):
            return None  # what is computed twice is not told apart
        self._random.shuffle(given)
        return given, targets

    def _given(self, removed: set[int], need: set[int], gone: set[int]) -> list[int]:
        """What removed values and targets took of what stays, and some more that is like none of them."""
        program, values = self._program, self._values
        taken: set[int] = set()
        for made in program:
            if made.key in removed or made.key in need:
                taken.update(made.operands)
        others = [made.key for made in program if made.key not in gone and not values.copies[made.key]]
        given = [key for key in others if key in taken]
        extra = [key for key in others if key not in taken]
        extra = self._random.sample(extra, min(len(extra), self._random.choice((2, 4, 8, 8, 16))))
        known = {values.sums[key] for key in (*given, *need)}
        for key in extra:
            if values.sums[key] not in known:
                known.add(values.sums[key])
                given.append(key)
        return given

    def _replace(self, gone: set[int], new: list[MadeValue]) -> None:
        """Puts new instructions in the place of others, without dead ones, if that takes no more registers than before."""
        program = in_order(self._program, gone, new, self._wanted)
        if program is None:
            return  # an operand was a copy that left
        cost = sum(made.cost for made in program)
        if cost > max(self.cost, self.limit):
            return
        fitting = self._fitting(program)
        if fitting is not None:
            self._program, self.cost = fitting, cost
            if self.excess and cost < self.aim:
                self._squeeze()

    def _squeeze(self) -> None:
        """The program in as many registers as there are, at the least cost that its values permit."""
        values = frozenset(made.key for made in self._program)
        if self._registers is None or len(values) > LONGEST_SQUEEZED or values in self._squeezed_ones:
            return
        self._squeezed_ones.add(values)
        price = partial(step_cost, costs=self._costs)
        found = pebbled(self._written(self._program), self._registers, price, self.aim, self._kept)
        if found is not None:
            self.squeezed, self.aim = verified(found, self._results), plan_cost(found, self._costs)

    def _fitting(self, program: list[MadeValue]) -> list[MadeValue] | None:
        """An order that takes as few registers as the program did before, None where there is none; where it takes fewer and those were
        too many, that is how many it may take from now on."""
        if self._registers is None:
            return program
        plan = self._written(program)
        order = fitting_order(plan, self._taken, self._kept)
        if order is not None and self._taken > self._registers:
            self._taken = max(self._registers, least_registers(plan, self._taken, self._kept))
            order = fitting_order(plan, self._taken, self._kept) or order
        return None if order is None else [program[number - 1] for number in order]
