"""Certificates of bounds on programs: a file that says what is claimed, and its check, which takes nobody's word for it.

    {"certificate": "scamp5-program-bound", "version": 1, "target": "auke", "depth": 4,
     "kernels": [[[-1, 0, 1], [0, 0, 2]]], "at_least": 9, "program": ["# auke; image in A; results in A", ...], "claim": "No program ..."}

A kernel is a list of cells `[x, y, weight]`, its weights in units of `2**-depth`. The claim: no program of the target's instructions, on
any number of registers, computes the kernels in fewer than `at_least`; and the program, if there is one, does compute them. An instruction
gives one result: what the macro `div` leaves in its further registers, half of the operand negated and the operand, counts as lost, so a
program that reads it may be shorter. `claim` says this for people and is not read. The check
executes the program's text (`symbolic.py`) and searches all shorter programs with the code of `refutation.py`, which the search that made
the claim has no part in. It repeats that search, in a plainer way: a certificate is no shortcut.

With `"version": 2` and `"position": [x, y]` results may lie at any common position: the program's lie at this one, which moves all cells of
the kernels by `[x, y]`, and shorter programs are refuted at every position that they can reach (`common_positions.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from kilotune.codegen.counts import counted
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.json_values import shown
from kilotune.codegen.scamp.instructions import INSTRUCTION_SETS
from kilotune.codegen.scamp.kernel import MAXIMUM_DEPTH
from kilotune.codegen.scamp.sums import Cell, Sum
from kilotune.evaluators.scamp5.common_positions import farthest_move, positions_in_reach, square_class
from kilotune.evaluators.scamp5.refutation import LONGEST, MOST_TARGETS, BoundChecker, FormTables, Refuted
from kilotune.evaluators.scamp5.symbolic import WrongProgramError, prove

KIND, VERSION, VERSION_ANYWHERE = "scamp5-program-bound", 1, 2
KEYS = ("certificate", "version", "target", "depth", "kernels", "at_least", "program")
POSITION = "position"
"""The key that a file of `VERSION_ANYWHERE` has besides."""

LARGEST_WEIGHT, FARTHEST_CELL = 1 << 40, 1000

ONE_RESULT = MappingProxyType({"scamp5": "what `div` leaves in its further registers counts as lost"})
"""What bounds in a target's instructions do not speak of, as a clause: programs that use further results of one instruction."""


@dataclass(frozen=True)
class BoundCertificate:
    """A claim: see the module. `sums` are the kernels in units of `2**-depth`; `program` a text, None where only the bound is claimed.
    `position`: None where results are to lie at their own pixels; else they may lie at any common position, and those of the program lie
    at this one."""

    target: str
    depth: int
    sums: tuple[Sum, ...]
    at_least: int
    program: str | None = None
    position: Cell | None = None

    @property
    def text(self) -> str:
        """The file."""
        kernels = [[[x, y, weight] for (x, y), weight in total] for total in self.sums]
        lines = None if self.program is None else self.program.splitlines()
        version = VERSION if self.position is None else VERSION_ANYWHERE
        values = (KIND, version, self.target, self.depth, kernels, self.at_least, lines)
        where = {} if self.position is None else {POSITION: list(self.position)}
        return json.dumps({**dict(zip(KEYS, values, strict=True)), **where, "claim": self.claim}) + "\n"

    @property
    def claim(self) -> str:
        """The bound as a sentence."""
        lost = ONE_RESULT.get(self.target)
        means = "" if lost is None else f", each of which gives one result ({lost}),"
        place = "" if self.position is None else ", wherever its results lie together"
        shorter = f"fewer than {counted(self.at_least, 'instruction')}"
        return f"No program of {self.target}'s instructions{means} computes these kernels in {shorter}{place}."


@dataclass(frozen=True)
class RefutedLength:
    """No program of so many instructions, and how many sets of values were met to see that, at how many positions."""

    instructions: int
    sets: int
    positions: int = 1


class FalseClaimError(Exception):
    """A certificate whose claim is not true, or not confirmed; the message is a sentence."""


