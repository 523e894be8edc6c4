"""The shortest program for a set of sums: improvement from below the known programs, proof from above the bound.

Two searches share the work. One improves programs by large neighbourhoods (`improvement.py`), from several starts
(`construction.py`, and what the caller knows). The other deepens: it asks the compiled search for a program of the
least cost that is not yet refuted, and refutes that or ends the whole search. Both meet where the best program is proved.

The proof covers every program of the target's instructions, of any length of intermediate sums, any depth of halving and any
number of registers, in which each instruction gives one value. (The leftovers of `div` are not counted as values.)
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from kilotune.codegen.scamp.instructions import REGISTERS
from kilotune.codegen.scamp.plan import Plan, Step
from kilotune.codegen.scamp.registers import fits, needed_registers
from kilotune.codegen.scamp.sums import Sum
from kilotune.spaces.reverse_split.bounds import lower_bound
from kilotune.spaces.reverse_split.construction import starting_plans
from kilotune.spaces.reverse_split.improvement import Walk, plan_cost
from kilotune.spaces.reverse_split.programs import BUS_TRANSFERS, INSTRUCTIONS, Costs, Question, Searcher, Status

PROOF_WORK_OF_A_STEP = 250_000
MOST_PROVABLE_TARGETS = 8
"""Of more targets programs.c only searches the hard ones' neighbourhoods: it may overlook a program."""

SHORT: Mapping[str, int] = MappingProxyType({"auke": 10, "scamp5": 6})
"""Instructions: up to so many, proof and improvement take turns; the proof of longer ones has every eighth turn, and
every second one where the improvement has not got on for `PATIENCE` steps."""

PATIENCE = 60
WORTH_A_WALK = 1.5
WALKS_OF_A_START = 2
"""A start that is longer than the shortest by this factor is left alone."""

RESTART_EVERY = 24
"""Turns after which the walk that stands worst begins anew."""

STEPS_OF_A_START = 2
"""Before the better walks are preferred."""


@dataclass(frozen=True)
class Found:
    """Where the search stands. `plan` is None until one was found that fits the registers; `cost` is its own.

    `bound`: a cost that no program undercuts, whatever its registers. `complete`: the plan's cost is the bound, or nothing
    is left to search.
    """

    plan: Plan | None
    cost: int
    bound: int
    complete: bool

    @property
    def proved(self) -> bool:
        """No program is cheaper."""
        return self.plan is not None and self.cost <= self.bound


def costs_of(objective: str, *, exact_halving: bool = False) -> Costs:
    """The prices of an objective, "instructions" or "transfers"; with `exact_halving` halves are made by `div`."""
    if objective == "instructions":
        return INSTRUCTIONS
    if objective == "transfers":
        return BUS_TRANSFERS._replace(halve=5) if exact_halving else BUS_TRANSFERS
    raise KeyError(objective)


def shortest_program(
    targets: Sequence[Sum],
    target: str,
    depth: int,
    objective: str = "instructions",
    *,
    registers: int = len(REGISTERS),
    seed: int = 0,
    starts: Sequence[Plan] = (),
    exact_halving: bool = False,
) -> Iterator[Found]:
    """Standings of the search for the cheapest program that computes `targets` (in units of `2**-depth`) in order.

    The last standing is complete, but the search for a long program will not end by itself: stop asking. Each step takes
    well below a second at first. `starts`: known plans, in the same units. Plans fit `registers` (1 to 6) as
    `registers.fits` says; their depth may exceed `depth` where halves are taken early. Raises `RuntimeError` without a
    C compiler, `KeyError` for an unknown target or objective.
    """
    costs = costs_of(objective, exact_halving=exact_halving)
    image = Sum.image(depth)
    wanted = tuple(total for total in dict.fromkeys(targets) if total and total != image)
    search = _Search(target, depth, wanted, costs, registers, seed)
    zero = costs.plain if any(not total for total in targets) else 0
    for found in search.run(starts):
        plan = None if found.plan is None else _with_trivial(found.plan, wanted, targets, depth)
        if plan is not None and exact_halving and target == "scamp5":
            plan = replace(plan, steps=tuple(replace(s, op="div") if s.op == "divq" else s for s in plan.steps))
        if plan is None or fits(plan, registers):
            yield Found(plan, found.cost + zero, found.bound + zero, found.complete)


def _with_trivial(plan: Plan, wanted: Sequence[Sum], targets: Sequence[Sum], depth: int) -> Plan:
    """The plan of the distinct sums, with the image, the zeros and the repeated ones among its results."""
    steps, number = plan.steps, dict(zip(wanted, plan.results, strict=True))
    number[Sum.image(depth)] = 0
    if any(not total for total in targets):
        steps = (*steps, Step("zero" if plan.target == "auke" else "res", ()))
        number[Sum()] = len(steps)
    return Plan(plan.target, plan.depth, steps, tuple(number[total] for total in targets))


