"""Shiftry's worked example, number for number: Pseudocodes 2-5, Tables 1, 2 and 3.

The printed values cut the fifth decimal off (5.0457 is printed as 5.0456) and follow from floor shifts: with C's
division toward zero neither table comes out. One integer of Pseudocode 4 is illegible in our copy of the paper: X's first
element, 2.391 * 2**5 = 76.5, which the text shows as "70" once and not at all the second time; 76 is asserted.
"""

from __future__ import annotations

import numpy as np
import pytest

from kilotune.codegen.fixed.arithmetic import Accumulator, Rounding, get_scale, quantise
from kilotune.codegen.fixed.footprint import Footprint
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.codegen.fixed.table import Column, FixedBatch
from kilotune.codegen.live_ranges import LiveRange, live_ranges, peak_bytes
from kilotune.codegen.profile import profile
from kilotune.evaluators.fixed_point.reference import run_reference

from .programs import no_features, shiftry_section_3

PROGRAM, PARAMETERS = shiftry_section_3()
NAMES = [v.name for v in PROGRAM.variables]
PROFILE, FLOAT_RUN = profile(PROGRAM, PARAMETERS, no_features())
FLOAT_RESULT = float(FLOAT_RUN.outputs[0, 0])
ROW = {"t1": 0, "t2": 1, "t3": 2, "t4": 3}

PARTIAL_DEMOTE = {  # Table 1
    "W1": (-5.0456, 0.0660), "W2": (-5.0402, 0.0713), "B1": (-5.1022, 0.0093), "B2": (-5.1171, 0.0055),
    "X": (-5.0788, 0.0328), "t1": (-5.0012, 0.1104), "t2": (-5.0012, 0.1104), "t3": (-5.1875, 0.0758),
    "t4": (-5.1875, 0.0758),
}  # fmt: skip
CUMULATIVE_DEMOTE = (  # Table 2
    ("B2", -5.1171, 0.0055), ("B1", -5.1093, 0.0022), ("X", -5.0781, 0.0335), ("W1", -5.0156, 0.0960),
    ("W2", -4.9453, 0.1663), ("t3", -5.0000, 0.1116), ("t4", -5.0000, 0.1116), ("t1", -4.8750, 0.2366),
    ("t2", -4.8750, 0.2366),
)  # fmt: skip


def lower(*demoted: str, accumulator: Accumulator = Accumulator.DOUBLE) -> FixedBatch:
    """16 bits at the data-driven scales, the demoted variables with 8 bits at scale16 - 8."""
    scales = np.array([[get_scale(PROFILE.magnitude(name), 16) for name in NAMES]])
    narrow = np.array([[name in demoted for name in NAMES]])
    lowering = ShiftryLowering(PROGRAM, {}, Rounding.FLOOR, accumulator)
    return lowering.lower(np.where(narrow, 8, 16), np.where(narrow, scales - 8, scales))


def stored(batch: FixedBatch, name: str) -> list[int]:
    column = NAMES.index(name)
    return quantise(PARAMETERS[name], int(batch.bits[0, column]), int(batch.scales[0, column])).reshape(-1).tolist()


def result(batch: FixedBatch) -> tuple[int, float]:
    integer = int(run_reference(batch, PARAMETERS, no_features())[0, 0, 0])
    return integer, integer / 2.0 ** int(batch.scales[0, NAMES.index("t4")])


def shifts(batch: FixedBatch, name: str) -> tuple[int, int, int]:
    row = batch.rows[0, ROW[name]]
    return int(row[Column.SHIFT_A]), int(row[Column.SHIFT_B]), int(row[Column.SHIFT_OUT])


def test_float_result() -> None:
    assert pytest.approx(-5.11167404, abs=5e-9) == FLOAT_RESULT


def test_pseudocode_2_all_16_bits() -> None:
    batch = lower()
    assert stored(batch, "W1") == [689, 3191, 16728, -13549]
    assert stored(batch, "B1") == [-1048, 20283]
    assert stored(batch, "X") == [19587, -29351]
    assert stored(batch, "W2") == [-6586, -16596]
    assert stored(batch, "B2") == [24150]
    assert shifts(batch, "t1") == (0, 0, 15)
    assert shifts(batch, "t2") == (0, 3, 0)
    assert shifts(batch, "t3") == (0, 0, 14)
    assert shifts(batch, "t4") == (0, 3, 0)
    integer, value = result(batch)
    assert integer == -20935
    assert value == pytest.approx(-5.11108398, abs=5e-9)
    assert abs(value - FLOAT_RESULT) == pytest.approx(0.0006, abs=5e-5)


