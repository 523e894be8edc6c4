"""The dashboard as a WSGI application: who may ask what, and which page answers."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import plotly
from werkzeug import Request, Response
from werkzeug.exceptions import NotFound
from werkzeug.routing import BaseConverter, Map, RequestRedirect, Rule

from kilotune.experiments.dashboard import optuna_pages
from kilotune.experiments.dashboard.heartbeats import Heartbeats
from kilotune.experiments.dashboard.optuna_pages import OptunaPages
from kilotune.experiments.dashboard.overview import Overview
from kilotune.experiments.dashboard.page_rendering import Pages
from kilotune.experiments.dashboard.server import is_loopback
from kilotune.experiments.dashboard.watched_comparison import WatchedComparison
from kilotune.experiments.dashboard.watched_study import WatchedStudy
from kilotune.experiments.report.page import PARTS
from kilotune.search.comparison_store import comparisons
from kilotune.search.store import Store, StoreError
from kilotune.search.stored_rows import StudyRow
from kilotune.search.study import Study

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

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

PLAIN = "text/plain; charset=utf-8"

WatchedT = TypeVar("WatchedT", WatchedStudy, WatchedComparison)


class _Rest(BaseConverter):
    """All that follows in the address: a study may be called `a/b` or `/etc`, and its name may have several lines."""

    regex = r"[\s\S]*"
    part_isolating = False


ADDRESSES = (
    ("/", "overview"),
    ("/study/<rest:name>", "study"),
    ("/comparison/<rest:name>", "comparison"),
    ("/data/overview", "overview news"),
    ("/data/study", "study news"),
    ("/data/comparison", "comparison news"),
    ("/optuna/", "optuna"),
    ("/assets/<name>", "asset"),
)
"""What is asked for by an address; a name that is not in it is in the query."""


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

    @cached_property
    def _addresses(self) -> Map:
        rules = [Rule(address, endpoint=page) for address, page in ADDRESSES]
        return Map(rules, converters={"rest": _Rest}, merge_slashes=False)

    def __call__(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        request = Request(environ, populate_request=False)
        if self._local and not _names_this_machine(request.headers.get("Host", "")):
            text = "403: this dashboard answers to localhost and 127.0.0.1 only."
            return Response(text, HTTPStatus.FORBIDDEN, content_type=PLAIN)(environ, start)
        if self._optuna is not None and _is_optunas(request.path):
            return self._optuna(environ, start)
        if request.method not in ("GET", "HEAD"):
            text = "405: the dashboard only shows; nothing can be changed here."
            refused = Response(text, HTTPStatus.METHOD_NOT_ALLOWED, {"Allow": "GET, HEAD"}, content_type=PLAIN)
            return refused(environ, start)
        response = self._answer(request)
        for name, value in {**HEADERS, "Cache-Control": "no-cache"}.items():
            response.headers.setdefault(name, value)
        return response(environ, start)

    def _answer(self, request: Request) -> Response:
        try:
            return self._route(request)
        except (NotFound, RequestRedirect):  # also of an address that lacks its last slash
            return self._message(HTTPStatus.NOT_FOUND, "There is no such page.")
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
        """The page at the request's address. NotFound where there is none."""
        page, values = self._addresses.bind("localhost").match(request.path)
        if page == "overview":
            return _html(self._pages.overview())
        if page == "overview news":
            return self._overview_news(request)
        named: Mapping[str, Callable[[str], Response]] = {
            "study": self._study_page,
            "comparison": self._comparison_page,
            "study news": lambda name: self._study_news(request, name),
            "comparison news": lambda name: self._comparison_news(request, name),
            "optuna": self._open_in_optuna,
            "asset": self._asset,
        }
        name = values.get("name") or request.args.get("name")
        if name is None:
            raise NotFound
        return named[page](name)

    def _asset(self, name: str) -> Response:
        file = self._files.get(name)
        if file is None:
            raise NotFound
        return Response(file.read_bytes(), headers={"Cache-Control": FOREVER}, content_type=TYPES[file.suffix])

    def _message(self, status: HTTPStatus, text: object) -> Response:
        return _html(self._pages.message(f"{status.value}: {status.phrase}", str(text)), status)

    def _study_page(self, name: str) -> Response:
        return _html(self._pages.study(self._store.study(name)))

    def _comparison_page(self, name: str) -> Response:
        for row in comparisons(self._store, name):
            return _html(self._pages.comparison(row))
        return self._message(HTTPStatus.NOT_FOUND, f"{self._store.place} holds no comparison {name!r}.")

    def _overview_news(self, request: Request) -> Response:
        entries, whole = self._overview.entries()
        return _json(self._pages.overview_news(entries, comparisons(self._store), whole), request)

    def _study_news(self, request: Request, name: str) -> Response:
        running = self._heartbeat.running().get(name, 0)  # before its row: one that ends meanwhile has not stopped
        row = self._store.study(name)
        watched = self._watched_study(row)
        drawn, current = watched.drawn(row)
        html = None if request.args.get("drawn") == drawn.version else drawn.html
        return _json(self._pages.study_news(row, watched.read, running, drawn.version, html, current), request)

    def _comparison_news(self, request: Request, name: str) -> Response:
        row = next(iter(comparisons(self._store, name)), None)
        if row is None:
            return self._message(HTTPStatus.NOT_FOUND, f"{self._store.place} holds no comparison {name!r}.")
        entries, whole = self._overview.entries()
        runs = [entry for entry in entries if entry.comparison == name]
        watched = self._kept(self._comparisons, row.name, row.created, lambda: WatchedComparison(self._store, row))
        drawn, current = watched.drawn(row, [entry.row for entry in runs])
        html = None if request.args.get("drawn") == drawn.version else drawn.html
        news = self._pages.comparison_news(row, runs, drawn.version, html, current and whole)
        return _json(news, request)

    def _open_in_optuna(self, name: str) -> Response:
        if self._optuna is None:
            return self._message(
                HTTPStatus.NOT_FOUND, "optuna-dashboard is not installed: pip install 'kilotune[dashboard]'"
            )
        self._store.study(name)
        address = self._optuna.open(name, _Source(self._store, name, self._watched_study))
        return Response("", HTTPStatus.SEE_OTHER, {"Location": address}, content_type="text/html; charset=utf-8")

    def _watched_study(self, row: StudyRow) -> WatchedStudy:
        return self._kept(self._studies, row.name, row.created, lambda: WatchedStudy(self._store, row))

    def _kept(self, kept: dict[str, WatchedT], name: str, created: float, make: Callable[[], WatchedT]) -> WatchedT:
        """The one of that name; a new one where that was deleted and made again. The oldest leave."""
        with self._lock:
            watched = kept.pop(name, None)
            if watched is None or watched.created != created:
                watched = make()
            kept[name] = watched
            while len(kept) > MOST_OPEN:
                del kept[next(iter(kept))]
            return watched


def _html(text: str, status: HTTPStatus = HTTPStatus.OK) -> Response:
    """A page. Paths of files may hold what UTF-8 cannot: a question mark stands for it."""
    return Response(text.encode("utf-8", "replace"), status, content_type="text/html; charset=utf-8")


def _json(data: Any, request: Request) -> Response:
    """With an ETag; 304 when the browser has it already."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    response = Response(text, headers={"Cache-Control": "no-cache"}, content_type="application/json")
    response.add_etag()
    return response.make_conditional(request)


def _is_optunas(path: str) -> bool:
    return any(path == prefix.rstrip("/") or path.startswith(prefix.rstrip("/") + "/") for prefix in optuna_pages.PATHS)


def _names_this_machine(host: str) -> bool:
    """Whether a Host header is one that a browser on this machine sends to loopback; any port, for tunnels have theirs."""
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError:
        return False
    return name is not None and is_loopback(name)
