"""Where a pipeline runs on an accelerator: a core for every stage, a route for every stream, room for its packets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kilotune.codegen.cm.hardware import Hardware
from kilotune.codegen.cm.pipeline import GMEM, Pipeline
from kilotune.codegen.cm.streams import Stream, stream_name


@dataclass(frozen=True)
class Mapping:
    """cores: by stage, all different unless the hardware lets stages share one. routes: link numbers by stream, in the order of
    `streams_of`; none between stages of one core. capacities: packets that the reader's buffer holds, by stream; 0 is unbounded."""

    cores: tuple[int, ...]
    routes: tuple[tuple[int, ...], ...]
    capacities: tuple[int, ...]


def node_of(hardware: Hardware, cores: Sequence[int], stage: int) -> int:
    """The network node of a stage, or of GMEM."""
    return hardware.gmem if stage == GMEM else cores[stage]


def stages_by_core(cores: Sequence[int]) -> dict[int, list[int]]:
    """The stages of every core that is in use, in their order. cores: by stage."""
    found: dict[int, list[int]] = {}
    for stage, core in enumerate(cores):
        found.setdefault(core, []).append(stage)
    return found


def check_mapping(pipeline: Pipeline, streams: Sequence[Stream], hardware: Hardware, mapping: Mapping) -> None:
    """ValueError, a sentence, when the accelerator cannot run it so: more stages on a core than may share it, matrices that have
    more rows together than its crossbars one below another, a route that does not lead from writer to reader, more buffers than SRAM."""
    _check_cores(pipeline, hardware, mapping.cores)
    for stream, route in zip(streams, mapping.routes, strict=True):
        ends = (node_of(hardware, mapping.cores, end) for end in (stream.writer, stream.reader))
        if not _leads(hardware, route, *ends):
            raise ValueError(f"The route of {stream_name(pipeline, stream)} does not lead to its reader.")
    on_core = stages_by_core(mapping.cores)
    for core, used in core_sram_bytes(streams, mapping).items():
        if used > hardware.sram_bytes:
            raise ValueError(
                f"The buffers of {_names(pipeline, on_core[core])} take {used} bytes of core {core}'s {hardware.sram_bytes}: "
                f"{used - hardware.sram_bytes} too many."
            )


def _check_cores(pipeline: Pipeline, hardware: Hardware, cores: Sequence[int]) -> None:
    if len(cores) != len(pipeline.stages):
        raise ValueError(f"{len(pipeline.stages)} stages need a core each, and {len(cores)} cores are given.")
    for core, stages in stages_by_core(cores).items():
        if not 0 <= core < hardware.cores:
            raise ValueError(f"Stage {pipeline.stages[stages[0]].name} is on core {core} of {hardware.cores}.")
        if len(stages) > hardware.stages_per_core:
            may = f"{hardware.stages_per_core} may be"
            raise ValueError(f"Stages {_names(pipeline, stages)} are on core {core}, where {may}.")
        rows = sum(hardware.rows_taken(pipeline.stages[stage]) for stage in stages)
        if rows > hardware.core_rows:
            raise ValueError(
                f"The matrices of {_names(pipeline, stages)}, one below another, take {rows} rows of crossbars; core {core} has "
                f"{hardware.core_rows}."
            )


def _names(pipeline: Pipeline, stages: Sequence[int]) -> str:
    return " and ".join(pipeline.stages[stage].name for stage in stages)


def _leads(hardware: Hardware, route: Sequence[int], start: int, goal: int) -> bool:
    """Whether the links lead one after the other from one node to the other."""
    here = start
    for number in route:
        link = hardware.links[number]
        if link.source != here:
            return False
        here = link.target
    return here == goal


def core_sram_bytes(streams: Sequence[Stream], mapping: Mapping) -> dict[int, int]:
    """Bytes of the buffers of all stages of a core, of cores in use."""
    by_stage = sram_bytes(streams, mapping.capacities, len(mapping.cores))
    return {core: sum(by_stage[stage] for stage in stages) for core, stages in stages_by_core(mapping.cores).items()}


def sram_bytes(streams: Sequence[Stream], capacities: Sequence[int], stages: int) -> list[int]:
    """Bytes of buffers by stage, each whole bytes. Unbounded buffers count as one image's packets."""
    used = [0] * stages
    for stream, capacity in zip(streams, capacities, strict=True):
        if stream.reader != GMEM:
            used[stream.reader] += -(-(capacity or stream.packets) * stream.cell_bits // 8)
    return used
