"""A capacity is a question: yes, no, or not decided, and why. A capacity below the live sum was refused as bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.experiments.cli import main
from kilotune.experiments.commands.exit_status import ExitStatus
from kilotune.experiments.problems.memory.capacity_answer import Answer, PlacementAnswer, capacity_answer
from kilotune.search.budget import Budget
from kilotune.search.study import Study
from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.bounds import largest_live_sum
from kilotune.spaces.memory.exact import minimise_peak
from kilotune.spaces.memory.instance import Instance
from kilotune.spaces.memory.space import MemorySpace
from tests.spaces.memory.problems import instances, make, random_instance

ALL_AT_ONCE = make((0, 2, 4), (1, 4, 4), (0, 8, 2))


def answered(instance: Instance, capacity: int, strategy: str = "exhaustive", trials: int = 10_000) -> PlacementAnswer:
    space = MemorySpace(instance, capacity)
    result = Study(space, strategy).run(InProcessExecutor(space), Budget(trials=trials))
    return capacity_answer(capacity, space.least_peak_bytes, space.largest_sum.sentence(), result)


def optimum(instance: Instance) -> int:
    bound = largest_live_sum(instance).peak_bytes
    *_, last = minimise_peak(BufferArrays.of(instance), bound)
    return last.peak_bytes


@settings(max_examples=60, deadline=None)
@given(instances(), st.integers(-3, 2))
def test_the_answer_is_the_optimum_s(instance: Instance, spare: int) -> None:
    least = optimum(instance)
    capacity = max(least + spare, 0)
    found = answered(instance, capacity)
    assert found.answer is (Answer.FITS if capacity >= least else Answer.DOES_NOT_FIT)
    assert found.least_bytes <= least
    if capacity >= least:
        assert found.peak_bytes is not None
        assert least <= found.peak_bytes <= capacity


def test_a_capacity_between_the_live_sum_and_the_optimum_is_refuted_by_the_search_or_undecided() -> None:
    made = (random_instance(seed, 12, aligned=True) for seed in range(99))
    instance = next(one for one in made if optimum(one) > largest_live_sum(one).peak_bytes)
    live, capacity = largest_live_sum(instance).peak_bytes, optimum(instance) - 1
    refuted, guessed = answered(instance, capacity), answered(instance, capacity, "random", trials=20)
    assert refuted.answer is Answer.DOES_NOT_FIT
    assert "search" in refuted.proof
    assert refuted.least_bytes == capacity + 1
    assert guessed.answer is Answer.UNDECIDED
    assert guessed.least_bytes == live
    assert f"none takes less than {live}" in guessed.sentence()


@pytest.mark.parametrize("strategy", ["exhaustive", "cp", "local", "random"])
def test_below_the_live_sum_the_buffers_are_the_proof(strategy: str) -> None:
    found = answered(ALL_AT_ONCE, 9, strategy, trials=3)
    assert found.answer is Answer.DOES_NOT_FIT
    assert (found.capacity_bytes, found.least_bytes) == (9, 10)
    assert "program point 1" in found.sentence()


@pytest.mark.parametrize(
    ("capacity", "status", "answer"),
    [("10", ExitStatus.FEASIBLE, "fits"), ("9", ExitStatus.INFEASIBLE, "does not fit")],
)
def test_the_command_says_it_and_the_json_too(
    capacity: str,
    status: ExitStatus,
    answer: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("KILOTUNE_STORAGE", str(tmp_path / "studies.db"))
    monkeypatch.chdir(tmp_path)
    rows = (f"{b.id},{b.lower},{b.upper},{b.size}" for b in ALL_AT_ONCE.buffers)
    Path("in.csv").write_text("\n".join(("id,lower,upper,size", *rows)) + "\n")
    options = (
        "--space",
        "memory",
        "--input",
        "in.csv",
        "--capacity",
        capacity,
        "--output",
        "there",
        "--json",
        "r.json",
    )
    with pytest.raises(SystemExit) as end:
        main(list(options))
    assert end.value.code == status
    assert f"Capacity of {capacity} bytes: {answer}; " in capsys.readouterr().out
    assert json.loads(Path("r.json").read_text())["capacity"]["answer"] == answer


@pytest.mark.parametrize("device", [(), ("--device", "uno")])
def test_a_limit_on_flash_is_refused_with_the_limits_that_there_are(
    device: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KILOTUNE_STORAGE", str(tmp_path / "studies.db"))
    with pytest.raises(SystemExit) as end:
        main(["--space", "memory", "--limit", "flash=4KiB", *device])
    assert end.value.code == ExitStatus.BAD_INPUT
    message = capsys.readouterr().err
    assert "expected --limit ram=SIZE or --capacity SIZE, found --limit flash" in message
