"""Writes the program of walks over cells on which the constants change (`changing_constants.py`)."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from kilotune.codegen.scamp.plan import Plan, PlanStep
from kilotune.spaces.reverse_split.cell_walks import CellWalk
from kilotune.spaces.reverse_split.horner import HornerKernels
from kilotune.spaces.reverse_split.plan_writer import ways_of
from kilotune.spaces.reverse_split.term_prices import MISSING, Absorbed, PriceArray, absorptions, term_prices


@dataclass(frozen=True)
class ConstantStep:
    """A register becomes a sum of others, before the walks come to their `at`th cell. `operation`: "add", "sub", "add three", "neg",
    "halve" or "addneg"."""

    operation: str
    into: int
    operands: tuple[int, ...]
    at: int


@dataclass(frozen=True)
class ChangingProgram:
    """Walks over the cells of kernels, which come in the `order` of their numbers, and the steps on the way.

    `cost`: `changing_constants.UNIT` an instruction, of all but copies.
    """

    kernels: HornerKernels
    registers: int
    kept: bool
    order: tuple[int, ...]
    walks: tuple[CellWalk, ...]
    steps: tuple[ConstantStep, ...]
    cost: int


@dataclass(frozen=True)
class _TermsLeft:
    """What a cell adds, by register: the value's number and how often."""

    plus: Counter[int]
    minus: Counter[int]


@dataclass
class _Writing:
    """The steps so far. `held`: what registers hold, in units, and `numbers` the numbers of these values."""

    target: str
    held: list[int]
    numbers: list[int]
    steps: list[PlanStep] = field(default_factory=list)

    def write(self, op: str, *operands: int, directions: tuple[str, ...] = ()) -> int:
        self.steps.append(PlanStep(op, operands, directions))
        return len(self.steps)

    def change(self, step: ConstantStep) -> None:
        """A register of constants becomes another one."""
        name = {"halve": "div2" if self.target == "auke" else "divq", "add three": "add"}.get(
            step.operation, step.operation
        )
        number = self.write(name, *(self.numbers[operand] for operand in step.operands))
        self.held = changed(self.held, step)
        self.numbers[step.into] = number


def changed(held: Sequence[int], step: ConstantStep) -> list[int]:
    """What registers hold after a step."""
    values, after = [held[operand] for operand in step.operands], list(held)
    match step.operation:
        case "halve":
            after[step.into] = values[0] // 2
        case "neg" | "addneg":
            after[step.into] = -sum(values)
        case "sub":
            after[step.into] = values[0] - values[1]
        case _:
            after[step.into] = sum(values)
    return after


def changing_plan(program: ChangingProgram) -> Plan:
    """The program. All weights must be sums of what the registers hold when the walks come there."""
    kernels = program.kernels
    image = [kernels.image, *[0] * (program.registers - 1)]
    writing = _Writing(kernels.target, image, [0] * program.registers)
    results, begin = dict[int, int](), 0
    for place, (kernel, walk) in enumerate(zip(program.order, program.walks, strict=True)):
        room = program.registers - 1 - (place if program.kept else 0)
        steps = [step for step in program.steps if begin <= step.at < begin + len(walk.cells)]
        between = [[step for step in steps if step.at == begin + number] for number in range(len(walk.cells))]
        results[kernel] = _ChangingWalk(writing, walk, between, room).total()
        begin += len(walk.cells)
    numbers = tuple(results[kernel] for kernel in range(len(results)))
    return Plan(kernels.target, kernels.depth, tuple(writing.steps), numbers)


