"""The checker of lower bounds: is it true that no program of so many instructions computes these sums?

It shares nothing with the searches that prove (`spaces/reverse_split/`): neither code nor tables nor the modulus's points. It takes the
instruction set's rows, makes linear forms of them, and searches all sets of values with a plain program of its own
(`refutation.c` on `refutation_state.h`). Its cuts, each with its reason:

- every set is met once: what a level passed over never comes back below it;
- a value that nothing uses would leave a shorter program, and shorter ones were refuted before: so what waits for a use must not be more
  than the instructions left can take;
- an instruction moves and grows only so much (`_needs`), and a corner is reached by moves along both of its sides;
- a target that one instruction makes is taken at once, since it is in every program;
- where a symmetry of the square leaves the targets as they are, the first instruction on the image need not be one that the symmetry
  makes an earlier one of;
- the last three instructions for one target are computed backwards from it (`refutation_last_three.h`).

With free signs (AUKE's set, where an addition has every sign at the same cost) a value and its negation count as one: that
permits more than the chip does, so what is refuted is refuted. Equal values are told by their evaluation at a random point modulo
2**61 - 1; two different ones that agree there could hide a program, with a chance of about 2**-61 for each pair.
"""

from __future__ import annotations

import ctypes
import enum
import random
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kilotune.codegen.scamp.instructions import Instruction, instruction_set
from kilotune.codegen.scamp.sums import DIRECTIONS, Cell, Sum
from kilotune.evaluators.c_structures import structures
from kilotune.evaluators.compiled_library import load_library
from kilotune.evaluators.interruptible import StopFlag, interruptible
from kilotune.evaluators.scamp5.common_positions import SQUARE, turned_cell

MODULUS = (1 << 61) - 1
MOST_TARGETS = 8
LONGEST = 29
SHIFTS, GROWTH = 64, 256
FAR_BITS = {True: 13, False: 19}
"""Room for what is three instructions short of a target, by whether signs are free."""

(_Form, _Pair, _Refutation) = structures(Path(__file__).with_name("refutation_state.h"), "Form", "Pair", "Refutation")


class Refuted(enum.IntEnum):
    """What came of looking for a program. The numbers are those of refutation_state.h."""

    REFUTED = 0
    FOUND = 1
    STOPPED = 2
    NO_MEMORY = 3


@dataclass(frozen=True)
class LinearForm:
    """What an instruction makes of a value u and `others` alike (0 to 2): the sum of `factor` times u and of `other` times each of those,
    halved `halvings` times. `twice`: the other value is u again. Factors are cells with weights 1 or -1."""

    factor: tuple[Cell, int]
    other: tuple[Cell, int] = ((0, 0), 0)
    others: int = 0
    halvings: int = 0

    @property
    def twice(self) -> bool:
        return not self.others and self.other[1] != 0

    def signed(self) -> LinearForm:
        """The form or its negation, whose factor is positive."""
        (cell, sign), (other, second) = self.factor, self.other
        return LinearForm((cell, sign * sign), (other, sign * second), self.others, self.halvings)


@cache
def load_checker() -> ctypes.CDLL | None:
    """The library; None when there is no working C compiler."""
    loaded = load_library(Path(__file__).with_name("refutation.c"))
    if loaded is None:
        return None
    loaded.library.kilotune_refutation.argtypes = [ctypes.POINTER(_Refutation), ctypes.c_void_p]
    loaded.library.kilotune_refutation.restype = ctypes.c_int
    return loaded.library


def linear_forms(target: str, free_signs: bool) -> tuple[LinearForm, ...]:
    """Every instruction of a set as a form of each of its operands; copies are none. KeyError for an unknown set."""
    found: dict[LinearForm, None] = {}
    for row in instruction_set(target).rows:
        for form in _forms_of(row):
            if form == LinearForm(((0, 0), 1)):
                continue
            variants = [form]
            if free_signs and form.other[1]:
                variants.append(LinearForm(form.factor, (form.other[0], -form.other[1]), form.others, form.halvings))
            for variant in variants:
                made = variant.signed() if free_signs else variant
                if not (free_signs and made == LinearForm(((0, 0), 1))) and not _is_zero(made):
                    found[made] = None
    return tuple(found)


def _is_zero(form: LinearForm) -> bool:
    return form.twice and form.factor == (form.other[0], -form.other[1])


