"""Several banks and read-only spill: brute force over all choices, the checker's refusals, the options and columns."""

from __future__ import annotations

import dataclasses
import itertools
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.experiments.cli import main
from kilotune.experiments.commands.exit_status import ExitStatus
from kilotune.experiments.problems.memory.options import parse_bank
from kilotune.search.budget import Budget
from kilotune.search.procedure import run_procedure
from kilotune.search.study import Study
from kilotune.spaces.memory.banks import Bank, MemoryMap
from kilotune.spaces.memory.checker import PlacementError, Residence, check_costs
from kilotune.spaces.memory.instance import Buffer, Instance
from kilotune.spaces.memory.load_bound import least_cost_without_addresses
from kilotune.spaces.memory.priced_space import PricedSpace
from kilotune.spaces.memory.procedure import allocation_in_banks, block_allocation
from tests.spaces.memory.problems import instances, least_peak, make

FAST, SLOW, FLASH = Bank("fast", 6), Bank("slow", None, Fraction(1, 2)), Bank("flash", None, Fraction(3), True)
MEMORY = MemoryMap((FAST, SLOW, FLASH))


def least_cost(instance: Instance, memory: MemoryMap) -> Fraction | None:
    """All choices of banks, each bank by brute force."""
    best: Fraction | None = None
    last = max((b.upper for b in instance.buffers), default=1)
    for homes in itertools.product(*(memory.allowed(b) for b in instance.buffers)):
        cost = Fraction(0)
        for k, bank in enumerate(memory.banks):
            own = [b for b, home in zip(instance.buffers, homes, strict=True) if home == k]
            cost += bank.price * sum(b.size for b in own)
            if bank.read_only:
                own = [dataclasses.replace(b, lower=0, upper=last) for b in own]
            peak = least_peak(Instance("part", tuple(own)))
            if not bank.holds(peak):
                break
            cost += peak if bank.peak_counts else 0
        else:
            best = cost if best is None else min(best, cost)
    return best


def test_symmetric_banks_and_moves_are_solved() -> None:
    """CP-SAT's search for symmetries ended in an IndexError here (OR-tools 9.15)."""
    instance = Instance(
        "x",
        (
            Buffer("b0", 4, 6, 5),
            Buffer("b1", 5, 6, 0, 2),
            Buffer("b2", 2, 4, 6, constant=True),
            Buffer("b3", 2, 6, 6, 4),
        ),
    )
    banks = (Bank("ram", 8), Bank("ccm", None, Fraction(1, 2)), Bank("flash", 10, Fraction(1, 2), True))
    space = PricedSpace(instance, MemoryMap(banks, Fraction(2)))
    for strategy in ("cp", "exhaustive"):
        result = Study(space, strategy).run(InProcessExecutor(space), Budget(trials=50))
        assert result.proved
        assert result.best is not None
        assert result.best.measurement.metrics["cost"] == 9.0


@st.composite
def banked(draw: st.DrawFn) -> Instance:
    plain = draw(instances(most=5))
    rows = []
    for b in plain.buffers:
        allowed = draw(st.sampled_from(((), (), ("fast", "slow"), ("slow", "flash"))))
        rows.append(dataclasses.replace(b, banks=allowed, constant=draw(st.booleans())))
    return Instance("banked", tuple(rows))


@settings(max_examples=60)
@given(banked(), st.integers(0, 6))
def test_brute_force_agrees(instance: Instance, flash_bytes: int) -> None:
    memory = MemoryMap((FAST, SLOW, dataclasses.replace(FLASH, capacity_bytes=flash_bytes)))
    expected = least_cost(instance, memory)
    assert expected is not None
    assert least_cost_without_addresses(instance, memory) <= expected
    for strategy in ("exhaustive", "cp"):
        space = PricedSpace(instance, memory)
        result = Study(space, strategy).run(InProcessExecutor(space))
        assert result.proved
        assert result.best is not None
        assert result.best.measurement.metrics["cost"] == result.bound == float(expected)


