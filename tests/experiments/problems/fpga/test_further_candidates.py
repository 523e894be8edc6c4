"""What is tried after a candidate that the cost model lets through and that breaks a limit on the board."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from kilotune.evaluators.fpga.boards import Gates, find_board
from kilotune.evaluators.fpga.synthesis import Implementation
from kilotune.experiments.problems.building import build_problem
from kilotune.experiments.problems.fpga.further_candidates import FurtherCandidates, best_within, corrected_goal
from kilotune.experiments.problems.fpga.problem import HardwareProblem
from kilotune.experiments.problems.placing import PlacedTrial
from kilotune.experiments.studies.request_parsing import request_from
from kilotune.search.space import Measurement, Trial
from kilotune.spaces.fpga.candidates import FASTEST, HardwareGoal
from kilotune.spaces.fpga.space import FpgaSpace

BOARD = find_board("ecp5-25f")
PREDICTED = {"luts": 20000.0, "flip_flops": 900.0, "block_rams": 40.0, "multipliers": 8.0}
TIMES = {"latency_us": 4.0, "hardware_cycles": 400.0, "clock_mhz": 100.0}


def tried(made: Implementation | None, no_room: bool = False, **predicted: float) -> PlacedTrial:
    """A candidate that broke something."""
    metrics = {**PREDICTED, **TIMES, **predicted}
    return PlacedTrial(Trial(0, {}, Measurement(metrics)), made, "It does not hold.", no_room)


def test_limits_are_divided_by_how_much_more_was_measured_than_predicted() -> None:
    """30 000 look-up tables for 20 000 predicted: of 24 288 there may be 16 192 predicted; 8 us for 4: of 6 us 3."""
    goal = HardwareGoal("latency", 6.0)
    slow = tried(Implementation(Gates(30000, 1000, 40, 8), 50.0))
    found = corrected_goal(goal, BOARD, [slow])
    assert found.budget == Gates(16192, 24288, 56, 28)
    assert found.latency_limit_us == pytest.approx(3.0)
    assert corrected_goal(found, BOARD, []) == found


def test_the_tightest_of_several_holds_and_each_kind_is_its_own() -> None:
    first, second = (
        tried(Implementation(Gates(1000, 1000, blocks, 8), 100.0), block_rams=predicted)
        for blocks, predicted in ((60, 40.0), (70, 35.0))
    )
    for order in ([first, second], [second, first]):
        assert corrected_goal(FASTEST, BOARD, order).budget == Gates(24288, 24288, 28, 28)


def test_no_room_without_a_figure_takes_a_tenth_of_the_look_up_tables() -> None:
    assert corrected_goal(FASTEST, BOARD, [tried(None, no_room=True)]).budget == Gates(18000, 24288, 56, 28)
    assert corrected_goal(FASTEST, BOARD, [tried(None)]) == FASTEST, "a tool that fails says nothing of the model"
    assert corrected_goal(FASTEST, BOARD, [tried(Implementation(Gates(9, 9, 9, 9), 99.0))]) == FASTEST


def test_what_may_be_predicted_beyond_the_board_is_held_against_the_board_once_it_is_measured() -> None:
    """372 look-up tables for 499 predicted: of 370 there may be 496 predicted, though 518 were let through before."""
    board = replace(BOARD, gates=replace(BOARD.gates, luts=370))
    goal = HardwareGoal(budget=replace(board.gates, luts=518))
    fits, large = (tried(Implementation(Gates(luts, 100, 0, 0), 99.0), luts=499.0) for luts in (369, 372))
    assert corrected_goal(goal, board, [fits]) == goal
    assert corrected_goal(goal, board, [large]).budget == replace(board.gates, luts=496)


@pytest.fixture(scope="module")
def space() -> FpgaSpace:
    """The worked example's, fewest look-up tables within 0.2 us."""
    asked = request_from("fpga", input="worked-example", objective="luts", limits=["latency=0.2us"])
    built = build_problem(asked)
    assert isinstance(built, HardwareProblem)
    assert isinstance(built.space, FpgaSpace)
    return built.space


def measured(trial: Trial, slower: float) -> PlacedTrial:
    """A trial whose clock turned out so many times slower than predicted, beyond the limit on latency."""
    metrics: Mapping[str, float] = trial.measurement.metrics
    gates = Gates(*(round(metrics[kind]) for kind in ("luts", "flip_flops", "block_rams", "multipliers")))
    return PlacedTrial(trial, Implementation(gates, metrics["clock_mhz"] / slower), "Too slow.")


def test_the_model_is_asked_for_the_best_candidate_within_tightened_limits(space: FpgaSpace) -> None:
    """So slow that only a faster design can hold the limit: it takes more look-up tables, and no fewer would do."""
    best, _ = best_within(space, space.goal, {})
    assert best is not None
    first = Trial(0, best, space.evaluate([best])[0])
    latency = first.measurement.metrics["latency_us"]
    refused = measured(first, 1.02 * 0.2 / latency)
    candidates = FurtherCandidates(space, [first], 3, 7)
    assert candidates.next([]) == first
    second = candidates.next([refused])
    assert second is not None
    assert second.number == 7
    assert second.measurement.metrics["latency_us"] < latency / 1.02 + 1e-9
    assert second.measurement.metrics["luts"] >= first.measurement.metrics["luts"]
    assert candidates.verdict is None
    found_before = Trial(3, second.assignment, second.measurement)
    assert FurtherCandidates(space, [first, found_before], 3, 7).next([refused]) == found_before


def test_that_the_model_has_nothing_is_a_verdict_and_other_trials_are_tried(space: FpgaSpace) -> None:
    plain = space.choices.answers({}, True, 1)
    trials = [Trial(number, plain, space.evaluate([plain])[0]) for number in range(3)]
    hopeless = measured(trials[0], 100.0)
    candidates = FurtherCandidates(space, trials, 3, 3)
    assert candidates.next([hopeless]) == trials[1]
    assert candidates.verdict == "The cost model, corrected by what was measured, has no candidate within the limits."
    assert candidates.next([hopeless, measured(trials[1], 100.0)]) == trials[2]
    assert candidates.next([hopeless] * 3) is None, "three are enough"


def test_without_a_number_only_trials_of_the_search_are_tried(space: FpgaSpace) -> None:
    plain = space.choices.answers({}, True, 1)
    trial = Trial(0, plain, space.evaluate([plain])[0])
    assert FurtherCandidates(space, [trial], 3).next([measured(trial, 100.0)]) is None


def test_after_too_few_pins_no_candidate_with_the_same_pins_is_tried(space: FpgaSpace) -> None:
    plain = space.choices.answers({}, True, 1)
    trials = [Trial(number, plain, space.evaluate([plain])[0]) for number in range(2)]
    candidates = FurtherCandidates(space, trials, 3, 2)
    assert candidates.next([PlacedTrial(trials[0], None, "Too few pins.", no_pins=True)]) is None
    assert candidates.verdict == "Every other candidate has as many pins: its features and results are as wide."
