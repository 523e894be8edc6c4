"""A stream whose state comes back is known to its end: the same ticks as those of the whole simulation."""

from __future__ import annotations

import dataclasses

import pytest

from kilotune.codegen.cm.hardware import load_hardware
from kilotune.codegen.onnx.quantise import integer_shape
from kilotune.evaluators.cm.timing import load_timing, simulate
from kilotune.experiments.problems.cm.networks import weightless
from kilotune.spaces.cm.procedure import snake_candidate
from kilotune.spaces.cm.space import CmSpace
from tests.spaces.cm.random_pipelines import random_setting

pytestmark = pytest.mark.skipif(load_timing() is None, reason="no C compiler")

IMAGES, LAST = 30, 6
"""The last images of a stream have nobody behind them, so those may finish sooner than in an endless one."""


def test_images_after_a_repetition_finish_when_the_whole_simulation_says() -> None:
    settled = late = 0
    for seed in range(300):
        setting = random_setting(seed)
        if not setting.pace_ticks:
            setting = dataclasses.replace(setting, pace_ticks=40)
        whole, short = simulate(setting, IMAGES), simulate(setting, IMAGES, settle=True)
        assert (whole.deadlock is None) == (short.deadlock is None), seed
        if whole.deadlock is not None:
            continue
        expected, found = whole.finish_ticks[:-LAST].tolist(), short.finish_ticks[:-LAST].tolist()
        assert found == expected, seed
        settled += 1
        late += found[-1] - found[-2] > setting.pace_ticks
    assert min(settled, late) > 40


def test_a_candidate_measures_as_before() -> None:
    """Golden: the ticks of the whole simulations."""
    space = CmSpace.of(integer_shape(weightless("resnet20")), load_hardware("mesh-8x8-16"))
    ticks = [space.measure(snake_candidate(space, balanced)).metrics["ticks_per_image"] for balanced in (False, True)]
    assert ticks == [2048.0, 2604.0]


def test_the_procedure_begins_with_what_is_measured_soonest() -> None:
    """The replicated network was in the same batch, and takes several times as long: small budgets ended without a mapping."""
    space = CmSpace.of(integer_shape(weightless("resnet20")), load_hardware("mesh-8x8"))
    assert next(space.procedure()) == [snake_candidate(space, False)]


def test_images_that_are_wanted_finish_when_the_whole_simulation_says() -> None:
    late = 0
    for seed in range(200):
        setting = random_setting(seed)
        whole, short = simulate(setting, 8), simulate(setting, 8, wanted=5)
        assert (whole.deadlock is None) == (short.deadlock is None), seed
        if whole.deadlock is None:
            assert short.finish_ticks[:5].tolist() == whole.finish_ticks[:5].tolist(), seed
            late += bool(short.finish_ticks[7] == 0)
    assert late > 50, "it ends before the last image is through"
