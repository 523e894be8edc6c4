"""Every script and notebook of examples/ runs as it stands, and finds what it says."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.documents import printed_by
from tests.public.test_face import deep_imports

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"
NOTEBOOKS = {"scikit_learn_to_sketch.ipynb", "pytorch_to_sketch.ipynb"}
SAYS = {
    "tune_a_model.py": r"the paper's procedure: [\d.]+ bytes\nfound: [\d.]+ bytes, widths \{.*\nsource |found: ",
    "place_buffers.py": r"peak [\d.]+ bytes; proved\n",
    "compare_strategies.py": r"local [\d.]+ bytes\nrandom [\d.]+ bytes\n",
    "own_space.py": r"cycles, proved after \d+ of 256",
    "own_strategy.py": r"on 7 small spaces it is what a strategy should be",
}


@pytest.mark.parametrize("name", SAYS)
def test_it_runs(name: str, tmp_path: Path) -> None:
    printed = printed_by(EXAMPLES / name, tmp_path)
    assert re.search(SAYS[name], printed), printed


def test_all_are_listed_and_import_the_public_face_only() -> None:
    scripts = {path.name: path.read_text() for path in EXAMPLES.glob("*.py")}
    assert set(scripts) == set(SAYS)
    assert {path.name for path in EXAMPLES.glob("*.ipynb")} == NOTEBOOKS
    listed = re.findall(r"`(\w+\.(?:py|ipynb))`", (EXAMPLES / "README.md").read_text())
    assert set(listed) == {*scripts, *NOTEBOOKS}
    assert {name: deep_imports(code) for name, code in scripts.items() if deep_imports(code)} == {}


def test_the_space_of_the_example_is_solved_as_by_brute_force(tmp_path: Path) -> None:
    import importlib.util
    import itertools

    spec = importlib.util.spec_from_file_location("own_space", EXAMPLES / "own_space.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["own_space"] = module
    spec.loader.exec_module(module)
    kib, calls = module.KIB, module.CALLS
    cycles = min(
        sum(module.FAST * c if fast else module.SLOW * c for fast, c in zip(chosen, calls, strict=True))
        for chosen in itertools.product((True, False), repeat=8)
        if sum(k for fast, k in zip(chosen, kib, strict=True) if fast) <= 16
    )
    printed = subprocess.run(
        [sys.executable, str(EXAMPLES / "own_space.py")], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    assert f"\n{float(cycles):g}" in printed.replace(".0 ", " ")


def code_of(notebook: str) -> list[dict[str, Any]]:
    """The code cells of a notebook, in order."""
    cells = json.loads((EXAMPLES / notebook).read_text())["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


@pytest.mark.parametrize("name", sorted(NOTEBOOKS))
def test_a_notebook_was_run_from_top_to_bottom(name: str) -> None:
    cells = code_of(name)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert {output["output_type"] for output in outputs} <= {"stream", "display_data", "execute_result"}
    assert not [output for output in outputs if output.get("name") == "stderr"]
    assert "What each layer takes" in "".join(cells[-1]["outputs"][0]["text"])
    assert deep_imports("\n".join("".join(cell["source"]) for cell in cells)) == []


def test_the_notebook_of_scikit_learn_runs(tmp_path: Path) -> None:
    """With two trials and no board, since only names are at stake: what they do has tests of its own."""
    code = "\n".join("".join(cell["source"]) for cell in code_of("scikit_learn_to_sketch.ipynb"))
    short = re.sub(r'(device|objective)=".*?",', "", code)
    short = re.sub(r'budget=".*?"', 'budget="2trials"', short)
    assert (short.count('budget="2trials"'), short.count("device="), short.count("objective=")) == (1, 0, 0)
    (tmp_path / "page.py").write_text(short)
    printed = printed_by(tmp_path / "page.py", tmp_path)
    assert "float accuracy on new images: 9" in printed
    assert "paper's procedure" in printed
    assert "digits_sketch.ino" in printed
