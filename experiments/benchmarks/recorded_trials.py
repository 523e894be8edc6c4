"""Whether a change of the program changed any trial: every bundled input with every strategy, recorded and compared.

    python -m kilotune.experiments.benchmarks.recorded_trials record FILE [--trials N] [--only TEXT]
    python -m kilotune.experiments.benchmarks.recorded_trials compare FILE FILE

Each case is a `tune` command of its own: N trials, no cache, no stop rule, seed 1. What is recorded is, of every trial, its number, its
candidate and its metrics, to the last bit. A case that the seconds ended before its trials did is compared as far as both went.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kilotune.search.store import Store

TUNE = (sys.executable, "-m", "kilotune.experiments")
SECONDS = 120
"""After which a case is ended, so that a search that proves for hours does not hold up the others."""


def listed(what: str) -> list[str]:
    """The names that `tune list` shows."""
    shown = subprocess.run([*TUNE, "list", what, "--json"], capture_output=True, text=True, check=True)
    return [row["name"] for row in json.loads(shown.stdout)]


def cases() -> Iterator[tuple[str, str, str]]:
    """(space, input, strategy)"""
    strategies, models = listed("strategies"), listed("models")
    inputs = {
        "seedot": models,
        "shiftry": models,
        "memory": models,
        "reverse-split": listed("filters"),
        "cm": listed("networks"),
    }
    for space in listed("spaces"):
        for name in inputs[space]:
            for strategy in strategies:
                yield space, name, strategy


def trials_of(space: str, name: str, strategy: str, trials: int) -> dict[str, Any]:
    """What one case gave: exit status, the last line of its messages, trials, CPU seconds."""
    with tempfile.TemporaryDirectory(prefix="kilotune-recorded-") as folder:
        storage = str(Path(folder) / "studies.db")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [*TUNE, "--space", space, "--input", name, "--strategy", strategy, "--seed", "1"]
        command += ["--budget", f"{trials}trials,{SECONDS}s", "--stop", "never", "--no-cache", "--no-output", "--quiet"]
        done = subprocess.run(
            [*command, "--storage", storage, "--study", "one"], capture_output=True, text=True, check=False
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        rows = list(Store(storage).trials("one")) if Path(storage).exists() else []
    return {
        "exit": done.returncode,
        "message": (done.stderr.strip().splitlines() or [""])[-1] if done.returncode else "",
        "cpu_s": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 2),
        "trials": [[row.number, row.candidate, row.metrics, row.failure] for row in rows],
    }


def record(path: Path, trials: int, only: str) -> None:
    """Writes all cases into `path`, which keeps those that it has."""
    known: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    for space, name, strategy in cases():
        case = f"{space} {name} {strategy}"
        if only in case and case not in known:
            known[case] = trials_of(space, name, strategy, trials)
            path.write_text(json.dumps(known))
            print(f"{case}: {len(known[case]['trials'])} trials, {known[case]['cpu_s']} CPU-s", flush=True)


def compare(first: Path, second: Path) -> int:
    """Prints each case that differs; how many."""
    before, after = json.loads(first.read_text()), json.loads(second.read_text())
    both, differing, compared = before.keys() & after.keys(), 0, 0
    for case in sorted(both):
        old, new = before[case], after[case]
        common = min(len(old["trials"]), len(new["trials"]))
        compared += common
        where = next((n for n in range(common) if old["trials"][n] != new["trials"][n]), None)
        if where is not None or old["exit"] != new["exit"] or old["message"] != new["message"]:
            differing += 1
            what = (
                f"trial {where}"
                if where is not None
                else f"exit {old['exit']} {old['message']!r}, now {new['exit']} {new['message']!r}"
            )
            print(f"{case}: differs: {what}")
        elif len(old["trials"]) != len(new["trials"]):
            print(f"{case}: {len(old['trials'])} trials, now {len(new['trials'])}; the first {common} are equal")
    seconds = [sum(file[case]["cpu_s"] for case in both) for file in (before, after)]
    print(
        f"{len(both)} cases in both files, {differing} differ; {compared} trials compared; {seconds[0]:.0f} CPU-s, now {seconds[1]:.0f}"
    )
    return differing


def main() -> None:
    """Record or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record")
    recording.add_argument("file", type=Path)
    recording.add_argument("--trials", type=int, default=30)
    recording.add_argument("--only", default="", help="cases that have this text in `SPACE INPUT STRATEGY`")
    comparing = commands.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    given = parser.parse_args()
    if given.command == "record":
        record(given.file, given.trials, given.only)
    else:
        sys.exit(1 if compare(given.before, given.after) else 0)


if __name__ == "__main__":
    main()
