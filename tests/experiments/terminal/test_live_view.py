"""The live view: what it says, that its clock goes on between reports, and that it stays off pipes."""

from __future__ import annotations

import fcntl
import io
import json
import math
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from kilotune.experiments.presentation.wording import rate_text
from kilotune.experiments.terminal.live_display import DRAWN_PER_S
from kilotune.experiments.terminal.live_view import LiveView, SearchSubject, clock_text, done, duration, packed
from kilotune.experiments.terminal.progress import describe
from kilotune.experiments.terminal.sparkline import best_so_far_at, sparkline
from kilotune.search.result import Progress, Status
from kilotune.search.space import Constraint, Measurement, Trial
from kilotune.search.study import Study
from tests.search.problems import FlatProblem

pytestmark = pytest.mark.slow

TUNE = [sys.executable, "-m", "kilotune.experiments"]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def report(loss: float, cost: float = 1.0, *, feasible: bool = True, **changes: float | None) -> Progress:
    trial = Trial(7, {}, Measurement({"loss": loss, "weight": cost}))
    known: dict[str, float | None] = {
        "trials": 120,
        "new_trials": 100,
        "bound": None,
        "gap": None,
        "trials_per_s": 50.0,
        "elapsed_s": 2.0,
        "seconds_left": 8.0,
        "trials_left": math.inf,
    }
    return Progress(incumbent=trial, feasible=feasible, **{**known, **changes})  # type: ignore[arg-type]


def drawn(view: LiveView, width: int, **options: bool) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None, **options)
    console.print(view)
    return str(console.file.getvalue())  # type: ignore[attr-defined]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def view(clock: Clock) -> LiveView:
    space = FlatProblem(8, 4, 1, constraints=(Constraint("weight", 2.0),))
    return LiveView(SearchSubject("memory", "<script>[bold]"), Study(space, "refine", 3, name="mine"), clock)


def test_everything_that_matters_is_there(view: LiveView) -> None:
    view.receive(report(9.0))
    view.receive(report(5.0, bound=4.0, gap=0.2, elapsed_s=4.0, seconds_left=6.0))
    text = drawn(view, 100)
    for part in ("memory on <script>[bold]", "refine", "seed 3", "mine", "loss 5", "█▁", "weight 1 ≤ 2 kept"):
        assert part in text
    assert "4 · gap 20.0 % · 120 trials · 50/s" in text
    assert "0:04, 0:06 left" in text


def test_a_broken_limit_is_said_in_words(view: LiveView) -> None:
    view.receive(report(9.0, cost=3.0, feasible=False))
    assert re.search(r"nearest\s+loss 9", drawn(view, 100))
    assert "weight 3 ≤ 2 broken" in drawn(view, 100)


def test_the_clock_goes_on_between_reports(view: LiveView, clock: Clock) -> None:
    assert "starting, 0:00" in drawn(view, 80)
    clock.now = 3.0
    assert "starting, 0:03" in drawn(view, 80)
    view.receive(report(9.0))
    clock.now = 7.0
    assert "0:06, 0:04 left" in drawn(view, 80)
    clock.now = 60.0
    assert "0:00 left" in drawn(view, 80)


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_no_line_is_wider_than_the_terminal(view: LiveView, width: int) -> None:
    view.receive(report(9.0))
    view.receive(report(1234567.891, bound=-1e9, gap=1e6, trials_per_s=0.01, elapsed_s=1e6, seconds_left=1e7))
    lines = drawn(view, width).splitlines()
    assert all(len(line) <= width for line in lines)
    assert len(lines) <= (12 if width >= 40 else 24)


def test_without_unicode(view: LiveView) -> None:
    view.receive(report(9.0))
    view.receive(report(5.0))
    lines = [line.plain for line in view.lines(80, ascii_only=True)]
    assert all(line.isascii() for line in lines)
    assert any("weight 1 <= 2 kept" in line for line in lines)


def test_how_much_is_done() -> None:
    assert done(report(1.0), 0.0) == pytest.approx(0.2)
    assert done(report(1.0), 3.0) == pytest.approx(0.5)
    assert done(report(1.0, trials_left=100.0), 0.0) == pytest.approx(0.5)
    assert done(report(1.0, seconds_left=math.inf), 0.0) is None
    assert clock_text(report(1.0, seconds_left=math.inf), 1.0) == "0:03"
    assert clock_text(report(1.0, seconds_left=math.inf, trials_left=500.0), 1.0) == "0:03, about 0:09 left"
    assert duration(59.9) == "0:59"
    assert duration(3600) == "1:00:00"


def test_a_sparkline_by_hand() -> None:
    assert sparkline([0, 7, 3.5, math.nan]) == "▁█▅ "
    assert sparkline([2, 2]) == "▁▁"
    assert sparkline([math.inf]) == " "
    assert best_so_far_at([(1.0, 9.0), (6.0, 5.0)], 8.0, 4) == [9.0, 9.0, 5.0, 5.0]
    assert math.isnan(best_so_far_at([(5.0, 1.0)], 8.0, 2)[0])


