"""`tune list buffers`: the buffers of a bundle as MiniMalloc's CSV, as JSON, or as an instance of the memory space."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from kilotune.codegen import ir
from kilotune.codegen.buffers import LiveBuffer, buffers
from kilotune.codegen.bundle import load_bundle
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.experiments.problems.fixed_point.problem import resolve_input
from kilotune.spaces.memory.instance import Buffer, Instance

DEFAULT_BITS = 16
COLUMNS = ("id", "lower", "upper", "size")


def buffers_of_bundle(input_: str | None, bits: int) -> tuple[LiveBuffer, ...]:
    """The buffers when every variable has the same width. InputError for a bundle that cannot be read."""
    program = load_bundle(resolve_input(input_)).program
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


def as_csv(listed: Sequence[LiveBuffer]) -> str:
    """MiniMalloc's columns; ranges are half-open."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows([getattr(buffer, column) for column in COLUMNS] for buffer in listed)
    return text.getvalue()


def as_rows(listed: Sequence[LiveBuffer]) -> list[dict[str, Any]]:
    """The same for JSON, with the alignment and the operands whose place a buffer may take."""
    return [
        {**{column: getattr(b, column) for column in COLUMNS}, "alignment": b.alignment, "may_take": list(b.may_take)}
        for b in listed
    ]
