"""Every quantity that a fixed-point program may have little of: as an objective, as a limit, in requests, at the front door."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kilotune.codegen.fixed.arithmetic import Rounding
from kilotune.evaluators.cost_features import FEATURES
from kilotune.evaluators.cost_model import CostTable, Timing
from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.evaluators.fixed_point.measuring import Task
from kilotune.experiments.problems.building import build_problem
from kilotune.experiments.problems.registry import find_entry
from kilotune.experiments.report.command import given_options
from kilotune.experiments.requests.request import TuneRequest, limit_text, parse_limit
from kilotune.experiments.studies.request_parsing import request_from
from kilotune.search.budget import Budget
from kilotune.search.space import Space
from kilotune.search.study import Study
from kilotune.spaces.limits import FixedPointOptions
from kilotune.spaces.objectives import (
    DEFAULT,
    LIMITED,
    LINKED,
    OBJECTIVES,
    QUANTITIES,
    Quantity,
    bit_operations,
    minimized_metric,
    total_ram_bytes,
)
from kilotune.spaces.seedot.space import SeeDotOptions, SeeDotSpace
from kilotune.spaces.shiftry.candidates import ShiftryOptions
from kilotune.spaces.shiftry.space import ShiftrySpace
from tests.codegen.fixed.programs import no_features, shiftry_section_3

TIMING = Timing(CostTable("any", dict.fromkeys(FEATURES, 1.0), {}), 1000)
OTHERS = tuple(name for name in OBJECTIVES if name != DEFAULT)


def spaces(objective: str) -> list[ShiftrySpace | SeeDotSpace]:
    task = Task(*shiftry_section_3(), no_features(), None)
    timed = next(q for q in QUANTITIES if q.name == objective).timed
    asked = {"objective": objective, "rounding": Rounding.FLOOR, "timing": TIMING if timed else None}
    return [
        ShiftrySpace(task, ShiftryOptions(**asked, permitted_loss=0.4)),  # type: ignore[arg-type]
        SeeDotSpace(task, SeeDotOptions(**asked)),  # type: ignore[arg-type]
    ]


def losses(space: Space) -> np.ndarray:
    """Of random candidates, in the first objective: +inf for one that breaks a limit."""
    study = Study(space, "random", 3)
    study.run(InProcessExecutor(space), Budget(trials=400))
    found = []
    for trial in study.trials():
        metrics = trial.measurement.metrics
        feasible = all(
            metrics[c.metric] >= c.limit if c.at_least else metrics[c.metric] <= c.limit for c in space.constraints
        )
        found.append(space.objectives[0].loss(metrics) if feasible else np.inf)
    return np.array(found)


@pytest.mark.slow
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_an_objective_is_measured_bounded_and_part_of_the_fingerprint(objective: str) -> None:
    for space, plain in zip(spaces(objective), spaces(DEFAULT), strict=True):
        assert minimized_metric(objective) in {o.metric for o in space.objectives}
        assert (space.fingerprint == plain.fingerprint) == (objective == DEFAULT)
        assert space.start().bound() <= losses(space).min() < np.inf


@pytest.mark.parametrize("objective", OTHERS)
def test_another_objective_leads_in_shiftry_and_the_permitted_loss_stays(objective: str) -> None:
    space = spaces(objective)[0]
    assert space.objectives[0].metric == minimized_metric(objective)
    assert [c.metric for c in space.constraints] == ["precision_loss"]


@pytest.mark.slow
@pytest.mark.parametrize("objective", [name for name in OBJECTIVES if minimized_metric(name).endswith("_bytes")])
def test_the_least_bytes_are_proved(objective: str) -> None:
    """Their bounds are those of the memory that undecided variables have at least."""
    space = spaces(objective)[0]
    result = Study(space, "exhaustive").run(InProcessExecutor(space), Budget(trials=20_000))
    assert result.proved
    assert result.best is not None
    assert result.bound == result.best.measurement.metrics[minimized_metric(objective)] <= losses(space).min()


@pytest.mark.parametrize("name", [name for name in LIMITED if name != LINKED])  # for that one programs are linked
def test_a_limit_is_read_stored_and_kept(name: str) -> None:
    quantity = LIMITED[name]
    read, amount = parse_limit(f"{name}={quantity.example}")
    assert (read, parse_limit(limit_text(name, amount))) == (name, (name, amount))
    device = "uno" if quantity.timed else None
    request = request_from("shiftry", input="worked-example", limits=[f"{name}={quantity.example}"], device=device)
    stored = TuneRequest.from_json(request.as_json())
    bounded = {c.metric: c.limit for c in build_problem(stored).space.constraints}
    assert bounded[quantity.limited] == amount
    family, entry = find_entry("shiftry")
    assert quantity.limited in dict(family.metrics)
    assert entry.objectives == OBJECTIVES


@pytest.mark.parametrize("quantity", [q for q in QUANTITIES if q.timed], ids=lambda q: q.name)
def test_what_hangs_on_the_processor_needs_a_device(quantity: Quantity) -> None:
    name, option = quantity.name, quantity.option
    stated: dict[str, Any] = {option: 1.0} if option else {"further_limits": {name: 1.0}}
    with pytest.raises(ValueError, match="depend on the processor"):
        FixedPointOptions(**stated)
    if name in OBJECTIVES:
        with pytest.raises(ValueError, match="depend on the processor"):
            FixedPointOptions(objective=name)


def test_bit_operations_are_counted_by_hand() -> None:
    assert bit_operations({"multiplies_8": 3, "multiplies_16": 1, "adds_32": 2, "flash_bytes": 9}) == 3 * 64 + 256 + 64
    space = spaces("bops")[0]
    decided = {d.name: d.options[0] for d in space.decisions}  # 16 bits everywhere
    (wide,) = space.evaluate([decided])
    assert wide.metrics["bit_operations"] == bit_operations(wide.metrics) > 0
    (plain,) = spaces(DEFAULT)[0].evaluate([decided])
    assert "bit_operations" not in plain.metrics  # nobody asked, and stored studies have none


def test_an_objective_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="There is no objective 'speed'; there are memory, "):
        FixedPointOptions(objective="speed")


def test_the_input_takes_ram_on_a_board() -> None:
    """An Uno has 2048 bytes: a program that has 1500 for itself does not fit beside 600 features of a byte."""
    problem = build_problem(
        request_from("shiftry", input="protonn-digits", device="uno", options={"accuracy_drop": 50.0})
    )
    space = problem.space
    assert isinstance(space, ShiftrySpace)
    limits = {c.metric: c.limit for c in space.constraints}
    assert limits["total_ram_bytes"] == limits["ram_bytes"] == 2048
    index = [d.name for d in space.decisions].index("X")
    candidate = {d.name: d.options[0] for d in space.decisions}
    narrow = next(o for o in space.decisions[index].options if str(o).startswith("int8"))
    wide = next(o for o in space.decisions[index].options if str(o).startswith("int16"))
    for option, size in ((narrow, 64), (wide, 128)):
        (found,) = space.evaluate([{**candidate, "X": option}])
        assert found.metrics["total_ram_bytes"] - found.metrics["ram_bytes"] == size
    broken = next(c for c in space.constraints if c.metric == "total_ram_bytes")
    assert broken.violation(total(1500, 600)) == 52
    assert broken.violation(total(1448, 600)) == 0


def total(ram: int, given: int) -> dict[str, float]:
    return {"total_ram_bytes": total_ram_bytes({"ram_bytes": ram, "input_bytes": given})}


def test_what_a_board_implies_is_not_said_again() -> None:
    request = request_from("shiftry", input="protonn-digits", device="uno")
    assert request.options["further_limits"] == {"total-ram": 2048}
    assert given_options(request, find_entry("shiftry")[0]) == ["--device", "uno"]
    stated = request_from("shiftry", input="protonn-digits", device="uno", limits=("total-ram=4096",))
    assert given_options(stated, find_entry("shiftry")[0]) == ["--device", "uno", "--limit", "total-ram=4096"]
