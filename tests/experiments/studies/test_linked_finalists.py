"""Which candidate is taken where a limit is on what is linked, and the estimate that the search went by is off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.evaluators.simulated import DeviceError
from kilotune.experiments.studies.command_time import never
from kilotune.experiments.studies.delivery import kept_delivery
from kilotune.experiments.studies.linked_finalists import CUT_SHORT, MOST_LINKED, linked_as_built, linked_finalist
from kilotune.experiments.studies.measured_finalists import kept_finalist
from kilotune.experiments.studies.storage import open_store
from kilotune.search.budget import Budget
from kilotune.search.result import Result
from kilotune.search.space import Assignment, Constraint, Measurement, Objective, Trial
from kilotune.search.study import Study
from tests.search.problems import FlatProblem

SIDE, LIMIT = 6, 40


@dataclass(frozen=True)
class Sized(FlatProblem):
    """Three decisions of SIDE options, 10 and on; what is estimated is their sum, and who takes more loses less."""

    objectives: tuple[Objective, ...] = (Objective("loss"),)
    constraints: tuple[Constraint, ...] = (Constraint("linked_bytes", LIMIT),)
    reference_point: tuple[float, ...] | None = None

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        sums = (sum(float(option) for option in one.values()) for one in batch)
        return [Measurement({"linked_bytes": size, "loss": 100.0 - size}) for size in sums]


@dataclass
class Linking:
    """A problem whose linked programs take so much more than is estimated, but for those of `less`, which take that much less; none can be
    built above `room`."""

    space: Sized
    off: int
    less: dict[float, int] = field(default_factory=dict)
    room: int = 1000
    linked_limit_bytes: int | None = LIMIT
    linked: list[float] = field(default_factory=list)

    def linked_bytes(self, trial: Trial) -> int:
        estimate = trial.metrics["linked_bytes"]
        self.linked.append(estimate)
        if estimate + self.off > self.room:
            raise DeviceError("The program needs more flash than it has.")
        return int(estimate) + self.off - self.less.get(estimate, 0)


def searched(problem: Linking, folder: Path, trials: int = 150) -> tuple[Study, Result]:
    folder.mkdir(exist_ok=True)
    store = open_store(f"sqlite:///{folder / 'studies.db'}")
    study = Study.create(store, "sized", problem.space, "random", 0, request={})
    return study, study.run(InProcessExecutor(problem.space), Budget(trials=trials))


@pytest.mark.parametrize("off", [-3, 0, 1, 2, 5])
def test_the_best_that_is_linked_within_the_limit_is_taken_and_kept(off: int, tmp_path: Path) -> None:
    problem = Linking(Sized(3, SIDE, 0), off)
    study, result = searched(problem, tmp_path)
    told: list[str] = []
    found = linked_finalist(problem, study, result, never, told.append)  # type: ignore[arg-type]
    assert found is not None
    assert found.kept
    assert found.result.best is not None
    taken = int(found.result.best.metrics["linked_bytes"]) + off
    assert taken == LIMIT, (
        "what the first finalist leaves of the limit, since those beside one that was linked are passed over, is used"
    )
    first = next(i for i, estimate in enumerate(problem.linked) if estimate + off <= LIMIT)
    assert first < MOST_LINKED
    assert told[: first + 1] == [f"linking finalists, {n + 1} so far" for n in range(first + 1)]
    assert told[first + 1 :] == [f"linking programs, {n + 1} so far" for n in range(len(problem.linked) - first - 1)]
    assert found.said is not None
    assert f"links to {problem.linked[first] + off:.0f} bytes, the best of {first + 1} that were linked" in found.said
    assert kept_finalist(problem, study, study.result()).best == found.result.best  # type: ignore[arg-type]
    again = linked_finalist(problem, study, result, lambda: True)  # type: ignore[arg-type]
    assert again is not None
    assert again.result.best == found.result.best, "the time is up: what was kept stays"


def test_smaller_estimates_are_linked_after_many_in_vain(tmp_path: Path) -> None:
    """All that is estimated at 48 to 50 links to 51, and there are more of them than are linked."""
    limit = 50
    space = Sized(4, SIDE, 0, constraints=(Constraint("linked_bytes", limit),))
    problem = Linking(space, 0, less={48.0: -3, 49.0: -2, 50.0: -1}, linked_limit_bytes=limit)
    study, result = searched(problem, tmp_path, trials=600)
    found = linked_finalist(problem, study, result, never)  # type: ignore[arg-type]
    assert found is not None
    assert found.result.best is not None
    assert (found.kept, found.result.best.metrics["linked_bytes"]) == (True, 47.0)
    assert problem.linked.index(47.0) < MOST_LINKED


def test_the_smallest_are_linked_where_all_that_is_likely_is_too_large(tmp_path: Path) -> None:
    problem = Linking(Sized(3, SIDE, 0), 30, less={33.0: 25}, room=68)
    study, result = searched(problem, tmp_path)
    found = linked_finalist(problem, study, result, never)  # type: ignore[arg-type]
    assert found is not None
    assert found.result.best is not None
    assert (found.kept, found.result.best.metrics["linked_bytes"]) == (True, 33.0)


def test_those_that_the_estimate_alone_refuses_are_linked(tmp_path: Path) -> None:
    """Estimates begin at 30, above the limit; programs take 4 less than is estimated."""
    limit = 29
    problem = Linking(Sized(3, SIDE, 0, constraints=(Constraint("linked_bytes", limit),)), -4, linked_limit_bytes=limit)
    study, result = searched(problem, tmp_path)
    assert not result.feasible
    found = linked_finalist(problem, study, result, never)  # type: ignore[arg-type]
    assert found is not None
    assert found.kept
    assert found.result.feasible
    assert found.result.best is not None
    assert int(found.result.best.metrics["linked_bytes"]) - 4 <= limit
    assert kept_finalist(problem, study, study.result()).feasible  # type: ignore[arg-type]


def test_what_other_limits_refuse_is_not_linked(tmp_path: Path) -> None:
    limits = (Constraint("linked_bytes", 29), Constraint("loss", 1.0))
    problem = Linking(Sized(3, SIDE, 0, constraints=limits), -4, linked_limit_bytes=29)
    study, result = searched(problem, tmp_path)
    assert linked_finalist(problem, study, result, never) is None  # type: ignore[arg-type]
    assert not problem.linked


def test_a_limit_that_nobody_keeps_is_said(tmp_path: Path) -> None:
    problem = Linking(Sized(3, SIDE, 0), 30)
    study, result = searched(problem, tmp_path)
    found = linked_finalist(problem, study, result, never)  # type: ignore[arg-type]
    assert found is not None
    assert not found.kept
    assert found.result == result
    assert found.said is not None
    assert found.said.startswith(f"No finalist was linked within {LIMIT} bytes: the smallest of ")
    assert result.best is not None
    assert f"takes {min(problem.linked) + 30:.0f}; trial {result.best.number}, which is shown, takes " in found.said
    assert CUT_SHORT not in found.said
    stored = kept_delivery(problem, study, study.result())  # type: ignore[arg-type]
    assert stored.finalists.said == f"{found.said} `tune resume sized` searches and links on."
    assert not stored.finalists.kept
    problem.off = 0
    later = linked_finalist(problem, study, result, never)  # type: ignore[arg-type]
    assert later is not None
    now = kept_delivery(problem, study, study.result()).finalists  # type: ignore[arg-type]
    assert (now.said, now.kept, now.result.best) == (None, True, later.result.best)


@pytest.mark.parametrize(("flash", "kept"), [(LIMIT, True), (LIMIT + 1, False), (None, False)])
def test_where_no_finalist_was_linked_before_ctrl_c_the_build_for_the_device_tells(
    flash: int | None, kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = Linking(Sized(3, SIDE, 0), 0)
    study, result = searched(problem, tmp_path)
    monkeypatch.setattr(study, "stopped_for_s", lambda: 10.0)
    finalists = linked_finalist(problem, study, result, lambda: True)  # type: ignore[arg-type]
    assert finalists is not None
    assert not finalists.kept
    assert not problem.linked
    assert finalists.said is not None
    assert f"No finalist was linked within {LIMIT} bytes: Ctrl-C came before that; trial" in finalists.said
    stored = kept_delivery(problem, study, study.result()).finalists  # type: ignore[arg-type]
    assert stored.said == f"No finalist has been linked within {LIMIT} bytes yet: `tune resume sized` links some."
    measured = None if flash is None else SimpleNamespace(sizes=SimpleNamespace(flash_bytes=flash))
    found = linked_as_built(problem, finalists, SimpleNamespace(measured=measured))  # type: ignore[arg-type]
    assert found.kept == kept
    assert (found == finalists) != kept
    if kept:
        assert result.best is not None
        best = result.best.number
        assert found.said == f"Trial {best} links to {flash} bytes as it is built for the device, within {LIMIT}."
    assert linked_as_built(problem, finalists, None) == finalists  # type: ignore[arg-type]


@pytest.mark.parametrize(("off", "estimates"), [(0, [37.0]), (4, [37.0, 33.0]), (30, [37.0, 33.0])])
def test_whatever_the_time_a_finalist_is_linked_that_most_likely_keeps_the_limit(
    off: int, estimates: list[float], tmp_path: Path
) -> None:
    """The best that is estimated at a twentieth below it, of those beside each other, and then the smallest."""
    problem = Linking(Sized(3, SIDE, 0), off)
    study, result = searched(problem, tmp_path)
    found = linked_finalist(problem, study, result, lambda: True)  # type: ignore[arg-type]
    assert found is not None
    assert problem.linked == estimates
    assert found.kept == (off < 30)
    assert found.said is not None
    if found.kept:
        assert found.result.best is not None
        best = found.result.best
        size = int(estimates[-1]) + off
        assert best.metrics["linked_bytes"] == estimates[-1]
        assert found.said == f"Trial {best.number} links to {size} bytes, within {LIMIT}. {CUT_SHORT}"
        assert kept_finalist(problem, study, study.result()).best == best  # type: ignore[arg-type]
    else:
        assert found.said.startswith(f"No finalist was linked within {LIMIT} bytes: the smallest of 2 takes 63; trial ")
        assert found.said.endswith(CUT_SHORT)


def test_what_was_linked_stays_where_the_search_finds_better_estimates_until_others_are_linked(tmp_path: Path) -> None:
    problem = Linking(Sized(4, SIDE, 0, constraints=(Constraint("linked_bytes", 60),)), 1, linked_limit_bytes=60)
    study, result = searched(problem, tmp_path, trials=3)
    found = linked_finalist(problem, study, result, lambda: True)  # type: ignore[arg-type]
    assert found is not None
    assert found.kept
    known = found.result.best
    gone_on = study.run(InProcessExecutor(problem.space), Budget(trials=150))
    assert gone_on.best != result.best
    stored = kept_delivery(problem, study, gone_on).finalists  # type: ignore[arg-type]
    assert (stored.kept, stored.said, stored.result.best) == (True, None, known)
    problem.linked.clear()
    without_time = linked_finalist(problem, study, gone_on, lambda: True)  # type: ignore[arg-type]
    assert without_time is not None
    assert not problem.linked
    assert (without_time.result.best, without_time.said) == (known, CUT_SHORT)
    later = linked_finalist(problem, study, gone_on, never)  # type: ignore[arg-type]
    assert later is not None
    assert later.result.best is not None
    assert known is not None
    assert later.result.best.metrics["loss"] < known.metrics["loss"]


def test_time_that_ends_between_finalists_is_said(tmp_path: Path) -> None:
    """The first one is too large; what is linked whatever the time is smaller by as much as that was off."""
    problem = Linking(Sized(3, SIDE, 0), 2)
    study, result = searched(problem, tmp_path)
    found = linked_finalist(problem, study, result, lambda: len(problem.linked) >= 1)  # type: ignore[arg-type]
    assert found is not None
    assert problem.linked == [40.0, 35.0]
    assert found.kept
    assert found.said is not None
    assert found.said.endswith(f"links to 37 bytes, within {LIMIT}. {CUT_SHORT}")


def test_a_descent_that_ends_early_is_said(tmp_path: Path) -> None:
    for early in (True, False):
        problem = Linking(Sized(3, SIDE, 0), -3)
        study, result = searched(problem, tmp_path / str(early))
        found = linked_finalist(problem, study, result, lambda: early and len(problem.linked) >= 1)  # type: ignore[arg-type]  # noqa: B023
        assert found is not None
        assert found.kept
        assert found.said is not None
        assert found.said.endswith(CUT_SHORT) == early


def test_without_a_limit_nothing_is_linked(tmp_path: Path) -> None:
    problem = Linking(Sized(3, SIDE, 0), 0, linked_limit_bytes=None)
    study, result = searched(problem, tmp_path)
    assert linked_finalist(problem, study, result, never) is None  # type: ignore[arg-type]
    assert not problem.linked
