"""Buffers to be placed, as MiniMalloc's CSV."""

from __future__ import annotations

from random import Random

from kilotune.experiments.fuzz.byte_mutations import mutate_bytes
from kilotune.experiments.fuzz.case import FuzzCase
from kilotune.experiments.fuzz.kind import Kind, corpus_files, on_files
from kilotune.experiments.fuzz.kinds.models import TUNE
from kilotune.experiments.fuzz.text_mutations import NUMBERS, mutate_text

OPTIONS = (
    (),
    ("--capacity", "1KiB"),
    ("--migration-price", "0.5", "--moves", "2"),
    ("--strategy", "local"),
    ("--strategy", "greedy"),
    ("--bank", "fast=64", "--bank", "slow=100000:0.5", "--strategy", "exhaustive"),
)


def _corpus() -> tuple[FuzzCase, ...]:
    return tuple(
        FuzzCase("buffers", ("--space", "memory", "--input", name, *options, *TUNE), {name: content})
        for name, content in corpus_files("buffers").items()
        for options in OPTIONS
        if ("--bank" in options) == (name == "banks.csv")
    )


def _cell(content: bytes, random: Random) -> bytes:
    """Another value in a cell, or in all cells of a column."""
    rows = [line.split(",") for line in content.decode("utf-8", errors="surrogateescape").split("\n")]
    full = [row for row in rows[1:] if len(row) == len(rows[0])]
    if not full:
        return content
    column, value = random.randrange(len(rows[0])), random.choice((*NUMBERS, "", "x", "yes", "fast slow"))
    for row in full if random.random() < 0.2 else [random.choice(full)]:
        row[column] = value
    return "\n".join(",".join(row) for row in rows).encode("utf-8", errors="surrogateescape")


def _column(content: bytes, random: Random) -> bytes:
    """A column more, less, or with another name."""
    rows = [line.split(",") for line in content.decode("utf-8", errors="surrogateescape").split("\n")]
    at, change = random.randrange(len(rows[0])), random.randrange(3)
    name = random.choice(("alignment", "banks", "constant", "offset", "size", "start", "x", ""))
    for number, row in enumerate(rows):
        if len(row) <= at:
            continue
        if change == 0:
            del row[at]
        elif change == 1:
            row.insert(at, name if number == 0 else random.choice(("1", "8", "", "fast", *row)))
        elif number == 0:
            row[at] = name
    return "\n".join(",".join(row) for row in rows).encode("utf-8", errors="surrogateescape")


BUFFERS = Kind(
    "buffers",
    _corpus,
    tuple(on_files("*.csv", mutate) for mutate in (mutate_bytes, mutate_text, _cell, _cell, _column)),
)
