"""The server as it stands on a machine: who may ask, what is refused, what it says about itself, how it ends."""

from __future__ import annotations

import hashlib
import json
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

import pytest

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.experiments.commands.exit_status import ExitStatus
from kilotune.experiments.dashboard import optuna_pages, server
from kilotune.experiments.dashboard.application import Dashboard
from kilotune.search.budget import Budget
from kilotune.search.store import Store
from kilotune.search.study import Study
from tests.experiments.dashboard.serving import TUNE, Served, make_study, serving
from tests.search.problems import FlatProblem

pytestmark = pytest.mark.slow

SCRIPT = "<script>alert(1)</script>"
ODD_NAMES = (
    SCRIPT,
    "a/b",
    "..",
    "?x=1#y",
    "50 %",
    "ünïcode",
    "'\"&",
    "/etc/passwd",
    "name\nwith line",
    "{{ 70007 * 7 }}",
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a real study, studies of all kinds of names, and one whose input is gone."""
    path = tmp_path_factory.mktemp("dashboard") / "studies.db"
    make_study(path, "real")
    store, space = Store(str(path)), FlatProblem(8, 4, 1)
    for name in ODD_NAMES:
        study = Study.create(store, name, space, "random", request={"input": f"/models/{SCRIPT}\udcff"})
        study.run(InProcessExecutor(space), Budget(trials=3))
    real = store.study("real")
    gone = {**real.request, "input": str(path.parent / "gone.json")}
    study = Study.create(store, "broken", space, "random", request=gone)
    study.run(InProcessExecutor(space), Budget(trials=4))
    store.close()
    return path


@pytest.fixture(scope="module")
def served(place: Path) -> Iterator[Served]:
    with serving(place) as running:
        yield running


def listening_addresses(process_id: int) -> set[str]:
    """Local addresses, in /proc's hexadecimal, on which the process listens."""
    inodes = set()
    for link in Path(f"/proc/{process_id}/fd").iterdir():
        found = re.fullmatch(r"socket:\[(\d+)\]", str(link.readlink()))
        inodes |= {found[1]} if found else set()
    addresses = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{process_id}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                addresses.add(fields[1].partition(":")[0])
    return addresses


def test_it_listens_on_loopback_only(served: Served) -> None:
    assert listening_addresses(served.process.pid) == {"0100007F"}
    assert "Everybody" not in served.said


def test_it_says_so_when_told_otherwise(place: Path) -> None:
    with serving(place, "--host", "0.0.0.0", lines=2) as open_to_all:
        assert listening_addresses(open_to_all.process.pid) == {"00000000"}
        assert re.search(r"Everybody who reaches 0\.0\.0\.0:\d+ can read all studies", open_to_all.said)
        assert open_to_all.get("/", Host="my-machine:8080")[0] == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "", "10.0.0.1"])
@pytest.mark.parametrize("path", ["/", "/data/overview", "/api/studies", "/assets/x"])
def test_other_names_for_this_machine_are_refused(served: Served, host: str, path: str) -> None:
    assert served.get(path, Host=host)[0] == 403


