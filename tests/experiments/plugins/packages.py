"""Packages with spaces, as pip would leave them behind: a module and a dist-info beside it."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

from tests import commands

PLAIN = '''
from dataclasses import dataclass

from kilotune.search.flat_state import FlatState
from kilotune.search.space import Decision, Measurement, Objective


@dataclass(frozen=True)
class Sum:
    """The sum of three digits."""

    offset: int = 0
    name = "sum"
    objectives = (Objective("total"),)
    constraints = ()
    fingerprint = property(repr)
    decisions = tuple(Decision(f"digit{i}", tuple(range(5))) for i in range(3))

    def start(self):
        return FlatState(self.decisions, self.offset)

    def evaluate(self, batch):
        return [Measurement({"total": self.offset + sum(c.values())}) for c in batch]


def make(text):
    """The least sum of three digits,
    and an offset.

    Not shown.
    """
    return Sum(int(text or 7))
'''


def install(
    folder: Path, package: str, module: str, source: str, group: str = "kilotune.spaces", **points: str
) -> None:
    """`points`: entry points of the group, what is behind them by name (`_` for `-`)."""
    (folder / f"{module}.py").write_text(source)
    info = folder / f"{package}-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 0.1\n")
    lines = "".join(f"{name.replace('_', '-')} = {value}\n" for name, value in points.items())
    (info / "entry_points.txt").write_text(f"[{group}]\n{lines}")


def environment(folder: Path, *more: Path) -> dict[str, str]:
    """A process that finds these packages, and keeps its studies there."""
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, (folder, *more))),
        "KILOTUNE_STORAGE": str(folder / "studies.db"),
        "COLUMNS": "200",
    }


def tune(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command where these packages are found, in the process of the test, which forgets afterwards what it imported of them."""
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        return commands.tune(folder, environment(folder), *arguments)
    finally:
        sys.path.remove(str(folder))
        for name, module in list(sys.modules.items()):
            if Path(getattr(module, "__file__", None) or "/").parent == folder:
                del sys.modules[name]