def test_pseudocode_3_b1_demoted() -> None:
    batch = lower("B1")
    assert stored(batch, "B1") == [-4, 79]
    assert shifts(batch, "t2") == (5, 0, 0)
    assert shifts(batch, "t3") == (0, 0, 9)
    assert shifts(batch, "t4") == (0, 3, 0)


def test_pseudocode_4_the_chosen_program() -> None:
    batch = lower("B2", "B1", "X", "W1")
    assert stored(batch, "W1") == [2, 12, 65, -52]
    assert stored(batch, "B1") == [-4, 79]
    assert stored(batch, "X") == [76, -114]
    assert stored(batch, "W2") == [-6586, -16596]
    assert stored(batch, "B2") == [94]
    assert shifts(batch, "t1") == (0, 0, 0)
    assert batch.rows[0, ROW["t1"], Column.ACC_BITS] == 16  # W1 x_int16 X
    assert shifts(batch, "t2") == (4, 0, 0)
    assert shifts(batch, "t3") == (0, 0, 9)
    assert batch.rows[0, ROW["t3"], Column.ACC_BITS] == 32
    assert shifts(batch, "t4") == (5, 0, 0)


@pytest.mark.parametrize("accumulator", [Accumulator.WIDE, Accumulator.DOUBLE])
@pytest.mark.parametrize("name", PARTIAL_DEMOTE)
def test_table_1_partial_demote(name: str, accumulator: Accumulator) -> None:
    printed, loss = PARTIAL_DEMOTE[name]
    _, value = result(lower(name, accumulator=accumulator))
    assert value == pytest.approx(printed, abs=1e-4)
    assert abs(value - FLOAT_RESULT) == pytest.approx(loss, abs=1e-4)


@pytest.mark.parametrize("count", range(1, len(CUMULATIVE_DEMOTE) + 1))
def test_table_2_cumulative_demote(count: int) -> None:
    _, printed, loss = CUMULATIVE_DEMOTE[count - 1]
    _, value = result(lower(*(name for name, _, _ in CUMULATIVE_DEMOTE[:count])))
    assert value == pytest.approx(printed, abs=1e-4)
    assert abs(value - FLOAT_RESULT) == pytest.approx(loss, abs=1e-4)


def test_the_tables_need_floor_shifts() -> None:
    lowering = ShiftryLowering(PROGRAM, {}, Rounding.TOWARD_ZERO)
    floor = lower("t1")
    batch = lowering.lower(floor.bits, np.where(floor.bits == 8, 4, [[14, 15, 14, 15, 13, 4, 12, 12, 12]]))
    assert result(batch)[1] != pytest.approx(PARTIAL_DEMOTE["t1"][0], abs=1e-4)


def test_table_3_live_ranges() -> None:
    assert live_ranges(PROGRAM) == {
        "t1": LiveRange(1, 2), "t2": LiveRange(2, 3), "t3": LiveRange(3, 4), "t4": LiveRange(4, 5)
    }  # fmt: skip
    sizes = {v.name: v.size * 2 for v in PROGRAM.variables}
    assert [sizes[name] for name in ("t1", "t2", "t3", "t4")] == [4, 4, 2, 2]
    assert peak_bytes(PROGRAM, sizes) == 8  # Pseudocode 5


def test_memory_figures() -> None:
    footprint = Footprint(PROGRAM, PARAMETERS, in_place=False)
    assert sum(a.size for a in PARAMETERS.values()) * 4 == 44  # bytes of the float model's flash
    for batch, flash, ram in ((lower(), 22, 8), (lower("B2", "B1", "X", "W1"), 13, 8)):
        bits = batch.bits.astype(np.int64)
        assert int(footprint.flash_bytes(bits)[0]) == flash
        assert int(footprint.ram_bytes(bits)[0]) == ram
