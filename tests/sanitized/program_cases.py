"""Questions to the searches for programs of SCAMP-5: kernels of few and many cells, weights at the ends of what is allowed."""

from __future__ import annotations

import itertools
from random import Random

from kilotune.codegen.scamp.plan import Plan
from kilotune.codegen.scamp.sums import Sum
from kilotune.evaluators.scamp5.refutation import MOST_TARGETS as MOST_REFUTED
from kilotune.evaluators.scamp5.refutation import BoundChecker, FormTables
from kilotune.spaces.reverse_split import cell_annealing, changing_constants
from kilotune.spaces.reverse_split.depth_first import MOST_SUMS, SplitLimits, search_splits
from kilotune.spaces.reverse_split.exchanging import exchanged
from kilotune.spaces.reverse_split.first_program import first_plans
from kilotune.spaces.reverse_split.horner import LARGEST_WEIGHT, horner_kernels
from kilotune.spaces.reverse_split.ordering import OrderWeights
from kilotune.spaces.reverse_split.pebbling import pebbled
from kilotune.spaces.reverse_split.programs import BUS_TRANSFERS, INSTRUCTIONS, Costs, ProgramQuery, Searcher
from kilotune.spaces.reverse_split.scheduling import fitted
from kilotune.spaces.reverse_split.signless import SignlessSearcher, is_askable

TARGETS = ("auke", "scamp5")
REGISTERS = 6
WORK = 1_500


def _weight(random: Random, largest: int) -> int:
    power = 1 << random.randrange(max(largest.bit_length() - 1, 1))
    size = random.choice((1, 2, 3, power, power + 1, 2 * power - 1, random.randint(1, largest), largest))
    return random.choice((1, -1)) * max(1, min(size, largest))


def _sum(random: Random, cells: int, reach: int, largest: int) -> Sum:
    """All weights alike, now and then."""
    alike = _weight(random, largest) if random.random() < 0.2 else None
    chosen = {(random.randint(-reach, reach), random.randint(-reach, reach)) for _ in range(cells)}
    return Sum.of({cell: alike or _weight(random, largest) for cell in sorted(chosen)})


def _sums(random: Random, most: int, largest: int = 1 << 10) -> list[Sum]:
    """Distinct, most of them of a small picture, some cells far away."""
    reach = random.choice((0, 1, 1, 2, 4, 40))
    count, cells = random.randint(1, most), random.choice((1, 2, 4, 9, 20))
    bound = random.choice((1, 2, 12, largest))
    made = [_sum(random, random.randint(1, cells), reach, bound) for _ in range(count)]
    return list(dict.fromkeys(made))


def _distinct(random: Random, most: int) -> tuple[list[Sum], int]:
    """Neither the image nor its negation, with their depth; none twice up to signs."""
    depth = random.choice((0, 0, 1, 4, 8, 24))
    image, found = Sum.image(depth), list[Sum]()
    for total in _sums(random, most, 1 << random.choice((2, 10, 24))):
        if total not in (image, -image, *found) and -total not in found:
            found.append(total)
    return found or [Sum.of({(0, 0): 3 << depth})], depth


def _plan(random: Random) -> Plan | None:
    sums, depth = _distinct(random, 4)
    small = [total for total in sums if len(total.terms) <= 9] or [Sum.of({(0, 0): 3 << depth})]
    found = first_plans(small, random.choice(TARGETS), depth, random.randint(2, REGISTERS), random.random() < 0.5)
    plans = list(itertools.islice(found, random.randint(1, 3)))
    return plans[-1] if plans and len(plans[-1].steps) < 300 else None


def cell_annealing_case(random: Random) -> None:
    target, registers, depth = random.choice(TARGETS), random.randint(3, REGISTERS), random.randint(0, 16)
    sums = _sums(random, 4, LARGEST_WEIGHT)
    prepared = horner_kernels(sums, depth, target, registers - 1)
    dropped = int(random.random() < 0.5 and len(sums) < prepared.constants)
    largest = random.choice((prepared.largest, 3**prepared.constants, 1 << 24))
    sizes = random.sample(range(1, max(2 * prepared.constants, largest) + 1), prepared.constants)
    constants = tuple(random.choice((1, -1)) * size for size in sizes)
    walks, halvings = prepared.walks, random.choice((0, 0, 1, 4))
    if halvings:  # the first constant is the image or a half of it, a quarter, ...
        constants = (max(prepared.image >> random.randrange(halvings), 1), *constants[1:])
    if not prepared.has_tables:
        return
    start = cell_annealing.WalkChoice(constants, tuple(range(len(sums))), walks, cell_annealing.IMPOSSIBLE)
    problem = cell_annealing.AnnealedProblem(target, prepared.image, dropped, halvings, random.choice((0.0, 0.25)))
    turns = 400 if largest < 1 << 16 else 10  # it takes long what constants far beyond all weights take
    for _ in cell_annealing.annealed(problem, start, turns, random.getrandbits(62)):
        pass


