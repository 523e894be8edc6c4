"""The shortest program for a set of sums: improvement from below the known programs, proof from above the bound.

Two searches share the work. One improves programs by large neighbourhoods (`improvement.py`), from several starts
(`construction.py`, and what the caller knows). The other deepens: it asks the compiled search for a program of the
least cost that is not yet refuted, and refutes that or ends the whole search. Both meet where the best program is proved.

The proof covers every program of the target's instructions, of any length of intermediate sums, any depth of halving and any
number of registers, in which each instruction gives one value.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from types import MappingProxyType

from kilotune.codegen.scamp.instructions import REGISTERS
from kilotune.codegen.scamp.plan import Plan, is_exact
from kilotune.codegen.scamp.registers import legalised, needed_registers
from kilotune.codegen.scamp.relaxation import relax
from kilotune.codegen.scamp.sums import Sum
from kilotune.spaces.reverse_split.bounds import lower_bound
from kilotune.spaces.reverse_split.changing_constants import FEWEST_OF_A_BEAM, changing_plans, constants_of_last
from kilotune.spaces.reverse_split.construction import starting_plans
from kilotune.spaces.reverse_split.deepening import MOST_PROVABLE_TARGETS, Proof, proof_of
from kilotune.spaces.reverse_split.horner import horner_plans
from kilotune.spaces.reverse_split.improvement import plan_cost, step_cost
from kilotune.spaces.reverse_split.large_weights import large_weight_plans
from kilotune.spaces.reverse_split.one_by_one import KernelSearch
from kilotune.spaces.reverse_split.pebbling import pebbled
from kilotune.spaces.reverse_split.portfolio import WalkLimits, WalkPortfolio
from kilotune.spaces.reverse_split.prepared_question import ProgramStatus
from kilotune.spaces.reverse_split.programs import BUS_TRANSFERS, INSTRUCTIONS, Costs, ProgramQuery, Searcher
from kilotune.spaces.reverse_split.recomputing import recomputed
from kilotune.spaces.reverse_split.scheduling import fitted, least_registers
from kilotune.spaces.reverse_split.search_standing import UNBEGUN, SearchStanding
from kilotune.spaces.reverse_split.sharing import shared_plans
from kilotune.spaces.reverse_split.slices import WorkSlices
from kilotune.spaces.reverse_split.trivial_results import distinct, with_trivial, without_trivial

PROOF_WORK_OF_A_STEP = 250_000
EARLY_PROOF_WORK = 30_000
"""What a proof is given at once, however long the program: a tenth of a second, in which bounds of several kernels rise by up to five."""

SHORT: Mapping[str, int] = MappingProxyType({"auke": 10, "scamp5": 6})
"""Instructions: up to so many, proof and improvement take turns; the proof of longer ones has every eighth turn, and every second one
after `PATIENCE` idle steps. Where one fewer is all that is open of two more at most: seven of eight, after a third of that."""

LONG: Mapping[str, int] = MappingProxyType({"auke": 20, "scamp5": 14})
"""Instructions: while the best known program is longer, no proof is in reach, and after `EARLY_PROOF_WORK` none is tried
before the improvement has come to rest."""

PATIENCE = 60
WORTH_A_WALK = 1.5
"""A start that is longer than the shortest by this factor is left alone."""

LONG_START, MOST_LONG_STARTS = 40, 2
"""Where the shortest start has more instructions, only so many are walked from, and so many that fit the registers: a walk
takes its time to show what it can do."""

TIES = 32
"""More than the cost that breaks ties of any program that is proved. The price of an instruction stays below 256, which
is as much as programs.c holds."""

WORK_ON_TIES = 20_000_000
"""A few seconds."""

WORTH_ANOTHER_WALK = 1.03
"""What is constructed later is walked from if it is no longer than the best program by this factor."""

SHARE_OF_CONSTRUCTION, SHARE_OF_LONG_WALKS, MOST_BARREN = 0.6, 0.75, 4
"""How much of the time is for these before the first walk, with constants that stay and with those that change, and how many in a row
may be no shorter before walks begin."""

CONSTRUCTED_EVERY, SLICES_CONSTRUCTED = 2, 20
"""Steps of walks between two turns of a construction that goes on, and how long such a turn is."""

LONGEST_RELAXED = 60
"""Instructions of a start that is also relaxed: one of 150 takes two seconds, and walks from there get no shorter."""

LONG_KERNEL = 12
"""Instructions a kernel of the shortest start: above, kernels are searched one by one first."""

LONG_WALK = 40
"""Cells of all kernels, from which on constants change (a 5x5 kernel took 59 macros after 5 seconds, with constants that stay 56), and
where a beam has to find the last walk."""

COUNTED_STEPS = 16
"""The longest plans whose least number of registers is looked for while searching."""


@dataclass(frozen=True)
class IncumbentProgram:
    """Where the search stands. `plan` is None until one was found that fits the registers; `cost` is its own.

    `bound`: a cost that no program undercuts, whatever its registers. `complete`: the plan's cost is the bound, or nothing
    is left to search.
    """

    plan: Plan | None
    cost: int
    bound: int
    complete: bool
    standing: SearchStanding | None = None
    """What a later search may go on from; None where only ties are looked for, once the cost is proved."""

    @property
    def proved(self) -> bool:
        """No program is cheaper."""
        return self.plan is not None and self.cost <= self.bound


def costs_of(objective: str) -> Costs:
    """The prices of an objective, "instructions" or "transfers". KeyError for another one."""
    return {"instructions": INSTRUCTIONS, "transfers": BUS_TRANSFERS}[objective]


def lexicographic(first: Costs, second: Costs) -> Costs:
    """Prices that add up to the first cost times `TIES` plus the second one."""
    return Costs(*(a * TIES + b for a, b in zip(first, second, strict=True)))


def shortest_program(
    targets: Sequence[Sum],
    target: str,
    depth: int,
    objective: str = "instructions",
    *,
    registers: int = len(REGISTERS),
    seed: int = 0,
    starts: Sequence[Plan] = (),
    kept: bool = True,
    least: int | None = None,
    seconds_left: Callable[[], float] = lambda: math.inf,
    threads: int = 1,
    begun: SearchStanding = UNBEGUN,
) -> Iterator[IncumbentProgram]:
    """Standings of the search for the cheapest program that computes `targets` (in units of `2**-depth`) in order.

    The last standing is complete, but the search for a long program will not end by itself: stop asking. Each step takes
    well below a second, and no longer than `seconds_left()` or so. Of equally cheap programs it prefers fewer transfers
    (instructions, where transfers are the objective), then fewer registers; standings with a new plan of the same cost may
    follow one that proves the cost. `starts`: known plans, in the same units.
    `kept`: results stay to the end. `least`: the `lower_bound` of the targets, where the caller has it. Proofs take `threads`.
    Plans fit `registers` (1 to 6) as
    `registers.fits` says; their depth may exceed `depth` where halves are taken early. `begun`: where an earlier search stood, whose best
    programs are among the `starts`. Raises `RuntimeError` without a C compiler, `KeyError` for an unknown target or objective.
    """
    costs = costs_of(objective)
    other = BUS_TRANSFERS if costs is INSTRUCTIONS else INSTRUCTIONS
    wanted = distinct(targets, depth)
    zero = costs.plain if any(not total for total in targets) else 0
    search = _ProgramSearch(target, depth, wanted, costs, other, registers, seed, seconds_left, kept, threads, begun)
    known = [without_trivial(plan, wanted, targets) for plan in starts]
    for found in search.run(known, least):
        plan = None
        if found.plan is not None:
            plan = fitted(with_trivial(found.plan, wanted, targets, depth), registers, kept)
        if plan is not None or found.plan is None:
            yield IncumbentProgram(plan, found.cost + zero, found.bound + zero, found.complete, found.standing)


@dataclass
class _ProgramSearch:
    target: str
    depth: int
    wanted: tuple[Sum, ...]
    costs: Costs
    other: Costs
    """What breaks ties."""

    registers: int
    seed: int
    seconds_left: Callable[[], float]
    kept: bool
    threads: int = 1
    begun: SearchStanding = UNBEGUN
    best: Plan | None = None
    best_tie: tuple[int, int] = (1 << 30, 0)
    standing: WalkLimits = field(default_factory=lambda: WalkLimits(1 << 30))
    walking: bool = False
    """Whether the starts are constructed, which takes many short steps."""

    @property
    def best_cost(self) -> int:
        return self.standing.best_cost

    def run(self, starts: Sequence[Plan], least: int | None) -> Iterator[IncumbentProgram]:
        if not self.wanted:
            yield IncumbentProgram(Plan(self.target, self.depth, (), ()), 0, 0, True)
            return
        bound = lower_bound(self.wanted, self.depth, self.target, self.costs) if least is None else least
        slices = WorkSlices(self.seconds_left)
        provable = len(self.wanted) <= MOST_PROVABLE_TARGETS
        proof = proof_of(self.wanted, self.target, self.depth, self.costs, bound, self.threads)
        if self.begun.proof is not None:
            proof.go_on_from(self.begun.proof)
        improvement = self._improvement(starts)
        idle = self.begun.idle
        for turn in itertools.count():
            prove = self._proof_turn(turn, proof, idle)
            before = self.best_cost
            if prove:
                self._offer(self._advance(proof, slices))
            else:
                next(improvement)
            idle = 0 if self.best_cost < before else idle + (self.walking and not prove)
            complete = self.best is not None and self.best_cost <= proof.bound
            ties = complete and provable and self.target == "scamp5"
            now = SearchStanding(self.begun.walking or self.walking, idle, proof.standing)
            bound = min(proof.bound, self.best_cost)
            yield IncumbentProgram(self.best, self.best_cost, bound, complete and not ties, now)
            if ties:
                yield from self._ties(slices)
            if complete:
                return

    def _advance(self, proof: Proof, slices: WorkSlices) -> Plan | None:
        left, worked = self.seconds_left(), proof.worked
        work = EARLY_PROOF_WORK - worked if worked < EARLY_PROOF_WORK else PROOF_WORK_OF_A_STEP
        plan = proof.advance(self.best_cost, slices.slice(work))
        slices.note(proof.worked - worked, left)
        return plan

    def _ties(self, slices: WorkSlices) -> Iterator[IncumbentProgram]:
        """Once the cost is proved: the least of what breaks ties, looked for with a limit on the work."""
        costs = lexicographic(self.costs, self.other)
        searcher = Searcher(ProgramQuery(self.target, self.depth, self.wanted, costs))
        left, excess, path = WORK_ON_TIES, 0, tuple[int, ...]()
        while left > 0 and excess < self.best_tie[0] and self.best_tie[0] < TIES:
            budget = self.best_cost * TIES + excess
            seconds = self.seconds_left()
            answer = searcher.ask(budget, slices.slice(PROOF_WORK_OF_A_STEP), path)
            slices.note(answer.work, seconds)
            left -= answer.work + 1
            path = answer.path
            self._offer(answer.plan)
            if answer.status is ProgramStatus.EXHAUSTED:
                excess, path = excess + 1, ()
            elif answer.status is ProgramStatus.STOPPED and not path:
                break
            yield IncumbentProgram(self.best, self.best_cost, self.best_cost, False)
        yield IncumbentProgram(self.best, self.best_cost, self.best_cost, True)

    def _proof_turn(self, turn: int, proof: Proof, idle: int) -> bool:
        if not turn or not proof.open or proof.bound >= self.best_cost:
            return False
        long = self.best_cost > LONG[self.target] * self.costs.plain
        last = self.best_cost <= min(proof.bound + self.costs.plain, (SHORT[self.target] + 2) * self.costs.plain)
        if idle > (PATIENCE // 3 if last else PATIENCE):
            return turn % 8 != 0 if last else turn % (8 if long else 2) == 1
        if long:
            return turn % 2 == 1 and proof.worked < EARLY_PROOF_WORK
        short = proof.bound <= SHORT[self.target] * self.costs.plain
        return turn % 2 == 1 if short else turn % 8 == 7

    def _offer(self, plan: Plan | None) -> None:
        """Takes a plan that is cheaper and has an order that fits the registers. The cheapest that has none is remembered, and taken with
        some of its values computed twice if it is still cheaper then."""
        if plan is None:
            return
        cost, unfit = plan_cost(plan, self.costs), self.standing.unfit
        if cost > self.best_cost or plan in (unfit, self.best):
            return
        if cost == self.best_cost and self._tie(plan) >= self.best_tie:
            return
        ordered = fitted(plan, self.registers, self.kept)
        if ordered is not None and plan_cost(ordered, self.costs) == cost:
            self._take(ordered)
            return
        if ordered is not None and plan_cost(ordered, self.costs) < self.best_cost:
            self._take(ordered)  # with copies
        if cost < self.best_cost:
            if unfit is None or cost <= plan_cost(unfit, self.costs):
                self.standing.unfit = plan
            price = partial(step_cost, costs=self.costs)
            ordered = pebbled(plan, self.registers, price, self.best_cost, self.kept)
            ordered = ordered or recomputed(plan, self.registers, self.kept, self.seed)
            if ordered is not None and plan_cost(ordered, self.costs) < self.best_cost:
                self._take(ordered)

    def _take(self, plan: Plan) -> None:
        cost, unfit = plan_cost(plan, self.costs), self.standing.unfit
        self.best, self.best_tie, self.standing.best_cost = plan, self._tie(plan), cost
        if unfit is not None and plan_cost(unfit, self.costs) >= cost:
            self.standing.unfit = None

    def _tie(self, plan: Plan) -> tuple[int, int]:
        """What breaks ties: the other cost, then the registers (of short plans)."""
        few = len(plan.steps) <= COUNTED_STEPS
        least = least_registers(plan, self.registers, self.kept) if few else self.registers
        return plan_cost(plan, self.other), least

    def _improvement(self, starts: Sequence[Plan]) -> Iterator[None]:
        """Walks from what the caller knows and from what is constructed."""
        large = list(large_weight_plans(self.wanted, self.depth, self.target))
        known = [*starts, *starting_plans(self.wanted, self.depth, self.target, self.kept), *large]
        for plan in shared_plans(self.wanted, self.depth, self.target):
            known += (plan, relax(plan, self.registers)) if len(plan.steps) <= LONGEST_RELAXED else (plan,)
        # a relaxed plan may halve earlier than this depth has room for
        plans = [plan for plan in dict.fromkeys(known) if plan.depth == self.depth and is_exact(plan)]
        for plan in plans:
            self._offer(plan)
        yield
        # walks over cells make no large weight
        is_long = not large and min(len(plan.steps) for plan in plans) > LONG_KERNEL * len(self.wanted)
        further = self._horner() if is_long else iter(())
        for found in self._constructed_slowly(further) if is_long and not self.begun.walking else ():
            if found is not None:
                self._offer(found)
                plans.append(found)
            yield
        if self.best is not None and self.best_cost not in {plan_cost(plan, self.costs) for plan in plans}:
            plans.append(self.best)  # one of them with values computed twice
        yield from self._walks(self._worth_a_walk(plans), further)

    def _walks(self, starts: list[Plan], further: Iterator[Plan | None]) -> Iterator[None]:
        """Walks from the starts; in between, what else is constructed, and walks from there where it is about as short as the best."""
        self.walking = True
        portfolio = WalkPortfolio(
            self.wanted, (self.costs,), self.registers, self.seed, WorkSlices(self.seconds_left), self.kept
        )
        for turn, plan in enumerate(portfolio.plans(starts, self.standing)):
            self._offer(plan)
            yield
            for found in islice(further, SLICES_CONSTRUCTED) if turn % CONSTRUCTED_EVERY == 0 else ():
                if self.seconds_left() <= 0:
                    break
                if found is not None and plan_cost(found, self.costs) <= WORTH_ANOTHER_WALK * self.best_cost:
                    portfolio.add(found)
                self._offer(found)

    def _horner(self) -> Iterator[Plan | None]:
        """Walks over cells with constants that change; where there are none, for a single kernel, and for several whose results do not
        wait, with constants that stay."""
        seconds, some = self._share_of_construction() * self.seconds_left(), False
        asked = (self.wanted, self.depth, self.target, self.registers, self.seed)
        stay = horner_plans(*asked, seconds=seconds, costs=self.costs)
        if len(self.wanted) > 1 and not self.kept:  # there a first program of changing constants may take all the time
            yield from _up_to_a_plan(stay)
        changing = changing_plans(
            *asked, kept=self.kept, seconds=seconds, costs=self.costs, seconds_left=self.seconds_left
        )
        for found in changing if self._walks_are_long() else ():
            some = some or found is not None
            yield found
        if not some and (len(self.wanted) == 1 or not self.kept):
            yield from stay

    def _walks_are_long(self) -> bool:
        kernels = len(self.wanted) if self.kept else 1
        few_constants = kernels > 1 and constants_of_last(kernels, self.registers) == FEWEST_OF_A_BEAM
        return few_constants or sum(len(total.weights()) for total in self.wanted) >= LONG_WALK

    def _share_of_construction(self) -> float:
        return SHARE_OF_LONG_WALKS if self._walks_are_long() else SHARE_OF_CONSTRUCTION

    def _constructed_slowly(self, further: Iterator[Plan | None]) -> Iterator[Plan | None]:
        """Starts for long kernels that take seconds; None on the way."""
        until, least, barren = (1.0 - self._share_of_construction()) * self.seconds_left(), math.inf, 0
        for found in further:
            yield found
            if found is not None:
                barren = 0 if len(found.steps) < least else barren + 1
                least = min(least, len(found.steps))
            if barren == MOST_BARREN or (least < math.inf and self.seconds_left() < until):
                break
        if len(self.wanted) > 1 and (least == math.inf or not self.kept):
            alone = KernelSearch(
                self.target, self.depth, self.costs, self.registers, self.seed, self.seconds_left, self.kept
            )
            yield from alone.plans(self.wanted)

    def _worth_a_walk(self, plans: list[Plan]) -> list[Plan]:
        """The short ones, and the shortest that fits the registers; of long ones a few of each."""
        ordered = sorted(dict.fromkeys(plans), key=lambda plan: len(plan.steps))
        shortest = len(ordered[0].steps)
        fitting = [plan for plan in ordered if needed_registers(legalised(plan), self.kept) <= self.registers]
        if shortest > LONG_START:
            return list(dict.fromkeys((*ordered[:MOST_LONG_STARTS], *fitting[:MOST_LONG_STARTS])))
        chosen = [plan for plan in dict.fromkeys(plans) if len(plan.steps) <= WORTH_A_WALK * shortest]
        return chosen if any(plan in fitting for plan in chosen) else [*chosen, *fitting[:1]]


def _up_to_a_plan(plans: Iterator[Plan | None]) -> Iterator[Plan | None]:
    """The first plan, and None on the way."""
    for plan in plans:
        yield plan
        if plan is not None:
            return
