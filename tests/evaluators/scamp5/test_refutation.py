"""The checker of bounds: it refutes what plain enumeration refutes and nothing that a program computes, and tells false certificates."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner

from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.scamp.plan import Plan, computed, evaluate
from kilotune.codegen.scamp.registers import allocate
from kilotune.codegen.scamp.sums import Sum
from kilotune.codegen.scamp.text import format_program
from kilotune.evaluators.scamp5.certificate import (
    BoundCertificate,
    FalseClaimError,
    parse_certificate,
    refuted_lengths,
)
from kilotune.evaluators.scamp5.refutation import (
    BoundChecker,
    FormTables,
    LinearForm,
    Refuted,
    linear_forms,
    load_checker,
)
from kilotune.experiments.cli import cli
from kilotune.spaces.reverse_split.programs import INSTRUCTIONS
from tests.spaces.reverse_split.small_programs import brute_force, random_plan

pytestmark = pytest.mark.skipif(load_checker() is None, reason="needs a C compiler")
DEPTH = 3
ONE = Sum.image(DEPTH)
SOBEL = Sum.of([((x, y), -x * (2 - abs(y))) for x in (-1, 1) for y in (-1, 0, 1)]).scaled(1 << DEPTH)
SHARPEN = Sum.of([((0, 0), 5), *(((x, y), -1) for x, y in ((1, 0), (-1, 0), (0, 1), (0, -1)))])


@cache
def tables_of(target: str, free_signs: bool) -> FormTables:
    return FormTables(target, free_signs, "a test")


def first_length(target: str, sums: Sequence[Sum], free_signs: bool, most: int, depth: int = DEPTH) -> int:
    """The least number of instructions that is not refuted; more than `most` where all are."""
    checker = BoundChecker(tables_of(target, free_signs), sums, depth)
    return next((n for n in range(1, most + 1) if checker.ask(n)[0] is not Refuted.REFUTED), most + 1)


def test_forms_are_what_the_instructions_make() -> None:
    free = linear_forms("auke", free_signs=True)
    assert len(free) == 8  # four moves, a double, a half, a sum, a difference
    assert len(linear_forms("auke", free_signs=False)) == 4 + 1 + 1 + 2 + 4
    macros = linear_forms("scamp5", free_signs=False)
    assert len(macros) == len(set(macros))
    # moves, moves less the value itself; negation, half; sums; differences from either side; sums of three
    assert len(macros) == 12 + 12 + 2 + 13 + 2 * 13 + 1
    assert LinearForm(((0, 0), 1)) not in macros


@pytest.mark.parametrize(("target", "count"), [("auke", 40), ("scamp5", 40)])
def test_lengths_are_those_of_plain_enumeration(target: str, count: int) -> None:
    most = 3 if target == "auke" else 2
    known = brute_force(target, DEPTH, INSTRUCTIONS, most)
    sums = sorted((total for total in known if total and total != ONE), key=lambda total: total.terms)
    for total in random.Random(3).sample(sums, count):
        assert first_length(target, (total,), False, most) == known[total]
        if target == "auke" and total != -ONE:
            assert first_length(target, (total,), True, most) == min(known[total], known.get(-total, 9))


@pytest.mark.parametrize(
    ("target", "length", "others", "count"),
    [("auke", 6, 0, 30), ("auke", 7, 1, 12), ("auke", 7, 2, 8), ("scamp5", 4, 0, 15), ("scamp5", 5, 1, 6)],
)
def test_nothing_that_a_program_computes_is_refuted(target: str, length: int, others: int, count: int) -> None:
    generator = random.Random(17 * length + others)
    for _ in range(count):
        made = random_plan(target, length, 5, generator)
        values = [value for value in dict.fromkeys(evaluate(made)[1:]) if value and value != Sum.image(5)]
        wanted = tuple(dict.fromkeys([*computed(made), *generator.sample(values, min(others, len(values)))]))
        wanted = tuple(total for total in wanted if total and total != Sum.image(5))
        assert first_length(target, wanted, False, length, 5) <= length
        if (
            target == "auke"
            and -Sum.image(5) not in wanted
            and len({frozenset((t, -t)) for t in wanted}) == len(wanted)
        ):
            assert first_length(target, wanted, True, length, 5) <= length


def test_threads_share_the_work_and_say_the_same() -> None:
    checker = BoundChecker(tables_of("auke", True), (SHARPEN,), 0)
    for length, expected in ((8, Refuted.REFUTED),):
        assert {checker.ask(length, threads)[0] for threads in (1, 2, 3)} == {expected}
    one, three = checker.ask(8)[1], checker.ask(8, 3)[1]
    assert one <= three < 1.2 * one  # the first value of a set is looked at by all


def certificate(target: str, plan: Plan, at_least: int) -> BoundCertificate:
    return BoundCertificate(target, plan.depth, computed(plan), at_least, format_program(allocate(plan)))


def sobel_plan() -> Plan:
    from kilotune.spaces.reverse_split.exact import shortest_program

    *_, last = shortest_program((SOBEL,), "scamp5", DEPTH)
    assert last.plan is not None
    return last.plan


def test_a_certificate_is_confirmed_and_read_back() -> None:
    plan = sobel_plan()
    made = certificate("scamp5", plan, 5)
    assert parse_certificate(made.text, "c.json") == made
    for threads in (1, 2):
        assert [length.instructions for length in refuted_lengths(made, threads)] == [1, 2, 3, 4]
    assert list(refuted_lengths(BoundCertificate("auke", 0, (Sum(), Sum.image(0)), 1))) == []
    with_zero = BoundCertificate("auke", 0, (Sum(), Sum.image(0).scaled(3)), 3)
    assert [length.instructions for length in refuted_lengths(with_zero)] == [2]


def test_claims_that_are_not_true_are_told() -> None:
    plan = sobel_plan()
    true = certificate("scamp5", plan, 5)
    with pytest.raises(FalseClaimError, match="itself has 5 instructions, fewer than 6"):
        list(refuted_lengths(replace(true, at_least=6)))
    with pytest.raises(FalseClaimError, match="not ruled out: 5 may do"):
        list(refuted_lengths(replace(true, at_least=6, program=None)))
    with pytest.raises(FalseClaimError, match="is not kernel 1"):
        list(refuted_lengths(replace(true, sums=(-true.sums[0],))))
    with pytest.raises(FalseClaimError, match="in the instructions of scamp5"):
        list(refuted_lengths(replace(true, target="auke")))
    with pytest.raises(FalseClaimError, match="take 1 instruction,"):
        list(refuted_lengths(BoundCertificate("auke", 0, (Sum(),), 2)))


def test_negated_moves_are_told_from_moves() -> None:
    moved = -Sum.image(0).shifted((1, 0))  # one move up to signs, and a negation with them
    assert [length.instructions for length in refuted_lengths(BoundCertificate("auke", 0, (moved,), 2))] == [1]
    with pytest.raises(FalseClaimError, match="2 may do"):
        list(refuted_lengths(BoundCertificate("auke", 0, (moved,), 3)))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"certificate": "other"}, "expected an object"),
        ({"version": 3}, "version"),
        ({"version": 2}, r"position: expected \[x, y\] in a certificate of version 2"),
        ({"version": 2, "position": [0, 1.5]}, "position"),
        ({"target": "avr"}, "target"),
        ({"depth": -1}, "depth"),
        ({"kernels": [[[0, 0]]]}, "kernel 1"),
        ({"kernels": 3}, "kernels"),
        ({"kernels": [[[0, 0, 1.5]]]}, "kernel 1"),
        ({"at_least": True}, "at_least"),
        ({"at_least": 400}, "at_least"),
        ({"program": [3]}, "lines of text"),
    ],
)
def test_what_is_no_certificate_is_refused(change: dict[str, object], said: str, tmp_path: Path) -> None:
    text = BoundCertificate("auke", 0, (SHARPEN,), 3).text
    wrong = json.dumps({**json.loads(text), **change})
    with pytest.raises(InputError, match=said):
        parse_certificate(wrong, "c.json")
    claimed = json.loads(text)
    claimed.pop("claim")  # for people alone: older certificates have none
    assert parse_certificate(json.dumps(claimed), "c.json") == parse_certificate(text, "c.json")
    for missing in claimed:
        with pytest.raises(InputError, match="expected"):
            parse_certificate(json.dumps({k: v for k, v in json.loads(text).items() if k != missing}), "c.json")


def test_the_command_confirms_and_refuses(tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    file.write_text(certificate("scamp5", sobel_plan(), 5).text)
    done = CliRunner().invoke(cli, ["check", str(file), "--jobs", "2"], standalone_mode=False)
    assert done.return_value == 0
    assert "no program has fewer than 5 instructions; its program is a shortest one; what `div` leaves" in done.output
    file.write_text(BoundCertificate("auke", 0, (Sum.image(0).scaled(2),), 1).text)
    done = CliRunner().invoke(cli, ["check", str(file)], standalone_mode=False)
    assert done.output.endswith("no program has fewer than 1 instruction\n")
    assert "one result" not in file.read_text()
    file.write_text(BoundCertificate("scamp5", DEPTH, (SOBEL,), 7).text)
    refused = CliRunner().invoke(cli, ["check", str(file)], standalone_mode=False)
    assert refused.return_value == 1
    assert "not ruled out: 5 may do" in refused.output
    with pytest.raises(InputError, match="expected a certificate"):
        CliRunner().invoke(cli, ["check", str(tmp_path / "none")], standalone_mode=False, catch_exceptions=False)
