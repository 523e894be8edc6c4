"""The dashboard as a WSGI application: who may ask what, and which page answers."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar
from urllib.parse import urlsplit

import plotly

from kilotune.experiments.dashboard import optuna_pages
from kilotune.experiments.dashboard.heartbeats import Heartbeats
from kilotune.experiments.dashboard.optuna_pages import OptunaPages
from kilotune.experiments.dashboard.overview import Overview
from kilotune.experiments.dashboard.shown import Pages
from kilotune.experiments.dashboard.watched import WatchedStudy
from kilotune.experiments.dashboard.watched_comparison import WatchedComparison
from kilotune.experiments.dashboard.wsgi import Environ, Request, Response, StartResponse, as_json, is_loopback
from kilotune.experiments.report.page import PARTS
from kilotune.search.comparison_store import comparisons
from kilotune.search.store import Store, StoreError, StudyRow
from kilotune.search.study import Study

OWN_PAGES = Path(__file__).parent / "pages"
MOST_OPEN = 12
"""Studies that are kept in memory for their pages."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = MappingProxyType(
    {
        "Content-Security-Policy": POLICY,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Resource-Policy": "same-origin",
    }
)
FOREVER = "public, max-age=31536000, immutable"
TYPES = MappingProxyType({".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"})

Watched = TypeVar("Watched", WatchedStudy, WatchedComparison)


@dataclass(frozen=True)
class _Source:
    """A study for optuna-dashboard."""

    store: Store
    name: str
    watched: Callable[[StudyRow], WatchedStudy]

    def trials(self) -> int:
        """In the store."""
        return self.store.study(self.name).trials

    def use(self, read: Callable[[Study], Any]) -> Any:
        """See `optuna_pages.Copied`."""
        row = self.store.study(self.name)
        return self.watched(row).exclusively(row, read)


