"""Tools end when whoever waits for them does, and take with them what they have begun."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kilotune.evaluators.fpga.tools import NoEndError, ToolChoice, run_tool

WAITING = ToolChoice(("waiting-tool",), None, "", "nothing")

SCRIPT = """#!/bin/sh
sleep 300 &
echo $! > begun.partly
mv begun.partly begun
wait
"""
"""It tells the process that it has begun."""

RUN = """
import signal, sys
from pathlib import Path
from kilotune.evaluators.fpga.tools import run_tool
from tests.evaluators.fpga.test_tools import WAITING
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # who begins tests in the background may have had it ignored
if len(sys.argv) > 2:
    signal.signal(signal.SIGTERM, lambda *_: print("asked to end", flush=True))
run_tool(WAITING, [], Path(sys.argv[1]))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the tool is, and what it writes."""
    (tmp_path / "waiting-tool").write_text(SCRIPT)
    (tmp_path / "waiting-tool").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def is_there(process: int) -> bool:
    """Whether it runs; one that has ended and that nobody has asked about does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def wait_until(is_so: Callable[[], bool]) -> None:
    for _ in range(600):
        if is_so():
            return
        time.sleep(0.05)
    raise AssertionError("it never was")


def started(folder: Path, *more: str) -> tuple[subprocess.Popen[str], int]:
    """A process that waits for the tool, and the one that the tool has begun."""
    running = subprocess.Popen(
        [sys.executable, "-c", RUN, str(folder), *more],
        cwd=Path(__file__).parents[3],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    wait_until((folder / "begun").exists)
    return running, int((folder / "begun").read_text())


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="what runs is read in /proc")
@pytest.mark.parametrize(
    ("number", "send"), [(signal.SIGTERM, os.kill), (signal.SIGHUP, os.killpg), (signal.SIGINT, os.killpg)]
)
def test_a_tool_ends_with_whoever_waits_for_it(number: int, send: Callable[[int, int], None], folder: Path) -> None:
    """SIGHUP and SIGINT go to all that a terminal runs. How the process ends is as without a tool."""
    running, begun = started(folder)
    assert is_there(begun)
    send(running.pid, number)
    assert running.wait(30) == -number
    wait_until(lambda: not is_there(begun))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="what runs is read in /proc")
def test_who_handles_the_signal_still_does(folder: Path) -> None:
    running, begun = started(folder, "handled")
    os.kill(running.pid, signal.SIGTERM)
    said, _ = running.communicate(timeout=30)
    assert said == "asked to end\n"
    assert running.returncode == 1  # by what the tool's end is to it
    assert not is_there(begun)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="what runs is read in /proc")
def test_a_tool_that_takes_too_long_is_ended_with_what_it_has_begun(folder: Path) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)]
    with pytest.raises(NoEndError, match=r"waiting-tool did not end within 0\.5 seconds"):
        run_tool(WAITING, [], folder, seconds=0.5)
    wait_until(lambda: not is_there(int((folder / "begun").read_text())))
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)] == before
