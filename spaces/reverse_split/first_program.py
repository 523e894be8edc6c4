"""What is known of a problem before any search: a program that is constructed at once, and a bound on all programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kilotune.codegen.counts import counted
from kilotune.codegen.scamp.plan import Plan
from kilotune.codegen.scamp.sums import Sum
from kilotune.spaces.reverse_split.bounds import lower_bound
from kilotune.spaces.reverse_split.construction import starting_plans
from kilotune.spaces.reverse_split.exact import costs_of
from kilotune.spaces.reverse_split.improvement import plan_cost
from kilotune.spaces.reverse_split.measuring import SPARE_DEPTH, KernelGoal, SplitProblem
from kilotune.spaces.reverse_split.programs import Costs
from kilotune.spaces.reverse_split.scheduling import fitted
from kilotune.spaces.reverse_split.serial import MOST_ADDITIONS, serial_plans
from kilotune.spaces.reverse_split.trivial_results import distinct, with_trivial


def least_cost(problem: SplitProblem) -> float:
    """The least loss of the first objective that is known without a search."""
    return float(lower_bound(problem.wanted, problem.depth, problem.target, _costs(problem)))


def first_plan(problem: SplitProblem) -> Plan:
    """The cheapest of the programs that are constructed without a search. All fit the registers. ValueError, a sentence, where there is
    none: of macros with large weights in two registers (three, if the
    image is a result too)."""
    wanted = [total.scaled(1 << SPARE_DEPTH) for total in problem.wanted]
    depth, costs = problem.depth + SPARE_DEPTH, _costs(problem)
    fitting = list(first_plans(wanted, problem.target, depth, problem.registers, problem.kept))
    if not fitting:
        raise ValueError(
            f"{counted(problem.registers, 'register')} of macros leave none to double a total in, so the image is added as often as "
            f"weights say: expected weights that take at most {MOST_ADDITIONS} additions, or one register more."
        )
    return min(fitting, key=lambda plan: plan_cost(plan, costs))


def first_plans(targets: Sequence[Sum], target: str, depth: int, registers: int, kept: bool = True) -> Iterator[Plan]:
    """Plans of the targets (in order, in units of `2**-depth`) that fit the registers; quickly, and none of them short. There is one
    for any targets in two registers, or, where results are `kept`, in one more than there are of them; but of macros in two registers
    only where at most `MOST_ADDITIONS` additions of the image make the targets."""
    wanted = distinct(targets, depth)
    plans = starting_plans(wanted, depth, target, kept) if wanted else iter((Plan(target, depth, (), ()),))
    some = False
    for plan in plans:
        ordered = fitted(with_trivial(plan, wanted, targets, depth), registers, kept)
        if ordered is not None:
            some = True
            yield ordered
    for plan in serial_plans(wanted, depth, target, kept) if not some else ():
        ordered = fitted(with_trivial(plan, wanted, targets, depth), registers, kept)
        if ordered is not None:
            yield ordered
            return


def objective_of(problem: SplitProblem) -> str:
    """What a program costs in the compiled search: instructions, or transfers over the bus."""
    return "instructions" if problem.goal is KernelGoal.INSTRUCTIONS else "transfers"


def _costs(problem: SplitProblem) -> Costs:
    return costs_of(objective_of(problem))
