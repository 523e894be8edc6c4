"""SeeDot's Figures 8 and 9 and Table 1: the tables by hand, and one model through the measurements."""

from __future__ import annotations

import pytest

from kilotune.evaluators.devices import find_device
from kilotune.evaluators.on_device import missing_tools
from kilotune.experiments.models.catalogue import model_path
from kilotune.experiments.papers.seedot_floats import figure_8, figure_9, lines_1, lines_8, lines_9


def test_tables_by_hand() -> None:
    seedot = {"accuracy": 89.0, "flash": 900, "ram": 80, "cycles": 1000.0, "equal": 5}
    hybrid = {"accuracy": 90.5, "flash": 1500, "cycles": 6000.0, "equal": 59, "compared": 60}
    floats = {"accuracy": 90.0, "flash": 4000, "cycles": 5000.0}
    row = {"model": "bonsai-toy", "seedot": seedot, "hybrid": hybrid, "float": floats}
    other = {**row, "seedot": {**seedot, "cycles": 4000.0}, "float": {"accuracy": 90.0}}
    shown = list(lines_8([row, other]))
    assert shown[2] == "| bonsai-toy | 90.00 | 90.50 | 89.00 | 1500, 6000 | 59 of 60 | 4000, 5000 | 6.0x | 5.0x |"
    assert shown[3].endswith("| does not fit | 1.5x | - |")
    assert shown[4] == "bonsai: SeeDot over hybrid 3.0x (geometric mean of 2; 1.5x to 6.0x)"
    assert shown[5] == "bonsai: float over hybrid 1.2x (geometric mean of 1; 1.2x to 1.2x)"
    library = {"flash": 2000, "cycles": 2500.0, "equal": 20, "compared": 20}
    shown = list(lines_9([{"model": "protonn-toy", "seedot": seedot, "library": library, "float": floats}]))
    assert shown[2].endswith("| 900, 1000 | 2000, 2500 | 20 of 20 | 4000, 5000 | 5.0x | 2.0x | 2.5x |")
    shown = list(
        lines_1([{"model": "lenet-toy", "parameters": 7, "16": seedot, "32": hybrid, "float": {"accuracy": 90.0}}])
    )
    assert shown[2] == "| lenet-toy | 7 | 16 | 90.00 | 89.00 | 900, 1000 | does not fit | - |"
    assert shown[3] == "| lenet-toy | 7 | 32 | 90.00 | 90.50 | 1500, 6000 | does not fit | - |"


@pytest.mark.slow
@pytest.mark.skipif(missing_tools(find_device("uno")) is not None, reason="the tools of uno are missing")
def test_hybrid_programs_are_slower_than_floats_and_smaller() -> None:
    row = figure_8(model_path("protonn-cancer"))
    assert row["hybrid"]["equal"] == row["hybrid"]["compared"] == 60
    assert row["float"]["cycles"] < row["hybrid"]["cycles"] < 2 * row["float"]["cycles"]
    assert row["hybrid"]["flash"] < row["float"]["flash"]
    assert row["seedot"]["cycles"] < row["hybrid"]["cycles"] / 3


@pytest.mark.slow
@pytest.mark.skipif(missing_tools(find_device("mkr1000")) is not None, reason="the tools of mkr1000 are missing")
def test_tables_are_faster_than_the_library() -> None:
    row = figure_9(model_path("protonn-cancer"))
    assert row["library"]["equal"] == row["library"]["compared"] == 20
    assert row["seedot"]["cycles"] < row["library"]["cycles"] < row["float"]["cycles"]
