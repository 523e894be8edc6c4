"""What a comparison shows while it runs, on terminals of several widths."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from kilotune.experiments.comparison.plan import Case, ComparisonPlan, RunKey
from kilotune.experiments.comparison.progress_display import ComparisonDisplay
from kilotune.experiments.comparison.run_news import RunFinished, RunNews

PLAN = ComparisonPlan((Case("shiftry-protonn-digits", "shiftry", "", ("local", "random")),), 3, "3s")


@pytest.mark.parametrize(("missing", "jobs", "left"), [(6, 2, 9), (5, 2, 9), (1, 2, 3), (6, 6, 3), (6, 4, 6)])
def test_at_most_so_long_is_left_as_the_slowest_worker_takes(missing: int, jobs: int, left: int) -> None:
    """Half a run is as long as a whole one."""
    text = io.StringIO()
    Console(file=text, width=80).print(ComparisonDisplay(PLAN, missing, jobs, quiet=True).drawn(0.0))
    assert text.getvalue().splitlines()[0].rstrip() == f"{6 - missing} of 6 runs, at most {left} s left"


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_every_running_run_is_told_whole_on_lines_of_its_own(columns: int) -> None:
    view = ComparisonDisplay(PLAN, 6, 2, quiet=True)
    view(RunFinished(RunKey(0, "local", 0)))
    for strategy, feasible in (("local", True), ("random", False)):
        view(RunNews(RunKey(0, strategy, 1), 2616, 2.25, 1398.0, feasible, 1390.0))
    text = io.StringIO()
    Console(file=text, width=columns, force_terminal=True, color_system=None).print(view.drawn(1.0))
    lines = text.getvalue().splitlines()
    assert max(map(len, lines)) <= columns
    assert lines[0].startswith("1 of 6 runs, at most ")
    assert set(lines[1].rstrip()) <= set("━╸╺")
    assert " ".join(" ".join(lines[2:]).split()) == (
        "shiftry-protonn-digits, local, seed 1: 1398, bound 1390 after 2616 trials, 2.2 CPU-s "
        "shiftry-protonn-digits, random, seed 1: infeasible 1398, bound 1390 after 2616 trials, 2.2 CPU-s"
    )
    first = next(at for at, line in enumerate(lines) if "random" in line)
    assert "local" not in lines[first]
