"""What a search imports of other packages it imports before the clock of its budget starts."""

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kilotune.experiments.studies.libraries import load
from tests.experiments.plugins.packages import environment

LATE_IMPORTS = """
import json, sys
from kilotune.experiments.studies.command_time import CommandTime

imported = []
begin = CommandTime.__init__

def begun(self, *arguments, **keywords):
    begin(self, *arguments, **keywords)
    imported.append(set(sys.modules))

CommandTime.__init__ = begun
{search}
packages = {{name.partition(".")[0] for name in set(sys.modules) - imported[0]}}
print(json.dumps(sorted(packages - sys.stdlib_module_names - {{"kilotune"}})))
"""
COMMAND = """
from kilotune.experiments.cli import main
try:
    main({arguments!r})
except SystemExit as end:
    assert not end.code, end.code
"""
PYTHON = (
    "from kilotune import tune; tune('memory', strategy='tpe', budget='2s', stop='stalled=1trials', progress=False)"
)
SMALL = {"rich", "PIL"}
"""Parts of what is there already, in milliseconds."""


def late_imports(folder: Path, search: str) -> set[str]:
    """The packages that a search imports after its clock has started."""
    ran = subprocess.run(
        [sys.executable, "-c", LATE_IMPORTS.format(search=search)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=folder,
        env=environment(folder),
    )
    assert ran.returncode == 0, ran.stderr
    return set(json.loads(ran.stdout.splitlines()[-1]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("space", "strategy"),
    [
        ("seedot", "tpe"),
        ("shiftry", "cp"),
        ("memory", "optuna:RandomSampler"),
        ("memory", "cp"),
        ("cm", "greedy"),
        ("reverse-split", "exhaustive"),
    ],
)
def test_no_budget_pays_for_imports(tmp_path: Path, space: str, strategy: str) -> None:
    asked = ["--space", space, "--strategy", strategy, "--budget", "2s", "--no-output", "--quiet", "--no-cache"]
    assert late_imports(tmp_path, COMMAND.format(arguments=asked)) <= SMALL


@pytest.mark.slow
def test_nor_does_one_in_python(tmp_path: Path) -> None:
    assert late_imports(tmp_path, PYTHON) <= SMALL


def test_a_library_that_takes_its_time_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its import ends when the line has been said."""
    (tmp_path / "slow_solver.py").write_text("import builtins\nassert builtins.said_so.wait(60)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    said, lines = threading.Event(), list[str]()
    monkeypatch.setattr("builtins.said_so", said, raising=False)
    load(("slow_solver",), lambda line: (lines.append(line), said.set()), after_s=0.001)
    assert lines == ["loading slow_solver ..."]
    assert "slow_solver" in sys.modules


def test_what_is_loaded_at_once_is_not_named() -> None:
    lines: list[str] = []
    load(("json", "no_such_library", "numpy:array"), lines.append, after_s=60.0)
    assert lines == []
