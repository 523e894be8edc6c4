"""A full device by nextpnr's words: lines as nextpnr-ice40 and nextpnr-ecp5 0.11 have written them, and what only looks like them."""

from __future__ import annotations

import pytest

from kilotune.evaluators.fpga.boards import ECP5, ICE40, ULTRAPLUS, GateFamily
from kilotune.evaluators.fpga.placer_refusals import device_is_full, pins_are_short, pins_wanted

CELLS_OVER = "Info: \t         ICESTORM_LC:    1670/    384   434%"
CELLS_UNDER = "Info: \t         ICESTORM_LC:     380/    384    98%"
PINS_OVER = "Info: \t               SB_IO:      24/     21   114%"
BUFFERS_OVER = "Info: \t               SB_GB:       9/      8   112%"
NO_CELL = "ERROR: Unable to place cell 'op0_LC', no BELs remaining to implement cell type 'ICESTORM_LC'"
NO_LEGAL = (
    "ERROR: Unable to find legal placement for cell 'op0_LC' after 10001 attempts, check constraints and utilisation."
)


@pytest.mark.parametrize(
    ("log", "family", "full"),
    [
        (f"{CELLS_OVER}\n{NO_CELL}", ICE40, True),
        (NO_CELL, ICE40, True),
        (NO_LEGAL, ICE40, True),
        ("ERROR: Unable to find legal placement for all cells, design is probably at utilisation limit.", ECP5, True),
        ("ERROR: Unable to place cell 'm', no BELs remaining to implement cell type 'ICESTORM_DSP'", ULTRAPLUS, True),
        ("ERROR: Unable to place cell 'm', no BELs remaining to implement cell type 'DP16KD'", ECP5, True),
        (f"{CELLS_OVER}\nERROR: Packing design failed.", ICE40, True),
        # an iCE40 HX has no multipliers, so no smaller design of ours asks for fewer of them
        ("ERROR: Unable to place cell 'm', no BELs remaining to implement cell type 'ICESTORM_DSP'", ICE40, False),
        ("ERROR: Unable to find a placement location for cell 'rst$sb_io'", ULTRAPLUS, False),
        (f"{CELLS_OVER}\n{PINS_OVER}\n{NO_CELL}", ICE40, True),
        (f"{CELLS_UNDER}\n{PINS_OVER}\nERROR: Unable to find a placement location for cell 'rst$sb_io'", ICE40, False),
        (f"{CELLS_UNDER}\n{BUFFERS_OVER}\nERROR: out of globals", ICE40, False),
        ("ERROR: Unsupported package 'NO-SUCH-PACKAGE' for 'LFE5U-25F'.", ECP5, False),
        ("ERROR: package does not have a pin named 'Z99' (on line 1)", ICE40, False),
        (
            "ERROR: IO pin 'clk$tr_io' constrained to pin 'ZZ99', which does not exist for package 'CABGA256'.",
            ECP5,
            False,
        ),
        (f"{CELLS_UNDER}\nERROR: Failed to route", ICE40, False),
        ("unrecognised option '--bogus'", ICE40, False),
        ("", ICE40, False),
    ],
)
def test_a_full_device_is_told_from_other_failures(log: str, family: GateFamily, full: bool) -> None:
    assert device_is_full(log, family) is full


@pytest.mark.parametrize(
    ("log", "short", "wanted"),
    [
        (f"{PINS_OVER}\nERROR: Unable to find a placement location for cell 'rst$sb_io'", True, 24),
        ("ERROR: Unable to find a placement location for cell 'rst$tr_io'", True, None),
        (f"{PINS_OVER}\n{NO_LEGAL}", False, 24),
        (CELLS_OVER, False, None),
    ],
)
def test_pins_that_are_too_few_are_told_and_counted(log: str, short: bool, wanted: int | None) -> None:
    assert (pins_are_short(log), pins_wanted(log)) == (short, wanted)