def _forms_of(row: Instruction) -> Iterator[LinearForm]:
    if not row.operands:
        return
    for directions in product(DIRECTIONS, repeat=row.directions):
        offset = row.offset(directions)
        if row.directions == 2 and offset == (0, 0):
            continue
        terms = [(offset if far else (0, 0), sign) for far, sign in zip(row.shifted, row.signs, strict=True)]
        if row.operands == 1:
            yield LinearForm(terms[0], halvings=row.halvings)
        elif row.operands == 2:
            for first, second in (terms, terms[::-1]):
                yield LinearForm(first, second, 1, row.halvings)
            if not row.distinct:
                yield LinearForm(terms[0], terms[1], 0, row.halvings)
        elif len(set(terms)) == 1 and row.distinct:
            yield LinearForm(terms[0], terms[0], 2, row.halvings)
        else:
            raise ValueError(f"{row.name}: expected three operands alike, found others")


class FormTables:
    """The instructions of a set as the checker computes with them, at a random point: the same for all sums that are asked about."""

    def __init__(self, target: str, free_signs: bool, seed: str) -> None:
        """`seed`: of the point. KeyError for an unknown set."""
        generator = random.Random(f"checker {target} {seed}")
        self.point = (generator.randrange(2, MODULUS), generator.randrange(2, MODULUS))
        self.free_signs, self.forms = free_signs, linear_forms(target, free_signs)
        pairs = [form for form in self.forms if form.others]
        self.pairs = (_Pair * len(pairs))(*map(self._pair, pairs))
        joined = [
            [_inverse(self._number(pair.factor) * self._factor(form) + self._number(pair.other)) for pair in pairs]
            for form in self.forms
        ]
        self.joined = np.array(joined, dtype=np.uint64)
        self.needs = _needs(self.forms)
        self.copies = any(row.distinct for row in instruction_set(target).rows)
        self.operands = max(row.operands for row in instruction_set(target).rows)

    def structure(self, form: LinearForm, first: bool) -> ctypes.Structure:
        """A form as the C code has it; `first` as `_first_ones` says."""
        factor = self._factor(form)
        other = self._number(form.other)
        numbers = (factor, other, _inverse(factor), other * _inverse(factor) % MODULUS, form.others, form.halvings)
        return _Form(*numbers, *form.factor[0], *form.other[0], int(first), 0)

    def _number(self, factor: tuple[Cell, int]) -> int:
        (across, up), sign = factor
        x, y = self.point
        return sign * pow(x, across, MODULUS) * pow(y, up, MODULUS) % MODULUS

    def _factor(self, form: LinearForm) -> int:
        whole = self._number(form.factor) + (self._number(form.other) if form.twice else 0)
        return whole * pow(2, -form.halvings, MODULUS) % MODULUS

    def _pair(self, form: LinearForm) -> ctypes.Structure:
        last, other = self._number(form.factor), self._number(form.other)
        return _Pair(last, other, other if form.others == 2 else 0, _inverse(last))


class BoundChecker:
    """One question made ready: sums in units of `2**-depth`, distinct, neither zero nor the image, at most `MOST_TARGETS`."""

    def __init__(self, tables: FormTables, sums: Sequence[Sum], depth: int) -> None:
        """ValueError for too many sums, RuntimeError without a C compiler."""
        if not 0 < len(sums) <= MOST_TARGETS:
            raise ValueError(f"expected 1 to {MOST_TARGETS} kernels, found {len(sums)}")
        kernel = load_checker()
        if kernel is None:
            raise RuntimeError("Checking a bound needs a C compiler (cc, gcc or clang), and none works here.")
        self._kernel, self._tables = kernel, tables
        first = _first_ones(tables.forms, sums, tables.free_signs)
        structures_of_forms = map(tables.structure, tables.forms, first)
        self._forms = (_Form * len(first))(*structures_of_forms)
        residues = [_residue(total, depth, *tables.point) for total in sums]
        if tables.free_signs:
            residues = [min(value, MODULUS - value) for value in residues]
        self._targets = np.array(residues, dtype=np.uint64)
        self._shapes = np.array([_shape(total, depth) for total in sums], dtype=np.float64)

    def ask(self, budget: int, threads: int = 1) -> tuple[Refuted, int]:
        """Is there a program of at most `budget` instructions, where none is shorter? And how many sets of values were met. A program that
        is found so is not shown: with free signs it may be none of the chip's."""
        if budget > LONGEST:
            raise ValueError(f"expected at most {LONGEST} instructions, found {budget}")
        flag = StopFlag()
        answers = [Refuted.STOPPED] * threads
        counts = np.zeros(threads, dtype=np.int64)

        def ask(share: int) -> None:
            problem = self._problem(budget, share, threads, flag)
            answer = self._kernel.kilotune_refutation(ctypes.byref(problem), counts[share:].ctypes.data)
            answers[share] = Refuted(answer)
            if answer != Refuted.REFUTED:
                flag.set()

        def call() -> None:
            working = [threading.Thread(target=ask, args=(share,), daemon=True) for share in range(threads)]
            for thread in working:
                thread.start()
            for thread in working:
                thread.join()

        interruptible(call, flag.set)
        if Refuted.NO_MEMORY in answers:
            raise MemoryError("Checking the bound ran out of memory.")
        worst = Refuted.FOUND if Refuted.FOUND in answers else max(answers)
        return worst, int(counts.sum())

    def _problem(self, budget: int, share: int, threads: int, flag: StopFlag) -> ctypes.Structure:
        tables = self._tables
        signs, bits = int(tables.free_signs), FAR_BITS[tables.free_signs]
        counts = (len(self._forms), len(tables.pairs), len(self._targets))
        numbers = (*counts, budget, signs, int(tables.copies), tables.operands, share, threads, bits)
        addresses = (
            ctypes.addressof(self._forms),
            ctypes.addressof(tables.pairs),
            *(array.ctypes.data for array in (tables.joined, self._targets, self._shapes, tables.needs)),
            flag.address,
        )
        return _Refutation(*numbers, *addresses)


