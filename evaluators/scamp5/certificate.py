"""Certificates of bounds on programs: a file that says what is claimed, and its check, which takes nobody's word for it.

    {"certificate": "scamp5-program-bound", "version": 1, "target": "auke", "depth": 4,
     "kernels": [[[-1, 0, 1], [0, 0, 2]]], "at_least": 9, "program": ["# auke; image in A; results in A", ...]}

A kernel is a list of cells `[x, y, weight]`, its weights in units of `2**-depth`. The claim: no program of the target's instructions, on
any number of registers, computes the kernels in fewer than `at_least`; and the program, if there is one, does compute them. The check
executes the program's text (`symbolic.py`) and searches all shorter programs with the code of `refutation.py`, which the search that made
the claim has no part in. It repeats that search, in a plainer way: a certificate is no shortcut.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.scamp.instructions import INSTRUCTION_SETS
from kilotune.codegen.scamp.json_values import shown
from kilotune.codegen.scamp.kernel import MAXIMUM_DEPTH
from kilotune.codegen.scamp.sums import Sum
from kilotune.evaluators.scamp5.refutation import LONGEST, MOST_TARGETS, BoundChecker, Refuted
from kilotune.evaluators.scamp5.symbolic import WrongProgramError, prove

KIND, VERSION = "scamp5-program-bound", 1
KEYS = ("certificate", "version", "target", "depth", "kernels", "at_least", "program")
LARGEST_WEIGHT, FARTHEST_CELL = 1 << 40, 1000


@dataclass(frozen=True)
class BoundCertificate:
    """A claim: see the module. `sums` are the kernels in units of `2**-depth`; `program` a text, None where only the bound is claimed."""

    target: str
    depth: int
    sums: tuple[Sum, ...]
    at_least: int
    program: str | None = None

    @property
    def text(self) -> str:
        """The file."""
        kernels = [[[x, y, weight] for (x, y), weight in total] for total in self.sums]
        lines = None if self.program is None else self.program.splitlines()
        values = (KIND, VERSION, self.target, self.depth, kernels, self.at_least, lines)
        return json.dumps(dict(zip(KEYS, values, strict=True))) + "\n"


@dataclass(frozen=True)
class RefutedLength:
    """No program of so many instructions, and how many sets of values were met to see that."""

    instructions: int
    sets: int


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
    _integer(given["version"], VERSION, VERSION, "version", path)
    return BoundCertificate(
        given["target"],
        _integer(given["depth"], 0, 2 * MAXIMUM_DEPTH, "depth", path),
        tuple(_kernel(one, number, path) for number, one in enumerate(_listed(given["kernels"], "kernels", path), 1)),
        _integer(given["at_least"], 0, LONGEST + 1, "at_least", path),
        _program(given["program"], path),
    )


def refuted_lengths(certificate: BoundCertificate, threads: int = 1) -> Iterator[RefutedLength]:
    """The lengths below the bound, each when it has been refuted; ends when all is confirmed. `FalseClaimError` where a claim is not true,
    ValueError for more kernels than can be checked, RuntimeError without a C compiler."""
    if certificate.program is not None:
        _check_program(certificate)
    wanted = tuple(
        total for total in dict.fromkeys(certificate.sums) if total and total != Sum.image(certificate.depth)
    )
    zero = int(any(not total for total in certificate.sums))  # takes an instruction that nothing else has a use for
    below = certificate.at_least - zero
    if not wanted:
        if below > 0:
            raise FalseClaimError(f"The kernels take {zero} instructions, which is less than {certificate.at_least}.")
        return
    if len(wanted) > MOST_TARGETS:
        raise ValueError(f"A bound is checked for at most {MOST_TARGETS} kernels, and these are {len(wanted)}.")
    signs = [True, False] if certificate.target == "auke" and _differ_but_for_signs(wanted, certificate) else [False]
    checker = BoundChecker(certificate.target, wanted, certificate.depth, signs.pop(0))
    for length in range(1, below):
        answer, sets = checker.ask(length, threads)
        if answer is Refuted.FOUND and signs:  # with signs that are free; perhaps not with the chip's
            checker = BoundChecker(certificate.target, wanted, certificate.depth, signs.pop(0))
            answer, sets = _asked_from_below(checker, length, threads)
        if answer is not Refuted.REFUTED:
            raise FalseClaimError(
                f"Fewer than {certificate.at_least} instructions are not ruled out: {length + zero} may do."
            )
        yield RefutedLength(length + zero, sets)


def _asked_from_below(checker: BoundChecker, length: int, threads: int) -> tuple[Refuted, int]:
    for shorter in range(1, length):
        answer, sets = checker.ask(shorter, threads)
        if answer is not Refuted.REFUTED:
            return answer, sets
    return checker.ask(length, threads)


def _differ_but_for_signs(wanted: Sequence[Sum], certificate: BoundCertificate) -> bool:
    both = {frozenset((total, -total)) for total in (Sum.image(certificate.depth), *wanted)}
    return len(both) == 1 + len(wanted)


def _check_program(certificate: BoundCertificate) -> None:
    try:
        program = prove(certificate.program or "", certificate.sums, certificate.depth)
    except WrongProgramError as error:
        raise FalseClaimError(str(error)) from None
    if program.target != certificate.target:
        raise FalseClaimError(
            f"The program is in the instructions of {program.target}, the bound in those of {certificate.target}."
        )
    if program.instructions < certificate.at_least:
        raise FalseClaimError(
            f"The program itself has {program.instructions} instructions, fewer than {certificate.at_least}."
        )


def _program(given: Any, path: str) -> str | None:
    if given is None:
        return None
    lines = _listed(given, "program", path)
    for line in lines:
        if not isinstance(line, str):
            raise InputError(path, place="program", expected="lines of text", found=shown(line))
    return "\n".join(lines) + "\n"


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
