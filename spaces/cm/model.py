"""Placement and routing with link loads as a CP-SAT model.

Of one replication at a time; all cores and routes at once are too many for a solver, so it improves the best trial by
large neighbourhood search (Shaw 1998): a few stages leave their cores, and the solver puts them, and the routes of
everything that touches them or a busy link, where the busiest link has least to do. What is small enough is solved whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from ortools.sat.python import cp_model

from kilotune.codegen.cm.mapping import node_of
from kilotune.codegen.cm.pipeline import GMEM
from kilotune.codegen.cm.streams import Stream
from kilotune.evaluators.cm.bound import core_ticks, link_loads, link_ticks
from kilotune.evaluators.constraint_solver import SolverClock
from kilotune.search.space import Assignment, ModelAnswer, SolveLimit, Trial
from kilotune.spaces.cm.baselines import snake_placement
from kilotune.spaces.cm.candidates import CmCandidates
from kilotune.spaces.cm.lowered import LoweredPipeline, cheapest_replication, cores_needed
from kilotune.spaces.cm.replication import Replication

FREED_STAGES = 4
MOST_CHOICES = 40_000
OTHER_CORES = 12
"""That freed stages may come to where cores are shared."""

MOST_WORK = 3.0  # of CP-SAT on one question

Route = tuple[int, ...]


@dataclass(frozen=True)
class SolvedPlacement:
    """cores: by stage. routes: by stream. ticks: of the busiest link, or core where stages may share one."""

    cores: tuple[int, ...]
    routes: tuple[Route, ...]
    ticks: int


class MappingModel:
    """Starts from the best trial; without any from snake order, replicated for the fastest cores that fit."""

    def __init__(self, space: CmCandidates, trials: Sequence[Trial]) -> None:
        self._space = space
        known = [t for t in trials if t.measurement.failure is None]
        self._best = min(known, key=lambda t: t.measurement.metrics["promised_ticks"], default=None)
        self._trials = len(trials)

    def solve(self, count: int, excluded: Sequence[Assignment], seed: int, limit: SolveLimit) -> ModelAnswer:
        """At most one candidate; see `search.space.CandidateModel`. The bound is the space's."""
        space, clock = self._space, SolverClock(limit.work, limit.seconds, limit.clock)
        rng = np.random.default_rng((seed, self._trials))
        replicas, placed = self._start(rng)
        lowered = space.lowered(replicas)
        begun = placed.ticks
        floor = max(lowered.compute_ticks, space.least_ticks)
        while placed.ticks > floor and not clock.is_over:
            placed = self._improved(lowered, placed, rng, clock)
        if self._best is not None and placed.ticks >= begun:
            return ModelAnswer((), space.least_objective)
        return ModelAnswer((self._candidate(replicas, lowered, placed),), space.least_objective)

    def _start(self, rng: np.random.Generator) -> tuple[dict[str, Replication], SolvedPlacement]:
        space = self._space
        if self._best is not None:
            assignment = self._best.assignment
            mapping, replicas = space.mapping(assignment), space.replicas(assignment)
            lowered = space.lowered(replicas)
            if space.least_ticks <= lowered.compute_ticks or rng.random() < 0.8:
                return replicas, self._placed(lowered, mapping.cores, mapping.routes)
        replicas = self._replication(rng)
        lowered = space.lowered(replicas)
        cores = snake_placement(lowered, space.hardware)
        routes = tuple(space.alternatives(*self._ends(lowered, cores, n))[0] for n in range(len(lowered.streams)))
        return replicas, self._placed(lowered, cores, routes)

    def _replication(self, rng: np.random.Generator) -> dict[str, Replication]:
        """The cheapest one for the cores at one of the fastest speeds that fit."""
        costs = self._space.costs
        fitting: list[dict[str, Replication]] = []
        for level in sorted({cost.ticks(r) for cost in costs for r in cost.shape.replications()}):
            chosen = {c.shape.name: r for c in costs if (r := cheapest_replication(c, level)) is not None}
            enough = (
                len(chosen) == len(costs)
                and cores_needed(costs, chosen, self._space.cores) <= self._space.hardware.cores
            )
            if enough and chosen not in fitting:
                fitting.append(chosen)
        return fitting[0 if self._best is None else int(rng.integers(min(3, len(fitting))))]

    def _improved(
        self, lowered: LoweredPipeline, placed: SolvedPlacement, rng: np.random.Generator, clock: SolverClock
    ) -> SolvedPlacement:
        space, hardware = self._space, self._space.hardware
        stages = len(lowered.pipeline.stages)
        loads = link_loads(lowered.streams, placed.routes, hardware.links)
        ticks = loads / np.array([link.width for link in hardware.links])
        busy = set(np.flatnonzero(ticks > 0.9 * placed.ticks).tolist())
        hot = [n for n, route in enumerate(placed.routes) if busy & set(route)]
        ends = sorted({e for n in hot for e in (lowered.streams[n].writer, lowered.streams[n].reader) if e != GMEM})
        freed = range(stages)
        if stages * hardware.cores**2 * 4 > MOST_CHOICES:
            first = ends[int(rng.integers(len(ends)))] if ends else int(rng.integers(stages))
            others = rng.permutation(stages)[: FREED_STAGES - 1].tolist()
            freed = sorted({first, *others})  # type: ignore[assignment]
        free_cores = self._free_cores(placed, freed, rng)
        question = _PlacementQuery(space, lowered, placed, sorted(freed), sorted(free_cores), hot)
        return question.answer(int(rng.integers(1 << 30)), clock) or placed

    def _free_cores(self, placed: SolvedPlacement, freed: Sequence[int], rng: np.random.Generator) -> set[int]:
        """Those that the freed stages leave, and all others without a stage; where they are shared and stages stay, some of the others."""
        cores, left = range(self._space.hardware.cores), {placed.cores[s] for s in freed}
        if self._space.hardware.stages_per_core == 1 or len(freed) == len(placed.cores):
            return set(cores) - set(placed.cores) | left
        return left | set(rng.permutation(len(cores))[:OTHER_CORES].tolist())

    def _placed(self, lowered: LoweredPipeline, cores: Sequence[int], routes: Iterable[Route]) -> SolvedPlacement:
        routes = tuple(routes)
        return SolvedPlacement(tuple(cores), routes, busiest(self._space, lowered, cores, routes))

    def _ends(self, lowered: LoweredPipeline, cores: Sequence[int], number: int) -> tuple[int, int]:
        stream, hardware = lowered.streams[number], self._space.hardware
        return node_of(hardware, cores, stream.writer), node_of(hardware, cores, stream.reader)

    def _candidate(
        self, replicas: dict[str, Replication], lowered: LoweredPipeline, placed: SolvedPlacement
    ) -> Assignment:
        answers = dict(self._space.candidate(replicas, placed.cores))
        names = [name for name in answers if name.startswith("route ")]
        for number, name in enumerate(names):
            alternatives = self._space.alternatives(*self._ends(lowered, placed.cores, number))
            answers[name] = alternatives.index(placed.routes[number])
        return answers


