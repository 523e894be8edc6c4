"""Programs of several long kernels, one kernel after the other: each is searched alone, in the registers that the results before it leave.

A walk over a program of a hundred instructions changes one place at a time, and what it may change has to fit among the values of all
kernels. Kernels that share little are shorter when each is found by itself, less what a result before it has of it already
(`remainders.py`); what else they share is for the walks that start from there. Kernels of many digits are sums of a few constants that
they share (`nested_constants.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from kilotune.codegen.scamp.plan import Plan, PlanStep, computed, is_exact
from kilotune.codegen.scamp.sums import Sum
from kilotune.spaces.reverse_split.construction import starting_plans
from kilotune.spaces.reverse_split.horner import horner_plans
from kilotune.spaces.reverse_split.improvement import plan_cost, step_cost
from kilotune.spaces.reverse_split.nested_constants import most_nested, nested_plans
from kilotune.spaces.reverse_split.pebbling import MOST_STEPS as MOST_PEBBLED
from kilotune.spaces.reverse_split.pebbling import pebbled
from kilotune.spaces.reverse_split.portfolio import WalkLimits, WalkPortfolio
from kilotune.spaces.reverse_split.programs import Costs
from kilotune.spaces.reverse_split.recomputing import recomputed
from kilotune.spaces.reverse_split.remainders import Remainder, price_of, price_of_whole, remainders
from kilotune.spaces.reverse_split.scheduling import fitted
from kilotune.spaces.reverse_split.sharing import shared_plans
from kilotune.spaces.reverse_split.slices import WorkSlices

SHARE_OF_THE_TIME = 0.5
"""What all kernels together take of the time that is left."""

SHARE_OF_CONSTRUCTION = 0.3
"""What a first start of a kernel takes of the time that it has."""

MOST_STEPS = 40
"""Steps of walks for one kernel."""


WORTH_REMAINDERS = 0.9
"""Kernels that share constants are also searched less one another where that leaves so much of their price, or less."""

SHARE_OF_NESTING, NESTINGS, MOST_NESTINGS = 0.2, 4, 16
"""What kernels that share constants take of the time, in how many searches, and how many these are at most."""


@dataclass(frozen=True)
class KernelSearch:
    """What the searches of all kernels have in common. `kept`: results stay in their registers to the end. `steps`: of walks for one
    kernel, at most."""

    target: str
    depth: int
    costs: Costs
    registers: int
    seed: int
    seconds_left: Callable[[], float]
    kept: bool
    steps: int = MOST_STEPS

    def plans(self, wanted: Sequence[Sum]) -> Iterator[Plan | None]:
        """In the end a plan of all wanted sums (units of `2**-depth`; distinct, none zero, none the image) that fits the
        registers, and before it one of shared constants, where that is a way; None for every step on the way, and where a kernel does not
        fit what is left."""
        together: Plan | None = None
        if self.kept:
            together = yield from self._together(wanted)
            if together is not None:
                yield together
        parts = remainders(wanted, Sum.image(self.depth), self.target, self.kept)
        if together is not None and price_of(parts, self.target) > WORTH_REMAINDERS * price_of_whole(
            wanted, self.target
        ):
            return
        found: list[Plan] = []
        left = self.seconds_left()
        for place, part in enumerate(parts):
            until = left * (1 - SHARE_OF_THE_TIME * (place + 1) / len(parts)) if math.isfinite(left) else 0.0
            best: Plan | None = None
            last = place == len(parts) - 1
            registers = self.registers - (place if self.kept else 0)
            for plan in self._of_one(part.left, registers, last, until):
                best = plan
                yield None
            if best is None:
                return
            found.append(best)
        yield _joined(found, parts)

    def _together(self, wanted: Sequence[Sum]) -> Generator[None, None, Plan | None]:
        """A plan of kernels of many digits: as many as registers have room for by the same constants, the others, those of the smallest
        weights, of what is left of the image. None where that is no way."""
        order = sorted(range(len(wanted)), key=lambda number: (-wanted[number].cardinality, number))
        nested, others = order[: most_nested(self.registers)], order[most_nested(self.registers) :]
        left = self.seconds_left()
        plan = yield from self._nested([wanted[number] for number in nested], bool(others), left)
        if plan is None:
            return None
        if not others:
            return replace(plan, results=tuple(plan.results[at] for at in _places(nested)))
        steps, results = list(plan.steps), list(plan.results[:-1])
        image = _image_again(plan, steps)
        for place, number in enumerate(others):
            until = left * (1 - SHARE_OF_THE_TIME * (place + 1) / len(others)) if math.isfinite(left) else 0.0
            best: Plan | None = None
            registers, last = self.registers - len(nested) - place, place == len(others) - 1
            for plan_so_far in self._of_one(wanted[number], registers, last, until):
                best = plan_so_far
                yield None
            if best is None:
                return None
            results.append(_appended(steps, best, image)[0])
        whole = Plan(plan.target, plan.depth, tuple(steps), tuple(results[at] for at in _places([*nested, *others])))
        return whole if is_exact(whole) else None

    def _nested(self, sums: Sequence[Sum], image_stays: bool, left: float) -> Generator[None, None, Plan | None]:
        """The shortest plan by nested constants that is found in its share of the time."""
        best: Plan | None = None
        until = left * (1 - SHARE_OF_NESTING)
        seconds = left * SHARE_OF_NESTING / NESTINGS
        found = nested_plans(
            sums,
            self.depth,
            self.target,
            self.registers,
            self.seed,
            image_stays=image_stays,
            seconds=seconds,
            costs=self.costs,
        )
        searches = 0
        for plan in found:
            yield None
            if plan is not None:
                searches += 1
                best = plan if best is None or len(plan.steps) < len(best.steps) else best
            if best is not None and (self.seconds_left() < until or searches == MOST_NESTINGS):
                break
        return best

    def _of_one(self, total: Sum, registers: int, last: bool, until: float) -> Iterator[Plan | None]:
        """The cheapest plan so far of one kernel, after each step; unless it is the `last`, the image is still there when it ends."""
        results = (total,) if last else (total, Sum.image(self.depth))
        plans = [*starting_plans([total], self.depth, self.target), *shared_plans([total], self.depth, self.target)]
        starts = [
            plan if last else replace(plan, results=(*plan.results, 0)) for plan in plans if plan.depth == self.depth
        ]
        best, standing = None, WalkLimits(1 << 30)
        for plan in starts:
            best = self._better(plan, best, standing, registers)
        yield best
        seconds = SHARE_OF_CONSTRUCTION * (self.seconds_left() - until)
        constructed = horner_plans(
            (total,),
            self.depth,
            self.target,
            registers,
            self.seed,
            image_stays=not last,
            seconds=seconds,
            costs=self.costs,
        )
        for found in constructed:
            yield best
            if found is not None:
                starts.append(found if last else replace(found, results=(*found.results, 0)))
                best = self._better(starts[-1], best, standing, registers)
                break
        portfolio = WalkPortfolio(results, (self.costs,), registers, self.seed, WorkSlices(self.seconds_left))
        for step, plan in enumerate(portfolio.plans(starts, standing)):
            best = self._better(plan, best, standing, registers)
            yield best
            if step == self.steps or self.seconds_left() < until:
                return

    def _better(self, plan: Plan, best: Plan | None, standing: WalkLimits, registers: int) -> Plan | None:
        """The plan where it is cheaper and fits, as it is or with values computed twice; else the best before it."""
        if plan_cost(plan, self.costs) >= standing.best_cost:
            return best
        price = partial(step_cost, costs=self.costs)
        ordered = fitted(plan, registers) or pebbled(plan, registers, price, standing.best_cost)
        if ordered is None and len(plan.steps) > MOST_PEBBLED:
            ordered = recomputed(plan, registers, seed=self.seed)
        if ordered is None or plan_cost(ordered, self.costs) >= standing.best_cost:
            return best
        standing.best_cost = plan_cost(ordered, self.costs)
        return ordered


def _places(order: Sequence[int]) -> list[int]:
    """Where each number stands in an order."""
    return sorted(range(len(order)), key=order.__getitem__)


def _image_again(plan: Plan, steps: list[PlanStep]) -> int:
    """Adds steps that double the last result of the plan, a half of the image or a quarter, ..., until it is the image; its number."""
    value, at = computed(plan)[-1], plan.results[-1]
    while value != Sum.image(plan.depth):
        if plan.target == "auke":
            steps.append(PlanStep("add", (at, at)))
        else:  # an addition wants two registers; a - (-a) needs no copy
            steps += [PlanStep("neg", (at,)), PlanStep("sub", (at, len(steps) + 1))]
        value, at = value.scaled(2), len(steps)
    return at


def _appended(steps: list[PlanStep], plan: Plan, image: int) -> list[int]:
    """Adds the steps of a plan whose image is the value of that number; the numbers of its results."""
    numbers = [image, *range(len(steps) + 1, len(steps) + 1 + len(plan.steps))]
    steps += [PlanStep(step.op, tuple(numbers[at] for at in step.operands), step.directions) for step in plan.steps]
    return [numbers[at] for at in plan.results]


def _joined(plans: Sequence[Plan], parts: Sequence[Remainder]) -> Plan:
    """One plan after the other; the first result of each is what is left of its kernel."""
    steps, results = list[PlanStep](), dict[int, int]()
    for plan, part in zip(plans, parts, strict=True):
        results[part.kernel] = _appended(steps, plan, 0)[0]
        if part.base is not None:
            steps += part.steps(plan.target, results[part.kernel], results[part.base], len(steps) + 1)
            results[part.kernel] = len(steps)
    return Plan(plans[0].target, plans[0].depth, tuple(steps), tuple(results[number] for number in range(len(parts))))
