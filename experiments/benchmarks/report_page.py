"""How large a report is, how long it takes to write, and how long a browser takes to open it.

python -m kilotune.experiments.benchmarks.report_page [--trials 10000] [--browser /usr/bin/chromium]

Writing is in CPU seconds of this process; opening in seconds of the clock, in a fresh headless browser, from the navigation
to the event DOMContentLoaded and to the first figure that is drawn, the median of several times.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.experiments.artefacts.output_file import write_whole
from kilotune.experiments.problems.building import build_problem
from kilotune.experiments.report.stored_report import report_page
from kilotune.experiments.studies.request_parsing import request_from
from kilotune.search.budget import Budget
from kilotune.search.space import FlatSpace
from kilotune.search.store import Store
from kilotune.search.study import Study

STUDIES = (
    ("shiftry", "fastgrnn16-digits", "random"),
    ("shiftry", "fastgrnn16-digits", "refine"),
    ("seedot", "protonn-digits", "random"),
)
OPENINGS = 5
BROWSER = "/usr/bin/chromium"
FIRST_FIGURE = """() => new Promise((done) => {
  const look = () => document.querySelector(".plot .main-svg")
    ? requestAnimationFrame(() => done(performance.now())) : setTimeout(look, 5);
  look();
})"""
LOADED = "() => performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--browser", default=BROWSER)
    arguments = parser.parse_args()
    table = Table(show_edge=False, pad_edge=False)
    for column in (
        "study",
        "trials",
        "decisions",
        "MB",
        "CPU s to write",
        "s to DOMContentLoaded",
        "s to first figure",
    ):
        table.add_column(column, justify="left" if column == "study" else "right")
    with tempfile.TemporaryDirectory() as folder:
        store = Store(str(Path(folder) / "studies.db"))
        for space, input_, strategy in STUDIES:
            trials, decisions = _make(store, space, input_, strategy, arguments.trials)
            path = Path(folder) / "report.html"
            began = time.process_time()
            size_bytes = write_whole(path, report_page(store, f"{space}-{strategy}").text)
            write_s = time.process_time() - began
            loaded, drawn = _opened(path, arguments.browser)
            seconds = ["" if value is None else f"{value:.2f}" for value in (loaded, drawn)]
            name = f"{space} {input_} {strategy}"
            table.add_row(name, str(trials), decisions, f"{size_bytes / 1e6:.2f}", f"{write_s:.2f}", *seconds)
    Console(width=140).print(table)


def _make(store: Store, space: str, input_: str, strategy: str, trials: int) -> tuple[int, str]:
    """How many trials there are, and decisions."""
    request = request_from(space, input=input_, strategy=strategy)
    problem = build_problem(request)
    study = Study.create(store, f"{space}-{strategy}", problem.space, strategy, request=request.as_json())
    result = study.run(InProcessExecutor(problem.space), Budget(trials=trials))
    decisions = str(len(problem.space.decisions)) if isinstance(problem.space, FlatSpace) else "a tree"
    return result.evaluations, decisions


def _opened(path: Path, browser: str) -> tuple[float | None, float | None]:
    """Seconds until the document is loaded, and until the first figure is drawn; None without a browser."""
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        return None, None
    if shutil.which(browser) is None:
        return None, None
    loaded: list[float] = []
    drawn: list[float] = []
    with sync_playwright() as playwright:
        for _ in range(OPENINGS):
            started: Any = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox", "--disable-gpu"])
            page = started.new_page(viewport={"width": 1280, "height": 2400})
            page.goto(path.as_uri(), wait_until="commit")
            drawn.append(page.evaluate(FIRST_FIGURE) / 1000)
            loaded.append(page.evaluate(LOADED) / 1000)
            started.close()
    return statistics.median(loaded), statistics.median(drawn)


if __name__ == "__main__":
    main()
