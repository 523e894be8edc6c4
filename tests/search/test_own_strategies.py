"""A module in `search/strategies/` is a strategy by declaring itself there, and nothing else has to be told of it."""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

from kilotune.search import strategies
from kilotune.search.own_strategies import own_strategies
from tests.linked_package import linked_package

BACKWARDS = '''
"""Every candidate, the last one first."""

from kilotune.search.own_strategies import Needs, OwnStrategy
from kilotune.search.strategies.random import all_candidates
from kilotune.search.strategy import UNKNOWN_BOUND, Outcome

print("imported")

STRATEGY = OwnStrategy("BackwardsSearch", Needs.FLAT, "every candidate, the last one first", rank=45)


class BackwardsSearch:
    bound = UNKNOWN_BOUND

    def __init__(self, space, seed):
        self.space = space

    def steps(self):
        for candidate in reversed(list(all_candidates(self.space))):
            yield [candidate]
        return Outcome.EXHAUSTED
'''


def test_what_a_module_declares_is_in_it_and_every_search_is_declared() -> None:
    searches = {}
    for found in pkgutil.iter_modules(strategies.__path__):
        module = importlib.import_module(f"{strategies.__name__}.{found.name}")
        own = [name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
        searches.update((found.name, name) for name in own if hasattr(getattr(module, name), "steps"))
        if found.name in searches:
            assert own_strategies()[found.name] == module.STRATEGY
    assert searches == {name: own.class_name for name, own in own_strategies().items()}


def test_the_names_cost_no_import_of_a_strategy() -> None:
    """Optuna's and OR-tools' take a second."""
    code = (
        "import sys; from kilotune.search.own_strategies import own_strategies; "
        "print(*own_strategies()); print(*(m for m in sys.modules if 'strategies.' in m or m in ('optuna', 'numpy')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names, imported = done.stdout.splitlines()
    assert [*own_strategies()] == names.split()
    assert {"exhaustive", "tpe", "cp"} < set(names.split())
    assert imported == ""


def test_a_declaration_may_be_annotated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = BACKWARDS.lstrip()
    assert "\nSTRATEGY = OwnStrategy(" in text
    (tmp_path / "plain.py").write_text(text)
    (tmp_path / "annotated.py").write_text(text.replace("\nSTRATEGY = ", "\nSTRATEGY: OwnStrategy = "))
    (tmp_path / "none.py").write_text(text.replace("STRATEGY = ", "MY_STRATEGY = "))
    monkeypatch.setattr("kilotune.search.own_strategies.FOLDER", tmp_path)
    own_strategies.cache_clear()
    found = dict(own_strategies())
    own_strategies.cache_clear()
    assert set(found) == {"plain", "annotated"}
    assert found["plain"] == found["annotated"]


@pytest.mark.slow
def test_a_new_module_is_listed_completed_run_compared_and_reported(tmp_path: Path) -> None:
    (linked_package(tmp_path / "package", "search/strategies") / "backwards.py").write_text(BACKWARDS.lstrip())
    environment = {
        **os.environ,
        "PYTHONPATH": str(tmp_path / "package"),
        "KILOTUNE_STORAGE": str(tmp_path / "studies.db"),
    }

    def tune(line: str, **more: str) -> str:
        command = [sys.executable, "-m", "kilotune.experiments", *line.split()]
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, check=False, env={**environment, **more}
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    names = [row["name"] for row in json.loads(tune("list strategies --json"))]
    assert names[names.index("tpe") + 1] == "backwards"
    completed = tune("", COMP_WORDS="tune --strategy back", COMP_CWORD="2", _TUNE_COMPLETE="bash_complete")
    assert "backwards" in completed
    assert "imported" not in completed
    search = "--space memory --budget 20trials --no-output"
    tune(f"{search} --strategy backwards --study one")
    tune("report one --output one.html")
    assert "every candidate, the last one first" in (tmp_path / "one.html").read_text()
    tune("compare --space memory --strategies random,backwards --repeats 2 --budget 5trials --name both")
    tune("report both --output both.html")
    assert "backwards" in (tmp_path / "both.html").read_text()
