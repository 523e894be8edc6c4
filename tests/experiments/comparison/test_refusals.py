"""What `tune compare` does not begin: bad input, and another comparison under a name that is taken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kilotune.experiments.commands.exit_status import ExitStatus
from kilotune.experiments.comparison.plan import Case, ComparisonPlan
from kilotune.experiments.comparison.suite import case_of
from kilotune.experiments.studies.request_parsing import request_from
from kilotune.search.comparison_store import comparisons, save_comparison
from kilotune.search.store import Store
from tests.experiments.comparison.comparing import compare, trials

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "Expected --space, --suite, or the --name of a comparison that exists"),
        (("--space", "seedot", "--strategies", "cp"), "'cp' needs a constraint model"),
        (("--space", "seedot", "--strategies", "genius"), "There is no strategy 'genius'"),
        (("--space", "seedot", "--budget", "soon"), "Budget 'soon'"),
        (("--space", "seedot", "--capacity", "2KiB"), "--capacity does not go with the space seedot"),
        (
            ("--suite", "five-spaces", "--strategies", "anneal,count_tpe,optuna:Nonsense"),
            "optuna:Nonsense fits none of the",
        ),
        (("--suite", "text.toml"), "strategies: expected a list of names, found 'greedy'"),
        (("--suite", "also.toml"), "`also` = 'anneal', which is no list of names"),
        (("--suite", "title.toml"), "`title` = '../up', which is not of letters"),
        (("--suite", "none.toml"), "none of the strategies fits the space seedot"),
        (("--suite", "key.toml"), "expected `strategies` and [[case]], found `repeats`"),
        (("--suite", "nowhere"), "nowhere: expected a TOML file, or one of five-spaces"),
        (("--suite", "five-spaces", "--space", "cm"), "--space does not go with --suite"),
        (("--suite", "broken.toml"), "case 2: expected a case, found There is no option 'colour' of the space memory"),
        (("--suite", "twice.toml"), "memory-fastgrnn-digits twice: give case 2 a `title`"),
        (("--space", "cm", "--csv", "no/where.csv"), "--csv no/where.csv: expected a file in a folder that exists"),
        (("--space", "cm", "--csv", "-", "--json", "-"), "would both go to stdout"),
        (("--space", "cm", "--csv", "x", "--markdown", "x"), "--csv x and --markdown x would both go to x"),
        (("--name", "../up"), "expected letters, digits"),
    ],
)
def test_bad_input_is_a_sentence_and_starts_nothing(
    place: dict[str, Any], arguments: tuple[str, ...], sentence: str
) -> None:
    memory = '[[case]]\nspace = "memory"\n'
    (place["cwd"] / "broken.toml").write_text(memory + memory + 'colour = "red"\n')
    (place["cwd"] / "twice.toml").write_text(memory + memory)
    (place["cwd"] / "text.toml").write_text('strategies = "greedy"\n' + memory)
    (place["cwd"] / "also.toml").write_text(memory + 'also = "anneal"\n')
    (place["cwd"] / "title.toml").write_text(memory + 'title = "../up"\n')
    (place["cwd"] / "none.toml").write_text('strategies = ["cp"]\n[[case]]\nspace = "seedot"\n')
    (place["cwd"] / "key.toml").write_text("repeats = 3\n" + memory)
    done = compare(place, *arguments)
    assert done.returncode == ExitStatus.BAD_INPUT
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
    assert not trials(place)
    store = Store(place["env"]["KILOTUNE_STORAGE"])
    assert not comparisons(store)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--seed", "9"), "--seed does not go with --name alone"),
        (("--input", "lenet-digits"), "--input does not go with --name alone"),
        (("--drop", "0"), "--drop does not go with --name alone"),
        (("--strategies", "optuna:Nonsense"), "The strategy optuna:Nonsense fits none of the cases: "),
        (("--strategies", "cp,anneal"), "The strategy anneal fits none of the cases: "),
        (("--budget", "10trials"), "had more seeds, strategies or budget"),
        (("--suite", "five-spaces"), "was of other cases"),
    ],
)
def test_a_stored_comparison_is_not_turned_into_another_one(
    place: dict[str, Any], arguments: tuple[str, ...], sentence: str
) -> None:
    request = request_from("shiftry", input="worked-example", options={"permitted_loss": 0.2})
    plan = ComparisonPlan((Case("one", "shiftry", request.input, ("random",), request.options),), 1, "20trials")
    store = Store(place["env"]["KILOTUNE_STORAGE"])
    save_comparison(store, "c", plan.as_json())
    done = compare(place, "--name", "c", *arguments)
    assert done.returncode == ExitStatus.BAD_INPUT
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
    assert ComparisonPlan.from_json(comparisons(store, "c")[0].plan) == plan
    assert not trials(place)


def test_a_stored_plan_is_extended_by_what_it_was_made_of(tmp_path: Path) -> None:
    """Also where an option is a list, as the banks of a memory are."""
    plan = ComparisonPlan((case_of(request_from("memory"), ("random",)),), 1, "20trials")
    store = Store(str(tmp_path / "studies.db"))
    save_comparison(store, "c", plan.as_json())
    stored = ComparisonPlan.from_json(comparisons(store, "c")[0].plan)
    assert plan.extends(stored)
    assert stored.extends(plan)
    other = request_from("memory", options={"capacity": "2KiB"})
    assert not ComparisonPlan((case_of(other, ("random",)),), 1, "20trials").extends(stored)
