"""Pages and news as text: templates filled in, numbers written out. All names are escaped by the templates."""

from __future__ import annotations

import datetime
import math
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import quote

from kilotune.experiments.comparison.plan import ComparisonPlan
from kilotune.experiments.dashboard.optuna_pages import MOST_TRIALS
from kilotune.experiments.dashboard.overview import Entry, standing_words
from kilotune.experiments.presentation.wording import gap_text, number
from kilotune.experiments.problems.metric_names import metric_label
from kilotune.experiments.problems.problem import Problem
from kilotune.experiments.report.page import environment
from kilotune.experiments.studies.measured_finalists import kept_finalist
from kilotune.experiments.terminal.live_view import duration
from kilotune.search.comparison_store import ComparisonRow
from kilotune.search.stored_rows import StudyRow
from kilotune.search.study import Study

OWN_PAGES = Path(__file__).parent / "pages"


class Pages:
    """`assets`: addresses of files by name; `optuna`: whether optuna-dashboard is there."""

    def __init__(self, place: str, assets: Mapping[str, str], optuna: bool) -> None:
        self._place, self._optuna = place, optuna
        self._templates = environment(OWN_PAGES)
        self._templates.globals["assets"] = assets

    def overview(self) -> str:
        """All studies; the rows come as news."""
        return self._fill("overview.html", place=self._place, optuna=self._optuna)

    def study(self, row: StudyRow) -> str:
        """One study without what changes."""
        return self._fill(
            "study.html",
            name=row.name,
            space=row.space,
            input=PurePath(str(row.request.get("input") or "")).name,
            strategy=row.strategy,
            seed=row.seed,
            budget=row.budget,
            quoted=shlex.quote(row.name),
            optuna=f"/optuna/?name={quote(row.name, safe='')}" if self._optuna else None,
            most=MOST_TRIALS,
        )

    def comparison(self, row: ComparisonRow) -> str:
        """One comparison without what changes."""
        plan = ComparisonPlan.from_json(row.plan)
        return self._fill(
            "comparison.html",
            name=row.name,
            cases=len(plan.cases),
            strategies=_strategies(plan),
            repeats=plan.repeats,
            budget=plan.budget,
        )

    def message(self, title: str, text: str) -> str:
        """Something went wrong."""
        return self._fill("message.html", title=title, text=text)

    def overview_news(self, entries: Sequence[Entry], rows: Sequence[ComparisonRow], whole: bool) -> dict[str, Any]:
        """Rows of both tables. `whole`: nothing is still being read."""
        alone = [entry for entry in entries if entry.comparison is None]
        running = sum(entry.running > 0 for entry in entries)
        counts = f"{len(entries)} studies, {running} running" + ("" if whole else "; reading")
        return {
            "facts": {"counts": counts},
            "slots": {"comparisons": bool(rows), "empty": not entries, "studies": bool(alone)},
            "rows": {"studies": self._study_rows(alone), "comparisons": self._comparison_rows(rows, entries)},
            "running": running > 0,
            "more": not whole,
        }

    def study_news(
        self,
        row: StudyRow,
        watched: tuple[Problem, Study] | None,
        running: int,
        version: str,
        html: str | None,
        current: bool,
    ) -> dict[str, Any]:
        """Facts, and the sections where the page does not have them yet. `watched`: None where its space cannot be built."""
        study = None if watched is None else watched[1]
        proved = study is not None and study.is_proved() and len(study.space.objectives) == 1
        facts = {
            "status": standing_words(row, running, proved, None if study is None else study.front.feasible),
            "trials": str(row.trials),
            "elapsed": duration(row.elapsed_s),
            "best": "",
            "bound": "",
            "gap": "",
        }
        if watched is not None:
            problem, study = watched
            result, leading = kept_finalist(problem, study, study.result()), study.space.objectives[0]
            value = None if result.best is None else result.best.measurement.metrics.get(leading.metric)
            facts["leading"] = metric_label(leading.metric) if result.feasible else "nearest to the limits"
            facts["best"] = "" if value is None else number(value)
            facts["bound"] = "" if result.bound is None else number(result.bound)
            facts["gap"] = _percent(result.gap)
        return {"facts": facts, "running": running > 0, "more": not current, "version": version, "html": html}

    def comparison_news(
        self, row: ComparisonRow, runs: Sequence[Entry], version: str, html: str | None, current: bool
    ) -> dict[str, Any]:
        """Facts, sections where the page does not have them yet, and a row a run."""
        wanted, running = len(list(ComparisonPlan.from_json(row.plan).runs())), sum(run.running > 0 for run in runs)
        return {
            "facts": {
                "status": f"{running} running" if running else "not running",
                "begun": f"{len(runs)} of {wanted}",
            },
            "rows": {"studies": self._study_rows(runs)},
            "running": running > 0,
            "more": not current,
            "version": version,
            "html": html,
        }

    def _study_rows(self, entries: Sequence[Entry]) -> str:
        return self._fill("rows.html", rows=[_study_row(entry) for entry in entries])

    def _comparison_rows(self, rows: Sequence[ComparisonRow], entries: Sequence[Entry]) -> str:
        described = []
        for row in reversed(rows):
            plan, runs = (
                ComparisonPlan.from_json(row.plan),
                [entry for entry in entries if entry.comparison == row.name],
            )
            running, wanted = sum(run.running > 0 for run in runs), len(list(plan.runs()))
            described.append(
                {
                    "key": f"{row.name} {row.created}",
                    "name": row.name,
                    "address": address("comparison", row.name),
                    "cases": len(plan.cases),
                    "strategies": _strategies(plan),
                    "repeats": plan.repeats,
                    "budget": plan.budget,
                    "begun": len(runs),
                    "wanted": wanted,
                    "running": running > 0,
                    "mark": "running" if running else "",
                    "status": f"{running} running" if running else "not running",
                    "started": _moment(row.created),
                }
            )
        return self._fill("comparison_rows.html", rows=described)

    def _fill(self, template: str, **values: Any) -> str:
        return self._templates.get_template(template).render(**values)


