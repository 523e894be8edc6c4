"""`tune list buffers`: the buffers of a bundle as MiniMalloc's CSV, as JSON, or as an instance of the memory space."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import click

from kilotune.codegen import ir
from kilotune.codegen.buffers import LiveBuffer, buffers
from kilotune.codegen.bundle import load_bundle
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.experiments.models.catalogue import resolve_model
from kilotune.experiments.problems.family import ListedRows, ListingRequest
from kilotune.search.space import Assignment
from kilotune.spaces.memory.instance import Buffer, Instance

DEFAULT_BITS = 16
COLUMNS = ("id", "lower", "upper", "size")


@runtime_checkable
class LowersPrograms(Protocol):
    """Ability: a candidate is a fixed-point program."""

    def lower(self, assignment: Assignment) -> FixedBatch:
        """The program, as a batch of one."""


def listed(asked: ListingRequest) -> ListedRows:
    """For `tune list buffers`: of --input, or of the best candidate of --study. ValueError for a study without a program."""
    given, study = asked.given, asked.given.get("study")
    if study is None:
        return as_rows(buffers_of_bundle(given.get("input_"), int(given.get("bits", DEFAULT_BITS))))
    if given.keys() & {"bits", "input_"}:
        raise click.UsageError("--study takes the program and the widths of the study's best: no --input, no --bits.")
    problem, best = asked.best_of(study)
    if best is None or not isinstance(problem, LowersPrograms):
        raise ValueError(f"Study {study!r} holds no program yet: there are no widths.")
    return as_rows(buffers_of_candidate(problem.lower(best.assignment)))


def buffers_of_bundle(input_: str | None, bits: int) -> tuple[LiveBuffer, ...]:
    """The buffers when every variable has the same width. InputError for a bundle that cannot be read."""
    program = load_bundle(resolve_model(input_)).program
    return buffers(program, {v.name: bits for v in program.variables})


def buffers_of_candidate(batch: FixedBatch) -> tuple[LiveBuffer, ...]:
    """The buffers of the first candidate of a batch."""
    return buffers(batch.program, widths_of(batch.program, batch.bits[0]))


def widths_of(program: ir.Program, row: Sequence[int]) -> dict[str, int]:
    """Bits by variable."""
    return {v.name: int(bits) for v, bits in zip(program.variables, row, strict=True)}


def as_instance(name: str, listed: Sequence[LiveBuffer], alignment: Mapping[str, int] | None = None) -> Instance:
    """A placement problem; elements lie at multiples of their width unless `alignment` says otherwise."""
    chosen = {b.id: b.alignment for b in listed} | dict(alignment or {})
    return Instance(name, tuple(Buffer(b.id, b.lower, b.upper, b.size, chosen[b.id]) for b in listed))


def as_csv(rows: ListedRows) -> str:
    """MiniMalloc's columns of what `as_rows` makes; ranges are half-open."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows([row[column] for column in COLUMNS] for row in rows)
    return text.getvalue()


def as_rows(listed: Sequence[LiveBuffer]) -> ListedRows:
    """Buffers as JSON, with the alignment and the operands whose place a buffer may take."""
    return [
        {**{column: getattr(b, column) for column in COLUMNS}, "alignment": b.alignment, "may_take": list(b.may_take)}
        for b in listed
    ]
