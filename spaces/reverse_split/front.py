"""Programs for the front of bus transfers against noise: walks that may be dearer than the cheapest program.

Programs of the same cost differ in noise: how often a value is written on its way, and how much headroom the largest
value leaves. For each allowance of transfers a walk goes on from the least noisy program known within it, and what it
meets is measured.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from kilotune.codegen.scamp.graph import Transform, graph_of
from kilotune.codegen.scamp.plan import Plan, is_exact
from kilotune.codegen.scamp.retiming import own_placing
from kilotune.codegen.scamp.selection import select
from kilotune.search.space import Assignment
from kilotune.spaces.reverse_split.candidates import ReverseSplitCandidates
from kilotune.spaces.reverse_split.first_program import first_plans
from kilotune.spaces.reverse_split.improvement import ProgramWalk
from kilotune.spaces.reverse_split.measuring import SPARE_DEPTH, Relaxation
from kilotune.spaces.reverse_split.programs import BUS_TRANSFERS, load_kernel
from kilotune.spaces.reverse_split.rounds import split_rounds
from kilotune.spaces.reverse_split.trivial_results import distinct, with_trivial

ALLOWANCES = (0, 1, 2, 3, 4, 6, 8, 12, 20)
"""Transfers above the cheapest program known."""

WORK_OF_A_WALK = 20_000
SPLITS_OF_A_ROUND = 8
OTHER_START = 0.3
"""How often a walk starts from any point of the front within its allowance, not from the least noisy one."""


@dataclass(frozen=True)
class _Point:
    transfers: float
    noise: float
    plan: Plan


class ProgramFront:
    """The points so far that no other one undercuts in both, and candidates for new ones."""

    def __init__(self, space: ReverseSplitCandidates, seed: int) -> None:
        self._space = space
        self._random = random.Random(seed)
        self._points: list[_Point] = []

    def add(self, candidate: Assignment) -> bool:
        """Measure a candidate; it stays if it is on the front. Whether it does."""
        metrics = self._space.evaluate([candidate])[0].metrics
        if not metrics:
            return False
        new = _Point(metrics["bus_transfers"], metrics["noise_percent"], self._space.program(candidate).plan)
        if any(p.transfers <= new.transfers and p.noise <= new.noise for p in self._points):
            return False
        self._points = [p for p in self._points if p.transfers < new.transfers or p.noise < new.noise] + [new]
        return True

    def candidates(self) -> Iterator[Assignment]:
        """Without an end where there is anything to compute; the caller adds what it is given, and may add others."""
        problem = self._space.problem
        targets = [total.scaled(1 << SPARE_DEPTH) for total in problem.wanted]
        depth = problem.depth + SPARE_DEPTH
        for plan in first_plans(targets, problem.target, depth, problem.registers, problem.kept):
            yield self._space.program_candidate(plan)
        wanted = distinct(targets, depth)
        if not wanted or wanted != tuple(targets):
            return  # kernels that are zero, the identity, or given twice: the search for few transfers does
        splits = self._splits()
        for turn, allowance in enumerate(itertools.cycle(ALLOWANCES)):
            start = self._start(allowance)
            if start is None:
                return
            if turn % 4 == 3 and (split := next(splits, None)) is not None:
                yield split
                continue
            if turn % 2 and (moved := self._halved_elsewhere(start)) is not None:
                yield self._space.program_candidate(moved)
                continue
            if load_kernel() is None:  # walks are compiled
                if (split := next(splits, None)) is None:
                    return
                yield split
                continue
            limit = int(min(point.transfers for point in self._points)) + allowance
            walk = ProgramWalk(
                replace(start, results=tuple(dict.fromkeys(start.results))),
                wanted,
                BUS_TRANSFERS,
                self._random.randrange(1 << 30),
                problem.registers,
                limit,
                problem.kept,
            )
            plan = with_trivial(walk.advance(WORK_OF_A_WALK), wanted, targets, depth)
            yield self._space.program_candidate(plan)

    def _splits(self) -> Iterator[Assignment]:
        """Plans of splits, however long, each as it is and in both relaxations."""
        for _, plans, _ in split_rounds(self._space.problem):
            for plan in self._random.sample(plans, min(SPLITS_OF_A_ROUND, len(plans))):
                for relaxation in Relaxation:
                    yield self._space.split_candidate(plan.names, relaxation)

    def _halved_elsewhere(self, plan: Plan) -> Plan | None:
        """The plan with some of its sums, neighbours in its order, halved once more or less where they are computed. None
        when that cannot be held at the plan's depth."""
        graph, placing = graph_of(plan), own_placing(plan)
        count = len(placing.stored)
        if count < 2:
            return None
        first = self._random.randrange(1, count)
        last = self._random.choice((first, count - 1, self._random.randrange(first, count)))
        move = Transform(halvings=self._random.choice((-1, 1)))
        stored = tuple(t.then(move) if first <= n <= last else t for n, t in enumerate(placing.stored))
        moved = select(graph, replace(placing, stored=stored), plan.target)
        return moved if is_exact(moved) else None

    def _start(self, allowance: int) -> Plan | None:
        if not self._points:
            return None
        least = min(point.transfers for point in self._points)
        within: Sequence[_Point] = [point for point in self._points if point.transfers <= least + allowance]
        if self._random.random() < OTHER_START:
            return self._random.choice(within).plan
        return min(within, key=lambda point: point.noise).plan
