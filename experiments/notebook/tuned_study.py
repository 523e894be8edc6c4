"""What `tune` returns: the study, what it has found, and what can be made of it."""

from __future__ import annotations

import html
import io
import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from kilotune.experiments.artefacts.inputs import files_read
from kilotune.experiments.artefacts.output_file import check_output_file, write_whole
from kilotune.experiments.notebook.blas_threads import one_blas_thread
from kilotune.experiments.notebook.figures import figures_of
from kilotune.experiments.notebook.frame import trials_frame
from kilotune.experiments.notebook.live_line import Watch, conclusion_of, watching
from kilotune.experiments.notebook.workers import refuse_in_starting_worker, require_workers
from kilotune.experiments.presentation.wording import gap_text
from kilotune.experiments.problems.problem import Problem, export_trial, metrics_on_test_data
from kilotune.experiments.problems.problem_entry import entry_of
from kilotune.experiments.studies import tuning
from kilotune.experiments.studies.chosen_builds import built_for
from kilotune.experiments.studies.command_time import CommandTime
from kilotune.experiments.studies.delivery import Delivery, kept_delivery
from kilotune.experiments.studies.libraries import load_libraries
from kilotune.experiments.studies.measured_finalists import kept_finalist
from kilotune.experiments.studies.placing_finalists import exported_trial
from kilotune.experiments.studies.workplace import Workplace
from kilotune.experiments.terminal.summary import print_summary
from kilotune.search.budget import Budget
from kilotune.search.result import Progress, Result, Status
from kilotune.search.space import Metrics, Space, Trial
from kilotune.search.stopping import SETTLED, StopRule
from kilotune.search.stored_rows import StudyRow
from kilotune.search.study import Study

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

    from kilotune.experiments.presentation.section import Section