@settings(max_examples=60)
@given(instances(most=5), st.integers(0, 7))
def test_constants_that_flash_keeps_against_brute_force(instance: Instance, flash_bytes: int) -> None:
    constants = tuple(dataclasses.replace(b, constant=True) for b in instance.buffers)
    memory = MemoryMap((Bank("ram"), Bank("flash", flash_bytes, Fraction(1, 4), True)))
    expected = least_cost(Instance("constants", constants), memory)
    assert expected is not None
    assert least_cost_without_addresses(Instance("constants", constants), memory) <= expected
    for strategy in ("exhaustive", "cp"):
        space = PricedSpace(Instance("constants", constants), memory)
        result = Study(space, strategy).run(InProcessExecutor(space))
        assert result.proved
        assert result.bound == float(expected)


@settings(max_examples=100)
@given(instances(aligned=False))
def test_one_bank_is_the_paper_s_memory(instance: Instance) -> None:
    plain = block_allocation(instance)
    named = allocation_in_banks(instance, MemoryMap((Bank("ram"), Bank("other")), Fraction(1)))
    assert [(r.id, r.offset) for r in named.residences] == [(r.id, r.offset) for r in plain.residences]
    assert {r.bank for r in named.residences} <= {"ram"}


def test_first_fit_goes_to_the_next_bank() -> None:
    space = PricedSpace(make((0, 4, 4), (1, 4, 4), (2, 4, 4)), MemoryMap((Bank("a", 8), Bank("b"))))
    answer = run_procedure(space)
    assert answer is not None
    assert answer.measurement.metrics == {"cost": 4, "bytes_migrated": 0, "a_peak_bytes": 8, "b_peak_bytes": 4}


CONSTANT = Instance(
    "spill",
    (Buffer("x", 0, 4, 4), Buffer("w", 0, 4, 4, 1, ("fast", "flash"), True), Buffer("v", 2, 3, 2, 1, (), True)),
)
STAYS = [Residence("x", 0, 4, 0, "slow"), Residence("w", 0, 4, 0, "flash"), Residence("v", 2, 3, 4, "flash")]


def test_the_bill_of_banks() -> None:
    bill = check_costs(CONSTANT, MEMORY, STAYS)
    assert bill.cost == 4 + 2 + 3 * 6
    assert bill.peak_bytes == {"fast": 0, "slow": 4, "flash": 6}


@pytest.mark.parametrize(
    ("at", "changes", "said"),
    [
        (0, {"bank": "flash"}, "read-only, and it is no constant"),
        (0, {"bank": "nowhere"}, "no such bank"),
        (1, {"bank": "slow"}, "may only be in fast or flash"),
        (2, {"offset": 3}, "share bytes 3 to 3"),
        (0, {"bank": "fast", "offset": 3}, "above the capacity of 6"),
        (0, {"upper": 3}, "no single address at program point 3"),
        (2, {"lower": 1}, "no single address at program point 2"),
    ],
)
def test_broken_placements(at: int, changes: dict[str, object], said: str) -> None:
    broken = [dataclasses.replace(r, **changes) if k == at else r for k, r in enumerate(STAYS)]  # type: ignore[arg-type]
    with pytest.raises(PlacementError, match=said):
        check_costs(CONSTANT, MEMORY, broken)


def test_constants_in_flash_do_not_share_bytes_over_time() -> None:
    apart = Instance("apart", (Buffer("a", 0, 1, 4, constant=True), Buffer("b", 1, 2, 4, constant=True)))
    both = [Residence("a", 0, 1, 0, "flash"), Residence("b", 1, 2, 0, "flash")]
    with pytest.raises(PlacementError, match="share bytes 0 to 3"):
        check_costs(apart, MEMORY, both)