@pytest.mark.parametrize("host", ["localhost", "localhost:9", "127.0.0.1:80", "[::1]:8080"])
def test_loopback_names_are_taken(served: Served, host: str) -> None:
    assert served.get("/", Host=host)[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
@pytest.mark.parametrize("path", ["/", "/study/real", "/data/study?name=real", "/optuna/?name=real"])
def test_nothing_can_be_written(served: Served, method: str, path: str) -> None:
    status, headers, text = served.get(path, method)
    assert status == 405
    assert headers["allow"] == "GET, HEAD"
    assert "only shows" in text


def test_optunas_pages_are_over_copies_and_refuse_to_write(served: Served, place: Path) -> None:
    before = contents(place)
    assert json.loads(served.get("/api/studies")[2]) == {"study_summaries": []}  # nobody opened one
    # urllib follows the redirection to the page of the copy
    status, headers, text = served.get("/optuna/?name=real")
    assert status == 200
    assert "Optuna Dashboard" in text
    assert "script-src 'self'" in headers["content-security-policy"]
    studies = json.loads(served.get("/api/studies")[2])["study_summaries"]
    assert [study["study_name"] for study in studies] == ["real"]
    number = studies[0]["study_id"]
    detail = json.loads(served.get(f"/api/studies/{number}")[2])
    assert len(detail["trials"]) == served_trials(served, "real")
    for method, path in (
        ("DELETE", f"/api/studies/{number}"),
        ("POST", f"/api/studies/{number}/rename"),
        ("PUT", f"/api/studies/{number}/note"),
        ("POST", "/api/studies"),
    ):
        status, _, text = served.get(path, method)
        assert status == 405
        assert "only shows studies" in json.loads(text)["reason"]
    assert [s["study_name"] for s in json.loads(served.get("/api/studies")[2])["study_summaries"]] == ["real"]
    assert served.get("/optuna/?name=real")[0] == 200
    assert len(json.loads(served.get("/api/studies")[2])["study_summaries"]) == 1  # the same copy
    assert served.get("/optuna/?name=broken")[0] == 409
    assert contents(place) == before


def served_trials(served: Served, name: str) -> int:
    return int(served.news("study", name)["facts"]["trials"])


def contents(place: Path) -> str:
    """Of all tables, without looking through our own store."""
    with sqlite3.connect(f"file:{place}?mode=ro", uri=True) as connection:
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type='table'")]
        rows = [(table, connection.execute(f'SELECT * FROM "{table}"').fetchall()) for table in sorted(tables)]
    return hashlib.sha256(repr(rows).encode()).hexdigest()


@pytest.mark.parametrize("name", ODD_NAMES)
def test_any_name_leads_to_its_page_and_stays_text(served: Served, name: str) -> None:
    from html import unescape

    rows = served.news("overview")["rows"]["studies"]
    addresses = {unescape(text): unescape(href) for href, text in re.findall(r'<a href="([^"]*)">([^<]*)</a>', rows)}
    status, _, page = served.get(addresses[name])
    assert status == 200
    assert f"<h1>{name}</h1>" in unescape(page)
    assert SCRIPT not in page
    assert SCRIPT not in rows
    assert "490049" not in page
    news = served.news("study", name)
    assert news["facts"]["trials"] == "3"
    assert "made by a program" in news["html"]
    assert "Trials" in news["html"]


@pytest.mark.parametrize(
    "path",
    ["/assets/../application.py", "/assets/%2e%2e/application.py", "/assets//etc/passwd", "/assets/", "/etc/passwd",
     "/static/../../../../etc/passwd", "/study/none", "/comparison/none", "/data/study?name=none", "/data/none",
     "/study", "/optuna", "/comparison", "/data/study", "/data/overview/", "/assets/a/b", "//etc/passwd"],
)  # fmt: skip
def test_what_is_not_there_is_not_found(served: Served, path: str) -> None:
    status, _, text = served.get(path)
    assert status in (403, 404)
    assert "root:" not in text
    assert "import" not in text


def test_a_study_whose_input_is_gone_shows_its_trials(served: Served) -> None:
    news = served.news("study", "broken")
    assert "cannot be built" in news["html"]
    assert "gone.json" in news["html"]
    assert news["facts"]["trials"] == "4"
    assert "All 4 trials" in news["html"]


def test_what_is_known_is_not_sent_again(served: Served) -> None:
    status, headers, text = served.get("/data/study?name=real")
    assert status == 200
    news = json.loads(text)
    assert "How the search went" in news["html"]
    assert served.get("/data/study?name=real", **{"If-None-Match": headers["etag"]})[0] == 304
    query = urllib.request.quote(news["version"])  # type: ignore[attr-defined]
    assert json.loads(served.get(f"/data/study?name=real&drawn={query}")[2])["html"] is None


def test_pages_name_their_sources_and_allow_no_others(served: Served) -> None:
    _, headers, page = served.get("/study/real")
    assert "default-src 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    sources = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert not [source for source in sources if source.startswith(("http", "//"))]
    assert not re.search(r"<script(?![^>]*src=)", page)
    (plotly,) = [source for source in sources if "plotly" in source]
    status, headers, text = served.get(plotly)
    assert status == 200
    assert "immutable" in headers["cache-control"]
    assert len(text) > 1_000_000
    status, headers, text = served.get(plotly, "HEAD")
    assert (status, text) == (200, "")


def test_ctrl_c_ends_it_with_success(place: Path) -> None:
    """And says nothing, though more asked at once than it has threads."""
    with serving(place) as running:
        with ThreadPoolExecutor(4 * server.THREADS) as asking:
            assert {status for status, *_ in asking.map(running.get, ["study/real"] * 8 * server.THREADS)} == {200}
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(timeout=20) == 0
        assert running.process.stderr is not None
        assert running.process.stderr.read() == ""


SAYS_ITS_IMPORTS = """
import sys
import threading

class Said:
    def find_spec(self, name, path=None, target=None):
        if threading.current_thread() is threading.main_thread():
            sys.stderr.write(f"imports {name}\\n")

sys.meta_path.insert(0, Said())
from kilotune.experiments.cli import main
try:
    main(sys.argv[1:])
finally:
    sys.meta_path.pop(0)
"""


def test_nothing_is_imported_once_the_address_is_said(tmp_path: Path) -> None:
    """Ctrl-C inside of an import ends a command with another status."""
    command = [sys.executable, "-c", SAYS_ITS_IMPORTS, "dashboard", "--port", "0", "--storage", str(tmp_path / "s.db")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        before = list(iter_until(process.stderr, "http://"))
        urllib.request.urlopen(before[-1].split()[0], timeout=30).close()
        process.send_signal(signal.SIGINT)
        after = process.stderr.read()
    assert process.returncode == 0
    assert any(line == "imports optuna_dashboard\n" for line in before)
    assert "imports" not in after


def iter_until(lines: IO[str], start: str) -> Iterator[str]:
    """All up to the line that starts so, itself included."""
    for line in lines:
        yield line
        if line.startswith(start):
            return


def test_a_port_that_is_taken_is_one_sentence(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        store = tmp_path / "studies.db"
        refused = subprocess.run(
            [*TUNE, "dashboard", "--port", port, "--storage", str(store)], capture_output=True, text=True, check=False
        )
    assert refused.returncode == ExitStatus.BAD_INPUT
    assert refused.stderr.count("\n") == 1
    assert f"Port {port} of 127.0.0.1 is in use" in refused.stderr
    assert not store.exists()


@pytest.mark.parametrize(
    ("host", "sentence"), [("no.such.name.invalid", "no such address"), ("192.0.2.1", "no such address")]
)
def test_an_address_of_another_machine(host: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        server.listen(host, 0)


def test_without_the_extra_our_own_pages_work(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "has_waitress", lambda: False)
    monkeypatch.setattr(optuna_pages, "is_installed", lambda: False)
    listening = server.listen("127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
    plain = server.make_server(Dashboard(Store(str(place)), local=True), listening)
    thread = threading.Thread(target=plain.run, daemon=True)
    thread.start()
    alone = Served(url, None, "")  # type: ignore[arg-type]
    assert "Optuna" not in alone.get("/")[2]
    assert "optuna-dashboard" not in alone.get("/study/real")[2]
    assert alone.get("/data/study?name=real")[0] == 200
    assert alone.get("/", "POST")[0] == 405
    assert alone.get("/", Host="evil.example")[0] == 403
    status, _, text = alone.get("/optuna/?name=real")
    assert status == 404
    assert "pip install" in text
    plain.shutdown()  # type: ignore[attr-defined]
    thread.join(timeout=10)
    assert not thread.is_alive()
