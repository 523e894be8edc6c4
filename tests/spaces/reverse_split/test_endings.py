"""The last three instructions in the macros are looked up, not tried: every short program is still found."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import pytest

from kilotune.codegen.scamp.instructions import instruction_set
from kilotune.codegen.scamp.plan import Plan, PlanStep, computed
from kilotune.codegen.scamp.sums import InexactHalfError, Sum
from kilotune.spaces.reverse_split.prepared_question import ProgramStatus
from kilotune.spaces.reverse_split.programs import ProgramQuery, Searcher, load_kernel
from tests.spaces.reverse_split.small_programs import next_steps

pytestmark = [pytest.mark.slow, pytest.mark.skipif(load_kernel() is None, reason="needs a C compiler")]
NO_LIMIT = 1 << 40
DEPTH = 2


def ending(length: int, generator: random.Random) -> Plan:
    """A random program of the macros in which every value is used, in whatever order."""
    while True:
        values = [Sum.image(DEPTH)]
        steps: list[PlanStep] = []
        choices = [[s for s in next_steps("scamp5", count) if s.op != "divq"] for count in range(1, length + 1)]
        while len(steps) < length:
            last = len(steps) == length - 1
            used = {at for step in steps for at in step.operands}
            open_values = {at for at in range(1, len(values)) if at not in used}
            fitting = [s for s in choices[len(steps)] if not last or open_values <= set(s.operands)]
            if not fitting:
                break
            step = _drawn(fitting, generator)
            try:
                values.append(
                    instruction_set("scamp5")
                    .get(step.op, len(step.operands))
                    .apply([values[at] for at in step.operands], step.directions)
                )
            except InexactHalfError:
                continue
            steps.append(step)
        plan = Plan("scamp5", DEPTH, tuple(steps), (length,))
        if len(steps) == length and values[-1] and len(set(values)) >= len(values) - 1:
            return plan


def _drawn(steps: list[PlanStep], generator: random.Random) -> PlanStep:
    """Every instruction as likely as any other, however many ways there are to give it operands."""
    kind = generator.choice(sorted({(step.op, len(step.operands)) for step in steps}))
    return generator.choice([step for step in steps if (step.op, len(step.operands)) == kind])


FAR_AWAY = Sum((((40, 0), 1),))
"""No program of a few instructions reaches it; where a sum is forbidden, everything is tried."""


@dataclass(frozen=True)
class Beginnings:
    """The values without the last three of every program that the search meets at the least length. `certain`: of those in which the
    last but one cannot have been passed over at an earlier level, where programs with it were met."""

    length: int
    all: frozenset[frozenset[Sum]]
    certain: frozenset[frozenset[Sum]]


def beginnings(total: Sum, length: int, *, tried: bool) -> Beginnings:
    """What is met up to `length`."""
    searcher = Searcher(ProgramQuery("scamp5", DEPTH, (total,), forbidden=(FAR_AWAY,) if tried else ()))
    for budget in range(1, length + 1):
        found: dict[frozenset[Sum], bool] = {}
        path: tuple[int, ...] = ()
        while (answer := searcher.ask(budget, NO_LIMIT, path)).status is ProgramStatus.FOUND:
            assert answer.plan is not None
            steps = answer.plan.steps
            values = computed(replace(answer.plan, results=tuple(range(len(steps) + 1))))
            first = frozenset(value.scaled(1 << (8 - answer.plan.depth)) for value in values[:-3])
            newest = len(values) - 4
            found[first] = found.get(first, False) or (
                len(steps) > 3 and not {newest, newest + 1}.isdisjoint(steps[-2].operands)
            )
            if not (path := answer.path):
                break
        if found:
            return Beginnings(budget, frozenset(found), frozenset(first for first, certain in found.items() if certain))
    raise AssertionError(f"nothing found for {total} within {length}")


@pytest.mark.parametrize(("length", "programs"), [(4, 150), (5, 20)])
def test_what_is_looked_up_begins_as_what_is_tried(length: int, programs: int) -> None:
    generator = random.Random(f"endings {length}")
    begun = 0
    for _ in range(programs):
        (total,) = computed(ending(length, generator))
        if total == Sum.image(DEPTH):
            continue
        tried, looked_up = (beginnings(total, length, tried=tried) for tried in (True, False))
        assert tried.length == looked_up.length
        assert tried.certain <= looked_up.all <= tried.all
        begun += len(tried.certain) * (tried.length > 3)
    assert begun > programs


def test_a_copy_that_one_sum_has_taken_is_taken_by_another() -> None:
    """2 a is added to itself moved and to something else: the copy is there once. Both used to be looked for, but not both of one copy."""
    steps = (
        PlanStep("sub2x", (0, 0), ("west", "south")),
        PlanStep("mov", (1,)),
        PlanStep("add2x", (1, 2), ("south", "south")),
        PlanStep("add2x", (0, 3), ("west", "west")),
        PlanStep("add", (1, 2, 4)),
    )
    (total,) = computed(Plan("scamp5", DEPTH, steps, (5,)))
    assert beginnings(total, 5, tried=False).length == 5
