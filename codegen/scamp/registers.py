"""Register allocation: liveness, the interference graph and its colouring (AUKE Section 3.3), and a good order before it.

The chip cannot spill. Straight-line programs are coloured by as many registers as values are alive at once, give or take what an
instruction forbids (a destination apart from an operand, registers that a division destroys), so the order of
the steps decides. `schedule` looks for one that fits: depth first over sets of computed values, each set visited once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kilotune.codegen.counts import counted
from kilotune.codegen.scamp.instructions import REGISTERS
from kilotune.codegen.scamp.plan import Plan, PlanStep, reordered, without_dead_steps
from kilotune.codegen.scamp.program import Operation, ScampProgram

SEARCHED_SETS = 50_000
"""Sets of computed values that the search for an order may visit at one register count, ..."""

SEARCHED_STEPS = 200_000
"""... and steps that it may look at on the way; half a second or so."""

LONGEST_REORDERED = 60
"""Steps; longer plans that fit in their own order are not reordered for fewer registers."""

LONGEST_SEARCHED = 400
"""Steps; longer plans stay in their own order."""


class RegisterPressureError(ValueError):
    """A plan that no order found brings into the registers given; the message is a sentence."""


@dataclass(frozen=True)
class InterferenceGraph:
    """Values (by number; scratch registers of divisions follow behind them) and the pairs that may not share one."""

    count: int
    edges: frozenset[tuple[int, int]]
    scratch: tuple[tuple[int, ...], ...]  # by step: the numbers of its destroyed registers


def legalised(plan: Plan) -> Plan:
    """The plan with a copy before every instruction that wants different operands and is given the same twice."""
    copy = {"auke": "copy", "scamp5": "mov"}[plan.target]
    renumbered, steps = {0: 0}, []
    for number, step in enumerate(plan.steps, start=1):
        operands = [renumbered[operand] for operand in step.operands]
        if plan.instruction(step).distinct:
            for index, operand in enumerate(operands):
                if operand in operands[:index]:
                    steps.append(PlanStep(copy, (operand,)))
                    operands[index] = len(steps)
        steps.append(PlanStep(step.op, tuple(operands), step.directions))
        renumbered[number] = len(steps)
    return Plan(plan.target, plan.depth, tuple(steps), tuple(renumbered[result] for result in plan.results))


def needed_registers(plan: Plan, kept: bool = True) -> int:
    """How many registers the plan takes in its own order. `kept`: results stay to the end; else each is consumed as it is there."""
    remaining = _uses(plan, kept)
    live, most = 1, 1  # the image is there even when nothing reads it
    if not remaining[0]:
        live = 0
    for number, step in enumerate(plan.steps, start=1):
        row = plan.instruction(step)
        dying = _dying(step, remaining)
        most = max(most, _pressure(plan, step, live, dying, row.destroyed))
        for operand in step.operands:
            remaining[operand] -= 1
        live += 1 - len(dying) - (0 if remaining[number] else 1)
    return most


def schedule(plan: Plan, registers: int, kept: bool = True) -> Plan | None:
    """The plan in an order that takes at most that many registers; None when none was found.

    The plan's own order where it fits. Otherwise a search that is exhaustive within `SEARCHED_SETS` and `SEARCHED_STEPS`.
    """
    if needed_registers(plan, kept) <= registers:
        return plan
    order = searched_order(plan, registers, kept)
    return None if order is None else reordered(plan, order)


def searched_order(plan: Plan, registers: int, kept: bool = True) -> list[int] | None:
    """The numbers of the steps, from 1, in the order that such a search finds."""
    if len(plan.steps) > LONGEST_SEARCHED or registers <= 0:
        return None
    return _Scheduler(plan, registers, kept).search()


def fit(plan: Plan, registers: int, kept: bool = True) -> Plan:
    """The plan without dead steps, with the copies that it needs, in an order for as few registers as possible.

    Raises `RegisterPressureError` when more than `registers` are needed.
    """
    whole = legalised(without_dead_steps(plan))
    if len(whole.steps) > LONGEST_REORDERED and needed_registers(whole, kept) <= registers:
        return whole
    least_live = max(1, len(set(whole.results))) if kept else 1
    for count in range(least_live, registers + 1):
        ordered = schedule(whole, count, kept)
        if ordered is not None:
            return ordered
    least = next((n for n in range(registers + 1, len(REGISTERS) + 1) if schedule(whole, n, kept) is not None), None)
    more = (
        f"{least} would do"
        if least
        else f"no order of its instructions was found that the chip's {len(REGISTERS)} hold"
    )
    raise RegisterPressureError(f"The program needs more than the {counted(registers, 'register')} given; {more}.")


def fits(plan: Plan, registers: int) -> bool:
    """Whether `allocate` will succeed."""
    return schedule(legalised(without_dead_steps(plan)), registers) is not None


def allocate(plan: Plan, registers: int = len(REGISTERS), kept: bool = True) -> ScampProgram:
    """The plan on registers, as few as possible; the image is in A. Unless results are `kept` to the end, each is read right after the
    instruction that computes it, and its register may be taken by the next one.

    Raises `RegisterPressureError` when more than `registers` (1 to 6) are needed.
    """
    if not 1 <= registers <= len(REGISTERS):
        raise RegisterPressureError(f"A program can have 1 to {len(REGISTERS)} registers, not {registers}.")
    ordered = fit(plan, registers, kept)
    graph = interference(ordered, kept)
    colours = colour(graph, registers)
    if colours is None:
        raise RegisterPressureError(f"The program needs more than the {counted(registers, 'register')} given.")
    names = [REGISTERS[c] for c in colours]
    operations = tuple(
        Operation(
            step.op,
            (names[number], *(names[lost] for lost in graph.scratch[number - 1])),
            tuple(names[operand] for operand in step.operands),
            step.directions,
        )
        for number, step in enumerate(ordered.steps, start=1)
    )
    read_after = () if kept else ordered.results
    return ScampProgram(ordered.target, operations, tuple(names[result] for result in ordered.results), read_after)


def interference(plan: Plan, kept: bool = True) -> InterferenceGraph:
    """Which values are alive at once, or kept apart by an instruction, in the plan's order."""
    last = {number: number for number in range(len(plan.steps) + 1)}
    for number, step in enumerate(plan.steps, start=1):
        for operand in step.operands:
            last[operand] = number
    for result in plan.results if kept else ():
        last[result] = len(plan.steps) + 1
    edges: set[tuple[int, int]] = set()
    scratch: list[tuple[int, ...]] = []
    through: list[int] = []
    following = len(plan.steps) + 1
    for number, step in enumerate(plan.steps, start=1):
        row = plan.instruction(step)
        lost = tuple(range(following, following + row.destroyed))
        following += row.destroyed
        scratch.append(lost)
        through = [value for value in (*through, number - 1) if last[value] > number]
        written = (number, *lost)
        edges.update((value, new) for value in through for new in written)
        edges.update((a, b) for i, a in enumerate(written) for b in written[i + 1 :])
        edges.update((step.operands[index], number) for index in row.apart)
        if lost:
            edges.update((operand, new) for operand in step.operands for new in (number, *lost[:-1]))
    return InterferenceGraph(following, frozenset(edges), tuple(scratch))