@pytest.mark.parametrize("strategy", ["exhaustive", "cp"])
@pytest.mark.parametrize(("flash_bytes", "cost"), [(8, 2.0), (7, 4.0)])
def test_flash_must_hold_all_that_stays_there(strategy: str, flash_bytes: int, cost: float) -> None:
    apart = Instance("apart", (Buffer("a", 0, 1, 4, constant=True), Buffer("b", 1, 2, 4, constant=True)))
    space = PricedSpace(apart, MemoryMap((Bank("ram"), Bank("flash", flash_bytes, Fraction(1, 4), True))))
    result = Study(space, strategy).run(InProcessExecutor(space))
    assert (result.feasible, result.proved, result.bound) == (True, True, cost)


def test_a_buffer_keeps_its_bank() -> None:
    two = [Residence("x", 0, 2, 0, "slow"), Residence("x", 2, 4, 0, "fast"), *STAYS[1:]]
    with pytest.raises(PlacementError, match="keeps its bank"):
        check_costs(CONSTANT, MEMORY, two)


@pytest.mark.parametrize("strategy", ["local", "random", "tpe", "refine"])
def test_other_strategies(strategy: str) -> None:
    space = PricedSpace(CONSTANT, MEMORY)
    result = Study(space, strategy).run(InProcessExecutor(space), Budget(trials=100))
    assert result.feasible
    assert result.best is not None
    assert result.best.measurement.metrics["cost"] == float(least_cost(CONSTANT, MEMORY) or 0)


