"""The walk of annealing.c in Python, for machines without a C compiler: the same energy and the same moves, some hundred times
slower, so of fewer moves."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from kilotune.codegen.cm.hardware import Hardware
from kilotune.codegen.cm.mapping import node_of
from kilotune.codegen.cm.pipeline import GMEM
from kilotune.codegen.cm.routing import SHAPES, RouteTables
from kilotune.codegen.cm.streams import Stream
from kilotune.spaces.cm.sharing import CoreFilling, StageNeeds

MOVES_SHARE = 100
"""One of so many moves that the compiled walk makes is made here."""

PLACEMENT_SHARE, NEIGHBOUR_SHARE, HOT_SHARE = 0.65, 0.8, 0.5
TRIES = 32
"""Streams that are looked at for one over a link that exceeds the target."""

EXCESS_WEIGHT = 100.0
"""What squares of shares of the target weigh against the walk's temperatures, where it is the least target or cores are shared."""

HOP_WEIGHT = 30.0
"""The energy of a link too many, where connected stages must be on linked cores."""


@dataclass(frozen=True)
class AnnealingContext:
    """What a walk is about. touching: streams by stage. near: cores with a link to or from a node. traffic_weight: of all
    traffic against what exceeds the target."""

    streams: Sequence[Stream]
    needs: StageNeeds
    hardware: Hardware
    tables: RouteTables
    touching: Sequence[Sequence[int]]
    near: Sequence[Sequence[int]]
    strict: bool
    traffic_weight: float


@dataclass(frozen=True)
class AnnealingSchedule:
    """How a walk goes: its moves, the ticks that it aims at and the least that make sense, how much lower it aims after it got
    there, its first and last temperature, its seed."""

    moves: int
    target: int
    least: int
    step: float
    hot: float
    cold: float
    seed: int


Found = tuple[tuple[int, ...], tuple[int, ...], int]
"""Cores by stage, route shapes by stream, ticks of the busiest link, or core where stages may share one."""


def annealed(
    around: AnnealingContext, cores: Sequence[int], shapes: Sequence[int], best_ticks: int, course: AnnealingSchedule
) -> Found | None:
    """The best placement of fewer than `best_ticks` that a walk from `cores` and `shapes` meets; None when there is none."""
    return _Annealing(around, cores, shapes, course).run(best_ticks)


