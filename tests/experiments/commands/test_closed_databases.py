"""A command closes the databases that it opens: from Python 3.13 on an open one is a warning."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.commands import tune

SEARCH = ("--space", "memory", "--budget", "3trials", "--study", "s", "--no-output")


@pytest.fixture
def connections() -> Iterator[set[int]]:
    """Those of all stores that are open."""
    there: set[int] = set()

    def opened(connection: object, _record: object) -> None:
        there.add(id(connection))

    def closed(connection: object, _record: object) -> None:
        there.discard(id(connection))

    hearing = (("connect", opened), ("close", closed))
    for event, hear in hearing:
        sa.event.listen(sa.Pool, event, hear)
    yield there
    for event, hear in hearing:
        sa.event.remove(sa.Pool, event, hear)


def test_a_command_leaves_no_database_open(connections: set[int], tmp_path: Path) -> None:
    environment = {**os.environ, "KILOTUNE_STORAGE": str(tmp_path / "studies.db")}
    for asked in (SEARCH, ("resume", "s", "--budget", "1trials", "--no-output"), ("list", "studies"), ("report", "s")):
        done = tune(tmp_path, environment, *asked)
        assert done.returncode == 0, done.stderr
        assert not connections, asked
    refused = tune(tmp_path, environment, *SEARCH, "--seed", "7")
    assert refused.returncode == 4
    assert not connections