def _inverse(number: int) -> int:
    return pow(number, -1, MODULUS) if number % MODULUS else 0


def _residue(total: Sum, depth: int, x: int, y: int) -> int:
    whole = sum(weight * pow(x, across, MODULUS) * pow(y, up, MODULUS) for (across, up), weight in total)
    return whole * pow(2, -depth, MODULUS) % MODULUS


def _shape(total: Sum, depth: int) -> tuple[float, ...]:
    """How far it extends west, south, east and north, then south and west together, north and west, south and east, north and east;
    halvings, cells, sum of absolute weights in pixels."""
    west, south, east, north = total.box
    halvings = max(depth - min((weight & -weight).bit_length() - 1 for _, weight in total), 0)
    corners = (max(sx * x + sy * y for (x, y), _ in total) for sx in (-1, 1) for sy in (-1, 1))
    return (-west, -south, east, north, *corners, halvings, len(total.terms), total.cardinality / 2.0**depth)


def _first_ones(forms: Sequence[LinearForm], sums: Sequence[Sum], free_signs: bool) -> list[bool]:
    """Which forms may be the first instruction on the image: those that no symmetry of the sums makes an earlier form of."""
    wanted = {_unsigned(total, free_signs) for total in sums}
    first = [True] * len(forms)
    numbers = {form: number for number, form in enumerate(forms)}
    for symmetry in SQUARE:
        turned = {
            _unsigned(Sum.of((turned_cell(cell, symmetry), weight) for cell, weight in total), free_signs)
            for total in sums
        }
        if turned != wanted:
            continue
        for number, form in enumerate(forms):
            (cell, sign), (other, second) = form.factor, form.other
            made = LinearForm(
                (turned_cell(cell, symmetry), sign), (turned_cell(other, symmetry), second), 0, form.halvings
            )
            if not form.others and numbers.get(made, number) < number:
                first[number] = False
    return first


def _unsigned(total: Sum, free_signs: bool) -> frozenset[Sum]:
    return frozenset((total, -total)) if free_signs else frozenset((total,))


def _needs(forms: Sequence[LinearForm]) -> npt.NDArray[np.int32]:
    """Shape (SHIFTS, GROWTH): how many instructions it takes at least to move a box's sides by so many cells together and to multiply a
    value's cells, or its weight, by so much. Halvings come on top: an instruction that halves does nothing else."""
    steps = set()
    for form in forms:
        far = max(abs(form.factor[0][0]) + abs(form.factor[0][1]), abs(form.other[0][0]) + abs(form.other[0][1]))
        grown = 2 if form.twice else 1 + form.others
        if form.halvings and (far or grown > 1):
            raise ValueError("expected halvings by themselves, found one that moves or adds")
        if not form.halvings:
            steps.add((far, grown))
    table = np.zeros((SHIFTS, GROWTH), dtype=np.int32)
    for shifts, growth in product(range(SHIFTS), range(GROWTH)):
        if shifts or growth > 1:
            left = ((max(0, shifts - far), -(-growth // grown)) for far, grown in steps)
            table[shifts, growth] = 1 + min(int(table[at]) for at in left if at != (shifts, growth))
    return table
