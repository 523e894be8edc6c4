"""What things cost in energy: the table of a hardware file, by component."""

from __future__ import annotations

from dataclasses import dataclass, field

from kilotune.codegen.ir.views import NOT_CONTENT

COMPONENTS = (
    "cell_pj",
    "conversion_pj",
    "input_bit_pj",
    "dpu_operation_pj",
    "sram_bit_pj",
    "link_bit_pj",
    "gmem_bit_pj",
    "core_tick_pj",
)
"""What a figure is of: a crossbar's cell in a matrix-vector product, once for each piece of the operands' bits, with whatever of the
converters is not listed by itself; a column read, with as many bits as the converters have; a bit put on a row; an operation of a DPU; a
bit written or read in a core's memory; a bit over one link; a bit in or out of GMEM; a core in use in a tick, whatever it does."""


@dataclass(frozen=True)
class EnergyTable:
    """picojoules: by component, those of `COMPONENTS` of which something is published; the others count nowhere.

    source: where the figures are from.
    """

    source: str = field(metadata=NOT_CONTENT)
    picojoules: tuple[tuple[str, float], ...] = ()