@given(
    st.lists(st.tuples(st.floats(0, 100), st.integers(-50, 50)), min_size=1), st.integers(1, 30), st.floats(0.1, 200)
)
def test_a_sparkline_ends_with_what_is_reached_now(
    steps: list[tuple[float, float]], width: int, until_s: float
) -> None:
    steps = sorted(steps)
    values = best_so_far_at(steps, until_s, width)
    assert len(values) == len(sparkline(values)) == width
    assert values[-1] == steps[-1][1]
    assert {v for v in values if not math.isnan(v)} <= {value for _, value in steps}


def test_items_are_packed() -> None:
    from rich.text import Text

    lines = [line.plain for line in packed("best", [Text("aaaa"), Text("bbbb"), Text("c" * 30)], 20, " · ")]
    assert lines == ["best    aaaa · bbbb", "        " + "c" * 11 + "…"]


def environment(folder: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
    return {**kept, "KILOTUNE_STORAGE": str(folder / "studies.db"), "TERM": "xterm-256color", **more}


SEARCH = ("--space", "shiftry", "--input", "protonn-digits", "--strategy", "random", "--no-output", "--no-cache")


def run_in_terminal(folder: Path, columns: int, *arguments: str, **more: str) -> tuple[str, str]:
    """What a terminal of that width got on stderr, and what stdout (a pipe) got."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(
        [*TUNE, *SEARCH, *arguments],
        stdin=follower, stdout=subprocess.PIPE, stderr=follower, cwd=folder, env=environment(folder, **more),
    )  # fmt: skip
    os.close(follower)
    received = b""
    while True:
        if not select.select([leader], [], [], 60)[0]:
            raise AssertionError("nothing came for a minute")
        try:
            chunk = os.read(leader, 65536)
        except OSError:  # the other end is closed
            break
        received += chunk
    assert process.stdout is not None
    stdout = process.stdout.read().decode()
    os.close(leader)
    assert process.wait() == 0
    return received.decode(), stdout


def test_in_a_real_terminal(tmp_path: Path) -> None:
    seen, stdout = run_in_terminal(tmp_path, 60, "--budget", "5s", "--json", "-", "--study", "mine", "--stop", "never")
    assert json.loads(stdout)["study"] == "mine"  # nothing else is on stdout
    assert "\x1b[?1049h" not in seen  # no alternate screen
    assert "\x1b[1m" in seen
    frames = re.split(r"\x1b\[2K", seen)
    assert any("shiftry on protonn-digits" in frame for frame in frames)
    shown = re.findall(r"(\d:\d\d), \d:\d\d left", seen)
    assert len(shown) >= 2  # drawn again and again, at most a few times in one second of its clock
    assert max(Counter(shown).values()) <= 3 * DRAWN_PER_S
    assert seen.rstrip().endswith("study mine")  # the summary is the last that is left


def test_colours_and_silence_are_respected(tmp_path: Path) -> None:
    seen, _ = run_in_terminal(tmp_path, 60, "--budget", "200trials", "--json", "-", NO_COLOR="1")
    assert not re.search(r"\x1b\[[0-9;]*(3|4|9)[0-7]m", seen)
    seen, stdout = run_in_terminal(tmp_path, 60, "--budget", "200trials", "--json", "-", "--quiet")
    assert seen == ""
    assert json.loads(stdout)


def test_a_pipe_gets_plain_lines(tmp_path: Path) -> None:
    """One at once, and the next would come in an hour."""
    code = (
        "import kilotune.experiments.terminal.live_display as live_display; from kilotune.experiments.cli import main; "
        "live_display.FIRST_PLAIN_LINE_S, live_display.PLAIN_LINE_EVERY_S = 0.0, 3600.0; main()"
    )
    finished = subprocess.run(
        [sys.executable, "-c", code, *SEARCH, "--budget", "2000trials", "--json", "-", "--stop", "never"],
        capture_output=True, text=True, cwd=tmp_path, check=True, env=environment(tmp_path, FORCE_COLOR="1"),
    )  # fmt: skip
    json.loads(finished.stdout)
    first = finished.stderr.splitlines()[0]
    assert re.fullmatch(r"\d+ trials?, \S+/s \| best .*\| \d+ trials left", first)
    assert finished.stderr.count(" trials left") == 1


def test_a_slow_search_is_not_said_to_stand_still() -> None:
    assert [rate_text(rate) for rate in (0.0, 0.04, 2.13, 9.96, 10.0, 1234.5)] == [
        *("0/s", "0.04/s", "2.1/s", "10/s", "10/s", "1234/s")
    ]
    progress = Progress(3, 3, None, False, None, None, 0.04, 75.0, math.inf, math.inf)
    assert describe(progress, ()) == "3 trials, 0.04/s"


def test_after_the_search_it_says_what_is_being_done(view: LiveView) -> None:
    view.receive(report(1.0))
    view.conclude("linking finalists, 3 so far")
    assert "linking" not in drawn(view, 80), "the search still runs"
    view._study.status = Status.FINISHED
    assert "finished: linking finalists, 3 so far" in drawn(view, 80)