def address(kind: str, name: str) -> str:
    """The address of a page. Browsers take `.` and `..` out of paths, so such a name goes behind a question mark."""
    quoted = quote(name, safe="")
    return f"/{kind}/?name={quoted}" if name in ("", ".", "..") or "/" in name else f"/{kind}/{quoted}"


def _study_row(entry: Entry) -> dict[str, Any]:
    row, status = entry.row, entry.status
    value = None if entry.best is None or not math.isfinite(entry.best) else entry.best
    return {
        "key": f"{row.name} {row.created}",
        "name": row.name,
        "address": address("study", row.name),
        "running": entry.running > 0,
        "status": status,
        "mark": "running"
        if entry.running
        else "proved"
        if status.startswith("proved")
        else "lost"
        if row.status == "running"
        else "",
        "space": row.space,
        "input": entry.input,
        "strategy": row.strategy,
        "seed": row.seed,
        "trials": row.trials,
        "best": value,
        "best_text": "" if value is None else number(value) if entry.feasible else f"({number(value)})",
        "leading": entry.trouble or ("" if entry.leading is None else metric_label(entry.leading)),
        "bound": entry.bound,
        "bound_text": "" if entry.bound is None else number(entry.bound),
        "gap": None if entry.gap is None or not math.isfinite(entry.gap) else 100 * entry.gap,
        "gap_text": _percent(entry.gap).removesuffix(" %"),
        "seconds": row.elapsed_s,
        "seconds_text": f"{row.elapsed_s:.1f}",
        "changed": entry.changed,
        "changed_text": _moment(entry.changed),
    }


def _strategies(plan: ComparisonPlan) -> str:
    return ", ".join(dict.fromkeys(name for case in plan.cases for name in case.strategies))


def _percent(gap: float | None) -> str:
    return "" if gap is None or not math.isfinite(gap) else gap_text(gap)


def _moment(unix: float) -> str:
    """In this machine's time zone; today only the time."""
    moment = datetime.datetime.fromtimestamp(unix)
    today = moment.date() == datetime.date.today()
    return f"{moment:%H:%M:%S}" if today else f"{moment:%Y-%m-%d %H:%M}"