@dataclass
class _Proof:
    """Deepening, in slices. `bound`: everything cheaper is refuted."""

    searcher: Searcher
    bound: int
    path: tuple[int, ...] = ()
    work: int = 0
    open: bool = True

    def advance(self, below: int) -> Plan | None:
        """One slice at the bound's cost; a plan is one of that cost. Closed when the bound has reached `below`."""
        if self.bound >= below or not self.open:
            return None
        answer = self.searcher.ask(self.bound, PROOF_WORK_OF_A_STEP, self.path)
        self.work += answer.work
        self.path = answer.path
        if answer.status is Status.EXHAUSTED:
            self.bound, self.path = self.bound + 1, ()
        elif answer.status is Status.STOPPED and not answer.path:
            self.open = False  # longer than the search can hold
        return answer.plan


@dataclass
class _Search:
    target: str
    depth: int
    wanted: tuple[Sum, ...]
    costs: Costs
    registers: int
    seed: int
    best: Plan | None = None
    best_cost: int = 1 << 30
    refused: tuple[int, Plan] | None = None
    walks: list[Walk] = field(default_factory=list)

    def run(self, starts: Sequence[Plan]) -> Iterator[Found]:
        if not self.wanted:
            yield Found(Plan(self.target, self.depth, (), ()), 0, 0, True)
            return
        bound = lower_bound(self.wanted, self.depth, self.target, self.costs)
        provable = len(self.wanted) <= MOST_PROVABLE_TARGETS
        proof = _Proof(Searcher(Question(self.target, self.depth, self.wanted, self.costs)), bound, open=provable)
        improvement = self._improvement(starts)
        idle = 0
        for turn in itertools.count():
            prove = self._proof_turn(turn, proof, idle)
            before = self.best_cost
            if prove:
                self._offer(proof.advance(self.best_cost))
            else:
                next(improvement)
            idle = 0 if self.best_cost < before else idle + (0 if prove else 1)
            complete = self.best is not None and self.best_cost <= proof.bound
            yield Found(self.best, self.best_cost, min(proof.bound, self.best_cost), complete)
            if complete:
                return

    def _proof_turn(self, turn: int, proof: _Proof, idle: int) -> bool:
        if not proof.open or proof.bound >= self.best_cost:
            return False
        short = proof.bound <= SHORT[self.target] * self.costs.plain
        return turn % 2 == 0 if short or idle > PATIENCE else turn % 8 == 7

    def _offer(self, plan: Plan | None, settled: bool = True) -> None:
        """Takes a plan that is cheaper and fits the registers. The order that makes it fit is only looked for in plans that
        have settled: that search takes longer than the next improvement of a long program."""
        if plan is None:
            return
        cost = plan_cost(plan, self.costs)
        if cost >= self.best_cost or (cost, plan) == self.refused:
            return
        if needed_registers(plan) <= self.registers or (settled and fits(plan, self.registers)):
            self.best, self.best_cost = plan, cost
        elif settled:
            self.refused = (cost, plan)

    def _advance(self, walk: Walk) -> None:
        before = walk.cost
        plan = walk.advance()
        self._offer(plan, settled=walk.cost == before)

    def _improvement(self, starts: Sequence[Plan]) -> Iterator[None]:
        """Walks from all starts; then mostly the cheapest ones, and new walks where these have come to rest."""
        known = [replace(plan, results=tuple(dict.fromkeys(plan.results))) for plan in starts]
        plans = [*known, *starting_plans(self.wanted, self.depth, self.target)]
        for plan in plans:
            self._offer(plan, settled=False)
        if not plans:
            while True:
                yield
        seeds = itertools.count(self.seed * 1_000_003)
        shortest = min(len(plan.steps) for plan in plans)
        plans = [plan for plan in plans if len(plan.steps) <= WORTH_A_WALK * shortest]
        for plan, _ in itertools.product(plans, range(WALKS_OF_A_START)):
            walk = Walk(plan, self.wanted, self.costs, next(seeds))
            self.walks.append(walk)
            for _ in range(STEPS_OF_A_START):
                self._advance(walk)
                yield
        for turn in itertools.count():
            self.walks.sort(key=lambda walk: walk.cost)
            if turn % RESTART_EVERY == RESTART_EVERY - 1:
                again = plans[turn // RESTART_EVERY % len(plans)]
                self.walks[-1] = Walk(again, self.wanted, self.costs, next(seeds))
            walk = self.walks[turn % min(3, len(self.walks)) if turn % 4 else turn // 4 % len(self.walks)]
            self._advance(walk)
            yield
