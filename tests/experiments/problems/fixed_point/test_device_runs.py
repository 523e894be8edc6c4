"""On how many samples a program is run on its device."""

from __future__ import annotations

import pytest

from kilotune.experiments.problems.fixed_point.device_runs import samples_on_device
from kilotune.search.space import Measurement, Trial


@pytest.mark.parametrize(
    ("metrics", "samples"),
    [
        ({}, 60),
        ({"cycles": 50_000.0}, 60),
        ({"cycles": 19e6}, 10),
        ({"cycles": 1e9}, 3),
    ],
)
def test_programs_that_take_long_are_run_on_fewer_samples(metrics: dict[str, float], samples: int) -> None:
    assert samples_on_device(Trial(0, {}, Measurement(metrics))) == samples
