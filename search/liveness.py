"""Which processes that work on stored studies live: each beats in the store, and one of this machine can be looked for."""

from __future__ import annotations

import hashlib
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import sqlalchemy as sa

from kilotune.search.schema import STUDIES, TUNERS

BEAT_S = 2.0
WATCH_S = 2.5 * BEAT_S
"""In that time a process that lives has beaten."""

POLL_S = 0.1


def living(
    connect: Callable[[], AbstractContextManager[sa.Connection]],
    studies: Sequence[str] | None = None,
    watch_s: float = WATCH_S,
) -> Counter[str]:
    """How many living processes work on each of the studies (None: on every study of the store), those on which none does left
    out. A process is known by its beat: one that ended on this machine is dead at once, others are watched for up to `watch_s`
    seconds, and less where all turn out to live. `connect`: to a store of schema version 2 or later."""
    deadline, first, alive = time.monotonic() + watch_s, dict[tuple[str, str], int](), set[tuple[str, str]]()
    while True:
        with connect() as connection:
            beats = beats_in(connection, studies)
        first = {**beats, **first}
        alive = {key for key, beat in beats.items() if key in alive or beat != first[key]}
        if len(alive) == len(beats) or time.monotonic() >= deadline:
            return Counter(name for name, _ in alive)
        time.sleep(POLL_S)


def beats_in(connection: sa.Connection, studies: Sequence[str] | None = None) -> dict[tuple[str, str], int]:
    """How often the processes have beaten that work on the studies (None: on any), by study and process. Those of this machine that have
    ended are left out; others may have."""
    query = sa.select(STUDIES.c.name, TUNERS.c.owner, TUNERS.c.beat).join(STUDIES, TUNERS.c.study_id == STUDIES.c.id)
    if studies is not None:
        query = query.where(STUDIES.c.name.in_(studies))
    return {(row.name, row.owner): row.beat for row in connection.execute(query) if not is_gone(row.owner)}


def own_machine() -> str:
    """A name for whatever shares our process numbers: a machine since it was booted, or a container of it. Empty, with
    nobody, where that cannot be told."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
        return hashlib.blake2b(f"{boot}{os.stat('/proc/self/ns/pid').st_ino}".encode(), digest_size=4).hexdigest()
    except OSError:
        return ""


def is_gone(owner: str) -> bool:
    """Whether a process of this machine has ended. One that only took its number over makes us wait for its beat."""
    machine, _, rest = owner.partition("-")
    number = rest.partition("-")[0]
    return bool(machine) and machine == own_machine() and number.isdigit() and not Path("/proc", number).exists()
