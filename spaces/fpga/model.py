"""The exact optimum of the cost model: a knapsack of parts (`knapsack.py`), asked for one range of clocks after the other.

A clock follows from the longest path alone and from how full the board is, which makes it longer by steps. A range of both, with its
pipelining and its number of ports, is bounded by its fastest clock and the fewest cycles at its slowest one and on its most gates. The
most promising range is asked first, then its halves, and none in which nothing can be better than what is found.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ortools.sat.python import cp_model

from kilotune.evaluators.constraint_solver import SolverClock
from kilotune.evaluators.fpga.boards import GATE_KINDS, Gates
from kilotune.evaluators.fpga.cost_model import Crowd, crowds, least_path_ns, picojoules_per_cycle
from kilotune.search.space import Assignment, ModelAnswer, SolveLimit, Trial
from kilotune.spaces.fpga.candidates import HardwareCandidates
from kilotune.spaces.fpga.choices import PIPELINED, PORTS, PORTS_NAME, Way
from kilotune.spaces.fpga.knapsack import Knapsack, Question, path_levels
from kilotune.spaces.fpga.parts import PartTable, leaves

ROUNDING = 1e-6

UNITS = 1000
"""Picojoules are asked for in thousandths: CP-SAT wants integers."""


@dataclass(frozen=True)
class Range:
    """Designs of a table whose longest path alone is one of `levels`, ascending, and that are in one of the steps `crowds`."""

    table: PartTable
    levels: Sequence[float]
    crowds: Sequence[Crowd]

    @property
    def fastest_ns(self) -> float:
        """What no design's path undercuts."""
        return self.levels[0] * self.crowds[0].factor

    @property
    def is_one_clock(self) -> bool:
        """Whether there is nothing to halve."""
        return len(self.levels) == len(self.crowds) == 1

    def halves(self) -> tuple[Range, Range]:
        """Both halves of several clocks: of what they differ most by."""
        middle_level, middle_crowd = (len(self.levels) + 1) // 2, (len(self.crowds) + 1) // 2
        if self.levels[-1] / self.levels[0] > self.crowds[-1].factor / self.crowds[0].factor:
            left, right = self.levels[:middle_level], self.levels[middle_level:]
            return replace(self, levels=left), replace(self, levels=right)
        emptier, fuller = self.crowds[:middle_crowd], self.crowds[middle_crowd:]
        return replace(self, crowds=emptier), replace(self, crowds=fuller)


class KnapsackModel:
    """The model of a space, and what its trials have shown."""

    def __init__(self, space: HardwareCandidates, trials: Sequence[Trial]) -> None:
        self._space = space
        ranking = space.ranking
        losses = [ranking.rank(trial.measurement) for trial in trials]
        self._best = min((rank[1] for rank in losses if rank[0] == 0.0), default=math.inf)
        there = space.goal.budget or space.board.gates
        self._gates = there

    def solve(self, count: int, excluded: Sequence[Assignment], seed: int, limit: SolveLimit) -> ModelAnswer:
        """What is better than all trials, the best first, and the bound; see `search.space.CandidateModel`."""
        if self._space.goal.objective == "front":
            return self._front(seed, limit)
        clock = SolverClock(limit.work, limit.seconds, limit.clock)
        search = _Search(self._space, self._gates, clock, seed, self._best)
        bound = search.run()
        found = search.found[::-1][:count]
        if not found and not excluded and bound == math.inf:
            return ModelAnswer((), math.inf, exhausted=True)
        return ModelAnswer(tuple(found), bound)

    def _front(self, seed: int, limit: SolveLimit) -> ModelAnswer:
        """The fastest design, then the fastest of fewer look-up tables than the one before, until none has fewer (the epsilon-constraint
        method, Haimes, Lasdon and Wismer 1971). Each gets the whole work of `limit`; its seconds are for all."""
        gates, ends_s = self._gates, limit.clock() + limit.seconds
        bounds, points = list[float](), list[Assignment]()
        while (left_s := ends_s - limit.clock()) > 0.0:
            search = _Search(self._space, gates, SolverClock(limit.work, left_s, limit.clock), seed, math.inf)
            bounds.append(search.run())
            if not search.found:
                break
            points.append(search.found[-1])
            luts = math.ceil(self._space.evaluate(points[-1:])[0].metrics["luts"])
            gates = replace(gates, luts=luts - 1)
        bound = bounds[0] if bounds else -math.inf
        return ModelAnswer(tuple(points), bound, exhausted=not points and bound == math.inf)


