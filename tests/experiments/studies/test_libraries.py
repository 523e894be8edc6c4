"""What a search imports of other packages it imports before the clock of its budget starts."""

import json
import shutil
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


LATE_BUILDS = """
import json, subprocess
from kilotune.evaluators import compiled_library
from kilotune.experiments.studies.command_time import CommandTime

begun, builds = [], []
begin, build = CommandTime.__init__, compiled_library._built

def start(self, *arguments, **keywords):
    begin(self, *arguments, **keywords)
    begun.append(self)

def built(compiler, source, *others):
    if begun:
        builds.append(source.name)
    else:
        print("before", source.name)
    return build(compiler, source, *others)

CommandTime.__init__, compiled_library._built = start, built
{search}
print(json.dumps(builds))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "given",
    [
        ["--space", "reverse-split"],
        ["--space", "memory"],
        ["--space", "memory", "--strategy", "tpe"],
        ["--space", "shiftry"],
        ["--space", "shiftry", "--rounding", "floor"],
        ["--space", "seedot", "--strategy", "local"],
        ["--space", "cm", "--input", "lenet5", "--strategy", "anneal"],
    ],
    ids=" ".join,
)
def test_c_code_is_compiled_before_the_clock_starts(given: list[str], tmp_path: Path) -> None:
    """Else the first search on a machine finds less in its budget than all others."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    command = COMMAND.format(arguments=[*given, "--budget", "5trials", "--no-output", "--study", "s"])
    ran = subprocess.run(
        [sys.executable, "-c", LATE_BUILDS.format(search=command)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**environment(tmp_path), "CC": "cc -O0", "XDG_CACHE_HOME": str(tmp_path / "cache")},
    )
    assert ran.returncode == 0, ran.stderr
    assert "before" in ran.stdout
    assert json.loads(ran.stdout.splitlines()[-1]) == []