def colour(graph: InterferenceGraph, colours: int) -> tuple[int, ...] | None:
    """A colour for every value, neighbours different, value 0 coloured 0; None when there is none.

    In the order of the values first, which does for nearly every straight-line program. Else backtracking, each time on
    the uncoloured value with the fewest colours left; new colours are tried one at a time only, since they are alike.
    """
    near: list[set[int]] = [set() for _ in range(graph.count)]
    for a, b in graph.edges:
        near[a].add(b)
        near[b].add(a)
    first_fit = [0] * graph.count
    for value in range(1, graph.count):
        taken_before = {first_fit[n] for n in near[value] if n < value}
        first_fit[value] = next(c for c in range(value + 1) if c not in taken_before)
    if max(first_fit) < colours:
        return tuple(first_fit)
    chosen = [-1] * graph.count
    chosen[0] = 0

    def extend(left: int, used: int) -> bool:
        if not left:
            return True
        open_values = [v for v in range(graph.count) if chosen[v] < 0]
        taken = {v: {chosen[n] for n in near[v] if chosen[n] >= 0} for v in open_values}
        value = max(open_values, key=lambda v: (len(taken[v]), -v))
        for candidate in range(min(used + 1, colours)):
            if candidate not in taken[value]:
                chosen[value] = candidate
                if extend(left - 1, max(used, candidate + 1)):
                    return True
        chosen[value] = -1
        return False

    return tuple(chosen) if extend(graph.count - 1, 1) else None


