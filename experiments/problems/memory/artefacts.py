"""What is written of a placement: a table, a picture, a C header, and for a TFLite model the model with its offline memory plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import lcm
from pathlib import Path
from types import MappingProxyType

from kilotune.codegen.emit.placement_header import PlacedBlock, placement_header
from kilotune.codegen.file_kinds import FileKind, kind_of_file
from kilotune.codegen.tflite.arena import ALIGNMENT_BYTES, arena_of
from kilotune.codegen.tflite.model_file import read_content, read_model
from kilotune.codegen.tflite.offline_plan import plan_words, with_plan
from kilotune.experiments.problems.memory.panels import banks_of
from kilotune.experiments.problems.memory.picture import placement_svg
from kilotune.spaces.memory.candidates import MemoryLayout
from kilotune.spaces.memory.csv_files import migrations_csv, residences_csv
from kilotune.spaces.memory.ordered_space import OrderedSpace
from kilotune.spaces.memory.priced_space import PricedSpace
from kilotune.spaces.memory.space import MemorySpace

ARTEFACTS = MappingProxyType(
    {
        "placement": "placement.csv",
        "header": "placement.h",
        "picture": "placement.svg",
        "migrations": "migrations.csv",
        "order": "order.csv",
        "planned": "planned.tflite",
    }
)
"""Files by what they are."""


def placement_files(space: MemorySpace | OrderedSpace | PricedSpace, layout: MemoryLayout) -> dict[str, str]:
    """The addresses, as a table and as a C header, and their picture; the moves when buffers move."""
    instance = space.instance
    return {
        "placement": residences_csv(instance, layout.residences),
        "header": _header(space, layout),
        "picture": placement_svg(instance, banks_of(space), layout),
        **({"migrations": migrations_csv(layout.migrations)} if layout.migrations else {}),
    }


def planned_model(path: Path, layout: MemoryLayout, order: Sequence[int] | None = None) -> Mapping[str, bytes]:
    """The TFLite model at `path` with its tensors at these addresses, and its operators in that order; nothing for other inputs, where
    buffers move, and where some address is no multiple of what TensorFlow Lite Micro aligns to. InputError for a file that is no model
    any more."""
    if layout.migrations or kind_of_file(path) is not FileKind.TFLITE:
        return {}
    if any(residence.offset % ALIGNMENT_BYTES for residence in layout.residences):
        return {}
    model = read_model(path)
    number = {tensor.name: tensor.number for tensor in arena_of(model).tensors}
    offsets = {number[residence.id]: residence.offset for residence in layout.residences}
    return {"planned": with_plan(read_content(path), plan_words(len(model.tensors), offsets), order)}


def _header(space: MemorySpace | OrderedSpace | PricedSpace, layout: MemoryLayout) -> str:
    buffers = {b.id: b for b in space.instance.buffers}
    arenas = []
    for bank in banks_of(space):
        own = [r for r in layout.residences if r.bank == bank.name]
        peak = max((r.offset + buffers[r.id].size for r in own), default=0)
        arenas.append((bank.name, peak, lcm(*(buffers[r.id].alignment for r in own))))
    blocks = (
        PlacedBlock(r.id, r.bank, r.offset, buffers[r.id].size, r.lower, r.upper)
        for r in sorted(layout.residences, key=lambda r: (r.lower, r.offset))
    )
    return placement_header(space.instance.name, arenas, blocks)
