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

LATE = """
import json, sys
from kilotune.evaluators import compiled_library
from kilotune.experiments.studies.command_time import CommandTime

imported, before, late = [], [], []
begin, build = CommandTime.__init__, compiled_library._built

def begun(self, *arguments, **keywords):
    begin(self, *arguments, **keywords)
    imported.append(set(sys.modules))

def built(compiler, source, *others):
    (late if imported else before).append(source.name)
    return build(compiler, source, *others)

CommandTime.__init__, compiled_library._built = begun, built
{search}
packages = {{name.partition(".")[0] for name in set(sys.modules) - imported[0]}}
print(json.dumps([sorted(packages - sys.stdlib_module_names - {{"kilotune"}}), before, late]))
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


def late_parts(folder: Path, search: str) -> tuple[set[str], list[str], list[str]]:
    """The packages that a search imports after its clock has started, and the C files that it has compiled before and after that."""
    ran = subprocess.run(
        [sys.executable, "-c", LATE.format(search=search)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=folder,
        env={**environment(folder), "CC": "cc -O0", "XDG_CACHE_HOME": str(folder / "cache")},
    )
    assert ran.returncode == 0, ran.stderr
    imported, before, after = json.loads(ran.stdout.splitlines()[-1])
    return set(imported), before, after


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
@pytest.mark.parametrize(
    "given",
    [
        ["--space", "seedot", "--strategy", "tpe"],
        ["--space", "shiftry"],
        ["--space", "shiftry", "--strategy", "cp", "--rounding", "floor"],
        ["--space", "memory"],
        ["--space", "memory", "--strategy", "optuna:RandomSampler"],
        ["--space", "memory", "--strategy", "cp"],
        ["--space", "cm", "--strategy", "greedy"],
        ["--space", "cm", "--input", "lenet5", "--strategy", "anneal"],
        ["--space", "reverse-split", "--strategy", "exhaustive"],
    ],
    ids=" ".join,
)
def test_no_budget_pays_for_imports_or_for_compiled_c(given: list[str], tmp_path: Path) -> None:
    """Else the first search on a machine finds less in its budget than all others. A TPE's first proposals are random, hence the trials."""
    asked = [*given, "--budget", "2s,40trials", "--no-output", "--quiet", "--no-cache", "--study", "s"]
    imported, before, after = late_parts(tmp_path, COMMAND.format(arguments=asked))
    assert imported <= SMALL
    assert before
    assert after == []


@pytest.mark.slow
def test_nor_does_one_in_python(tmp_path: Path) -> None:
    imported, _, _ = late_parts(tmp_path, PYTHON)
    assert imported <= SMALL


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
