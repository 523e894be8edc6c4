"""Why a placer failed or did not end, by its own words: whether it has found the device full, or for another reason.

A smaller design is worth a try on a device that is full. It meets the same unknown package, unknown pin or missing pin again.
"""

from __future__ import annotations

import re

from kilotune.evaluators.fpga.boards import GateFamily

NONE_LEFT = re.compile(r"no BELs remaining to implement cell type '([^']+)'")
NO_PLACE = re.compile(r"Unable to find (?:a placement location|(?:a )?legal placement) for cell '([^']+)'")
AT_LIMIT = "design is probably at utilisation limit"
"""What nextpnr's placers say where they give up: `common/place/placer_heap.cc` and its kin."""

UTILISATION = re.compile(r"^Info:\s+(\w+):\s+(\d+)/\s*(\d+)\s+\d+%$", re.MULTILINE)
"""A line of nextpnr's table of what is used: a kind of cells, how many there are of it in the design and on the device."""

PIN_CELLS = ("SB_IO", "TRELLIS_IO")
"""What nextpnr's table calls the cells of pins."""

PIN_ENDINGS = ("$sb_io", "$tr_io")
"""How nextpnr's packers end the names of cells of pins. A package may have fewer pins than its die has such cells."""


ROUTING = ("Setting up routing queue", "Running router2")
"""What nextpnr's routers begin with: `common/route/router1.cc` and `router2.cc`."""


def was_placed(log: str) -> bool:
    """Whether a placer that did not end had a place for everything, and was routing."""
    return any(begun in log for begun in ROUTING)


def pins_are_short(log: str) -> bool:
    """Whether `log`, all that a placer has said that failed, says that it has no place for a pin."""
    return any(cell.endswith(PIN_ENDINGS) for cell in NO_PLACE.findall(log))


def pins_wanted(log: str) -> int | None:
    """How many pins the design has, by the placer's table; None where it has not come to print that."""
    return next((int(used) for kind, used, _ in UTILISATION.findall(log) if kind in PIN_CELLS), None)


def device_is_full(log: str, family: GateFamily) -> bool:
    """Whether `log`, all that a placer has said that failed, says that cells are too few of a kind that a smaller design takes fewer of.
    Pins are none: a smaller design has as many."""
    over = {kind for kind, used, there in UTILISATION.findall(log) if int(used) > int(there)}
    short = (over | set(NONE_LEFT.findall(log))) & set(family.placed.values())
    homeless = [cell for cell in NO_PLACE.findall(log) if not cell.endswith(PIN_ENDINGS)]
    return bool(short or homeless) or AT_LIMIT in log
