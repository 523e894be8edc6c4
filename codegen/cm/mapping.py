"""Where a pipeline runs on an accelerator: a core for every stage, a route for every stream, room for its packets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kilotune.codegen.cm.hardware import Hardware
from kilotune.codegen.cm.pipeline import GMEM, Pipeline
from kilotune.codegen.cm.streams import Stream, stream_name


@dataclass(frozen=True)
class Mapping:
    """cores: by stage, all different. routes: link numbers by stream, in the order of `streams_of`. capacities: packets
    that the reader's buffer holds, by stream; 0 is unbounded."""

    cores: tuple[int, ...]
    routes: tuple[tuple[int, ...], ...]
    capacities: tuple[int, ...]


def node_of(hardware: Hardware, cores: Sequence[int], stage: int) -> int:
    """The network node of a stage, or of GMEM."""
    return hardware.gmem if stage == GMEM else cores[stage]


def check_mapping(pipeline: Pipeline, streams: Sequence[Stream], hardware: Hardware, mapping: Mapping) -> None:
    """ValueError, a sentence, when the accelerator cannot run it so: two stages on a core, a matrix too large for the
    crossbars, a route that does not lead from writer to reader, more buffers than SRAM."""
    _check_cores(pipeline, hardware, mapping.cores)
    for stream, route in zip(streams, mapping.routes, strict=True):
        ends = (node_of(hardware, mapping.cores, end) for end in (stream.writer, stream.reader))
        if not _leads(hardware, route, *ends):
            raise ValueError(f"The route of {stream_name(pipeline, stream)} does not lead to its reader.")
    for stage, used in enumerate(sram_bytes(streams, mapping.capacities, len(mapping.cores))):
        if used > hardware.sram_bytes:
            name = pipeline.stages[stage].name
            raise ValueError(
                f"The buffers of {name} take {used} bytes of core {mapping.cores[stage]}'s {hardware.sram_bytes}: "
                f"{used - hardware.sram_bytes} too many."
            )


def _check_cores(pipeline: Pipeline, hardware: Hardware, cores: Sequence[int]) -> None:
    if len(cores) != len(pipeline.stages):
        raise ValueError(f"{len(pipeline.stages)} stages need a core each, and {len(cores)} cores are given.")
    taken: dict[int, int] = {}
    for stage, core in enumerate(cores):
        if not 0 <= core < hardware.cores:
            raise ValueError(f"Stage {pipeline.stages[stage].name} is on core {core} of {hardware.cores}.")
        if core in taken:
            names = f"{pipeline.stages[taken[core]].name} and {pipeline.stages[stage].name}"
            raise ValueError(f"Stages {names} are both on core {core}.")
        taken[core] = stage


def _leads(hardware: Hardware, route: Sequence[int], start: int, goal: int) -> bool:
    """Whether the links lead one after the other from one node to the other."""
    here = start
    for number in route:
        link = hardware.links[number]
        if link.source != here:
            return False
        here = link.target
    return here == goal


def sram_bytes(streams: Sequence[Stream], capacities: Sequence[int], stages: int) -> list[int]:
    """Bytes of buffers by stage, each whole bytes. Unbounded buffers count as one image's packets."""
    used = [0] * stages
    for stream, capacity in zip(streams, capacities, strict=True):
        if stream.reader != GMEM:
            used[stream.reader] += -(-(capacity or stream.packets) * stream.cell_bits // 8)
    return used
