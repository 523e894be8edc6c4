"""Which of a program's builds is delivered: by what was asked for, within the limits, as the device has measured them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from kilotune.experiments.problems.device_check import DeviceCheck
from kilotune.experiments.problems.family import CommandOptions
from kilotune.experiments.problems.fixed_point.build_choice import BALANCED, FEWEST_CYCLES, LEAST_FLASH, BuildChoice
from kilotune.experiments.problems.fixed_point.model import ModelOptions
from kilotune.experiments.problems.fixed_point.options import read_options
from kilotune.experiments.studies import chosen_builds
from kilotune.experiments.studies.chosen_builds import BUILDS, built_for, keep_builds, not_compared
from kilotune.search.space import Measurement, Trial
from tests.search.endless_work import Clock

BOARD: Any = SimpleNamespace(name="board", clock_hz=1000, processor="atmega328p")


def build(name: str, flash: int, cycles: float, ram: int = 100, fits: bool = True) -> Any:
    level, _, shape = name.partition(" ")
    sizes = SimpleNamespace(flash_bytes=flash, static_ram_bytes=ram)
    held = {
        "sizes": sizes,
        "cycles": cycles,
        "ram_bytes": ram + int(cycles),
        "fits": fits,
    }  # a stack that no limit is on
    return SimpleNamespace(level=level, shape=shape, build=name, device=BOARD, **held)


BUILDS_SEEN = (
    build("-Os plain", 2000, 100.0),
    build("-O2 plain", 2100, 90.0),
    build("-O3 plain", 2600, 88.0, ram=110),
    build("-O3 unrolled16", 2900, 60.0, ram=130),
    build("-Os compact", 1900, 160.0),
    build("-O3 rows4", 900, 10.0, fits=False),
)
UNO = {"name": "uno", "flash_bytes": 32256, "ram_bytes": 2048, "clock_hz": 16_000_000, "processor": "atmega328p"}
ANY = ModelOptions(level="any", shape="any", device={"name": "board"})


@pytest.mark.parametrize(
    ("asked", "taken"),
    [
        ({}, "-O3 unrolled16"),  # 174 thousand bytes times cycles
        ({"objective": "latency"}, "-O3 unrolled16"),
        ({"objective": "latency", "shape": "plain"}, "-O3 plain"),
        ({"objective": "latency", "level": "Os"}, "-Os plain"),
        ({"front": ("linked",)}, "-Os compact"),
        ({"front": ("cycles",)}, "-O3 unrolled16"),
        ({"front": ("flash", "cycles"), "level": "Os"}, "-Os plain"),  # neither leads, whichever is named first
        ({"front": ("linked", "flash")}, "-Os compact"),
        ({"front": ("flash", "ram")}, "-Os compact"),  # nobody asked for cycles
        ({"further_limits": {"linked": 2800}}, "-O2 plain"),  # of those within the limit 189 thousand
        ({"objective": "latency", "further_limits": {"linked": 2650}}, "-O3 plain"),
        ({"objective": "latency", "further_limits": {"linked": 1950}}, "-Os compact"),
        ({"front": ("linked",), "cycles_limit": 95.0}, "-O2 plain"),
        ({"front": ("linked",), "latency_limit_ms": 95.0}, "-O2 plain"),
        ({"objective": "latency", "further_limits": {"total-ram": 61}}, "-O3 plain"),  # 50, and what builds take more
        ({"objective": "latency", "ram_limit_bytes": 35}, "-O2 plain"),
        ({"cycles_limit": 50.0}, "-O3 unrolled16"),  # none keeps it: the nearest
    ],
)
def test_the_best_build_is_taken_that_keeps_the_limits(asked: dict[str, Any], taken: str) -> None:
    choice = BuildChoice(replace(ANY, **asked), {"ram_bytes": 30.0, "total_ram_bytes": 50.0})
    best = choice.best(BUILDS_SEEN)
    assert best is not None
    assert f"{best.level} {best.shape}" == taken


def test_what_was_chosen_for_is_said_and_that_no_build_keeps_a_limit() -> None:
    check = DeviceCheck(BOARD, 1.0, BUILDS_SEEN[0], BUILDS_SEEN, None)
    assert BuildChoice(ANY, {}).made(check).chosen_for == BALANCED
    assert BuildChoice(replace(ANY, objective="latency"), {}).made(check).chosen_for == FEWEST_CYCLES
    assert BuildChoice(replace(ANY, front=("flash",)), {}).made(check).chosen_for == LEAST_FLASH
    limited = BuildChoice(replace(ANY, front=("linked",), further_limits={"linked": 2650}), {}).made(check)
    assert limited.measured is BUILDS_SEEN[4]
    assert limited.chosen_for == f"{LEAST_FLASH} within the limits", "two builds are beyond them"
    assert limited.better is BUILDS_SEEN[2], "the faster build that is spoken of keeps the limit, too"
    broken = BuildChoice(replace(ANY, cycles_limit=50.0), {}).made(check)
    assert broken.chosen_for == f"{BALANCED}, and is nearest to the limits, which none keeps"
    assert BuildChoice(ANY, {}).made(DeviceCheck(BOARD, 1.0, None, (), "none")).measured is None


def test_builds_are_chosen_by_default_where_there_is_a_device_and_none_was_named() -> None:
    def asked(**given: Any) -> tuple[str, str]:
        options = read_options("shiftry", CommandOptions(given, device=UNO))
        return options["level"], options["shape"]

    assert asked() == ("any", "any")
    assert asked(level="O2") == ("O2", "auto")
    assert asked(shape="compact") == ("Os", "compact")
    assert asked(shape="any") == ("Os", "any")
    assert read_options("shiftry", CommandOptions({}))["level"] == "Os"
    with pytest.raises(ValueError, match=r"^--accumulator-bits any: expected the space shiftry, .+ found seedot\.$"):
        read_options("seedot", CommandOptions({"accumulator_bits": "any"}))
    for name in ("level", "shape"):
        with pytest.raises(ValueError, match=rf"^--{name} any: .* expected --device too, found none\.$"):
            read_options("shiftry", CommandOptions({name: "any"}))


def test_it_is_said_where_no_time_was_left_to_compare_builds() -> None:
    alone = DeviceCheck(BOARD, 1.0, BUILDS_SEEN[0], BUILDS_SEEN[:1], None)
    said = not_compared(Built(), alone)  # type: ignore[arg-type]
    assert said is not None
    assert said.startswith("The budget left no time to build it in other ways")
    assert not_compared(Built(chooses_build=False), alone) is None  # type: ignore[arg-type]
    assert not_compared(Built(), BuildChoice(ANY, {}).made(alone)) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("asked", "shape"),
    [
        ({}, "plain"),
        ({"objective": "latency"}, "unrolled16"),
        ({"cycles_limit": 1e5}, "unrolled16"),
        ({"cycles_limit": 1e5, "shape": "auto"}, "plain"),
        ({"front": ("flash", "cycles")}, "unrolled16"),
        ({"further_limits": {"linked": 2000}}, "compact"),
        ({"front": ("linked",)}, "compact"),
        ({"front": ("linked",), "shape": "auto"}, "plain"),
        ({"further_limits": {"linked": 2000}, "latency_limit_ms": 5.0}, "unrolled16"),
    ],
)
def test_the_search_takes_programs_to_be_built_as_its_limits_are_kept_most_easily(
    asked: dict[str, Any], shape: str
) -> None:
    assert replace(ANY, device=UNO, **asked).shape_name == shape
    assert replace(ANY, device=UNO, **asked).level_name == "Os"


@dataclass
class Built:
    """A problem whose programs are built as `level` and `shape` say; the device finds O2 rows2 best of whatever it runs."""

    level: str = "Os"
    shape: str = "plain"
    chooses_build: bool = True
    device: object = "board"
    ran: list[int] = field(default_factory=list)

    def built(self, level: str, shape: str) -> Built:
        return replace(self, level=level, shape=shape)

    def shaped(self, shape: str) -> Built:
        return replace(self, shape=shape)

    def check_on_device(self, trial: Trial, levels: tuple[str, ...] = ()) -> Any:
        self.ran.append(trial.number)
        return SimpleNamespace(measured=SimpleNamespace(level="-O2", shape="rows2"))

    def float_on_device(self) -> None:
        return None


class Kept:
    """A study that holds nothing but its request."""

    def __init__(self) -> None:
        self.request: dict[str, Any] = {}

    def stored_request(self) -> dict[str, Any]:
        return self.request

    def keep_in_request(self, name: str, value: Any) -> None:
        self.request[name] = value


def test_an_export_is_built_as_was_kept_and_else_as_is_found_best_unless_something_is_asked_for() -> None:
    problem, study, trials = Built(), Kept(), [Trial(number, {}, Measurement({})) for number in range(3)]
    seen: Any = SimpleNamespace(measured=SimpleNamespace(level="-O3", shape="unrolled16"))
    keep_builds(problem, study, [(trials[0], seen), (trials[1], None), (None, seen)])  # type: ignore[arg-type]
    assert study.request[BUILDS] == {"0": ["O3", "unrolled16"]}

    def of(trial: Trial, *asked: str | None) -> tuple[str, str]:
        found: Any = built_for(problem, study, trial, *asked)  # type: ignore[arg-type]
        return found.level, found.shape

    assert of(trials[0]) == ("O3", "unrolled16")
    assert of(trials[0], None, "plain") == ("O3", "plain")
    assert problem.ran == []
    assert of(trials[1]) == ("O2", "rows2")
    assert problem.ran == [1]
    assert of(trials[2], "O1", "compact") == ("Os", "compact")  # the level is the export's own argument
    assert problem.ran == [1]
    keep_builds(problem, study, [(trials[2], seen)])  # type: ignore[arg-type]
    assert set(study.request[BUILDS]) == {"0", "2"}
    problem.chooses_build = False
    assert of(trials[0]) == ("Os", "plain")


def test_an_export_of_a_program_that_runs_too_long_is_built_as_it_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chosen_builds, "MOST_CHOOSING_S", 0.1)

    class Endless(Built):
        def check_on_device(self, trial: Trial, levels: tuple[str, ...] = ()) -> Any:
            self.ran.append(trial.number)
            Clock().work_for_ever()  # it fails the test where nobody abandons it

    problem = Endless()
    found: Any = built_for(problem, Kept(), Trial(1, {}, Measurement({})))  # type: ignore[arg-type]
    assert found is problem
    assert problem.ran