def _uses(plan: Plan, kept: bool) -> list[int]:
    """How often each value is read; being a result that is kept is a use that never ends."""
    uses = [0] * (len(plan.steps) + 1)
    for step in plan.steps:
        for operand in step.operands:
            uses[operand] += 1
    for result in plan.results if kept else ():
        uses[result] += 1
    return uses


def _dying(step: PlanStep, remaining: Sequence[int]) -> set[int]:
    return {operand for operand in step.operands if remaining[operand] == step.operands.count(operand)}


def _pressure(plan: Plan, step: PlanStep, live: int, dying: set[int], destroyed: int) -> int:
    """Registers taken while a step runs, with `live` values before it."""
    row = plan.instruction(step)
    if destroyed:
        # The result and all but the last lost register are apart from the operand; the last may be the operand's.
        return live + destroyed + (0 if dying else 1)
    apart = {step.operands[index] for index in row.apart}
    return live if dying - apart else live + 1


class _Scheduler:
    """Depth first over sets of computed values (bit masks); a set that failed once is not entered again."""

    def __init__(self, plan: Plan, registers: int, kept: bool) -> None:
        self._plan = plan
        self._registers = registers
        self._failed: set[int] = set()
        self._looked = 0
        self._order: list[int] = []
        self._remaining = _uses(plan, kept)
        self._operands = [0, *(sum(1 << operand for operand in set(step.operands)) for step in plan.steps)]
        self._users: list[list[int]] = [[] for _ in self._remaining]
        for number, step in enumerate(plan.steps, start=1):
            for operand in set(step.operands):
                self._users[operand].append(number)

    def search(self) -> list[int] | None:
        live = 1 if self._remaining[0] else 0
        first = [number for number, operands in enumerate(self._operands) if number and not operands & ~1]
        return list(self._order) if self._extend(1, live, first) else None

    def _extend(self, done: int, live: int, ready: list[int]) -> bool:
        """`ready`: the steps that are not done and whose operands are."""
        plan, remaining = self._plan, self._remaining
        if not ready:
            return True
        self._looked += len(ready)
        if done in self._failed or len(self._failed) > SEARCHED_SETS or self._looked > SEARCHED_STEPS:
            return False
        possible = []
        for number in ready:
            step = plan.steps[number - 1]
            dying = _dying(step, remaining)
            if _pressure(plan, step, live, dying, plan.instruction(step).destroyed) <= self._registers:
                possible.append((1 - len(dying), number))
        for growth, number in sorted(possible):
            operands = plan.steps[number - 1].operands
            for operand in operands:
                remaining[operand] -= 1
            self._order.append(number)
            after = live + growth - (0 if remaining[number] else 1)
            now = done | 1 << number
            following = [other for other in ready if other != number]
            following += [user for user in self._users[number] if not self._operands[user] & ~now]
            if self._extend(now, after, following):
                return True
            self._order.pop()
            for operand in operands:
                remaining[operand] += 1
        self._failed.add(done)
        return False