class _Search:
    """Best-first over ranges of clocks. `found`: candidates, each better than the one before."""

    def __init__(self, space: HardwareCandidates, gates: Gates, clock: SolverClock, seed: int, best: float) -> None:
        self.space, self.gates, self.clock, self.best = space, gates, clock, best
        self.solver = cp_model.CpSolver()
        self.solver.parameters.random_seed = seed % (1 << 31)
        self.found: list[Assignment] = []
        self._metric = space.objectives[0].metric
        self._order = itertools.count()
        self._open: list[tuple[float, int, Range]] = []
        self._unsettled = math.inf

    def run(self) -> float:
        """A loss that no candidate undercuts: the best one's where the search came to its end; +inf where nothing fits."""
        for (pipelined, ports), table in self.space.tables.items():
            if not table.prepare(lambda: self.clock.is_over):
                return -math.inf
            if not _makes_a_difference(table):
                continue
            levels = path_levels(table, least_path_ns(self.space.board))
            if levels:
                least = self.space.least.loss({PIPELINED: pipelined, PORTS_NAME: ports})
                self._put(least, Range(table, levels, crowds(self.space.board, self.gates.luts)))
        while self._open and self._open[0][0] < self.best and not self.clock.is_over:
            bound, _, clocks = heapq.heappop(self._open)
            self._ask(clocks, bound)
        left = self._open[0][0] if self._open else math.inf
        return min(self.best, left, self._unsettled)

    def _put(self, bound: float, clocks: Range) -> None:
        if bound < self.best:
            heapq.heappush(self._open, (bound, next(self._order), clocks))

    def _ask(self, clocks: Range, before: float) -> None:
        fastest, gates = clocks.fastest_ns, replace(self.gates, luts=clocks.crowds[-1].luts)
        knapsack = Knapsack(clocks.table, Question(clocks.levels[-1], gates, self._most_cycles(fastest)))
        self._aim(knapsack, fastest)
        status = self.clock.solve(self.solver, knapsack.model)
        if status == cp_model.INFEASIBLE:
            return
        bound, measured = max(before, self._bound(fastest)), math.inf
        if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            measured = self._take(clocks, knapsack.read(self.solver))
        if not clocks.is_one_clock:
            for half in clocks.halves():
                self._put(bound, half)
        elif status != cp_model.OPTIMAL or measured > bound * (1 + ROUNDING):
            self._unsettled = min(self._unsettled, bound)

    def _take(self, clocks: Range, ways: dict[int, Way]) -> float:
        """Measure a candidate; its loss, +inf where it does not hold the limits."""
        candidate = self.space.choices.answers(ways, clocks.table.pipelined, clocks.table.ports)
        measurement = self.space.evaluate([candidate])[0]
        violation, loss = self.space.ranking.rank(measurement)[:2]
        if violation > 0.0 or measurement.metrics["luts"] > self.gates.luts:
            return math.inf
        if loss < self.best:
            self.best = loss
            self.found.append(candidate)
        return loss

    def _most_cycles(self, path_ns: float) -> int | None:
        """At that clock: what the limit on latency leaves, and for latency what is better than the best."""
        limit = self.space.goal.latency_limit_us
        most = math.inf if limit is None else math.floor(limit * 1000 / path_ns + ROUNDING)
        if self._metric == "latency_us" and not math.isinf(self.best):
            most = min(most, math.ceil(self.best * 1000 / path_ns - ROUNDING) - 1)
        return None if math.isinf(most) else max(0, int(most))

    def _aim(self, knapsack: Knapsack, path_ns: float) -> None:
        """Ask for the least of the first objective, at that clock."""
        if self._metric == "luts":
            knapsack.model.minimize(knapsack.gates["luts"])
        elif self._metric == "latency_us":
            knapsack.model.minimize(knapsack.cycles)
        else:
            each = {kind: _units(picojoules_per_cycle(Gates(**{kind: 1}), 0.0)) for kind in GATE_KINDS}
            power = sum(each[kind] * total for kind, total in knapsack.gates.items())
            leaked = _units(picojoules_per_cycle(Gates(), path_ns))
            most = sum(each[kind] * getattr(self.gates, kind) for kind in GATE_KINDS)
            knapsack.minimise_energy(power + leaked, most + leaked)

    def _bound(self, path_ns: float) -> float:
        """What the solver has proved, as a loss at that clock."""
        least = self.solver.best_objective_bound
        if self._metric == "inference_nj":
            return least / UNITS / 1000
        whole = math.ceil(least - 1e-6)
        return float(whole) if self._metric == "luts" else whole * path_ns / 1000


def _makes_a_difference(table: PartTable) -> bool:
    """Whether some variable has as many read ports as may be asked for: units may read so many of its elements at once."""
    if table.ports == PORTS[0]:
        return True
    most: dict[str, int] = {}
    for unit in leaves(table.sequential.items):
        for name in unit.reads & table.sequential.memories.keys():
            reads = (part.reads.get(name, 0) for part in table.parts[unit.row])
            most[name] = most.get(name, 0) + max(reads, default=0)
    return table.ports <= max(most.values(), default=1)


def _units(picojoules: float) -> int:
    return math.floor(picojoules * UNITS + 1e-6)