def parse_certificate(text: str, path: str) -> BoundCertificate:
    """InputError for a text that is no certificate: place, expected, found."""
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(path, expected="a certificate in JSON", found=str(error)) from None
    if not isinstance(given, dict) or given.get("certificate") != KIND:
        raise InputError(path, expected=f'an object with "certificate": "{KIND}"', found=shown(given))
    for key in KEYS:
        if key not in given:
            raise InputError(path, expected=f"the key {key!r}", found="none")
    if given["target"] not in INSTRUCTION_SETS:
        expected = f"a target {' or '.join(INSTRUCTION_SETS)}"
        raise InputError(path, place="target", expected=expected, found=shown(given["target"]))
    version = _integer(given["version"], VERSION, VERSION_ANYWHERE, "version", path)
    if version == VERSION and POSITION in given:
        expected = f"version {VERSION_ANYWHERE} with a position"
        raise InputError(path, place="version", expected=expected, found=str(version))
    return BoundCertificate(
        given["target"],
        _integer(given["depth"], 0, 2 * MAXIMUM_DEPTH, "depth", path),
        tuple(_kernel(one, number, path) for number, one in enumerate(_listed(given["kernels"], "kernels", path), 1)),
        _integer(given["at_least"], 0, LONGEST + 1, "at_least", path),
        _program(given["program"], path),
        None if version == VERSION else _position(given.get(POSITION), path),
    )


def refuted_lengths(certificate: BoundCertificate, threads: int = 1) -> Iterator[RefutedLength]:
    """The lengths below the bound, each when it has been refuted; ends when all is confirmed. `FalseClaimError` where a claim is not true,
    ValueError for more kernels than can be checked, RuntimeError without a C compiler."""
    if certificate.program is not None:
        _check_program(certificate)
    kernels = tuple(total for total in dict.fromkeys(certificate.sums) if total)
    zero = int(not all(certificate.sums))  # takes an instruction that nothing else has a use for
    checked = _KernelsChecked(certificate.target, kernels, certificate.depth, certificate.position is not None)
    below = certificate.at_least - zero
    if below > 0 and checked.are_there:
        raise FalseClaimError(
            f"The kernels take {counted(zero, 'instruction')}, which is less than {certificate.at_least}."
        )
    for length in range(1, 0 if checked.are_there else below):
        sets = positions = 0
        for question in checked.questions(length):
            answer, met = question.ask(length, threads)
            if answer is not Refuted.REFUTED:
                raise FalseClaimError(
                    f"Programs of fewer than {counted(certificate.at_least, 'instruction')} are not ruled out: {length + zero} may do."
                )
            sets, positions = sets + met, positions + 1
        yield RefutedLength(length + zero, sets, positions)


@dataclass
class _KernelsChecked:
    """The kernels (none zero) at their own pixels, or at every common position."""

    target: str
    kernels: tuple[Sum, ...]
    depth: int
    anywhere: bool
    asked: dict[frozenset[Sum], _Question] = field(default_factory=dict)
    tables: dict[bool, FormTables] = field(default_factory=dict)
    """By whether signs are free."""

    @property
    def are_there(self) -> bool:
        """Whether they are the image itself, at some position."""
        image = Sum.image(self.depth)
        if not self.anywhere:
            return all(total == image for total in self.kernels)
        at = [(-x, -y) for total in self.kernels[:1] for (x, y), _ in total]
        return not self.kernels or any(all(total.shifted(by) == image for total in self.kernels) for by in at)

    def questions(self, length: int) -> Iterator[_Question]:
        """What is to be refuted of programs of so many instructions: one question a class of positions. Kernels that come into reach with
        the last instruction have had shorter programs refuted by that."""
        at = positions_in_reach(self.kernels, length * farthest_move(self.target)) if self.anywhere else iter(((0, 0),))
        seen = set[frozenset[Sum]]()
        for position in at:
            kind = square_class([total.shifted(position) for total in self.kernels])
            if kind in seen:
                continue
            seen.add(kind)
            if kind not in self.asked:
                image = Sum.image(self.depth)
                moved = (total.shifted(position) for total in self.kernels)
                self.asked[kind] = _Question(self, tuple(t for t in moved if t != image))
            yield self.asked[kind]

    def tables_of(self, free_signs: bool) -> FormTables:
        """Made when they are first needed."""
        if free_signs not in self.tables:
            seed = f"{self.depth} {[total.terms for total in self.kernels]}"
            self.tables[free_signs] = FormTables(self.target, free_signs, seed)
        return self.tables[free_signs]