class Dashboard:
    """All pages of one store. `local`: it listens on loopback, so a request under another name is a page of somebody else's
    that had its name point here."""

    def __init__(self, store: Store, local: bool) -> None:
        self._store, self._local = store, local
        self._heartbeat = Heartbeats(store)
        self._overview = Overview(store, self._heartbeat)
        self._optuna = OptunaPages() if optuna_pages.is_installed() else None
        self._pages = Pages(store.place, self.assets, self._optuna is not None)
        self._studies: dict[str, WatchedStudy] = {}  # the one that was asked for last is the last
        self._comparisons: dict[str, WatchedComparison] = {}
        self._lock = threading.Lock()

    @cached_property
    def _files(self) -> Mapping[str, Path]:
        """What can be had from /assets/, by the name under which it never changes."""
        release = version("kilotune")
        plotly_js = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
        own = [
            PARTS / "report.css",
            PARTS / "report.js",
            PARTS / "figure_data.js",
            *(OWN_PAGES / n for n in ("dashboard.css", "live.js")),
        ]
        named = {f"{path.stem}-{release}-{int(path.stat().st_mtime)}{path.suffix}": path for path in own}
        return {**named, f"plotly-{plotly.__version__}.js": plotly_js}

    @property
    def assets(self) -> dict[str, str]:
        """Addresses, by plain name."""
        return {f"{name.split('-')[0]}{Path(name).suffix}": f"/assets/{name}" for name in self._files}

    def __call__(self, environ: Environ, start: StartResponse) -> Iterable[bytes]:
        request = Request.of(environ)
        if self._local and not _names_this_machine(request.headers.get("host", "")):
            text = "403: this dashboard answers to localhost and 127.0.0.1 only."
            return Response(text, "text/plain; charset=utf-8", HTTPStatus.FORBIDDEN).send(start, request.method)
        if self._optuna is not None and _is_optunas(request.path):
            return self._optuna(environ, start)
        if request.method not in ("GET", "HEAD"):
            text = "405: the dashboard only shows; nothing can be changed here."
            refused = Response(text, "text/plain; charset=utf-8", HTTPStatus.METHOD_NOT_ALLOWED, {"Allow": "GET, HEAD"})
            return refused.send(start, request.method)
        response = self._answer(request)
        headers = {**HEADERS, "Cache-Control": "no-cache", **response.headers}
        return Response(response.text, response.content_type, response.status, headers).send(start, request.method)

    def _answer(self, request: Request) -> Response:
        try:
            return self._route(request)
        except StoreError as error:
            return self._message(
                HTTPStatus.NOT_FOUND if "holds no" in str(error) else HTTPStatus.SERVICE_UNAVAILABLE, error
            )
        except ValueError as error:
            return self._message(HTTPStatus.CONFLICT, error)
        except Exception as error:
            logging.getLogger(__name__).exception("%s", request.path)
            return self._message(HTTPStatus.INTERNAL_SERVER_ERROR, f"internal error: {type(error).__name__}: {error}")

    def _route(self, request: Request) -> Response:
        path, name = request.path, request.query.get("name")
        routes: Mapping[str, Callable[[str], Response]] = {
            "/data/study": lambda name: self._study_news(request, name),
            "/data/comparison": lambda name: self._comparison_news(request, name),
            "/optuna/": self._open_in_optuna,
        }
        if path == "/":
            return Response(self._pages.overview())
        if path == "/data/overview":
            return self._overview_news(request)
        if path in routes and name is not None:
            return routes[path](name)
        for prefix, page in (("/study/", self._study_page), ("/comparison/", self._comparison_page)):
            if path.startswith(prefix):
                return page(path.removeprefix(prefix) or name or "")
        file = self._files.get(path.removeprefix("/assets/")) if path.startswith("/assets/") else None
        if file is not None:
            return Response(file.read_bytes(), TYPES[file.suffix], headers={"Cache-Control": FOREVER})
        return self._message(HTTPStatus.NOT_FOUND, "There is no such page.")

    def _message(self, status: HTTPStatus, text: object) -> Response:
        return Response(self._pages.message(f"{status.value}: {status.phrase}", str(text)), status=status)

    def _study_page(self, name: str) -> Response:
        return Response(self._pages.study(self._store.study(name)))

    def _comparison_page(self, name: str) -> Response:
        for row in comparisons(self._store, name):
            return Response(self._pages.comparison(row))
        return self._message(HTTPStatus.NOT_FOUND, f"{self._store.place} holds no comparison {name!r}.")

    def _overview_news(self, request: Request) -> Response:
        entries, whole = self._overview.entries()
        return as_json(self._pages.overview_news(entries, comparisons(self._store), whole), request)

    def _study_news(self, request: Request, name: str) -> Response:
        running = self._heartbeat.running().get(name, 0)  # before its row: one that ends meanwhile has not stopped
        row = self._store.study(name)
        watched = self._watched_study(row)
        drawn, current = watched.drawn(row)
        html = None if request.query.get("drawn") == drawn.version else drawn.html
        return as_json(self._pages.study_news(row, watched.study, running, drawn.version, html, current), request)

    def _comparison_news(self, request: Request, name: str) -> Response:
        row = next(iter(comparisons(self._store, name)), None)
        if row is None:
            return self._message(HTTPStatus.NOT_FOUND, f"{self._store.place} holds no comparison {name!r}.")
        entries, whole = self._overview.entries()
        runs = [entry for entry in entries if entry.comparison == name]
        watched = self._kept(self._comparisons, row.name, row.created, lambda: WatchedComparison(self._store, row))
        drawn, current = watched.drawn(row, [entry.row for entry in runs])
        html = None if request.query.get("drawn") == drawn.version else drawn.html
        news = self._pages.comparison_news(row, runs, drawn.version, html, current and whole)
        return as_json(news, request)

    def _open_in_optuna(self, name: str) -> Response:
        if self._optuna is None:
            return self._message(
                HTTPStatus.NOT_FOUND, "optuna-dashboard is not installed: pip install 'kilotune[dashboard]'"
            )
        self._store.study(name)
        address = self._optuna.open(name, _Source(self._store, name, self._watched_study))
        return Response("", status=HTTPStatus.SEE_OTHER, headers={"Location": address})

    def _watched_study(self, row: StudyRow) -> WatchedStudy:
        return self._kept(self._studies, row.name, row.created, lambda: WatchedStudy(self._store, row))

    def _kept(self, kept: dict[str, Watched], name: str, created: float, make: Callable[[], Watched]) -> Watched:
        """The one of that name; a new one where that was deleted and made again. The oldest leave."""
        with self._lock:
            watched = kept.pop(name, None)
            if watched is None or watched.created != created:
                watched = make()
            kept[name] = watched
            while len(kept) > MOST_OPEN:
                del kept[next(iter(kept))]
            return watched


def _is_optunas(path: str) -> bool:
    return any(path == prefix.rstrip("/") or path.startswith(prefix.rstrip("/") + "/") for prefix in optuna_pages.PATHS)


def _names_this_machine(host: str) -> bool:
    """Whether a Host header is one that a browser on this machine sends to loopback; any port, for tunnels have theirs."""
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError:
        return False
    return name is not None and is_loopback(name)