def changing_constants_case(random: Random) -> None:
    target, registers, kept = random.choice(TARGETS), random.randint(4, REGISTERS), random.random() < 0.7
    sums = _sums(random, 4, LARGEST_WEIGHT)
    prepared = horner_kernels(sums, random.randint(0, 12), target, registers - 1)
    if (
        not changing_constants.has_changing_walks(sums, registers, kept)
        or prepared.image > changing_constants.LARGEST_HELD
    ):
        return
    problem = changing_constants.ChangingProblem(prepared, registers, kept, random.choice((0.0, 0.25)))
    shares = itertools.chain((0.0, 0.2, 0.3), itertools.repeat(1.0))
    for _ in changing_constants.annealed(problem, shares, random.getrandbits(62)):
        pass


def splitting_case(random: Random) -> None:
    sums = tuple(_sums(random, random.choice((2, 4, MOST_SUMS + 1)), 1 << random.choice((4, 24, 30))))
    limits = SplitLimits(
        nodes=random.choice((1, 40)),
        registers=random.choice((1, 3, 6, 32)),
        plans=random.choice((1, 4)),
        last_discrepancies=random.choice((0, 1 << 20)),
        factors=random.random() < 0.7,
        by_cost=random.random() < 0.3,
        descends=random.random() < 0.3,
        table_bits=8,
    )
    search_splits(sums, random.choice((0, 4, 24)), limits, OrderWeights(), seed=random.getrandbits(60))


def exchanging_case(random: Random) -> None:
    plan = _plan(random)
    if plan is not None:
        registers = random.choice((None, 1, 3, REGISTERS))
        exchanged(plan, registers, random.getrandbits(62), 4 * WORK, random.random() < 0.5)


def pebbling_case(random: Random) -> None:
    plan, prices = _plan(random), (random.randint(1, 70), random.randint(1, 70))
    if plan is not None:
        limit, states = random.choice((1, 100, 1 << 30)), random.choice((1, 50, 3_000))
        pebbled(plan, random.randint(1, REGISTERS), lambda step: prices[len(step.operands) % 2], limit, states=states)


def scheduling_case(random: Random) -> None:
    plan = _plan(random)
    if plan is not None:
        fitted(plan, random.randint(1, REGISTERS), random.random() < 0.5, random.choice((1, 40, 400)))


def programs_case(random: Random) -> None:
    sums, depth = _distinct(random, random.choice((1, 3, 80)))
    targets = sums[: random.randint(1, len(sums))]
    given, forbidden = sums[len(targets) :][::2], sums[len(targets) :][1::2]
    question = ProgramQuery(
        random.choice(TARGETS),
        depth,
        tuple(targets),
        random.choice((INSTRUCTIONS, INSTRUCTIONS, BUS_TRANSFERS, Costs(34, 35, 34))),
        given=tuple(given),
        forbidden=tuple(forbidden),
        whole=random.random() < 0.3,
        nearby=random.random() < 0.5,
        turned=random.random() < 0.5,
    )
    searcher, path = Searcher(question), tuple[int, ...]()
    fewest = len(targets) * question.costs.plain
    for budget in (fewest, fewest + 2 * question.costs.plain, fewest + random.randint(0, 60)):
        path = searcher.ask(budget, WORK, path if random.random() < 0.5 else ()).path


def signless_case(random: Random) -> None:
    sums, depth = _distinct(random, 8)
    if is_askable(sums, depth):
        searcher, path = SignlessSearcher(tuple(sums), depth), tuple[int, ...]()
        for budget in (len(sums) + 2, random.randint(1, 32)):
            path = searcher.ask(budget, WORK, ()).path
            searcher.ask(budget, WORK, path)


def refutation_case(random: Random) -> None:
    target = random.choice(TARGETS)
    sums, depth = _distinct(random, random.choice((1, 2, MOST_REFUTED)))
    tables = FormTables(target, target == "auke" and random.random() < 0.5, "sanitized")
    checker = BoundChecker(tables, sums[:MOST_REFUTED], depth)
    for budget in range(1, 5 if target == "auke" else 4):
        checker.ask(budget, threads=random.choice((1, 2)))


CASES = (
    cell_annealing_case,
    changing_constants_case,
    splitting_case,
    exchanging_case,
    pebbling_case,
    scheduling_case,
    programs_case,
    signless_case,
    refutation_case,
)
