"""One study that is killed again and again while one or two `tune` processes work on it, and what it must end with.

Three things are held. What was in the store before a kill is there after it, unchanged. What a process had reported is in the store
when it is dead. And when the study has at last been left in peace, its trials are those of a study of the same seed that never was
disturbed: the same candidates and metrics under the same numbers, none missing.
"""

from __future__ import annotations

import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kilotune.search.store import Store

TIMEOUT_S = 600.0
POLL_S = 0.05
AT_ONCE = 0.25
"""How often a moment counts from the start of the process instead of its first new trial."""

EXTRA_TRIALS = 20
"""The trials of the last run, besides those that kills left out."""

_REPORTED = re.compile(r"^(\d+) trials?,", re.MULTILINE)


@dataclass(frozen=True)
class Subject:
    """What is searched. Its strategy must propose the same candidates whatever the clock says."""

    space: str
    input: str | None
    strategy: str

    def command(self, study: str, seed: int, url: str, budget: str) -> list[str]:
        """Begins the study, or goes on with it."""
        asked = ["--space", self.space, *([] if self.input is None else ["--input", self.input])]
        how = ["--strategy", self.strategy, "--seed", str(seed), "--study", study, "--storage", url, "--budget", budget]
        # a run that is ended by what it has found ends elsewhere when it is cut into several
        how += ["--stop", "never"]
        return [sys.executable, "-m", "kilotune.experiments", *asked, *how, "--no-output", "--no-cache"]


SUBJECTS = (
    Subject("seedot", "lenet-digits", "random"),
    Subject("shiftry", "fastgrnn16-digits", "local"),
    Subject("memory", "minimalloc-a", "random"),
    Subject("reverse-split", "sobel", "random"),
    Subject("cm", None, "random"),
)
"""Every space, with an input on which the search goes on for a while."""

StoredTrials = Mapping[int, tuple[str, str, str | None]]
"""Stored trials by number: candidate, metrics, failure."""


@dataclass(frozen=True)
class Round:
    """A study that was killed so often; `searching`: how many kills came after the process's first new trial. `faults` are
    sentences, none when all is as it should be."""

    subject: Subject
    kills: int
    searching: int
    trials: int
    faults: tuple[str, ...]


def killed_study(
    subject: Subject, url: str, processes: int, kills: int, rng: random.Random, folder: Path, window_s: float
) -> Round:
    """Kill the processes of a new study until there were `kills`, or the study has come to its end; then let it end, and compare.
    A moment is drawn from `window_s` seconds: after the start of the process in one case of four, so that imports, the building of
    the problem and the replay are hit, and after its first new trial in the others. `folder` takes logs, and the undisturbed study."""
    name, seed = f"soak-{subject.space}-{rng.randrange(10**9)}", rng.randrange(1000)
    command = subject.command(name, seed, url, f"{TIMEOUT_S:.0f}s")
    killed, searching, faults = 0, 0, list[str]()
    store = Store(url)
    try:
        while killed < kills:
            before = stored(store, name)
            done, said = _kill_all(command, min(processes, kills - killed), store, name, rng, folder, window_s)
            after = stored(store, name)
            killed += done
            searching += done if len(after) > len(before) else 0
            faults += lost(before, after)
            reported = max([int(count) for text in said for count in _REPORTED.findall(text)], default=0)
            if reported > len(after):
                faults.append(f"{reported} trials were reported, and {len(after)} are stored")
            if not done:
                break
        kept = stored(store, name)
        missing = (max(kept, default=-1) + 1) - len(kept)
        faults += _run_to_end(subject.command(name, seed, url, f"{missing + EXTRA_TRIALS}trials"), folder)
        ended = stored(store, name)
    finally:
        store.close()
    faults += lost(kept, ended)
    alone = f"{folder}/{name}.db"
    faults += _run_to_end(subject.command(name, seed, alone, f"{max(1, len(ended))}trials"), folder)
    undisturbed = Store(alone)
    faults += differences(ended, stored(undisturbed, name))
    undisturbed.close()
    return Round(subject, killed, searching, len(ended), tuple(faults))


def stored(store: Store, study: str) -> StoredTrials:
    """All trials of a study; none where it does not exist."""
    return {
        row.number: (row.candidate, repr(sorted(row.metrics.items())), row.failure)
        for _ in store.studies(study)
        for row in store.trials(study)
    }


def lost(before: StoredTrials, after: StoredTrials) -> list[str]:
    """What was stored and no longer is as it was."""
    gone = [number for number in before if number not in after]
    changed = [number for number in before if number in after and after[number] != before[number]]
    return [
        *([f"{len(gone)} stored trials are gone, the first is {gone[0]}"] if gone else []),
        *([f"{len(changed)} stored trials have changed, the first is {changed[0]}"] if changed else []),
    ]


def differences(disturbed: StoredTrials, undisturbed: StoredTrials) -> list[str]:
    """What sets the study apart from the one that nobody killed."""
    numbers = sorted({*disturbed, *undisturbed})
    odd = [number for number in numbers if disturbed.get(number) != undisturbed.get(number)]
    faults = [f"{len(odd)} trials are not the undisturbed run's, the first is {odd[0]}"] if odd else []
    if numbers != list(range(len(numbers))):
        faults.append("numbers are missing")
    return faults


def _kill_all(
    command: Sequence[str],
    processes: int,
    store: Store,
    study: str,
    rng: random.Random,
    folder: Path,
    window_s: float,
) -> tuple[int, list[str]]:
    """Start them, and kill one after the other; how many were alive then, and what all said. The second one joins a study that
    is there: two that begin the same one at once are refused."""
    team: list[subprocess.Popen[bytes]] = []
    before = _count(store, study)
    logs = [folder / f"{study}-{number}.log" for number in range(processes)]
    killed = 0
    try:
        for log in logs:
            if team:
                _wait_until(team[0], lambda: bool(store.studies(study)), TIMEOUT_S)
            with log.open("wb") as said:
                team.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said, cwd=folder))
        for process in rng.sample(team, len(team)):
            if rng.random() >= AT_ONCE:
                _wait_until(process, lambda: _count(store, study) > before, TIMEOUT_S)
            _wait_until(process, lambda: False, rng.uniform(0.0, window_s))
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                killed += 1
    finally:
        for process in team:
            process.kill()
            process.wait()
    return killed, [log.read_text(errors="replace") for log in logs]


def _count(store: Store, study: str) -> int:
    return sum(row.trials for row in store.studies(study))


def _wait_until(process: subprocess.Popen[bytes], there: Callable[[], bool], at_most_s: float) -> None:
    """No longer than the process lives."""
    deadline = time.monotonic() + at_most_s
    while process.poll() is None and time.monotonic() < deadline and not there():
        time.sleep(POLL_S)


def _run_to_end(command: Sequence[str], folder: Path) -> list[str]:
    """Faults of a run that is left in peace."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, cwd=folder)
    if done.returncode in (0, 1):
        return []
    return [f"a run that nobody disturbed ended with exit status {done.returncode}: {done.stderr.strip()[-300:]}"]