CSV = "id,lower,upper,size,banks,constant\nx,0,4,4,,0\nw,0,4,4,fast flash,1\n"
BANKS = ("--bank", "fast=6", "--bank", "flash:2:read-only")
MISTAKES = {
    "no such form": (CSV, ("--bank", "fast=6=7"), ("--bank 'fast=6=7'", "NAME[=SIZE]")),
    "no size": (CSV, ("--bank", "fast=much"), ("--bank 'fast=much'", "found the size 'much'")),
    "negative price": (CSV, ("--bank", "fast=6:-1"), ("expected a price", "'-1'")),
    "price that is no number": (CSV, ("--migration-price", "nan"), ("--migration-price", "'nan'")),
    "bank twice": (CSV, ("--bank", "a", "--bank", "a=4"), ("--bank a", "found it twice")),
    "capacity beside banks": (CSV, (*BANKS, "--capacity", "9"), ("--capacity", "sizes of the banks")),
    "moves without a price": (CSV, ("--moves", "2"), ("--moves", "--migration-price")),
    "bank that is not there": (CSV, ("--bank", "fast=9"), ("buffer 'w'", "expected banks among fast", "'flash'")),
    "no bank for it": (CSV.replace("x,0,4,4,,0", "x,0,4,4,flash,0"), BANKS, ("no bank may hold buffer 'x'", "not constant")),
    "larger than its bank": (CSV.replace("x,0,4,4", "x,0,4,7"), BANKS, ("no bank may hold buffer 'x'", "7 bytes")),
    "too much at once": (CSV + "y,1,2,4,,0\n", BANKS, ("6 bytes in fast are too few", "program point 1", "y (4)")),
    "banks column without banks": (CSV, (), ("buffer 'w'", "expected --bank")),
    "constant of neither": (CSV.replace(",1\n", ",maybe\n"), BANKS, ("in.csv:3:6:", "constant of 0 or 1", "'maybe'")),
    "another space": (CSV, ("--space", "shiftry", "--bank", "a"), ("--bank does not go with the space shiftry: it is for memory",)),
    "too little even with moves": (
        "id,lower,upper,size\nx,0,4,4\ny,0,4,4\n",
        ("--capacity", "7", "--migration-price", "1"),
        ("7 bytes in ram", "program point 0"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_one_mistake_at_a_time(
    mistake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KILOTUNE_STORAGE", str(tmp_path / "studies.db"))
    monkeypatch.chdir(tmp_path)
    text, options, said = MISTAKES[mistake]
    Path("in.csv").write_text(text)
    with pytest.raises(SystemExit) as end:
        main(["--space", "memory", "--input", "in.csv", "--output", "there", *options])
    message = capsys.readouterr().err.strip()
    assert end.value.code == ExitStatus.BAD_INPUT, message
    assert len(message.splitlines()) == 1, message
    for words in said:
        assert words in message
    assert not Path("there").exists()


def test_the_files_of_a_placement_in_banks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KILOTUNE_STORAGE", str(tmp_path / "studies.db"))
    monkeypatch.chdir(tmp_path)
    Path("in.csv").write_text(CSV)
    arguments = ["--space", "memory", "--input", "in.csv", "--study", "s", *BANKS]
    for command in ([*arguments, "--output", "there"], ["resume", "s", "--output", "again"]):
        with pytest.raises(SystemExit) as end:
            main(command)
        assert end.value.code == ExitStatus.FEASIBLE, capsys.readouterr().err
    rows = Path("there/placement.csv").read_text().splitlines()
    assert rows[0] == "id,lower,upper,size,alignment,offset,bank"
    assert {row.split(",")[-1] for row in rows[1:]} == {"fast", "flash"}
    assert Path("again/placement.csv").read_text().splitlines() == rows
    assert "flash" in Path("there/placement.svg").read_text()


def test_forms_of_a_bank() -> None:
    assert parse_bank("sram=2KiB") == Bank("sram", 2048)
    assert parse_bank("ccm=1024:0.5") == Bank("ccm", 1024, Fraction(1, 2))
    assert parse_bank("flash:2:read-only") == Bank("flash", None, Fraction(2), True)
    assert parse_bank("ram") == Bank("ram")


def test_a_model_s_buffers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KILOTUNE_STORAGE", str(tmp_path / "studies.db"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        main(["--space", "memory", "--input", "protonn-digits", "--output", "there", "--quiet"])
    assert end.value.code == ExitStatus.FEASIBLE
    with pytest.raises(SystemExit):
        main(["list", "buffers", "--input", "protonn-digits"])
    assert Path("there/placement.csv").exists()


@pytest.mark.parametrize("strategy", ["exhaustive", "cp"])
def test_a_bound_of_large_sizes_and_fine_prices_excludes_no_optimum(strategy: str) -> None:
    """All buffers fit into the cheap bank, three at a time. Its cost in ten-thousandths of a byte is 134217728000, of which the solver
    says that it is at least 134217728000.00002."""
    size = 1 << 25
    instance = Instance("large", tuple(Buffer(str(k), k, k + 3, size) for k in range(4)))
    dear, cheap = Bank("dear", 2 * size, Fraction("1000.5001")), Bank("cheap", 4 * size, Fraction("0.1"))
    memory = MemoryMap((dear, cheap))
    expected = Fraction(4 * size, 10)
    assert least_cost_without_addresses(instance, memory) == expected
    space = PricedSpace(instance, memory)
    result = Study(space, strategy).run(InProcessExecutor(space))
    assert result.proved
    assert result.best is not None
    assert result.best.measurement.metrics["cost"] == result.bound == float(expected)


@pytest.mark.parametrize("strategy", ["exhaustive", "cp"])
def test_costs_beyond_the_solver_are_measured_without_it(strategy: str) -> None:
    """Ten-thousandths of a byte at a million each, of gigabytes: more than 64 bits hold."""
    size = 1 << 31
    instance = Instance("dear", tuple(Buffer(str(k), k, k + 3, size) for k in range(4)))
    memory = MemoryMap((Bank("dear", 2 * size, Fraction("999999.9999")), Bank("cheap", 4 * size, Fraction("0.1"))))
    assert not memory.fits_a_solver(instance)
    assert memory.fits_a_solver(Instance("small", (Buffer("0", 0, 1, 1 << 20),)), 100 << 20)
    space = PricedSpace(instance, memory)
    result = Study(space, strategy).run(InProcessExecutor(space), Budget(trials=3))
    assert result.best is not None
    assert result.bound is not None
    assert result.bound <= 0.4 * size <= result.best.measurement.metrics["cost"]
