"""A bound on the cost of a placement in banks: the same choice without addresses, where only sums of live sizes count."""

from __future__ import annotations

from fractions import Fraction
from math import lcm
from typing import Any

from kilotune.evaluators.constraint_solver import least_whole, solved
from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.banks import MemoryMap
from kilotune.spaces.memory.bounds import largest_live_sum
from kilotune.spaces.memory.instance import Instance

MOST_BUFFERS = 400
"""Above this, or where costs are too large for the solver, the choice of banks is not modelled: every buffer at its least price is the
bound."""

SOLVER_EFFORT = 2.0
"""CP-SAT's deterministic time, about seconds."""


def least_cost_without_addresses(instance: Instance, memory: MemoryMap) -> Fraction:
    """No placement costs less, with moves or without: moving is free here."""
    prices = sum(
        (min(memory.banks[k].price for k in memory.allowed(b)) * b.size for b in instance.buffers), Fraction(0)
    )
    if len(memory.banks) == 1:
        live = largest_live_sum(instance).peak_bytes if memory.banks[0].peak_counts else 0
        return prices + live
    if len(instance.buffers) > MOST_BUFFERS or not memory.fits_a_solver(instance):
        return prices
    return max(prices, _modelled(instance, memory))


def _modelled(instance: Instance, memory: MemoryMap) -> Fraction:
    from ortools.sat.python import cp_model

    arrays = BufferArrays.of(instance)
    begins, ends, count = arrays.sections
    model = cp_model.CpModel()
    inside = [{k: model.new_bool_var("") for k in memory.allowed(b)} for b in instance.buffers]
    for choice in inside:
        model.add_exactly_one(choice.values())
    scale = lcm(*(bank.price.denominator for bank in memory.banks))
    cost: list[Any] = []
    for k, bank in enumerate(memory.banks):
        there = [(i, choice[k], instance.buffers[i].size) for i, choice in enumerate(inside) if k in choice]
        total = sum(size for _, _, size in there)
        peak = model.new_int_var(0, total if bank.capacity_bytes is None else min(bank.capacity_bytes, total), "")
        if bank.peak_counts:
            cost.append(scale * peak)
        if bank.read_only:
            model.add(sum(size * var for _, var, size in there) <= peak)
        else:
            live: list[list[Any]] = [[] for _ in range(count)]
            for i, var, size in there:
                for section in range(begins[i], ends[i]):
                    live[section].append(size * var)
            for terms in live:
                model.add(sum(terms) <= peak)
        cost += [int(bank.price * scale) * size * var for _, var, size in there if bank.price]
    model.minimize(sum(cost))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_deterministic_time = SOLVER_EFFORT
    status = solved(solver, model)
    if status == cp_model.INFEASIBLE:
        raise ValueError(
            f"The banks cannot hold {instance.name}: for no choice of banks are all live sums within them."
        )
    return max(Fraction(least_whole(solver.best_objective_bound), scale), Fraction(0))
