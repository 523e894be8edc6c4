"""Tables and Markdown of comparisons made by hand: what is unfinished, names that are markup, nothing feasible."""

from __future__ import annotations

import dataclasses
import io
import math

import pytest
from rich.console import Console

from kilotune.experiments.comparison.markdown import as_markdown
from kilotune.experiments.comparison.outcome import CaseOutcome, ComparisonOutcome, PaperResult
from kilotune.experiments.comparison.table import legend, print_comparison
from kilotune.search.comparison import RunRecord, compare
from tests.experiments.report.studies import comparison_outcome, run_record


def with_runs(outcome: ComparisonOutcome, runs: list[RunRecord], paper: float, **changes: object) -> ComparisonOutcome:
    case = dataclasses.replace(
        outcome.cases[0],
        comparison=compare(runs, paper, 2.0),
        paper=PaperResult(paper, 1),
        **changes,  # type: ignore[arg-type]
    )
    return dataclasses.replace(outcome, cases=(case,))


def printed(outcome: ComparisonOutcome, columns: int = 150) -> str:
    text = io.StringIO()
    print_comparison(outcome, Console(file=text, width=columns, highlight=False, markup=False))
    return text.getvalue()


def test_what_is_unfinished_is_said_in_every_text() -> None:
    outcome = comparison_outcome()
    assert "runs are complete" not in printed(outcome) + as_markdown(outcome)
    case: CaseOutcome = dataclasses.replace(outcome.cases[0], wanted=9)
    plan = dataclasses.replace(outcome.plan, cases=(case.case, dataclasses.replace(case.case, title="other")))
    partial = dataclasses.replace(outcome, plan=plan, cases=(case,))
    for text in (printed(partial), as_markdown(partial)):
        assert "8 of 9 runs are complete; the others are shown as far as they came." in text
        assert "1 of 2 cases have runs." in text


def test_names_cannot_break_a_table() -> None:
    outcome = comparison_outcome(strategies=("a|b_c", "<i>&amp;~~x~~"))
    case = dataclasses.replace(outcome.cases[0].case, title="odd\n| title #1", space="sp|ace")
    text = as_markdown(dataclasses.replace(outcome, cases=(dataclasses.replace(outcome.cases[0], case=case),)))
    rows = [line for line in text.splitlines() if line.startswith("| a\\|b\\_c |")]
    assert len(rows) == 1
    assert "\n## odd \\| title \\#1\n" in text
    assert "\\<i\\>\\&amp;\\~\\~x\\~\\~" in text
    columns = {line.replace("\\|", "").count("|") for line in text.splitlines() if line.startswith("|")}
    assert columns == {8, 10}


def test_proved_infeasible_is_said_and_not_measured() -> None:
    runs = [dataclasses.replace(run_record(s, 0, [], proved=s == "b"), bound=-math.inf) for s in "ab"]
    outcome = with_runs(comparison_outcome(), runs, math.inf)
    assert "(proved: nothing meets the limits, paper's procedure none)" in printed(outcome)
    assert "| none | nothing meets the limits | breaks a limit | none |" in as_markdown(outcome)
    assert "alike" in printed(outcome)


def test_without_a_proof_nobody_is_said_to_miss_the_optimum() -> None:
    runs = [dataclasses.replace(run_record("a", 0, [50.0]), bound=-math.inf)]
    assert "| 50 found | 20 % | not known |" in as_markdown(with_runs(comparison_outcome(), runs, 60.0))


@pytest.mark.parametrize(
    ("budget", "repeats", "said"),
    [
        ("90s", 10, "10 paired seeds from 0, 90s of CPU time a run"),
        ("150trials", 1, "one seed, 0, 150 trials a run"),
        ("5s,1trial", 2, "2 paired seeds from 0, 5s of CPU time or 1 trial a run"),
    ],
)
def test_the_budget_in_words(budget: str, repeats: int, said: str) -> None:
    outcome = comparison_outcome()
    text = legend(dataclasses.replace(outcome, plan=dataclasses.replace(outcome.plan, budget=budget, repeats=repeats)))
    assert text.startswith(said)
    assert ("longest run" in text) == ("s" not in budget.replace("trials", ""))


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_a_terminal_cuts_no_name_no_number_and_no_word(columns: int) -> None:
    outcome = comparison_outcome(strategies=("optuna:NSGAIISampler", "exhaustive"))
    text = io.StringIO()
    console = Console(
        file=text, width=columns, force_terminal=True, color_system=None, legacy_windows=False, highlight=False
    )
    print_comparison(outcome, console)
    lines = text.getvalue().splitlines()
    assert max(map(len, lines)) <= columns
    assert "\u2026" not in text.getvalue()
    words = text.getvalue().split()
    for word in ("optuna:NSGAIISampler:", "exhaustive:"):
        assert word in words or columns == 120
    joined = " ".join(words)
    for told in ("5 ev,", "4/4", "(rank-biserial);", "4-0-0,"):
        assert told in joined
