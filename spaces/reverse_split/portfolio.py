"""Which walk goes on: successive halving of the starts, then mostly the cheapest, new ones where these have come to rest.

Walks keep to the registers, or, from a start that does not fit, never take more than before: that costs nothing on the way, where a
cheap program that takes too many registers is hardly ever brought back. Some go on without registers all the same; what they
find that fits none is squeezed by a walk of its own. What a walk meets that is too large for the registers is also played as a pebble game
(`pebbling.py`): a program with values computed twice that is cheaper than the best one is handed on, and walked from.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kilotune.codegen.scamp.plan import Plan
from kilotune.codegen.scamp.sums import Sum
from kilotune.spaces.reverse_split.improvement import WORK_OF_A_STEP, ProgramWalk
from kilotune.spaces.reverse_split.programs import Costs
from kilotune.spaces.reverse_split.slices import WorkSlices

WORK_OF_A_START = WORK_OF_A_STEP // 5
"""What every walk is given in the first round of successive halving, in values looked at."""

KEPT_WALKS = 6
FAVOURED_WALKS = 3
"""As many take turns where programs are short; beyond `SHORT_WALK` the cheapest alone has three turns of four. Ternary 7x7 kernels of
seeds 53 (twice) and 54 took 26, 29 and 22 macros in 10 seconds with three favoured walks, 22, 28 and 22 with one."""

STALE, SHORT_UNFIT = 4, 24
"""Turns without a cheaper program, after which walks begin anew from the shorter starts, where a program of at most so many instructions is
there that takes too many registers: what fits then hangs on where a walk happened to end."""

SHORT_WALK, STALE_SHORT, SEEDS = 22, 1, 2
"""Instructions of a program whose walks come to rest within a slice or two, at lengths that differ by several instructions: so many turns
without a cheaper one are enough to begin anew, with so many walks from each of the shorter starts."""

STALE_EXCHANGED = 4
"""Turns without a cheaper program, after which other walks begin beside the best one, where a start is shortened in a tenth of a second."""

LONG_PROGRAM = 40
"""Instructions."""

RESTART_EVERY = 24
"""Turns after which the walk that stands worst begins anew, and so does one that squeezes."""


@dataclass
class WalkLimits:
    """What walks are told of the search. `unfit`: a plan that would be cheaper and has no order that fits the registers."""

    best_cost: int
    unfit: Plan | None = None


class WalkPortfolio:
    """Walks from known plans of `wanted` (units of `2**-depth`); `slices` say how much of a step's work the clock allows.
    `kept`: results stay to the end."""

    def __init__(
        self,
        wanted: Sequence[Sum],
        costs: Sequence[Costs],
        registers: int,
        seed: int,
        slices: WorkSlices,
        kept: bool = True,
    ) -> None:
        self._wanted, self._costs, self._registers, self._slices = tuple(wanted), tuple(costs), registers, slices
        self._kept = kept
        self._seeds = itertools.count(seed * 1_000_003)
        self._walks: list[ProgramWalk] = []
        self._waiting: list[ProgramWalk] = []
        self._standing = WalkLimits(0)
        self._squeezed: Plan | None = None

    def plans(self, starts: Sequence[Plan], standing: WalkLimits) -> Iterator[Plan]:
        """One plan a step, without an end. `standing` is read before each."""
        self._standing = standing
        yield from self._halving(starts)
        squeezing: ProgramWalk | None = None
        source, age = None, 0
        shorter = sorted(starts, key=lambda plan: len(plan.steps))[: (len(starts) + 1) // 2]
        best, since = standing.best_cost, 0
        for turn in itertools.count():
            since = since + 1 if standing.best_cost == best else 0
            best = standing.best_cost
            if self._is_stale(since):
                kept = [] if self._walks[0].instructions <= SHORT_WALK else self._walks[:1]
                yield from self._halving(shorter * SEEDS)
                self._walks, since = [*kept, *self._walks][:KEPT_WALKS], 0
            if self._squeezed is not None:
                self.add(self._squeezed)
                self._squeezed = None
            unfit = standing.unfit
            if unfit is None or turn % 2 == 0 or len(unfit.steps) > LONG_PROGRAM:
                yield self._next(starts, turn)
                continue
            if squeezing is None or source != unfit or age == RESTART_EVERY:
                squeezing, source, age = self._walk(unfit, self._registers, 0), unfit, 0
            squeezing.limit = standing.best_cost - 1
            age += 1
            yield self._advanced(squeezing)

    def _is_stale(self, turns: int) -> bool:
        """So many turns had no cheaper program, and walks of short programs begin anew."""
        self._walks.sort(key=_merit)
        walk = self._walks[0]
        unfit = self._standing.unfit
        if walk.instructions <= SHORT_WALK:
            return turns >= STALE_SHORT
        if walk.exchanges and turns >= STALE_EXCHANGED:
            return True
        return turns >= STALE and unfit is not None and len(unfit.steps) <= SHORT_UNFIT

    def add(self, start: Plan) -> None:
        """A walk from there takes the place of the one that stands worst; during the first halving it waits for the end of it."""
        walks, fresh = self._walks, self._walk(start, self._registers, 0)
        if not walks:
            self._waiting.append(fresh)
            return
        walks.sort(key=_merit)
        walks[-1] = fresh

    def _halving(self, starts: Sequence[Plan]) -> Iterator[Plan]:
        """The half of the walks that stands worse ends, and the others have twice the work each."""
        walks = [self._walk(plan, self._registers, n) for n, plan in enumerate(starts)]
        kept, work = walks, WORK_OF_A_START
        while len(kept) > 1:
            for walk in kept:
                yield self._advanced(walk, work)
            kept = sorted(kept, key=_merit)[: (len(kept) + 1) // 2]
            work *= 2
        walks.sort(key=_merit)
        hopeless = _merit(walks[-1])[0] and not _merit(walks[0])[0]
        hopeful = [walk for walk in walks if not (hopeless and _merit(walk)[0])]
        self._walks, self._waiting = [*self._waiting[-1:], *hopeful][:KEPT_WALKS], []

    def _next(self, starts: Sequence[Plan], turn: int) -> Plan:
        walks = self._walks
        walks.sort(key=_merit)
        if turn % RESTART_EVERY == RESTART_EVERY - 1:
            number = turn // RESTART_EVERY
            walks[-1] = self._walk(starts[number % len(starts)], self._registers if number % 2 else None, number)
        many = FAVOURED_WALKS if walks[0].instructions <= SHORT_WALK else 1
        favoured = turn % min(many, len(walks))
        return self._advanced(walks[favoured if turn % 4 else turn // 4 % len(walks)])

    def _walk(self, start: Plan, registers: int | None, number: int) -> ProgramWalk:
        costs = self._costs[number % len(self._costs)]
        return ProgramWalk(start, self._wanted, costs, next(self._seeds), registers, kept=self._kept)

    def _advanced(self, walk: ProgramWalk, work: int = WORK_OF_A_STEP) -> Plan:
        left, work = self._slices.seconds_left(), self._slices.slice(work)
        walk.aim, walk.squeezed = self._standing.best_cost, None
        plan = walk.advance(work)
        self._slices.note(work, left)
        if walk.squeezed is not None:
            self._squeezed = plan = walk.squeezed
        return plan


def _merit(walk: ProgramWalk) -> tuple[bool, int]:
    """Smaller is better. A long program that takes too many registers is hardly ever brought to fewer."""
    return walk.excess > 0 and walk.instructions > LONG_PROGRAM, walk.cost + 2 * walk.excess
