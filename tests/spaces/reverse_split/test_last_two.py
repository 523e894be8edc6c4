"""The last two free values of a walk's question are solved for, not tried: what is found by trying all is found so too."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from kilotune.codegen.scamp.plan import computed
from kilotune.codegen.scamp.sums import Sum
from kilotune.spaces.reverse_split.exact import lexicographic
from kilotune.spaces.reverse_split.prepared_question import ProgramStatus
from kilotune.spaces.reverse_split.programs import (
    BUS_TRANSFERS,
    INSTRUCTIONS,
    Costs,
    ProgramQuery,
    Searcher,
    load_kernel,
)
from tests.spaces.reverse_split.small_programs import random_plan

pytestmark = pytest.mark.skipif(load_kernel() is None, reason="needs a C compiler")
NO_LIMIT = 1 << 40
DEPTH = 3


def windows(target: str, generator: random.Random) -> Iterator[ProgramQuery]:
    """Two values of a random program leave, what takes them is asked for, and what else the program has is given."""
    while True:
        plan = random_plan(target, 6, DEPTH, generator)
        depth = plan.depth
        values = computed(replace(plan, results=tuple(range(len(plan.steps) + 1))))
        removed = set(generator.sample(range(1, len(values) - 1), 2))
        gone = set(removed)
        for number, step in enumerate(plan.steps, start=1):
            if not gone.isdisjoint(step.operands):
                gone.add(number)
        targets = tuple(values[number] for number in sorted(gone - removed))
        given = tuple(value for number, value in enumerate(values) if number and number not in gone)
        asked = {*targets, *given, Sum.image(depth), Sum()}
        if len(asked) == len(targets) + len(given) + 2:
            yield ProgramQuery(target, depth, targets, given=given, forbidden=(values[min(removed)],))


@pytest.mark.parametrize(("target", "free", "questions"), [("scamp5", 2, 40), ("auke", 2, 60), ("auke", 3, 20)])
def test_what_trying_everything_finds_is_solved_for(target: str, free: int, questions: int) -> None:
    asked = windows(target, random.Random(f"last two {target} {free}"))
    found = 0
    for question in (next(asked) for _ in range(questions)):
        budget = len(question.targets) + free
        tried, solved = (Searcher(replace(question, nearby=near)).ask(budget, NO_LIMIT) for near in (False, True))
        assert solved.status is tried.status
        assert tried.status is not ProgramStatus.STOPPED
        found += tried.status is ProgramStatus.FOUND
    assert 0 < found < questions


@pytest.mark.parametrize(
    ("costs", "target", "spare", "questions"),
    [
        (BUS_TRANSFERS, "scamp5", 4, 12),
        (BUS_TRANSFERS, "scamp5", 5, 12),
        (lexicographic(INSTRUCTIONS, BUS_TRANSFERS), "scamp5", 70, 12),
        (BUS_TRANSFERS, "auke", 5, 20),
    ],
)
def test_it_is_where_some_instructions_cost_more(costs: Costs, target: str, spare: int, questions: int) -> None:
    asked = windows(target, random.Random(f"last two {target} {spare}"))
    found = 0
    for question in (replace(next(asked), costs=costs) for _ in range(questions)):
        budget = len(question.targets) * costs.plain + spare
        tried, solved = (Searcher(replace(question, nearby=near)).ask(budget, NO_LIMIT) for near in (False, True))
        assert solved.status is tried.status
        found += tried.status is ProgramStatus.FOUND
    assert 0 < found < questions
