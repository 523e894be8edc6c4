"""A dashboard in a process of its own, and studies for it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from typing import Any
from urllib.parse import quote

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.experiments.problems.building import build_problem
from kilotune.experiments.studies.request_parsing import request_from
from kilotune.search.budget import Budget
from kilotune.search.store import Store
from kilotune.search.study import Study

TUNE = [sys.executable, "-m", "kilotune.experiments"]


@dataclass
class Served:
    """`said`: the first lines of stderr."""

    url: str
    process: subprocess.Popen[str]
    said: str

    def get(self, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], str]:
        """Status, headers (names in lower case), text."""
        request = urllib.request.Request(self.url + path.lstrip("/"), method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, _lower(answer.headers), answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, _lower(error.headers), error.read().decode()

    def news(self, kind: str, name: str | None = None) -> dict[str, Any]:
        """What a page asks for."""
        query = "" if name is None else f"?name={quote(name, safe='')}"
        news: dict[str, Any] = json.loads(self.get(f"data/{kind}{query}")[2])
        return news


def _lower(headers: Message) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


@contextlib.contextmanager
def serving(store: Path, *options: str, lines: int = 1) -> Iterator[Served]:
    """Started on a free port; interrupted at the end."""
    command = [*TUNE, "dashboard", "--port", "0", "--storage", str(store), *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        said = "".join(process.stderr.readline() for _ in range(lines))
        found = re.match(r"(http://\S+) ", said)
        assert found is not None, said + process.stderr.read()
        yield Served(found[1], process, said)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.wait(timeout=20)
        process.stderr.close()


def make_study(
    store: Path, name: str, space: str = "reverse-split", strategy: str = "random", trials: int = 30
) -> None:
    """A finished run of a real space, under any name."""
    request = request_from(space, strategy=strategy)
    problem = build_problem(request)
    opened = Store(str(store))
    study = Study.create(opened, name, problem.space, strategy, budget=Budget(trials=trials), request=request.as_json())
    study.run(InProcessExecutor(problem.space), Budget(trials=trials))
    opened.close()


def start_tuning(store: Path, name: str, budget: str = "60s", *options: str) -> subprocess.Popen[bytes]:
    """A search in a process of its own that goes on for a while."""
    search = (
        "--space",
        "shiftry",
        "--input",
        "protonn-digits",
        "--strategy",
        "random",
        "--no-output",
        "--no-cache",
        "--stop",
        "never",
    )
    environment = {**os.environ, "KILOTUNE_STORAGE": str(store)}
    command = [*TUNE, *search, "--budget", budget, "--study", name, "--quiet", *options]
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
