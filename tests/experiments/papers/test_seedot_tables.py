"""SeeDot's figures on real data: the table by hand, and one model through the command."""

from __future__ import annotations

import pytest

from kilotune.evaluators.devices import find_device
from kilotune.evaluators.on_device import missing_tools
from kilotune.experiments.models.catalogue import model_path
from kilotune.experiments.papers.seedot_tables import lines, measured, speed_ups


def test_speed_ups_and_losses_by_hand() -> None:
    row = {
        "model": "bonsai-toy",
        "float": 90.0,
        "ap_fixed 8": 50.0,
        "ap_fixed 16": 88.0,
        "uno 16": {"accuracy": 89.0, "flash": 900, "cycles": 1000.0, "float_cycles": 4000.0},
        "uno 32": {"accuracy": 90.0, "flash": 1900, "cycles": 2500.0, "float_cycles": 4000.0},
        "mkr1000 32": {"accuracy": 90.5, "flash": 3000, "cycles": 700.0, "float_cycles": None},
    }
    assert speed_ups(row) == (4.0, 2.5, None)
    other = {
        **row,
        "uno 16": {**row["uno 16"], "cycles": 250.0},
        "uno 32": {"accuracy": 90.0, "does_not_run": "too large"},
    }
    assert speed_ups(other) == (16.0, None, None)
    shown = list(lines([row, other]))
    assert shown[2] == "| bonsai-toy | 90.00 | 89.00 | 90.50 | 88.00 | 50.00 | 900, 1000 | 4.0x | 2.5x | - |"
    assert "8.0x, 2.5x, - (geometric means)" in shown[5]
    assert shown[5].endswith("1.00, -0.50, 2.00, 40.00")


@pytest.mark.slow
@pytest.mark.skipif(
    any(missing_tools(find_device(board)) is not None for board in ("uno", "mkr1000")), reason="the tools are missing"
)
def test_fixed_point_is_faster_than_floats_and_than_wide_integers() -> None:
    row = measured(model_path("protonn-cancer"))
    over_float, over_wide, on_mkr = speed_ups(row)
    assert over_float is not None
    assert over_wide is not None
    assert on_mkr is not None
    assert over_float > 3.0
    assert over_wide > 1.5
    assert on_mkr > 5.0
    assert abs(row["float"] - row["uno 16"]["accuracy"]) < 2.0
    assert row["uno 16"]["equal"] == 189
