"""A command that only lists or explains things must not wait for libraries."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def printed(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_listing_strategies_and_reading_budgets_imports_no_library() -> None:
    code = (
        "import sys, kilotune.search.strategy as s, kilotune.search.budget; assert s.strategy_names();"
        "print([m for m in ('numpy', 'optuna', 'sqlalchemy', 'ortools') if m in sys.modules])"
    )
    assert printed(code) == "[]\n"


def test_a_study_without_tpe_does_not_import_optuna() -> None:
    code = (
        "import sys, kilotune.search.study as s; from tests.search.problems import FlatProblem;"
        "from kilotune.search.strategy import make_strategy;"
        "[make_strategy(n, FlatProblem(2, 2, 1), 0) for n in ('local', 'random', 'exhaustive', 'count_tpe', 'greedy')];"
        "print([m for m in ('optuna', 'ortools') if m in sys.modules])"
    )
    assert printed(code) == "[]\n"
