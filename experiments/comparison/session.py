"""A comparison from its plan to its last run; going on with one is the same."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from kilotune.evaluators.executors.processes import available_processors
from kilotune.experiments.comparison.plan import ComparisonPlan
from kilotune.experiments.comparison.procedure_results import measure_procedures
from kilotune.experiments.comparison.progress_display import ComparisonDisplay
from kilotune.experiments.comparison.records import RecordReader, missing_runs
from kilotune.experiments.comparison.run_news import RunFinished, RunNews
from kilotune.experiments.comparison.running import run_all
from kilotune.experiments.comparison.suite import fitting, require_use
from kilotune.experiments.comparison.verdict import left_out_sentence, seeds_sentence
from kilotune.search.comparison_store import save_comparison
from kilotune.search.store import Store


def run_comparison(store: Store, name: str, plan: ComparisonPlan, jobs: int | None = None, quiet: bool = False) -> bool:
    """Make what is missing; whether that was all of it (else it was interrupted). StoreError: a name is taken. RunError: a run
    cannot be made, or a worker died."""
    missing = missing_runs(store, name, plan)
    save_comparison(store, name, plan.as_json())
    jobs = min(jobs or available_processors(), max(1, len(missing)))
    with ComparisonDisplay(plan, len(missing), jobs, quiet) as view:
        if missing:
            view.announce(seeds_sentence(plan))
            view.announce(left_out_sentence(plan))
        measure_procedures(store, name, plan, lambda title: view.say(f"the procedure on {title}"))
        if not missing:
            return True
        reader = RecordReader(store)

        def on_news(news: RunNews | RunFinished) -> None:
            if isinstance(news, RunFinished):
                reader.keep(plan, name, news.run)
            view(news)

        return run_all(store, name, plan, missing, jobs, on_news)


def extended(
    plan: ComparisonPlan, strategies: Sequence[str] | None, repeats: int | None, budget: str | None
) -> ComparisonPlan:
    """A stored plan with more of it. ValueError: a strategy fits none of the cases."""
    cases = plan.cases
    if strategies is not None:
        cases = tuple(
            dataclasses.replace(
                case, strategies=tuple(dict.fromkeys((*case.strategies, *fitting(case.request(), strategies))))
            )
            for case in cases
        )
        require_use(cases, strategies)
    return ComparisonPlan(cases, repeats or plan.repeats, budget or plan.budget, plan.seed)