class _Annealing:
    def __init__(
        self, around: AnnealingContext, cores: Sequence[int], shapes: Sequence[int], course: AnnealingSchedule
    ) -> None:
        self._around, self._course = around, course
        self._random = random.Random(course.seed)
        self._cores, self._shapes = list(cores), list(shapes)
        self._on: list[list[int]] = [[] for _ in range(around.hardware.cores)]
        self._filling = CoreFilling(around.hardware, around.needs)
        for stage, core in enumerate(cores):
            self._on[core].append(stage)
            self._filling.put(stage, core)
        self._widths = [link.width for link in around.hardware.links]
        self._loads = [0] * len(self._widths)
        self._shared = around.hardware.stages_per_core > 1
        self._target, self._energy, self._polishing = course.target, 0.0, False
        self._routes: list[tuple[int, ...]] = [() for _ in around.streams]
        for number in range(len(around.streams)):
            self._routes[number] = self._route(number)
            self._add(number, 1)
        if self._shared:  # cores are loads of width 1 behind those of the links
            self._loads += self._filling.ticks
            self._widths += [1] * around.hardware.cores
        self._aim(course.target)

    def run(self, best_ticks: int) -> Found | None:
        course, found = self._course, None
        if self._placed() and self._busiest() < best_ticks:
            found = self._found()
        best = found[2] if found else best_ticks
        self._polishing = best <= course.least
        if self._polishing:
            self._aim(course.least)
        least_energy = self._energy if self._polishing and self._reached() else math.inf
        moves = max(course.moves // MOVES_SHARE, 1) if course.moves else 0
        cooling = (course.cold / course.hot) ** (1 / max(moves, 1))
        temperature = course.hot
        for _ in range(moves):
            temperature *= cooling
            if not self._moved(temperature):
                continue
            if self._polishing:
                if self._reached() and self._energy < least_energy - 1e-9:
                    found, least_energy = self._found(), self._energy
                continue
            if not self._placed() or self._busiest() >= best:
                continue
            found = self._found()
            best = found[2]
            if best <= course.least:
                self._polishing = True
                self._aim(course.least)
                least_energy = self._energy
            elif self._reached():
                lower = int((1 - course.step) * best)
                self._aim(max(course.least, min(lower, best - 1)))
        return found

    def _moved(self, temperature: float) -> bool:
        """One stage to another core, changing places with what is there, or one stream to another route. Whether it stays."""
        around, draw, before = self._around, self._random, self._energy
        hot = self._hot_stream() if draw.random() < HOT_SHARE else None
        if draw.random() >= PLACEMENT_SHARE:
            number = draw.randrange(len(around.streams)) if hot is None else hot
            shape = draw.randrange(SHAPES)
            old = self._shapes[number]
            self._shapes[number] = shape
            routes = self._rerouted([number])
            if self._accepts(before, temperature):
                return True
            self._shapes[number] = old
            self._restore(routes, before)
            return False
        stage = draw.randrange(len(self._cores)) if hot is None else self._an_end(hot)
        here, there = self._cores[stage], self._other_core(stage)
        if here == there:
            return False
        other = self._partner(there)
        if not self._have_room(stage, other, there):
            return False
        changed = dict.fromkeys((*around.touching[stage], *(() if other is None else around.touching[other])))
        self._exchange(stage, other, there)
        routes = self._rerouted(changed)
        if self._accepts(before, temperature):
            return True
        self._exchange(stage, other, here)
        self._restore(routes, before)
        return False

    def _hot_stream(self) -> int | None:
        """A stream over a link that exceeds the target, if there is one among some at random."""
        for _ in range(TRIES):
            number = self._random.randrange(len(self._routes))
            if any(self._loads[link] > self._target * self._widths[link] for link in self._routes[number]):
                return number
        return None

    def _an_end(self, number: int) -> int:
        stream = self._around.streams[number]
        return self._random.choice([end for end in (stream.writer, stream.reader) if end != GMEM])

    def _other_core(self, stage: int) -> int:
        around, draw = self._around, self._random
        if around.touching[stage] and draw.random() < NEIGHBOUR_SHARE:  # next to one that it talks with
            drawn = (around.streams[draw.choice(around.touching[stage])] for _ in range(1 if self._shared else 2))
            stream = max(drawn, key=lambda stream: stream.image_load)
            end = stream.reader if stream.writer == stage else stream.writer
            near = around.near[node_of(around.hardware, self._cores, end)]
            if self._shared and end != GMEM and draw.random() < 0.5:
                return self._cores[end]
            if near:
                return draw.choice(near)
        return draw.randrange(around.hardware.cores)

    def _accepts(self, before: float, temperature: float) -> bool:
        worse = self._energy - before
        return worse <= 0 or self._random.random() < math.exp(-worse / temperature)

    def _partner(self, core: int) -> int | None:
        """With whom a stage that comes to a core changes places."""
        stages, most = self._on[core], self._around.hardware.stages_per_core
        if not stages or (len(stages) < most and self._random.random() < 0.5):
            return None
        return stages[0] if most == 1 else self._random.choice(stages)

    def _have_room(self, stage: int, other: int | None, there: int) -> bool:
        """Both cores, when they have changed places."""
        if not self._shared:
            return True
        moves, filling = [(stage, self._cores[stage], there)], self._filling
        if other is not None:
            moves.append((other, there, self._cores[stage]))
        for one, source, _ in moves:
            filling.put(one, source, -1)
        fits = all(filling.has_room(one, target) for one, _, target in moves)
        for one, source, _ in moves:
            filling.put(one, source)
        return fits

    def _exchange(self, stage: int, other: int | None, there: int) -> None:
        """Two stages change places; of no second one the first goes there."""
        for one, target in ((stage, there), (other, self._cores[stage])):
            if one is not None:
                before = self._cores[one]
                for core, sign in ((before, -1), (target, 1)):
                    self._filling.put(one, core, sign)
                    if self._shared:
                        self._add_load(len(self._around.hardware.links) + core, sign * self._around.needs.ticks[one])
                self._on[before].remove(one)
                self._on[target].append(one)
                self._cores[one] = target

    def _rerouted(self, numbers: Sequence[int] | dict[int, None]) -> dict[int, tuple[int, ...]]:
        """Streams onto the routes that are theirs now; the routes before."""
        before = {number: self._routes[number] for number in numbers}
        for number in before:
            self._add(number, -1)
        for number in before:
            self._routes[number] = self._route(number)
            self._add(number, 1)
        return before

    def _restore(self, routes: dict[int, tuple[int, ...]], energy: float) -> None:
        for number, route in routes.items():
            self._add(number, -1)
            self._routes[number] = route
            self._add(number, 1)
        self._energy = energy

    def _route(self, number: int) -> tuple[int, ...]:
        around = self._around
        stream = around.streams[number]
        start, goal = (node_of(around.hardware, self._cores, end) for end in (stream.writer, stream.reader))
        return around.tables.route(start, goal, self._shapes[number])

    def _add(self, number: int, sign: int) -> None:
        """A stream to the links of its route, or (-1) away from them."""
        amount = sign * self._around.streams[number].image_load
        for link in self._routes[number]:
            self._add_load(link, amount)
        self._energy += sign * HOP_WEIGHT * self._too_far(number)

    def _add_load(self, link: int, amount: int) -> None:
        self._energy -= self._price(link)
        self._loads[link] += amount
        self._energy += self._price(link)

    def _price(self, link: int) -> float:
        use = self._loads[link] / (self._target * self._widths[link])
        if not self._polishing and not self._shared:
            return use**8 / 8
        return EXCESS_WEIGHT * max(use - 1.0, 0.0) ** 2 + self._around.traffic_weight * use

    def _too_far(self, number: int) -> int:
        stream = self._around.streams[number]
        inside = self._around.strict and GMEM not in (stream.writer, stream.reader)
        return max(len(self._routes[number]) - 1, 0) if inside else 0

    def _aim(self, target: int) -> None:
        self._target = target
        hops = sum(map(self._too_far, range(len(self._routes))))
        self._energy = sum(map(self._price, range(len(self._loads)))) + HOP_WEIGHT * hops

    def _placed(self) -> bool:
        return not any(map(self._too_far, range(len(self._routes))))

    def _reached(self) -> bool:
        """Whether no link exceeds the target."""
        within = all(load <= self._target * width for load, width in zip(self._loads, self._widths, strict=True))
        return within and self._placed()

    def _busiest(self) -> int:
        return max((-(-load // width) for load, width in zip(self._loads, self._widths, strict=True)), default=0)

    def _found(self) -> Found:
        return tuple(self._cores), tuple(self._shapes), self._busiest()
