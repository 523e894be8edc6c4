"""The parts of a sparse matrix's processing elements: counted from the plan, as `codegen/rtl/hardware/sparse_unit.py` makes them."""

from __future__ import annotations

from kilotune.codegen.fixed.table import Column
from kilotune.codegen.rtl.plan import HardwarePlan
from kilotune.codegen.rtl.units import SparseUnit, UnitPart
from kilotune.evaluators.fpga.mapping import distributed_parts, product_parts, rom_parts
from kilotune.evaluators.fpga.parts import Parts, address_bits, down_parts, value_bits


def element_list(unit: SparseUnit, number: int) -> tuple[int, int, int]:
    """Bits of a processing element's values, of the columns that it reads, and of an entry of its list."""
    values = [step.value for step in unit.steps[number]] or [0]
    columns = max((step.column for step in unit.steps[number]), default=0).bit_length()
    width = value_bits(min(values), max(values))
    return width, columns, 2 + address_bits(unit.rows) + columns + width


class SparseCount:
    """The parts of processing elements, counted one kind after the other."""

    def __init__(self, unit: SparseUnit, plan: HardwarePlan, family: str) -> None:
        self.unit, self.plan, self.family = unit, plan, family
        self.row, self.rounding = plan.batch.rows[0, unit.row], plan.batch.rounding
        self.accumulator = int(self.row[Column.ACC_BITS])

    def total(self) -> Parts:
        """The parts of the whole unit."""
        unit, plan, accumulator = self.unit, self.plan, self.accumulator
        stored = plan.memories[unit.operation.out.variable][1]
        row_bits, step_bits = address_bits(unit.rows), address_bits(unit.busy)
        total = Parts(
            controls=2, registers=step_bits + 2 * row_bits + 4 * sum(unit.cycles.values()), adders=2 * row_bits
        )
        total += Parts(adders=step_bits)
        for number in range(len(unit.steps)):
            total += self._element(number, row_bits)
        adders = max(0, len(unit.steps) - 1)
        total += Parts(adders=adders * accumulator, registers=adders * accumulator + unit.closing * (row_bits + 2))
        scaled = down_parts(accumulator, int(self.row[Column.SHIFT_OUT]), self.rounding)
        return total + scaled + Parts(registers=stored, choices=stored + row_bits)

    def _element(self, number: int, row_bits: int) -> Parts:
        unit, plan, accumulator = self.unit, self.plan, self.accumulator
        width, columns, listed = element_list(unit, number)
        stored = plan.memories[unit.operation.b.variable][1]
        shift, term_shift = int(self.row[Column.SHIFT_B]), int(self.row[Column.SHIFT_TERM])
        x = max(1, stored - max(0, shift))
        product = min(width + x, accumulator)
        cycles = unit.cycles
        later = sum(cycles.values()) - 1
        total = rom_parts(unit.busy, listed, self.family)
        total += Parts(registers=width + later * (row_bits + 2) + (x + width) * cycles[UnitPart.OPERANDS])
        total += down_parts(stored, shift, self.rounding) + down_parts(product, term_shift, self.rounding)
        total += product_parts(width, x, product, unit.row in plan.design.soft, self.family)
        total += Parts(registers=product * cycles[UnitPart.PRODUCT])
        total += Parts(registers=max(1, product - term_shift) * cycles[UnitPart.TERMS])
        total += distributed_parts(unit.rows, accumulator, self.family)
        total += Parts(adders=accumulator, choices=accumulator + row_bits)
        banks = plan.banks[unit.operation.b.variable]
        visited = {0, *(step.column % banks for step in unit.steps[number])}
        return total + Parts(picks=stored * (len(visited) - 1), choices=columns * banks, adders=columns)
