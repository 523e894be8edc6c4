"""Compiled calls that may take long end when they are told to, in the middle."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from kilotune.codegen.scamp.plan import Plan, PlanStep
from kilotune.evaluators.fixed_point import native
from kilotune.evaluators.fixed_point.kernel import load_kernel
from kilotune.experiments.problems.building import build_problem
from kilotune.experiments.studies.request_parsing import request_from
from kilotune.search.candidates import first_candidate
from kilotune.spaces.memory import ejecting, fitting
from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.ejecting import Ejection
from kilotune.spaces.memory.fit_result import FitStatus
from kilotune.spaces.memory.fitting import fits_within
from kilotune.spaces.memory.orders import best_greedy
from kilotune.spaces.reverse_split import exchanging
from tests.experiments.budgets.hard_inputs import write_network
from tests.spaces.memory.problems import random_instance

pytestmark = pytest.mark.skipif(load_kernel() is None, reason="no C compiler")


class ToldError(Exception):
    """What a signal handler raises."""


def told_at_once(call: Callable[[], int], stop: Callable[[], None]) -> int:
    """In place of `interruptible`: the call is told to stop before it begins."""
    stop()
    return call()


def test_the_exact_search_of_placements(monkeypatch: pytest.MonkeyPatch) -> None:
    buffers = BufferArrays.of(random_instance(1, 200))
    rank = np.arange(len(buffers), dtype=np.int32)
    live = int(buffers.section_bytes.max())
    monkeypatch.setattr(fitting, "interruptible", told_at_once)
    answer = fits_within(buffers, rank, live, 1 << 40)
    assert answer.status is FitStatus.STOPPED
    assert answer.nodes < 10_000


def test_the_ejections(monkeypatch: pytest.MonkeyPatch) -> None:
    buffers = BufferArrays.of(random_instance(7, 300))
    _, offsets = best_greedy(buffers)
    live = int(buffers.section_bytes.max())
    assert Ejection(buffers, 1).improve(offsets, live, math.inf) is not None
    monkeypatch.setattr(ejecting, "interruptible", told_at_once)
    assert Ejection(buffers, 1).improve(offsets, live, math.inf) is None


def test_the_exchanges_of_single_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchanging, "interruptible", told_at_once)
    plan = doubled_plan()
    found, looks = exchanging.exchanged(plan, None, 1, 1 << 40)
    assert found == plan
    assert looks < 1 << 20


def test_exchanges_look_once_at_sums_that_coincide() -> None:
    """Multiples of the image are the same sum of three values in hundreds of ways. When each way was passed on the way to any other, a
    million looks took nine seconds, of other programs a twentieth of one."""
    began = time.process_time()
    found, _ = exchanging.exchanged(doubled_plan(), None, 1, 1_000_000)
    assert found is not None
    assert time.process_time() - began < 3.0


def doubled_plan() -> Plan:
    """The first hundred multiples of the image, each the one before and the image."""
    steps = [PlanStep("neg", (0,)), PlanStep("sub", (0, 1))]
    steps += [PlanStep("add", (number, 0)) for number in range(2, 100)]
    return Plan("scamp5", 3, tuple(steps), (100, 73, 51))


def test_the_simulator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One candidate on thousands of samples is one call."""
    stopped: list[int] = []

    def ending(call: Callable[[], int], stop: Callable[[], None]) -> int:
        stop()
        stopped.append(call())
        raise ToldError

    monkeypatch.setattr(native, "interruptible", ending)
    monkeypatch.setattr(native, "QUICK_TERMS", 0)
    space = build_problem(request_from("seedot", input=str(write_network(tmp_path / "net", 8, (2, 2), 200)))).space
    with pytest.raises(ToldError):
        space.evaluate([first_candidate(space)])
    assert stopped == [0]
