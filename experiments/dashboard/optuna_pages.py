"""optuna-dashboard over copies of our studies, in memory: what a visitor clicks there cannot touch the store, and is refused."""

from __future__ import annotations

import importlib.util
import json
import logging
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from werkzeug import Response

from kilotune.search.study import Study
from kilotune.search.telling_trials import telling_trials

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

MOST_TRIALS = 1000
"""The most trials of a copy: optuna-dashboard sends them all, with all their decisions, and draws them all."""

PATHS = ("/dashboard", "/api/", "/static/", "/csv/", "/artifacts/", "/favicon.ico")
RENEWED_EVERY_S = 10.0
REFUSED = "These are copies: kilotune's dashboard only shows studies, so nothing can be changed here."


class Copied(Protocol):
    """A study in the store that is copied for as long as somebody looks at it."""

    def trials(self) -> int:
        """How many it has by now."""

    def use(self, read: Callable[[Study], Any]) -> Any:
        """What `read` makes of the study as it is now."""


@dataclass
class _Copy:
    source: Copied
    name: str
    copied: int  # trials of the study that have been looked at
    renewed_at_s: float
    choices: Mapping[str, Any] = field(default_factory=dict)


def is_installed() -> bool:
    """The extra `dashboard`."""
    return importlib.util.find_spec("optuna_dashboard") is not None


class OptunaPages:
    """A WSGI application for `PATHS`. Copies are made when somebody opens them, and grow with their studies."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._app: WSGIApplication | None = None
        self._storage: Any = None
        self._copies: dict[int, _Copy] = {}  # by Optuna's number of the study

    def open(self, name: str, source: Copied) -> str:
        """Copy the study, or what is new of it; the path of its page."""
        with self._lock:
            self._start()
            for number, copy in self._copies.items():
                if copy.name == name and self._grow(number, copy):
                    return f"/dashboard/studies/{number}"
            return f"/dashboard/studies/{self._copy(name, source)}"

    def __call__(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        method = str(environ.get("REQUEST_METHOD", "GET"))
        if method not in ("GET", "HEAD"):
            text = json.dumps({"reason": REFUSED})
            allowed = {"Allow": "GET, HEAD"}
            return Response(text, HTTPStatus.METHOD_NOT_ALLOWED, allowed, content_type="application/json")(
                environ, start
            )
        environ.setdefault("HTTP_ACCEPT_ENCODING", "")  # it is asked for without asking whether it is there
        with self._lock:
            self._start()
            asked = re.fullmatch(r"/api/studies/(\d+)/?", str(environ.get("PATH_INFO", "")))
            copy = self._copies.get(int(asked[1])) if asked else None
            if asked and copy is not None and self._clock() >= copy.renewed_at_s + RENEWED_EVERY_S:
                self._grow(int(asked[1]), copy)
        assert self._app is not None
        return self._app(environ, start)

    def _start(self) -> None:
        if self._app is None:
            import optuna
            import optuna_dashboard

            logging.getLogger("optuna_dashboard").setLevel(logging.ERROR)
            self._storage = optuna.storages.InMemoryStorage()
            self._app = optuna_dashboard.wsgi(self._storage)

    def _copy(self, name: str, source: Copied) -> int:
        from kilotune.experiments.studies.optuna_export import choices_of, copy_study

        for number in [number for number, copy in self._copies.items() if copy.name == name]:
            self._storage.delete_study(number)
            del self._copies[number]

        def write(study: Study) -> int:
            count, choices = len(study.book), choices_of(study.space, study.each_trial())
            told = telling_trials(study, study.each_trial(), count, MOST_TRIALS)
            written = copy_study(study, [trial for _, trial in told], choices, self._storage)
            number: int = written._study_id
            self._copies[number] = _Copy(source, name, count, self._clock(), choices)
            return number

        return int(source.use(write))

    def _grow(self, number: int, copy: _Copy) -> bool:
        """Add what is new, in proportion; False when the copy has to be made afresh. Pages ask for trials from a place on, so
        those that are there stay where they are."""
        copy.renewed_at_s = self._clock()
        if copy.source.trials() == copy.copied:
            return True
        import optuna

        from kilotune.experiments.studies.optuna_export import add_trials, choices_of

        written = optuna.load_study(study_name=copy.name, storage=self._storage)
        if len(written.get_trials(deepcopy=False)) > 3 * MOST_TRIALS:
            return False

        def add(study: Study) -> bool:
            count, choices = len(study.book), choices_of(study.space, study.each_trial())
            if count < copy.copied or choices != copy.choices:
                return False
            known = {t.user_attrs["number"] for t in written.get_trials(deepcopy=False)}
            share = max(1, MOST_TRIALS * (count - copy.copied) // count)
            new = telling_trials(study, islice(study.each_trial(), copy.copied, None), count - copy.copied, share)
            add_trials(written, study.space, [t for _, t in new if t.number not in known], choices)
            copy.copied = count
            return True

        return bool(copy.source.use(add))