class TunedStudy:
    """A study that has been searched, and may be searched on.

    `problem` is the space with its data, `search` the study of `kilotune.search.study` that holds the trials.
    """

    def __init__(self, problem: Problem, search: Study, workplace: Workplace, row: StudyRow) -> None:
        self.problem, self.search = problem, search
        self._workplace, self._row = workplace, row
        self._drawn: Mapping[str, go.Figure] | None = None
        self._delivery: Delivery | None = None  # once it was searched here

    @property
    def name(self) -> str:
        """The study's name in its storage; the space's name for a study in memory."""
        return self.search.name

    @property
    def space(self) -> Space:
        """The decision problem."""
        return self.problem.space

    @property
    def result(self) -> Result:
        """Where the study stands; its best is the candidate that is delivered: see `best`."""
        return kept_finalist(self.problem, self.search, self.search.result())

    @property
    def status(self) -> Status:
        """How the last search ended: FINISHED, SETTLED, BUDGET_SPENT or INTERRUPTED."""
        return self.search.status

    @property
    def best(self) -> Trial | None:
        """The trial that the command delivers (`.assignment`, `.metrics`, `.number`): the best of the search, or the finalist that was
        chosen after it, on made-up inputs, by linked bytes or by its time on the device. The one nearest to feasible when none is
        (see `feasible`), None when nothing was measured."""
        best = self.result.best
        return None if best is None or best.measurement.failure is not None else best

    @property
    def feasible(self) -> bool:
        """Whether `best` keeps all constraints."""
        return self.result.feasible and self._delivered().finalists.kept

    @property
    def bound(self) -> float | None:
        """What no feasible candidate can beat, in the unit of the first objective's metric; None while unknown."""
        return self.result.bound

    @property
    def gap(self) -> float | None:
        """By which share of its value the best can still be improved, at most; 0 when proved, None while unknown."""
        return self.result.gap

    @property
    def proved(self) -> bool:
        """Whether no candidate is better than `best` (or, when that is not feasible, none keeps the constraints)."""
        return self.search.is_proved()

    @property
    def front(self) -> tuple[Trial, ...]:
        """The feasible trials that no other dominates, the best by the first objective first."""
        return self.search.front.trials

    @property
    def trials(self) -> list[Trial]:
        """All, by number."""
        return self.search.trials()

    @cached_property
    def procedure(self) -> Trial | None:
        """What the space's own heuristic reaches, the paper's; measured now where the study has not. None: it has none."""
        return tuning.procedure_of(self.problem, self.search)

    @property
    def test_metrics(self) -> Metrics | None:
        """The best trial on data that no search sees; None where there are none."""
        return None if self.best is None else metrics_on_test_data(self.problem, self.best.assignment)

    def outcome(self) -> tuning.TuneOutcome:
        """All that the command reports: the procedure, test data, the float model, and, with a device, the programs measured
        there (which takes a while)."""
        return tuning.conclude(self.problem, self.search, self.search.result(), delivery=self._delivered())

    def _delivered(self) -> Delivery:
        """What the last search has chosen; of a study that was not searched here what is kept with it."""
        return self._delivery or kept_delivery(self.problem, self.search, self.search.result())

    def summary(self) -> str:
        """The table that the command prints."""
        text = io.StringIO()
        # in a notebook rich would show it below the cell and return nothing
        console = Console(file=text, highlight=False, markup=False, width=140, force_jupyter=False)
        print_summary(self.outcome(), console)
        return text.getvalue()

    @one_blas_thread()
    def resume(
        self,
        budget: str | Budget = "60s",
        *,
        jobs: int | None = None,
        progress: Watch = None,
        stop: str | None = None,
    ) -> TunedStudy:
        """Search on for another budget, and choose again what is delivered; the study itself. See `tune` for `progress`, Ctrl-C and `stop`,
        by default what `tune` was told."""
        refuse_in_starting_worker()
        wanted = budget_of(budget)
        load_libraries(self.problem.request, family=entry_of(self.problem)[0])
        return self.search_within(CommandTime(wanted), jobs=jobs, progress=progress, stop=stop)

    def search_within(
        self, time: CommandTime, *, jobs: int | None = None, progress: Watch = None, stop: str | None = None
    ) -> TunedStudy:
        """As `resume`, in what is left of a budget that has begun."""
        rule = StopRule.parse(stop or self.problem.request.stop or str(SETTLED))
        workplace = self._workplace if jobs is None else self._workplace.with_jobs(jobs)
        require_workers(self.space, workplace)
        self.search.make_strategy()  # refused before the study is running, where it cannot be had
        with watching(progress, self.problem, self.search) as report:

            def on_progress(progress: Progress) -> None:
                if report is not None and report(progress) is True:
                    self.search.stop()

            self._drawn = self._delivery = None
            self._delivery = tuning.run_to_delivery(
                self.problem, self.search, time, workplace, on_progress, rule, conclusion_of(report)
            )
        return self

    def to_dataframe(self) -> pd.DataFrame:
        """One row a trial: see `notebook.frame.trials_frame`. ValueError without pandas."""
        return trials_frame(self.space, self.trials)

    @property
    def figures(self) -> Mapping[str, go.Figure]:
        """The figures of the report by their names: the best so far, the front, which decisions mattered, the space's own.
        Drawn when first asked for, and again when it has been searched on."""
        if self._drawn is None:
            self._drawn = figures_of(self._sections())
        return self._drawn

    def report(self, path: str | os.PathLike[str]) -> Path:
        """Write the page that `tune report` writes; its path. ValueError for a folder."""
        from kilotune.experiments.report.page import render_page
        from kilotune.experiments.report.study_sections import study_title

        file = Path(path)
        if file.is_dir():
            raise ValueError(f"{file} is a folder: expected the name of a file, such as report.html.")
        if file.parent.is_dir():  # else it is made
            check_output_file("report", file, files_read(self.problem.request))
        write_whole(file, render_page(study_title(self.problem), self._sections(), f"Study {self.name}"))
        return file

    def _sections(self) -> tuple[Section, ...]:
        from kilotune.experiments.report.study_sections import study_sections

        return study_sections(self.problem, self.search, self._row)

    def export(
        self, folder: str | os.PathLike[str], target: str | None = None, level: str | None = None
    ) -> dict[str, str]:
        """Write what `tune export` writes: of the best trial, or of the one that held on the board: a program for `target` ("c",
        "arduino", ...), a placement, decisions. The paths written, by what they are. ValueError when there is nothing to write, or the
        folder holds something else."""
        if self.best is None:
            raise ValueError(f"Study {self.name!r} has measured nothing yet: there is nothing to export.")
        path = Path(folder)
        exported = exported_trial(self.problem, self.search, None)
        return export_trial(built_for(self.problem, self.search, exported), exported, path, target, level)

    def __repr__(self) -> str:
        return f"TunedStudy({', '.join(f'{key}: {value}' for key, value in self._facts().items())})"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{html.escape(key)}</th><td style='text-align:left'>{html.escape(value)}</td></tr>"
            for key, value in self._facts().items()
        )
        return f"<table>{rows}</table>"

    def _facts(self) -> dict[str, str]:
        """What one wants to know at a glance."""
        request, result, best = self.problem.request, self.result, self.best
        title = "best" if self.feasible else "nearest (breaks a limit)"
        told = {o.metric for o in self.space.objectives} | {c.metric for c in self.space.constraints}
        metrics = {} if best is None else {name: value for name, value in best.metrics.items() if name in told}
        found = ", ".join(f"{name} {_short(value)}" for name, value in metrics.items()) or "nothing measured"
        facts = {
            "space": f"{request.space} on {self.problem.name}",
            "search": f"{request.strategy}, seed {request.seed}",
            "trials": f"{result.evaluations} in {result.elapsed_s:.1f} s, {self.status.value}",
            title if best is not None else "best": found,
        }
        objective = self.space.objectives[0].metric
        if result.proved:
            facts["proved"] = (
                f"no candidate is better in {objective}" if self.feasible else "no candidate keeps the limits"
            )
        elif result.bound is not None:
            gap = "" if result.gap is None else f", gap {gap_text(result.gap)}"
            facts["bound"] = f"{objective} {_short(result.bound)}{gap}"
        return facts


def budget_of(budget: str | Budget) -> Budget:
    """ValueError, a sentence, for anything else than a budget or its text."""
    if isinstance(budget, str):
        return Budget.parse(budget)
    if not isinstance(budget, Budget):
        raise ValueError(f"budget={budget!r}: expected a text such as '60s' or '500trials'.")
    return budget


def _short(value: float) -> str:
    return f"{value:.6g}"