class _PlacementQuery:
    """Where do the freed stages go, on free cores, and how are the streams routed that touch them or are `hot`?"""

    def __init__(
        self,
        space: CmCandidates,
        lowered: LoweredPipeline,
        placed: SolvedPlacement,
        freed: Sequence[int],
        free_cores: Sequence[int],
        hot: Sequence[int],
    ) -> None:
        self._space, self._lowered, self._placed = space, lowered, placed
        self._freed, self._free_cores = freed, free_cores
        self._model = cp_model.CpModel()
        self._on = {(s, c): self._model.new_bool_var("") for s in freed for c in free_cores}
        touched = {n for s in freed for n in lowered.touching[s]}
        self._moving = sorted(touched | set(hot))
        self._taken: dict[int, list[tuple[tuple[int, int], Route, cp_model.IntVar]]] = {}

    def answer(self, seed: int, clock: SolverClock) -> SolvedPlacement | None:
        """A placement with a lower maximum, or None."""
        model, links = self._model, self._space.hardware.links
        for s in self._freed:
            model.add_exactly_one(self._on[s, c] for c in self._free_cores)
            model.add_hint(self._on[s, self._placed.cores[s]], True)
        terms: list[list[tuple[int, cp_model.IntVar]]] = [[] for _ in links]
        for number in self._moving:
            self._add_stream(number, terms)
        moving = set(self._moving)
        still = [n for n in range(len(self._lowered.streams)) if n not in moving]
        loads = link_loads(
            [self._lowered.streams[n] for n in still], [self._placed.routes[n] for n in still], links
        ).tolist()
        ticks = model.new_int_var(self._space.least_ticks, self._placed.ticks, "")
        for link, load, uses in zip(links, loads, terms, strict=True):
            if load or uses:
                moved = sum(amount * used for amount, used in uses)
                model.add(moved + load <= ticks * link.width)
        for c in self._free_cores:
            self._add_core(c, ticks)
        model.minimize(ticks)
        solver = cp_model.CpSolver()
        solver.parameters.random_seed = seed
        if clock.solve(solver, model, MOST_WORK) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return None
        cores, routes = list(self._placed.cores), list(self._placed.routes)
        for (stage, core), here in self._on.items():
            if solver.value(here):
                cores[stage] = core
        for number, choices in self._taken.items():
            routes[number] = next(route for _, route, used in choices if solver.value(used))
        found = busiest(self._space, self._lowered, cores, routes)
        # Equal ones are taken as well: that is how the search crosses plateaus.
        return SolvedPlacement(tuple(cores), tuple(routes), found) if found <= self._placed.ticks else None

    def _add_core(self, core: int, ticks: cp_model.IntVar) -> None:
        """Room for the stages that come to a core beside those that stay there, and time for what all of them do."""
        hardware, needs, model = self._space.hardware, self._lowered.needs, self._model
        stay = [s for s, at in enumerate(self._placed.cores) if at == core and s not in self._freed]
        come = [(s, self._on[s, core]) for s in self._freed]
        model.add(sum(here for _, here in come) <= hardware.stages_per_core - len(stay))
        if hardware.stages_per_core > 1:
            rooms = ((needs.rows, hardware.core_rows), (needs.ticks, ticks))
            for of, room in rooms:
                model.add(sum(of[s] * here for s, here in come) + sum(of[s] for s in stay) <= room)

    def _add_stream(self, number: int, terms: list[list[tuple[int, cp_model.IntVar]]]) -> None:
        stream, model = self._lowered.streams[number], self._model
        starts, goals = self._nodes(stream.writer), self._nodes(stream.reader)
        choices = []
        for start, goal, route in self._routes(stream, starts, goals):
            used = model.new_bool_var("")
            choices.append(((start, goal), route, used))
            for link in route:
                terms[link].append((stream.image_load, used))
            if route == self._placed.routes[number]:
                model.add_hint(used, True)
        model.add_exactly_one(used for _, _, used in choices)
        for end, stage, nodes in ((0, stream.writer, starts), (1, stream.reader, goals)):
            if len(nodes) > 1:
                for node in nodes:
                    model.add(sum(used for pair, _, used in choices if pair[end] == node) == self._on[stage, node])
        self._taken[number] = choices

    def _routes(self, stream: Stream, starts: list[int], goals: list[int]) -> Iterator[tuple[int, int, Route]]:
        """The ways from any of the first nodes to any of the others; of one link each where the question is strict."""
        space = self._space
        short = space.strict and GMEM not in (stream.writer, stream.reader)
        for start, goal in product(starts, goals):
            if start != goal or space.hardware.stages_per_core > 1:
                for route in space.alternatives(start, goal):
                    if not (short and len(route) > 1):
                        yield start, goal, route

    def _nodes(self, stage: int) -> list[int]:
        if stage in self._freed and stage != GMEM:
            return list(self._free_cores)
        return [node_of(self._space.hardware, self._placed.cores, stage)]


def busiest(space: CmCandidates, lowered: LoweredPipeline, cores: Sequence[int], routes: Sequence[Route]) -> int:
    """Ticks per image of the busiest link, or core where stages may share one."""
    loads = link_loads(lowered.streams, routes, space.hardware.links)
    links = link_ticks(loads, space.hardware.links)
    return links if space.hardware.stages_per_core == 1 else max(links, core_ticks(lowered.image_ticks, cores))