class _ChangingWalk:
    """One walk. `between`: the steps before each cell. `room`: how many registers hold constants on it."""

    def __init__(self, writing: _Writing, walk: CellWalk, between: Sequence[Sequence[ConstantStep]], room: int) -> None:
        self._writing, self._walk, self._between, self._room = writing, walk, between, room
        self._reach = 1 if writing.target == "auke" else 2
        steps = itertools.pairwise([*walk.cells, (0, 0)])
        self._ways = [ways_of((a[0] - b[0], a[1] - b[1])) for a, b in steps]
        self._prices = term_prices(room, writing.target)
        self._absorbed, self._rows = self._chosen()

    def total(self) -> int:
        """The number of what the walk comes to, where it belongs."""
        writing, last = self._writing, len(self._walk.cells) - 1
        for step in self._between[0]:
            writing.change(step)
        terms = self._terms(0)
        total = _taken(terms.plus) if terms.plus else writing.write("neg", _taken(terms.minus))
        for place, ways in enumerate(self._ways):
            out = _taken(terms.plus) if self._absorbed[place][1] else None
            total = self._with_terms(total, terms)
            hops = [ways[at : at + self._reach] for at in range(0, len(ways), self._reach)]
            taken = place < last and bool(self._absorbed[place + 1][0])
            early = hops[:1] if hops and not (taken and len(hops) == 1) else []
            for hop in early:
                total = self._moved(total, hop, "add", out)
            for step in self._between[place + 1] if place < last else ():
                writing.change(step)
            terms = self._terms(place + 1) if place < last else terms
            for number, hop in enumerate(hops[len(early) :], start=len(early)):
                less = _taken(terms.minus) if taken and number == len(hops) - 1 else None
                total = self._moved(total, hop, "sub", less)
        return total

    def _moved(self, total: int, hop: tuple[str, ...], op: str, term: int | None) -> int:
        """The total by one instruction further, with a term."""
        if self._reach == 1:
            return self._writing.write(hop[0], total)
        suffix = "2x" if len(hop) == 2 else "x"
        if term is None:
            return self._writing.write(f"mov{suffix}", total, directions=hop)
        return self._writing.write(f"{op}{suffix}", total, term, directions=hop)

    def _with_terms(self, total: int, terms: _TermsLeft) -> int:
        while terms.plus:
            first = _taken(terms.plus)
            others = [number for number in terms.plus if number != first and number != total]
            if self._reach == 2 and others and first != total:
                second = _taken(terms.plus, max(others, key=terms.plus.__getitem__))
                total = self._writing.write("add", total, first, second)
            else:
                total = self._writing.write("add", total, first)
        while terms.minus:
            total = self._writing.write("sub", total, _taken(terms.minus))
        return total

    def _terms(self, place: int) -> _TermsLeft:
        """What is added at a cell, as the registers are now."""
        counts = self._prices.counts[self._rows[place]].tolist()
        numbers = self._writing.numbers
        plus = Counter({numbers[at]: count for at, count in enumerate(counts) if count > 0})
        return _TermsLeft(plus, Counter({numbers[at]: -count for at, count in enumerate(counts) if count < 0}))

    def _chosen(self) -> tuple[list[Absorbed], list[int]]:
        """Which moves absorb a term of which cell, and by its number the sum that each weight is (`walked` of term_prices.py)."""
        costs: dict[int, tuple[int, tuple[Absorbed, ...], tuple[int, ...]]] = {0: (0, (), ())}
        last = len(self._walk.cells) - 1
        for place, prices in enumerate(self._priced()):
            following: dict[int, tuple[int, tuple[Absorbed, ...], tuple[int, ...]]] = {}
            hops = -(-len(self._ways[place]) // self._reach)
            for taken, (cost, chosen, rows) in costs.items():
                for out, taken_next in absorptions(0 if self._reach == 1 else hops, place == last):
                    row = int(prices[taken, out].argmin())
                    price = cost + int(prices[taken, out, row])
                    if taken_next not in following or price < following[taken_next][0]:
                        following[taken_next] = price, (*chosen, (taken, out)), (*rows, row)
            costs = following
        _, absorbed, rows = costs[0]
        return list(absorbed), list(rows)

    def _priced(self) -> Iterator[PriceArray]:
        """By cell, shape (2, 2, sums): what each sum takes where the moves before and behind absorb a term of it, `MISSING` for others."""
        held, writing = self._writing.held, self._writing
        for place, weight in enumerate(self._walk.weights):
            for step in self._between[place]:
                held = changed(held, step)
            constants = np.array(held[: self._room])
            counts = self._prices.counts
            possible = (counts @ constants == weight) & (counts[:, constants == 0] == 0).all(axis=1)
            prices = self._prices.inner
            if not place:
                twice = (counts.max(axis=1) > 1) & (writing.target != "auke")  # takes a copy
                prices = np.stack([self._prices.first + twice, np.full_like(self._prices.first, MISSING)])
            yield np.where(possible, prices, MISSING)


def _taken(terms: Counter[int], number: int | None = None) -> int:
    """A term, one of it gone: the one that is given, else that of which most are left."""
    number = terms.most_common(1)[0][0] if number is None else number
    terms[number] -= 1
    if not terms[number]:
        del terms[number]
    return number
