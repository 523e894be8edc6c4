"""Energy an image, by component: how often a mapped pipeline does what the hardware's table lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kilotune.codegen.cm.energy import EnergyTable
from kilotune.codegen.cm.hardware import Hardware
from kilotune.codegen.cm.mapping import Mapping as CoreMapping
from kilotune.codegen.cm.pipeline import GMEM, Pipeline
from kilotune.codegen.cm.streams import Stream


def image_counts(
    pipeline: Pipeline,
    streams: Sequence[Stream],
    mapping: CoreMapping,
    ticks_per_image: float,
    hardware: Hardware,
) -> dict[str, float]:
    """How often an image does what each of `COMPONENTS` counts: cells, conversions, bits, operations, core ticks. A conversion of
    fewer bits than the hardware's converters have is a part of one; a core that several stages share is one core. Buffers are not asked
    for."""
    conversions = 0.0
    cells = input_bits = operations = sram_bits = 0
    per_tick = hardware.input_bits_per_tick
    for stage in pipeline.stages:
        pieces = -(-stage.input_bits // per_tick) if per_tick else 1
        cells += stage.iterations * stage.crossbar_rows * stage.crossbar_columns * pieces
        share = (
            stage.conversion_bits / hardware.converter_bits if hardware.converter_bits and stage.conversion_bits else 1
        )
        conversions += stage.iterations * stage.crossbar_columns * pieces * share
        input_bits += stage.iterations * stage.crossbar_rows * stage.input_bits
        operations += stage.iterations * stage.dpu_operations
        sram_bits += stage.iterations * stage.read_bits
    link_bits = gmem_bits = 0
    for stream, route in zip(streams, mapping.routes, strict=True):
        bits = stream.packets * stream.cell_bits
        link_bits += bits * len(route)
        gmem_bits += bits if GMEM in (stream.writer, stream.reader) else 0
        sram_bits += bits if stream.reader != GMEM else 0
    return {
        "cell_pj": cells,
        "conversion_pj": conversions,
        "input_bit_pj": input_bits,
        "dpu_operation_pj": operations,
        "sram_bit_pj": sram_bits,
        "link_bit_pj": link_bits,
        "gmem_bit_pj": gmem_bits,
        "core_tick_pj": len(set(mapping.cores)) * ticks_per_image,
    }


def energy_nj(table: EnergyTable, counts: Mapping[str, float]) -> dict[str, float]:
    """Nanojoules an image by component, without the unit of their names; those that the table has no figure for are left out."""
    return {name.removesuffix("_pj"): counts[name] * picojoules / 1000 for name, picojoules in table.picojoules}