class _Question:
    """Whether no program makes sums (distinct, none zero or the image) in so few instructions: asked of ever more."""

    def __init__(self, checked: _KernelsChecked, wanted: tuple[Sum, ...]) -> None:
        if len(wanted) > MOST_TARGETS:
            raise ValueError(f"A bound is checked for at most {MOST_TARGETS} kernels, and these are {len(wanted)}.")
        both = {frozenset((total, -total)) for total in (Sum.image(checked.depth), *wanted)}
        self._signs = [True, False] if checked.target == "auke" and len(both) == 1 + len(wanted) else [False]
        self._checked, self._wanted = checked, wanted
        self._checker = self._next_checker()

    def ask(self, length: int, threads: int) -> tuple[Refuted, int]:
        """The answer, and how many sets of values were met."""
        answer, sets = self._checker.ask(length, threads)
        if answer is Refuted.FOUND and self._signs:  # with signs that are free; perhaps not with the chip's
            self._checker = self._next_checker()
            for shorter in range(1, length + 1):
                answer, sets = self._checker.ask(shorter, threads)
                if answer is not Refuted.REFUTED:
                    break
        return answer, sets

    def _next_checker(self) -> BoundChecker:
        return BoundChecker(self._checked.tables_of(self._signs.pop(0)), self._wanted, self._checked.depth)


def _check_program(certificate: BoundCertificate) -> None:
    by = certificate.position or (0, 0)
    try:
        moved = [total.shifted(by) for total in certificate.sums]
        program = prove(certificate.program or "", moved, certificate.depth)
    except WrongProgramError as error:
        raise FalseClaimError(str(error)) from None
    if program.target != certificate.target:
        raise FalseClaimError(
            f"The program is in the instructions of {program.target}, the bound in those of {certificate.target}."
        )
    if program.instructions < certificate.at_least:
        raise FalseClaimError(
            f"The program itself has {counted(program.instructions, 'instruction')}, fewer than {certificate.at_least}."
        )


def _program(given: Any, path: str) -> str | None:
    if given is None:
        return None
    lines = _listed(given, "program", path)
    for line in lines:
        if not isinstance(line, str):
            raise InputError(path, place="program", expected="lines of text", found=shown(line))
    return "\n".join(lines) + "\n"


def _position(given: Any, path: str) -> Cell:
    if not isinstance(given, list) or len(given) != 2:
        expected = f"[x, y] in a certificate of version {VERSION_ANYWHERE}"
        raise InputError(path, place=POSITION, expected=expected, found=shown(given))
    x, y = (_integer(part, -FARTHEST_CELL, FARTHEST_CELL, POSITION, path) for part in given)
    return x, y


def _kernel(given: Any, number: int, path: str) -> Sum:
    place = f"kernel {number}"
    weights: Mapping[tuple[int, int], int] = {}
    for cell in _listed(given, place, path):
        if not isinstance(cell, list) or len(cell) != 3:
            raise InputError(path, place=place, expected="cells [x, y, weight]", found=shown(cell))
        x, y = (_integer(part, -FARTHEST_CELL, FARTHEST_CELL, place, path) for part in cell[:2])
        weight = _integer(cell[2], -LARGEST_WEIGHT, LARGEST_WEIGHT, place, path)
        weights = {**weights, (x, y): weights.get((x, y), 0) + weight}
    return Sum.of(weights)


def _listed(given: Any, place: str, path: str) -> list[Any]:
    if not isinstance(given, list):
        raise InputError(path, place=place, expected="a list", found=shown(given))
    return given


def _integer(given: Any, least: int, most: int, place: str, path: str) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or not least <= given <= most:
        raise InputError(path, place=place, expected=f"an integer from {least} to {most}", found=shown(given))
    return given
