"""Banks, moves and offsets as one CP-SAT model: an optional interval of addresses for every rectangle and bank.

A buffer's rectangles between its possible cuts have an offset each; where neighbours differ, the move is paid. Order among
the moves of one point is asked for only once a solution needed it: then each pair of moves there is apart or in order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations, pairwise
from typing import Any

from ortools.sat.python import cp_model

from kilotune.evaluators.constraint_solver import SolverClock, least_whole
from kilotune.search.space import Assignment, ModelAnswer, SolveLimit, Trial
from kilotune.spaces.memory.checker import PlacementError, Residence, check_costs
from kilotune.spaces.memory.priced_candidates import PricedCandidates
from kilotune.spaces.memory.procedure import DoesNotFitError, allocation_in_banks

MOST_RECTANGLES = 4000
"""Above this, or where costs are too large for the solver, the model is not built; what other candidates show is all that is returned."""


_Move = tuple[int, Any, int]
"""A buffer, whether it moves, and the rectangle that it moves into."""


class PricedModel:
    """Warm-started by the best trial, else by the paper's allocator."""

    def __init__(self, space: PricedCandidates, trials: Sequence[Trial]) -> None:
        self._space = space
        feasible = [t for t in trials if t.measurement.failure is None and _fits(space, t)]
        self._best = min(feasible, key=lambda t: t.measurement.metrics["cost"], default=None)

    def solve(self, count: int, excluded: Sequence[Assignment], seed: int, limit: SolveLimit) -> ModelAnswer:
        """At most one candidate, better than what is known; see `search.space.CandidateModel`."""
        space = self._space
        clock = SolverClock(limit.work, limit.seconds, limit.clock)
        known, residences = self._known()
        ordered: set[int] = set()
        floor = space.least_cost
        model = _Model(space, ordered)
        if not model.is_built:
            fresh = self._best is None and known is not None
            return ModelAnswer((space.candidate(residences),) if fresh else (), float(floor))
        while True:
            model.hint(residences, known)
            status, found, bound = model.solve(seed, clock)
            floor = max(floor, bound)
            if status == cp_model.INFEASIBLE:
                # Nothing is better than what was known, or nothing fits at all.
                if known is None:
                    return ModelAnswer((), exhausted=True)
                floor = known
                break
            if not found:
                break
            try:
                bill = check_costs(space.instance, space.memory, found)
            except PlacementError:
                if model.out_of_order(found) <= ordered:
                    raise
                ordered |= model.out_of_order(found)
                model = _Model(space, ordered)
                continue
            if known is None or bill.cost < known:
                known, residences = bill.cost, tuple(found)
            break
        best = None if self._best is None else self._best.measurement.metrics["cost"]
        better = known is not None and (best is None or float(known) < best)
        return ModelAnswer((space.candidate(residences),) if better else (), float(floor))

    def _known(self) -> tuple[Fraction | None, tuple[Residence, ...]]:
        """The best placement so far and its cost."""
        space = self._space
        try:
            if self._best is not None:
                residences = space.layout(self._best.assignment).residences
            else:
                residences = allocation_in_banks(space.instance, space.memory).residences
            return check_costs(space.instance, space.memory, residences).cost, residences
        except (DoesNotFitError, PlacementError):
            return None, ()


def _fits(space: PricedCandidates, trial: Trial) -> bool:
    return all(c.violation(trial.measurement.metrics) == 0.0 for c in space.constraints)


