"""`import kilotune`: every name is there, of the right module, and nothing is loaded before it is used."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import kilotune
from kilotune.experiments.notebook.tuned_study import TunedStudy
from kilotune.search.space import Direction, Space
from tests.experiments.notebook.spaces import Mixed

ROOT = Path(__file__).parents[2]
FACE = {"kilotune", "kilotune.testing", "kilotune.drawing"}
"""The modules that somebody else's code imports."""

PROMISED = {
    "tune",
    "Space",
    "Decision",
    "Objective",
    "Constraint",
    "Measurement",
    "FlatState",
    "Strategy",
    "load_study",
}


def printed(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_every_public_name_is_the_object_that_its_module_defines() -> None:
    assert set(kilotune.__all__) >= PROMISED
    assert set(kilotune.__all__) == {*kilotune.HOMES, "__version__"}
    for name, home in kilotune.HOMES.items():
        module = importlib.import_module(f"kilotune.{home}")
        assert getattr(kilotune, name) is getattr(module, name)


def test_what_a_type_checker_reads_is_what_is_there() -> None:
    """The imports under TYPE_CHECKING are written beside the table that runs."""
    tree = ast.parse((ROOT / "public" / "__init__.py").read_text())
    (guarded,) = [n for n in tree.body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING"]
    read = {a.name: n.module for n in guarded.body if isinstance(n, ast.ImportFrom) for a in n.names}
    assert read == {name: f"kilotune.{home}" for name, home in kilotune.HOMES.items()}


def test_the_version_is_that_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert kilotune.__version__ == project["version"]


def test_importing_it_imports_nothing_else() -> None:
    code = (
        "import sys, kilotune; print([m for m in sys.modules if m.startswith('kilotune.') or m in ('numpy', 'click')])"
    )
    assert printed(code) == "[]"


def test_writing_a_space_needs_no_library() -> None:
    code = (
        "import sys\nfrom kilotune import Constraint, Decision, FlatState, Measurement, Objective, Space, Strategy\n"
        "print([m for m in ('numpy', 'optuna', 'sqlalchemy', 'click', 'plotly') if m in sys.modules])"
    )
    assert printed(code) == "[]"


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'kilotune' has no attribute 'tunes'"):
        kilotune.tunes  # type: ignore[attr-defined]  # noqa: B018
    assert dir(kilotune) == sorted(kilotune.__all__)


def test_load_study_gives_what_tune_gave(tmp_path: Path) -> None:
    storage = tmp_path / "studies.db"
    made = kilotune.tune(
        "memory", study="kept", storage=storage, strategy="random", budget="12trials", progress=False, cache=False
    )
    loaded = kilotune.load_study("kept", storage)
    assert isinstance(loaded, TunedStudy)
    assert loaded.trials == made.trials
    assert (loaded.status, loaded.best, loaded.front) == (made.status, made.best, made.front)
    assert len(loaded.resume("3trials", progress=False).trials) == len(made.trials) + 3
    assert len(kilotune.load_study("kept", str(storage)).trials) == len(made.trials) + 3


def test_load_study_says_what_it_cannot_load(tmp_path: Path) -> None:
    storage = tmp_path / "studies.db"
    with pytest.raises(kilotune.StoreError, match="no study 'absent'"):
        kilotune.load_study("absent", storage)
    space = Mixed()
    assert isinstance(space, Space)
    assert space.objectives[0].direction is Direction.MINIMIZE
    kilotune.tune(space, study="object", storage=storage, budget="4trials", progress=False)
    with pytest.raises(ValueError, match="a Mixed that was handed over in Python"):
        kilotune.load_study("object", storage)


def deep_imports(code: str) -> list[str]:
    """Modules of the project's own that somebody else's code imports."""
    modules: list[str] = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom):
            modules.append(node.module or "")
        elif isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
    return [module for module in modules if module.partition(".")[0] == "kilotune" and module not in FACE]


PAGES = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_import_the_public_face_only(page: Path) -> None:
    for block in re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL):
        assert deep_imports(block) == []
    assert not re.search(r"`from kilotune\.(?!testing|drawing)\w", page.read_text()), "in a line of text"


def test_a_deep_import_would_be_seen() -> None:
    deep = "import kilotune\nfrom kilotune.testing import check_space\nfrom kilotune.search.space import Space\n"
    assert deep_imports(deep) == ["kilotune.search.space"]
