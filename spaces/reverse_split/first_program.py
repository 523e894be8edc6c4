"""What is known of a problem before any search: a program that is constructed at once, and a bound on all programs."""

from __future__ import annotations

from kilotune.codegen.scamp.plan import Plan
from kilotune.spaces.reverse_split.bounds import lower_bound
from kilotune.spaces.reverse_split.exact import costs_of, first_plans
from kilotune.spaces.reverse_split.improvement import plan_cost
from kilotune.spaces.reverse_split.measuring import SPARE_DEPTH, KernelGoal, SplitProblem
from kilotune.spaces.reverse_split.programs import Costs


def least_cost(problem: SplitProblem) -> float:
    """The least loss of the first objective that is known without a search."""
    return float(lower_bound(problem.wanted, problem.depth, problem.target, _costs(problem)))


def first_plan(problem: SplitProblem) -> Plan:
    """The cheapest of the programs that are constructed without a search; where none fits the registers, the one that takes
    the fewest."""
    wanted = [total.scaled(1 << SPARE_DEPTH) for total in problem.wanted]
    depth, costs = problem.depth + SPARE_DEPTH, _costs(problem)
    fitting = first_plans(wanted, problem.target, depth, problem.registers, not problem.consumed)
    first = min(fitting, key=lambda plan: plan_cost(plan, costs), default=None)
    if first is None:  # its failure says how many registers would do
        *_, first = first_plans(wanted, problem.target, depth, None, not problem.consumed)
    return first


def objective_of(problem: SplitProblem) -> str:
    """What a program costs in the compiled search: instructions, or transfers over the bus."""
    return "instructions" if problem.goal is KernelGoal.INSTRUCTIONS else "transfers"


def _costs(problem: SplitProblem) -> Costs:
    return costs_of(objective_of(problem))
