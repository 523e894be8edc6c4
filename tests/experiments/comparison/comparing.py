"""`tune compare` in a folder and a store of a test's own."""

from __future__ import annotations

import subprocess
from typing import Any

from kilotune.search.store import Store
from tests.commands import tune


def compare(place: dict[str, Any], *arguments: str) -> subprocess.CompletedProcess[str]:
    """By one worker, since each has to start."""
    return tune(place["cwd"], place["env"], "compare", "--jobs", "1", *arguments)


def trials(place: dict[str, Any]) -> dict[str, list[tuple[int, str]]]:
    store = Store(place["env"]["KILOTUNE_STORAGE"])
    found = {row.name: [(t.number, t.candidate) for t in store.trials(row.name)] for row in store.studies()}
    store.close()
    return found