class _Model:
    def __init__(self, space: PricedCandidates, ordered: set[int]) -> None:
        self._space = space
        instance, memory = space.instance, space.memory
        self.scale = memory.scale
        model = self._model = cp_model.CpModel()
        total = sum(b.size + b.alignment - 1 for b in instance.buffers)
        self._tops = [total if bank.capacity_bytes is None else bank.capacity_bytes for bank in memory.banks]
        cuts: dict[int, list[int]] = {}
        for i, point in space.cuts:
            cuts.setdefault(i, []).append(point)
        self.rectangles: list[tuple[int, int, int]] = []  # buffer, lower, upper
        for i, b in enumerate(instance.buffers):
            bounds = [b.lower, *cuts.get(i, ()), b.upper]
            self.rectangles += [(i, *ends) for ends in pairwise(bounds)]
        self._cost: list[Any] = []
        moved = sum(instance.buffers[i].size for i, _, _ in self.rectangles)
        self.is_built = len(self.rectangles) <= MOST_RECTANGLES and memory.fits_a_solver(instance, moved)
        if self.is_built:
            self._build(model, ordered)

    def _build(self, model: cp_model.CpModel, ordered: set[int]) -> None:
        instance, memory = self._space.instance, self._space.memory
        self._inside = [{k: model.new_bool_var("") for k in memory.allowed(b)} for b in instance.buffers]
        for choice in self._inside:
            model.add_exactly_one(choice.values())
        first = min((b.lower for b in instance.buffers), default=0)
        last = max((b.upper for b in instance.buffers), default=1)
        times: list[list[Any]] = [[] for _ in memory.banks]
        addresses: list[list[Any]] = [[] for _ in memory.banks]
        peaks = [model.new_int_var(0, top, "") for top in self._tops]
        self._steps: list[Any] = []
        self._offsets: list[Any] = []
        for r, (i, lower, upper) in enumerate(self.rectangles):
            b = instance.buffers[i]
            largest = max(self._tops[k] for k in self._inside[i])
            step = model.new_int_var(0, max(largest - b.size, 0) // b.alignment, "")
            self._steps.append(step)
            self._offsets.append(step * b.alignment)
            for k, inside in self._inside[i].items():
                model.add(self._offsets[r] + b.size <= peaks[k]).only_enforce_if(inside)
                if b.size:
                    whole = memory.banks[k].read_only
                    span = (first, last - first) if whole else (lower, upper - lower)
                    if not whole or lower == b.lower:  # there it does not move: one rectangle stands for all
                        times[k].append(model.new_optional_fixed_size_interval_var(*span, inside, ""))
                        addresses[k].append(
                            model.new_optional_fixed_size_interval_var(self._offsets[r], b.size, inside, "")
                        )
        for k, bank in enumerate(memory.banks):
            model.add_no_overlap_2d(times[k], addresses[k])
            if bank.peak_counts:
                self._cost.append(self.scale * peaks[k])
                model.add(peaks[k] >= self._least_peak(k))
        for b, choice in zip(instance.buffers, self._inside, strict=True):
            self._cost += [int(memory.banks[k].price * self.scale) * b.size * var for k, var in choice.items()]
        self._add_moves(model, ordered)
        self._total = sum(self._cost)
        model.add(self._total >= math.ceil(self._space.least_cost * self.scale))
        model.minimize(self._total)

    def _least_peak(self, k: int) -> int:
        return int(self._space.largest_sum.peak_bytes) if len(self._tops) == 1 else 0

    def _add_moves(self, model: cp_model.CpModel, ordered: set[int]) -> None:
        instance, memory = self._space.instance, self._space.memory
        price = int((memory.migration_price or Fraction(0)) * self.scale)
        often: dict[int, list[Any]] = {}
        at_point: dict[int, list[_Move]] = {}
        for r in range(1, len(self.rectangles)):
            i, point, _ = self.rectangles[r]
            if self.rectangles[r - 1][0] != i:
                continue
            moves = model.new_bool_var("")
            model.add(self._offsets[r] == self._offsets[r - 1]).only_enforce_if(~moves)
            for k, inside in self._inside[i].items():
                if memory.banks[k].read_only:
                    model.add_implication(inside, ~moves)
            self._cost.append(price * instance.buffers[i].size * moves)
            often.setdefault(i, []).append(moves)
            at_point.setdefault(point, []).append((i, moves, r))
        if memory.most_moves is not None:
            for own in often.values():
                model.add(sum(own) <= memory.most_moves)
        for point in sorted(ordered):
            self._add_order(model, at_point.get(point, []))

    def _add_order(self, model: cp_model.CpModel, group: list[_Move]) -> None:
        """Some order of the moves of one point in which no target covers a source that is still to be read."""
        place = {r: model.new_int_var(0, len(group), "") for _, _, r in group}
        for one, other in combinations(group, 2):
            self._add_pair(model, one, other, place)
            self._add_pair(model, other, one, place)

    def _add_pair(self, model: cp_model.CpModel, moved: _Move, read: _Move, place: dict[int, Any]) -> None:
        """The target of the one is below or above the source of the other, or the one moves after the other has."""
        (i, move_i, ri), (j, move_j, rj), buffers = moved, read, self._space.instance.buffers
        below, above, after = (model.new_bool_var("") for _ in range(3))
        model.add(self._offsets[ri] + buffers[i].size <= self._offsets[rj - 1]).only_enforce_if(below)
        model.add(self._offsets[rj - 1] + buffers[j].size <= self._offsets[ri]).only_enforce_if(above)
        model.add(place[ri] > place[rj]).only_enforce_if(after)
        for k in sorted(set(self._inside[i]) & set(self._inside[j])):
            elsewhere = (~self._inside[i][k], ~self._inside[j][k])
            model.add_bool_or(below, above, after, ~move_i, ~move_j, *elsewhere)

    def hint(self, residences: Sequence[Residence], known: Fraction | None) -> None:
        """A placement to start from."""
        model, instance, memory = self._model, self._space.instance, self._space.memory
        model.clear_hints()  # type: ignore[no-untyped-call]
        if not residences:
            return
        at = {(r.id, r.lower): r for r in residences}
        homes = {r.id: r.bank for r in residences}
        current = 0
        for (i, lower, _), step in zip(self.rectangles, self._steps, strict=True):
            b = instance.buffers[i]
            if (b.id, lower) in at:
                current = at[b.id, lower].offset // b.alignment
            model.add_hint(step, current)
        for b, choice in zip(instance.buffers, self._inside, strict=True):
            for k, var in choice.items():
                model.add_hint(var, memory.banks[k].name == homes[b.id])
        if known is not None:
            model.add(self._total <= math.ceil(known * self.scale) - 1)

    def solve(self, seed: int, clock: SolverClock) -> tuple[Any, list[Residence], Fraction]:
        """CP-SAT's status, residences when it found any, and a bound on the cost."""
        solver = cp_model.CpSolver()
        solver.parameters.linearization_level = 0
        solver.parameters.symmetry_level = 0  # OR-tools 9.15 ends in an IndexError where it finds some in rectangles
        solver.parameters.random_seed = seed % (1 << 31)
        status = clock.solve(solver, self._model)
        bound = Fraction(0)
        if status in (cp_model.OPTIMAL, cp_model.FEASIBLE, cp_model.UNKNOWN):
            bound = max(Fraction(least_whole(solver.best_objective_bound), self.scale), bound)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return status, [], bound
        instance, memory = self._space.instance, self._space.memory
        found: list[Residence] = []
        for (i, lower, upper), offset in zip(self.rectangles, self._offsets, strict=True):
            name = instance.buffers[i].id
            bank = next(memory.banks[k].name for k, var in self._inside[i].items() if solver.boolean_value(var))
            at = int(solver.value(offset))
            if found and found[-1].id == name and found[-1].offset == at:
                lower = found.pop().lower
            found.append(Residence(name, lower, upper, at, bank))
        return status, found, bound

    def out_of_order(self, residences: Sequence[Residence]) -> set[int]:
        """Points at which several buffers move."""
        begins = {b.id: b.lower for b in self._space.instance.buffers}
        points = [r.lower for r in residences if r.lower != begins[r.id]]
        return {point for point in points if points.count(point) > 1}
