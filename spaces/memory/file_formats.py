"""Which files are placement problems, by what is in them."""

from __future__ import annotations

from pathlib import Path

from kilotune.spaces.memory.csv_files import has_buffer_columns
from kilotune.spaces.memory.heap_traces import HEAP_TRACES, has_heap_trace
from kilotune.spaces.memory.idealloc_files import PLC, has_plc_records


def placement_format(text: str) -> str | None:
    """What the file of that name holds; None where that is no placement problem, and where there is no file."""
    path = Path(text)
    try:
        if not path.is_file():
            return None
    except OSError:  # too long for a name
        return None
    if path.suffix in HEAP_TRACES:
        return "an XLA heap trace" if has_heap_trace(path) else None
    if path.suffix == PLC:
        return "buffers of idealloc" if has_plc_records(path) else None
    return "a CSV of buffers" if has_buffer_columns(path) else None
