"""Requests and plans as a database stores them: JSON that says what was asked, mutated value by value."""

from __future__ import annotations

from random import Random

from kilotune.experiments.fuzz.case import FuzzCase
from kilotune.experiments.fuzz.kind import Kind, on_files
from kilotune.experiments.fuzz.kinds.databases import (
    COMMANDS,
    COMPARISON,
    DATABASE,
    STUDY,
    change_cell,
    database,
    rows_of_today,
)

EXTENDED = ("compare", "--name", COMPARISON, "--strategies", "nowhere", "--quiet")
"""Refused when the stored plan has been read: going on with it would start processes."""


def _request(content: bytes, random: Random) -> bytes:
    return change_cell(content, random, ("studies",), ("request", "decisions", "strategy", "seed", "budget", "space"))


def _plan(content: bytes, random: Random) -> bytes:
    return change_cell(content, random, ("comparisons",), ("plan", "findings"))


def _corpus() -> tuple[FuzzCase, ...]:
    content, commands = database(), (*COMMANDS, EXTENDED)
    return tuple(FuzzCase("requests", (*command, "--storage", DATABASE), {DATABASE: content}) for command in commands)


REQUESTS = Kind(
    "requests",
    _corpus,
    (on_files(DATABASE, _request), on_files(DATABASE, _plan)),
    writes=(DATABASE, f"{DATABASE}-*"),
    contents=rows_of_today,
    named=(STUDY, COMPARISON, "nowhere"),
)
