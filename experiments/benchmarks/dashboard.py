"""What the dashboard costs: opening a study, what it sends, an open page that waits.

`python -m kilotune.experiments.benchmarks.dashboard [--trials 10000] [--seconds 60]`

A finished study of `shiftry`, its dashboard in a process of its own, and a client that asks as the page does: every 10 s while
nothing runs. CPU seconds are the server's, from /proc.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import quote

TUNE = (sys.executable, "-m", "kilotune.experiments")
ASKED_EVERY_S = 10.0


def cpu_s(process_id: int) -> float:
    """The CPU seconds that a process has used so far."""
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def fetch(url: str, tag: str = "") -> tuple[int, str, bytes]:
    """Status, ETag, body."""
    request = urllib.request.Request(url, headers={"If-None-Match": tag} if tag else {})
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.headers["ETag"] or "", answer.read()
    except urllib.error.HTTPError as error:
        return error.code, tag, b""


def measure(folder: Path, trials: int, seconds: float) -> None:
    """Print the table."""
    store = str(folder / "studies.db")
    search = ("--space", "shiftry", "--strategy", "local", "--budget", f"{trials}trials", "--study", "big")
    subprocess.run([*TUNE, *search, "--no-output", "--quiet", "--storage", store], check=True)
    command = [*TUNE, "dashboard", "--port", "0", "--storage", store]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        found = re.match(r"(http://\S+) ", server.stderr.readline())
        assert found is not None
        print(f"{'':<44}{'seconds':>10}{'CPU-s':>10}{'KB':>10}")
        print(f"{'started':<44}{'':>10}{cpu_s(server.pid):>10.2f}")
        news = f"{found[1]}data/study?name=big"
        for what, url in (
            ("overview, read for the first time", f"{found[1]}data/overview"),
            ("overview again", f"{found[1]}data/overview"),
            (f"study of {trials} trials, opened", news),
            ("the same again", news),
            ("its copy for optuna-dashboard, made", f"{found[1]}optuna/?name={quote('big')}"),
            ("that copy as optuna-dashboard asks for it", f"{found[1]}api/studies/0"),
        ):
            began_s, before_s = time.perf_counter(), cpu_s(server.pid)
            body = fetch(url)[2]
            took_s = time.perf_counter() - began_s
            print(
                f"{what:<44}{took_s:>10.2f}{cpu_s(server.pid) - before_s:>10.2f}{len(body) / 1000:>10.1f}", flush=True
            )
        version = json.loads(fetch(news)[2])["version"]
        news += f"&drawn={quote(version)}"
        tag, before_s, asked = fetch(news)[1], cpu_s(server.pid), 0
        began_s = time.perf_counter()
        while time.perf_counter() - began_s < seconds:
            status, tag, _ = fetch(news, tag)
            assert status == 304, status
            asked += 1
            time.sleep(ASKED_EVERY_S)
        share = (cpu_s(server.pid) - before_s) / (time.perf_counter() - began_s)
        print(f"an open page that waits: {100 * share:.2f} % of a core ({asked} questions in {seconds:.0f} s)")
        server.send_signal(signal.SIGINT)


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), arguments.trials, arguments.seconds)


if __name__ == "__main__":
    main()
